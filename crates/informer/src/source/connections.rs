//! A client whose connections are counted, so that no request waits for one that is gone.
//!
//! Once in some thousand connections that break in the moment of a request's being sent, hyper 1.12 does not wake that
//! request: it waits for an answer that no connection can bring, and for a watch that may be ten minutes. It was found with
//! a real kube-apiserver behind a network that keeps breaking. Here the end of a connection wakes the request, which then
//! finds the error; and should it find none, it is given up after a while without any connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::sync::watch;
use tower::{BoxError, Service};

/// How long a request may be without any connection, made or being made, before it is given up.
const GRACE: Duration = Duration::from_secs(5);

/// A request was lost with its connection.
#[derive(Debug, thiserror::Error)]
#[error("the connection ended, and the request was lost with it")]
struct Stranded;

/// How many connections there are, those that are being made included.
#[derive(Clone, Debug, Default)]
pub(super) struct Count(Arc<watch::Sender<usize>>);

/// Counts one connection until dropped.
#[derive(Debug)]
struct CountGuard(Count);

/// Makes connections that are counted.
#[derive(Clone)]
pub(super) struct Counted<C> {
    connector: C,
    count: Count,
}

/// A connection that is counted.
pub(super) struct CountedIo<T> {
    io: T,
    _one: CountGuard,
}

// === impl Count ===

impl Count {
    fn open_one(&self) -> CountGuard {
        self.0.send_modify(|count| *count += 1);
        CountGuard(self.clone())
    }

    /// Waits for the answer to a request that these connections carry. It is looked at again when one begins or ends, and
    /// given up when no connection is left.
    pub(super) async fn carry<T, E: Into<BoxError>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, BoxError> {
        tokio::select! {
            biased;
            answer = answer => answer.map_err(Into::into),
            () = self.none_for(GRACE) => Err(Stranded.into()),
        }
    }

    /// Waits until there has been no connection for so long.
    async fn none_for(&self, time: Duration) {
        let mut count = self.0.subscribe();
        loop {
            // The sender lives in `self`.
            let _ = count.wait_for(|count| *count == 0).await;
            if tokio::time::timeout(time, count.wait_for(|count| *count > 0)).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

// === impl Counted ===

impl<C> Counted<C> {
    pub(super) fn new(connector: C, count: Count) -> Self {
        Self { connector, count }
    }
}

impl<C> Service<Uri> for Counted<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
{
    type Response = CountedIo<C::Response>;
    type Error = C::Error;
    type Future = BoxFuture<'static, Result<Self::Response, C::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let one = self.count.open_one();
        self.connector.call(uri).map_ok(|io| CountedIo { io, _one: one }).boxed()
    }
}

// === impl CountedIo ===

impl<T: Connection> Connection for CountedIo<T> {
    fn connected(&self) -> Connected {
        self.io.connected()
    }
}

impl<T: Read + Unpin> Read for CountedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<T: Write + Unpin> Write for CountedIo<T> {
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
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_is_given_up_when_there_has_been_no_connection_for_a_while() {
        let count = Count::default();
        let began = Instant::now();
        count.none_for(GRACE).await;
        assert_eq!(began.elapsed(), GRACE);

        let first = count.open_one();
        let waiting = count.none_for(GRACE);
        let mut waiting = std::pin::pin!(waiting);
        assert!(tokio::time::timeout(10 * GRACE, waiting.as_mut()).await.is_err(), "there is a connection");
        drop(first);
        assert!(tokio::time::timeout(GRACE / 2, waiting.as_mut()).await.is_err(), "it has just gone");
        // Another is made in time: everything begins anew.
        let second = count.open_one();
        assert!(tokio::time::timeout(10 * GRACE, waiting.as_mut()).await.is_err(), "there is another");
        let began = Instant::now();
        drop(second);
        waiting.await;
        assert_eq!(began.elapsed(), GRACE);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_tells_of_is_found_when_a_connection_ends() {
        let (count, there) = (Count::default(), Arc::new(AtomicBool::new(false)));
        let (broken, _other) = (count.open_one(), count.open_one());
        // As hyper has it now and then: it is there, and whoever waits is not woken.
        let is_there = there.clone();
        let forgotten = std::future::poll_fn(move |_| match is_there.load(Ordering::Relaxed) {
            true => Poll::Ready(Err::<(), _>("broken pipe")),
            false => Poll::Pending,
        });
        let waits = tokio::spawn(async move { count.carry(forgotten).await });
        tokio::task::yield_now().await;
        there.store(true, Ordering::Relaxed);
        tokio::time::advance(10 * GRACE).await;
        assert!(!waits.is_finished(), "nothing has told it");
        drop(broken);
        let answer = tokio::time::timeout(10 * GRACE, waits).await.expect("it looks again").unwrap();
        assert_eq!(answer.unwrap_err().to_string(), "broken pipe");
    }

    #[tokio::test]
    async fn a_connection_counts_from_the_attempt_until_it_is_dropped_or_fails() {
        let count = Count::default();
        let connect = |ends: Result<(), &'static str>| {
            let connector = tower::service_fn(move |_: Uri| std::future::ready(ends));
            Counted::new(connector, count.clone()).call(Uri::from_static("http://server"))
        };
        let now = || *count.0.borrow();
        let (making, failing) = (connect(Ok(())), connect(Err("refused")));
        assert_eq!(now(), 2);
        assert!(failing.await.is_err());
        let made = making.await.unwrap();
        assert_eq!(now(), 1);
        drop(made);
        assert_eq!(now(), 0);
    }
}
