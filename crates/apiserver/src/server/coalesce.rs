//! Gathers small writes into large ones.
//!
//! HTTP/2 writes each frame of a watch by itself *and flushes it*; over TLS each would become a record and a system call of
//! its own. A connection that carries eighty watches has eighty frames to send for one change. So the first flush after a
//! write is only noted: the task is woken and runs again when the tasks of the other streams have had their turn, and the
//! flush that finds nothing new is the one that writes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// As much as one TLS record holds.
const GATHERED_BYTES_MAX: usize = 16 << 10;

/// Memory that an idle connection keeps for its next writes: thousands of connections may be idle.
const IDLE_BYTES: usize = 1 << 10;

/// A stream whose writes reach the inner one when there are enough of them, or when it is flushed.
pub(super) struct Coalesced<S> {
    inner: S,
    gathered: Vec<u8>,
    /// How much of `gathered` is written already.
    written: usize,
    /// Something was written since the last flush.
    fresh: bool,
}

impl<S: AsyncWrite + Unpin> Coalesced<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, gathered: Vec::new(), written: 0, fresh: false }
    }

    /// Writes out what was gathered.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.gathered.len() {
            let rest = &self.gathered[self.written..];
            let written = ready!(Pin::new(&mut self.inner).poll_write(context, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        self.gathered.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// Makes room, if there is none; how much there is then.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.gathered.len() >= GATHERED_BYTES_MAX {
            ready!(self.poll_drain(context))?;
        }
        Poll::Ready(Ok(GATHERED_BYTES_MAX - self.gathered.len()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Coalesced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let room = ready!(self.poll_room(context))?;
        let taken = bytes.len().min(room);
        self.gathered.extend_from_slice(&bytes[..taken]);
        self.fresh = true;
        Poll::Ready(Ok(taken))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut room = ready!(self.poll_room(context))?;
        let before = self.gathered.len();
        for slice in slices {
            let taken = slice.len().min(room);
            self.gathered.extend_from_slice(&slice[..taken]);
            room -= taken;
        }
        self.fresh = true;
        Poll::Ready(Ok(self.gathered.len() - before))
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
        self.gathered.shrink_to(IDLE_BYTES);
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
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
    async fn what_is_written_arrives_whole_and_in_order_once_it_is_flushed() {
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
    async fn small_writes_wait_for_the_flush_that_finds_nothing_new() {
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
