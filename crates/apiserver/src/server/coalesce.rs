//! Coalesces small writes into large ones.
//!
//! hyper writes and flushes each HTTP/2 frame of a watch separately; over TLS, each would become a record and a system
//! call of its own. A connection with eighty watches has eighty frames to send for one change. Therefore the first
//! flush after a write is deferred: it wakes the task again, which then runs after the tasks of the other streams. The
//! first flush without new data writes everything.
//!
//! A write that the client does not read for long is an error. hyper has no such limit: even after a ping has timed out, it waits
//! until its last frame is written.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The size of one TLS record.
const PENDING_BYTES_MAX: usize = 16 << 10;

/// Buffer size that an idle connection keeps: thousands of connections may be idle.
const IDLE_BYTES: usize = 1 << 10;

/// How long a write may be pending.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);

/// A stream that buffers writes until the buffer is full or flushed.
pub(super) struct Coalesced<S> {
    inner: S,
    pending: Vec<u8>,
    /// How much of `pending` is already written.
    written: usize,
    /// Data was written since the last flush.
    fresh: bool,
    /// When the pending write times out.
    overdue: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> Coalesced<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, pending: Vec::new(), written: 0, fresh: false, overdue: None }
    }

    /// Writes out the buffer.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.pending.len() {
            let rest = &self.pending[self.written..];
            let write = Pin::new(&mut self.inner).poll_write(context, rest);
            let written = ready!(self.poll_in_time(context, write))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        self.pending.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// The result of a write, or an error if writes have been pending for too long.
    fn poll_in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.overdue = None;
            return write;
        }
        let overdue = self.overdue.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        ready!(overdue.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }

    /// Frees buffer space if it is full. Returns the available space.
    fn poll_capacity(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.pending.len() >= PENDING_BYTES_MAX {
            ready!(self.poll_drain(context))?;
        }
        Poll::Ready(Ok(PENDING_BYTES_MAX - self.pending.len()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Coalesced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let capacity = ready!(self.poll_capacity(context))?;
        let taken = bytes.len().min(capacity);
        self.pending.extend_from_slice(&bytes[..taken]);
        self.fresh = true;
        Poll::Ready(Ok(taken))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut capacity = ready!(self.poll_capacity(context))?;
        let before = self.pending.len();
        for slice in slices {
            let taken = slice.len().min(capacity);
            self.pending.extend_from_slice(&slice[..taken]);
            capacity -= taken;
        }
        self.fresh = true;
        Poll::Ready(Ok(self.pending.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.fresh) {
            context.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_drain(context))?;
        self.pending.shrink_to(IDLE_BYTES);
        let flush = Pin::new(&mut self.inner).poll_flush(context);
        self.poll_in_time(context, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        let shutdown = Pin::new(&mut self.inner).poll_shutdown(context);
        self.poll_in_time(context, shutdown)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Coalesced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn flushed_writes_arrive_complete_and_in_order() {
        let (near, mut far) = tokio::io::duplex(1000);
        let mut stream = Coalesced::new(near);
        let sent: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        let expected = sent.clone();
        let writing = async move {
            for part in sent.chunks(700) {
                stream.write_all(part).await.unwrap();
            }
            stream.flush().await.unwrap();
            stream.shutdown().await.unwrap();
        };
        let reading = async move {
            let mut received = Vec::new();
            far.read_to_end(&mut received).await.unwrap();
            received
        };
        let ((), received) = tokio::join!(writing, reading);
        assert_eq!(received, expected);
    }

    #[tokio::test]
    async fn small_writes_wait_for_a_flush_without_new_data() {
        let (near, mut far) = tokio::io::duplex(1000);
        let mut stream = Coalesced::new(near);
        stream.write_all(b"a").await.unwrap();
        stream.write_all(b"b").await.unwrap();
        assert!(futures::poll!(std::pin::pin!(far.read_u8())).is_pending());
        stream.flush().await.unwrap();
        assert!(futures::poll!(std::pin::pin!(far.read_u8())).is_pending());
        stream.flush().await.unwrap();
        let mut both = [0; 2];
        far.read_exact(&mut both).await.unwrap();
        assert_eq!(&both, b"ab");
    }
}
