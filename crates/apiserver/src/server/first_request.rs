//! Closes connections whose first request does not arrive in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Notify;
use tower::Service;

/// Whether a connection has received a request yet.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstRequest(Arc<FirstRequestState>);

#[derive(Debug, Default)]
struct FirstRequestState {
    made: AtomicBool,
    changed: Notify,
}

/// A service that records the first request.
#[derive(Clone, Debug)]
pub(super) struct ObservedService<S> {
    service: S,
    first: FirstRequest,
}

impl FirstRequest {
    pub(super) fn observe<S>(&self, service: S) -> ObservedService<S> {
        ObservedService { service, first: self.clone() }
    }

    /// Completes if no request arrived within `limit`; otherwise never.
    pub(super) async fn overdue(&self, limit: Duration) {
        if tokio::time::timeout(limit, self.0.changed.notified()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }
}

impl<S: Service<R>, R> Service<R> for ObservedService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        let FirstRequestState { made, changed } = &*self.first.0;
        if !made.load(Ordering::Relaxed) && !made.swap(true, Ordering::Relaxed) {
            changed.notify_one();
        }
        self.service.call(request)
    }
}
