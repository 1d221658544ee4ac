//! Counts HTTP/2 requests that never end because they were sent while their connection closed. See
//! `docs/design/hyper-wakeup.md`; run it with
//! `cargo run --release -p kube-informer --example hyper_wakeup -- [channels] [connections]`.
//!
//! It uses only tokio and hyper: the library's own client detects such requests.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::time::Duration;

use bytes::Bytes;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use http_body_util::Empty;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::{mpsc, oneshot};

/// How long requests may take before they count as lost. Their connection has closed by then.
const LOST_AFTER: Duration = Duration::from_secs(2);

/// Messages or requests sent to one channel or connection, at most.
const SENT_MAX: usize = 20_000;

/// The outcome of the requests.
#[derive(Default)]
struct Counts {
    sent: usize,
    /// The error was available, but nothing woke the request.
    late: usize,
    /// The request did not end even when polled again.
    lost: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut counts = std::env::args().skip(1).map(|argument| argument.parse());
    let channels = counts.next().transpose()?.unwrap_or(500);
    let connections = counts.next().transpose()?.unwrap_or(20);

    let lost = (0..channels).filter(|_| loses_a_message()).count();
    println!("{lost} of {channels} channels kept a message that was neither received nor dropped");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut counts = Counts::default();
    for _ in 0..connections {
        runtime.block_on(break_connection(&mut counts));
    }
    let Counts { sent, late, lost } = counts;
    println!("{connections} connections, {sent} requests: {late} were not woken, {lost} were lost");
    Ok(())
}

/// Sends messages until the receiver is dropped on another thread. Every message that was sent successfully must be dropped
/// by then: hyper relies on it, because dropping a queued request notifies its caller that the connection is gone.
fn loses_a_message() -> bool {
    let (sender, receiver) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
    let (started, starts) = std::sync::mpsc::channel();
    let dropping = std::thread::spawn(move || {
        let _ = starts.recv();
        drop(receiver);
    });
    let mut sent = Vec::new();
    for number in 0..SENT_MAX {
        let (message, dropped) = oneshot::channel();
        if sender.send(message).is_err() {
            break;
        }
        sent.push(dropped);
        if number == 0 {
            let _ = started.send(());
        }
    }
    let _ = dropping.join();
    // The sender is still alive, as in a caller that waits for its response.
    let is_lost =
        sent.iter_mut().any(|dropped| dropped.try_recv() == Err(oneshot::error::TryRecvError::Empty));
    drop(sender);
    is_lost
}

/// Sends requests until their connection has closed.
async fn break_connection(counts: &mut Counts) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let server = tokio::spawn(async move { drop(h2::server::handshake(far).await) });
    let handshake = http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), TokioIo::new(near));
    let Ok((mut requests, connection)) = handshake.await else { return };
    let connection = tokio::spawn(connection);
    let mut running = FuturesUnordered::new();
    while running.len() < SENT_MAX && !requests.is_closed() {
        running.push(requests.send_request(http::Request::new(Empty::new())).boxed());
    }
    counts.sent += running.len();
    let _ = tokio::join!(server, connection);
    let _ = tokio::time::timeout(LOST_AFTER, async { while running.next().await.is_some() {} }).await;
    for request in running {
        match request.now_or_never() {
            Some(_) => counts.late += 1,
            None => counts.lost += 1,
        }
    }
}
