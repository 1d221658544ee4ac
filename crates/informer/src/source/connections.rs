//! Connections that report their end, so that no request waits for a closed one.
//!
//! A request that is sent while its connection closes can be lost inside hyper: it waits for a response that never arrives,
//! for a watch up to ten minutes. `docs/design/hyper-wakeup.md` explains the race and measures it. Here a request knows its
//! connection, and fails if it is still pending some time after the connection has closed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http::{Extensions, Request, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection, capture_connection};
use tokio::sync::watch;
use tower::{BoxError, Service};

/// How long a request may be pending after its connection has closed. hyper reports the error, or retries on another
/// connection, within milliseconds.
const GRACE: Duration = Duration::from_secs(5);

/// A request was lost with its connection.
#[derive(Debug, thiserror::Error)]
#[error("connection closed before the request was answered")]
struct Stranded;

/// The connection that carries a request, once hyper has chosen it.
pub(super) struct Carrier(CaptureConnection);

/// Makes connections that report their end.
#[derive(Clone)]
pub(super) struct TrackedConnector<C>(C);

/// A connection that reports its end.
pub(super) struct TrackedIo<T> {
    io: T,
    /// Dropped with the connection.
    open: watch::Sender<()>,
}

/// The end of a connection.
#[derive(Clone, Debug)]
struct ConnectionEnd(watch::Receiver<()>);

// === impl Carrier ===

impl Carrier {
    /// The carrier of a request that is about to be sent.
    pub(super) fn of<B>(request: &mut Request<B>) -> Self {
        Self(capture_connection(request))
    }

    /// Waits for the response. Fails when the connection has closed without one.
    pub(super) async fn carry<T, E: Into<BoxError>>(
        self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, BoxError> {
        tokio::select! {
            biased;
            answer = answer => answer.map_err(Into::into),
            () = self.lost() => Err(Stranded.into()),
        }
    }

    async fn lost(mut self) {
        drop(self.0.wait_for_connection_metadata().await);
        outlived(|| self.connection()).await;
    }

    fn connection(&self) -> Option<ConnectionEnd> {
        let mut extras = Extensions::new();
        self.0.connection_metadata().as_ref()?.get_extras(&mut extras);
        extras.remove()
    }
}

/// Waits until a request has been pending for [`GRACE`] after its connection closed. `current` is that connection; it
/// changes when hyper retries.
async fn outlived(current: impl Fn() -> Option<ConnectionEnd>) {
    loop {
        let Some(connection) = current() else { return std::future::pending().await };
        connection.clone().ended().await;
        tokio::time::sleep(GRACE).await;
        if current().is_some_and(|now| now.0.same_channel(&connection.0)) {
            return;
        }
    }
}

impl ConnectionEnd {
    async fn ended(mut self) {
        // No value is ever sent, so this returns when the sender is dropped.
        let _ = self.0.changed().await;
    }
}

// === impl TrackedConnector ===

impl<C> TrackedConnector<C> {
    pub(super) fn new(connector: C) -> Self {
        Self(connector)
    }
}

impl<C> Service<Uri> for TrackedConnector<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
{
    type Response = TrackedIo<C::Response>;
    type Error = C::Error;
    type Future = BoxFuture<'static, Result<Self::Response, C::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        self.0.call(uri).map_ok(|io| TrackedIo { io, open: watch::Sender::new(()) }).boxed()
    }
}

// === impl TrackedIo ===

impl<T: Connection> Connection for TrackedIo<T> {
    fn connected(&self) -> Connected {
        self.io.connected().extra(ConnectionEnd(self.open.subscribe()))
    }
}

impl<T: Read + Unpin> Read for TrackedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<T: Write + Unpin> Write for TrackedIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, data)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_fails_some_time_after_its_connection_closed() {
        let first = watch::Sender::new(());
        let carrier = Mutex::new(ConnectionEnd(first.subscribe()));
        let waiting = outlived(|| Some(carrier.lock().clone()));
        let mut waiting = std::pin::pin!(waiting);
        assert!(tokio::time::timeout(10 * GRACE, waiting.as_mut()).await.is_err(), "the connection is open");
        drop(first);
        assert!(
            tokio::time::timeout(GRACE / 2, waiting.as_mut()).await.is_err(),
            "the connection has just ended"
        );
        // hyper has sent the request again.
        let second = watch::Sender::new(());
        *carrier.lock() = ConnectionEnd(second.subscribe());
        assert!(tokio::time::timeout(10 * GRACE, waiting.as_mut()).await.is_err(), "the second one is open");
        let (_third, began) = (watch::Sender::new(()), tokio::time::Instant::now());
        drop(second);
        waiting.await;
        assert_eq!(began.elapsed(), GRACE, "only the end of the second connection counts");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_connection_keeps_waiting() {
        let carrier = Carrier::of(&mut Request::new(()));
        assert!(tokio::time::timeout(10 * GRACE, carrier.lost()).await.is_err());
    }

    #[tokio::test]
    async fn a_connection_reports_its_end_when_dropped() {
        struct Io;
        impl Connection for Io {
            fn connected(&self) -> Connected {
                Connected::new()
            }
        }
        let connector = tower::service_fn(|_: Uri| std::future::ready(Ok::<_, io::Error>(Io)));
        let made = TrackedConnector::new(connector).call(Uri::from_static("http://server")).await.unwrap();
        let mut extras = Extensions::new();
        made.connected().get_extras(&mut extras);
        let end = extras.remove::<ConnectionEnd>().unwrap();
        assert!(end.clone().ended().now_or_never().is_none());
        drop(made);
        assert!(end.ended().now_or_never().is_some());
    }
}
