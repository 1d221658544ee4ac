//! Keys that arrive while a controller runs: from the user's streams, deferred keys that no event has released, and keys of clusters
//! that are synced. (Informers' events arrive through their handlers.)

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{BoxStream, FuturesUnordered, select_all};
use kube_informer::Key;
use tokio::sync::mpsc::UnboundedReceiver;

use super::clusters::Member;
use super::expected::{Expected, Progress};
use super::intake::{BACKGROUND, Intake};

/// A request from a stream.
pub(super) enum Wanted {
    One(Key),
    All,
}

/// The clusters that are added while a controller runs.
pub(super) type Added = UnboundedReceiver<Arc<Member>>;

pub(super) struct Feed {
    pub(super) intake: Arc<Intake>,
    /// The keys of all main objects.
    pub(super) keys: Box<dyn Fn() -> Vec<Key> + Send>,
    /// Whether the caches have what a key waits for.
    pub(super) progress: Box<dyn Fn(&Key, &Expected) -> Progress + Send + Sync>,
    /// Whether a cache that should receive what a key waits for is cut off from the server.
    pub(super) is_failing: Box<dyn Fn(&Key, &Expected) -> bool + Send + Sync>,
    pub(super) streams: Vec<BoxStream<'static, Wanted>>,
    pub(super) added: Added,
}

impl Feed {
    /// Runs until dropped.
    pub(super) async fn run(self) {
        let Self { intake, keys, progress, is_failing, streams, mut added } = self;
        let mut wanted = select_all(streams);
        let mut warming = FuturesUnordered::new();
        // A stream's key that waits while the queue is full. Only the streams wait for it.
        let mut waiting = FuturesUnordered::new();
        loop {
            // A stream may always be ready: yield to other tasks on the thread.
            tokio::task::coop::consume_budget().await;
            tokio::select! {
                biased;
                released = intake.writes.released(&progress, &is_failing) => {
                    for (key, priority) in released {
                        intake.add(key, priority);
                    }
                }
                Some(member) = added.recv() => warming.push(async move { member.warm().await }),
                Some(()) = warming.next(), if !warming.is_empty() => {}
                Some(()) = waiting.next(), if !waiting.is_empty() => {}
                Some(wanted) = wanted.next(), if waiting.is_empty() && !wanted.is_empty() => match wanted {
                    Wanted::One(key) => waiting.push(intake.add_when_there_is_capacity(key, 0)),
                    Wanted::All => {
                        for key in keys() {
                            // Bounded by the number of objects.
                            intake.add(key, BACKGROUND);
                            // With a million keys, yield to other tasks.
                            tokio::task::coop::consume_budget().await;
                        }
                    }
                },
            }
        }
    }
}
