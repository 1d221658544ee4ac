//! What comes in by itself while a controller runs: streams of the user's, and keys that have waited long enough for their
//! writes. (Informers' events come by their handlers.)

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{BoxStream, select_all};
use kube_informer::Key;

use super::intake::{BACKGROUND, Intake};

/// What a stream asks for.
pub(super) enum Wanted {
    One(Key),
    All,
}

/// The keys of all main objects.
pub(super) type Lists = Box<dyn Fn() -> Vec<Key> + Send>;

pub(super) struct Feed {
    pub(super) intake: Arc<Intake>,
    pub(super) lists: Lists,
    pub(super) streams: Vec<BoxStream<'static, Wanted>>,
}

impl Feed {
    /// Goes on until dropped.
    pub(super) async fn run(self) {
        let mut wanted = select_all(self.streams);
        loop {
            // A stream may always have another key: other tasks on the thread get their turn all the same.
            tokio::task::coop::consume_budget().await;
            tokio::select! {
                biased;
                released = self.intake.writes.expired() => {
                    for (key, priority) in released {
                        self.intake.add(key, priority);
                    }
                }
                Some(wanted) = wanted.next(), if !wanted.is_empty() => match wanted {
                    Wanted::One(key) => self.intake.add_when_there_is_capacity(key, 0).await,
                    Wanted::All => {
                        for key in (self.lists)() {
                            // Bounded by the objects that there are.
                            self.intake.add(key, BACKGROUND);
                            // Of a million keys, others on the thread get their turn.
                            tokio::task::coop::consume_budget().await;
                        }
                    }
                },
            }
        }
    }
}
