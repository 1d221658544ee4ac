//! Bodies that are read over a long time: lists and event streams.
//!
//! hyper asks a body for its next chunk only when the previous ones are on their way to the client. While a client is connected and does
//! not read, nothing would free what the body holds, such as a snapshot and a permit. Each body is therefore written by a task of its
//! own, which ends when the client takes too long.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// The parts of a body, in order.
pub(super) trait Chunks: Send + 'static {
    /// The next part; `None` at the end.
    fn next_chunk(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// How long a client may take.
#[derive(Clone, Copy)]
pub(super) enum ReadTime {
    /// For the whole body.
    Body(Duration),
    /// For each chunk.
    Chunk(Duration),
}

/// A body of these chunks. They are dropped when all are written, when the client has disconnected, and when it takes too long: then
/// the body ends with an error.
pub(super) fn body(chunks: impl Chunks, read_time: ReadTime) -> Body {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(write(chunks, read_time, sender));
    Body::from_stream(stream::unfold(receiver, |mut receiver| async {
        match receiver.recv().await {
            Some(Some(chunk)) => Some((Ok(chunk), receiver)),
            Some(None) => None,
            None => Some((Err(std::io::Error::other("the response was read too slowly")), receiver)),
        }
    }))
}

/// Sends the chunks, then `None`.
async fn write(mut chunks: impl Chunks, read_time: ReadTime, sender: mpsc::Sender<Option<Bytes>>) {
    let start = Instant::now();
    loop {
        let chunk = tokio::select! {
            biased;
            () = sender.closed() => return,
            chunk = chunks.next_chunk() => chunk,
        };
        let is_end = chunk.is_none();
        let deadline = match read_time {
            ReadTime::Body(limit) => start + limit,
            ReadTime::Chunk(limit) => Instant::now() + limit,
        };
        let is_late = Instant::now() >= deadline;
        if is_late || !matches!(timeout_at(deadline, sender.send(chunk)).await, Ok(Ok(()))) || is_end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    /// Chunks that are the numbers from 1 to this one, each a second after the previous one.
    struct Numbers(std::ops::RangeInclusive<u64>);

    impl Chunks for Numbers {
        async fn next_chunk(&mut self) -> Option<Bytes> {
            let number = self.0.next()?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some(number.to_string().into())
        }
    }

    /// What a client receives that waits for this time before it reads each chunk, and whether it is complete.
    async fn read(last: u64, read_time: ReadTime, pause: Duration) -> (String, bool) {
        let mut body = body(Numbers(1..=last), read_time).into_data_stream();
        let mut text = String::new();
        loop {
            tokio::time::sleep(pause).await;
            match body.next().await {
                Some(Ok(chunk)) => text.push_str(std::str::from_utf8(&chunk).unwrap()),
                end => return (text, end.is_none()),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_ends_with_an_error_when_the_client_takes_too_long() {
        let (none, some) = (Duration::ZERO, Duration::from_secs(4));
        let whole = ReadTime::Body(Duration::from_millis(9500));
        assert_eq!(read(9, whole, none).await, ("123456789".to_owned(), true));
        let (text, is_complete) = read(9, whole, some).await;
        assert!("1234".starts_with(&text) && !is_complete, "{text}");
        let each = ReadTime::Chunk(Duration::from_secs(5));
        assert_eq!(read(9, each, some).await, ("123456789".to_owned(), true));
        let (text, is_complete) = read(9, each, 3 * some).await;
        assert!("123".starts_with(&text) && !is_complete, "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_writer_ends_when_the_client_disconnects() {
        let (sender, receiver) = mpsc::channel(1);
        let never = ReadTime::Chunk(Duration::from_secs(1 << 20));
        let writer = tokio::spawn(write(Numbers(1..=u64::MAX), never, sender));
        tokio::task::yield_now().await;
        drop(receiver);
        tokio::time::timeout(Duration::from_millis(10), writer).await.expect("it ends").unwrap();
    }
}
