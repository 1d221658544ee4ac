//! The lag of each handler of a mirror, for the page and the API.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};
use kube_informer::{Event, Informer, Subscription};
use serde_json::Value;

/// The named handlers of one mirror.
#[derive(Debug, Default)]
pub(crate) struct Handlers(Mutex<Vec<Arc<HandlerLag>>>);

/// The lag of one handler. It is read from the subscription itself, so it grows while the handler is stuck.
#[derive(Debug)]
pub(crate) struct HandlerLag {
    pub(crate) name: &'static str,
    /// Locked only while an event is taken or the lag is read. `None` after the handler has ended.
    events: Mutex<Option<Subscription<Value>>>,
    delivered: AtomicU64,
}

/// The events for one handler.
#[derive(Debug)]
pub(crate) struct HandlerEvents(Arc<HandlerLag>);

impl Handlers {
    /// Subscribes a handler to an informer.
    pub(crate) fn subscribe(&self, name: &'static str, informer: &Informer<Value>) -> HandlerEvents {
        let events = Mutex::new(Some(informer.subscribe()));
        let lag = Arc::new(HandlerLag { name, events, delivered: AtomicU64::default() });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(lag.clone());
        HandlerEvents(lag)
    }

    pub(crate) fn all(&self) -> Vec<Arc<HandlerLag>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl HandlerLag {
    /// Changes that wait for the handler.
    pub(crate) fn pending(&self) -> u64 {
        self.events().as_ref().map_or(0, |events| events.lag() as u64)
    }

    /// Events that it has received, the initial state included.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// How often waiting changes were coalesced.
    pub(crate) fn coalesced(&self) -> u64 {
        self.events().as_ref().map_or(0, Subscription::coalesced_count)
    }

    fn events(&self) -> MutexGuard<'_, Option<Subscription<Value>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream for HandlerEvents {
    type Item = Event<Value>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<Value>>> {
        let Some(event) = self.0.events().as_mut().map(|events| events.poll_next_unpin(context)) else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(Some(_)) = event {
            self.0.delivered.fetch_add(1, Ordering::Relaxed);
        }
        event
    }
}

impl Drop for HandlerEvents {
    fn drop(&mut self) {
        // Without this, the informer would keep events for a handler that has ended.
        self.0.events().take();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use embedded_apiserver::Server;
    use http_body_util::Full;
    use kube_informer::building_blocks::{ListWatch, Resource};
    use serde_json::json;
    use tower::Service;

    use super::*;

    async fn create_map(server: &Server, name: &str) {
        let map = json!({"metadata": {"name": name}}).to_string();
        let request = http::Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(Full::new(bytes::Bytes::from(map)))
            .unwrap();
        let answer = server.service().call(request).await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    }

    #[tokio::test]
    async fn the_lag_of_a_stuck_handler_grows() {
        let server = Server::builder().without_socket().start().await.unwrap();
        let client = kube_client::Client::new(server.service(), "default");
        let maps = ListWatch::new(client, Resource::new("", "v1", "configmaps", "ConfigMap"));
        let informer = Informer::<Value>::from_source(Arc::new(maps)).start().unwrap();
        informer.synced().await.unwrap();
        let handlers = Handlers::default();
        let mut events = handlers.subscribe("slow", &informer);
        let lag = handlers.all().remove(0);
        while lag.pending() > 0 || lag.delivered() == 0 {
            events.next().await.unwrap();
        }
        let delivered = lag.delivered();
        for name in ["one", "two", "three"] {
            create_map(&server, name).await;
        }
        // The handler takes no event.
        let grown = async {
            while lag.pending() < 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), grown).await.expect("the lag grows");
        assert_eq!(lag.delivered(), delivered);
        drop(events);
        assert_eq!(lag.pending(), 0, "a handler that has ended has no lag");
        informer.shutdown().await;
        server.shutdown().await;
    }
}
