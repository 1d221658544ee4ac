//! Terminating pods: stands in for the kubelet, which confirms that a pod's containers have stopped.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::{DeleteOptions, Target};
use crate::api::Api;
use crate::clock;

/// Terminating pods by due time: at most one entry per existing pod.
#[derive(Debug, Default)]
pub(crate) struct TerminatingPods {
    due: Mutex<Due>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Due {
    by_time: BTreeMap<(Instant, Arc<str>), TerminatingPod>,
    /// The due time of each pod's key.
    times: HashMap<Arc<str>, Instant>,
}

/// A terminating pod and its uid.
type TerminatingPod = (Target, String);

impl TerminatingPods {
    /// Schedules the removal of the pod with this uid after `grace`, replacing an earlier schedule.
    pub(super) fn add(&self, pod: Target, uid: &str, grace: Duration) {
        let (at, key) = (clock::deadline(Instant::now(), grace), Arc::<str>::from(pod.key()));
        let mut due = self.due.lock();
        due.remove(&key);
        due.times.insert(key.clone(), at);
        due.by_time.insert((at, key), (pod, uid.to_owned()));
        drop(due);
        self.changed.notify_one();
    }

    /// Forgets a pod that was removed.
    pub(super) fn remove(&self, key: &str) {
        self.due.lock().remove(key);
    }
}

impl Due {
    fn remove(&mut self, key: &str) {
        if let Some((key, at)) = self.times.remove_entry(key) {
            self.by_time.remove(&(at, key));
        }
    }

    fn pop_first(&mut self) -> Option<TerminatingPod> {
        let ((_, key), pod) = self.by_time.pop_first()?;
        self.times.remove(&key);
        Some(pod)
    }
}

impl Api {
    /// Removes pods as they become due, for as long as it is polled. A panic loses only the pod being removed.
    pub(crate) async fn remove_terminated_pods(self: Arc<Self>) {
        // Shared state is behind locks that a panic releases, and each pod is dequeued before it is removed.
        while AssertUnwindSafe(self.remove_due()).catch_unwind().await.is_err() {
            tracing::error!("panic while removing a terminated pod; the pod stays, others are still removed");
        }
    }

    async fn remove_due(&self) {
        loop {
            let next = self.terminating.due.lock().by_time.first_key_value().map(|((at, _), _)| *at);
            match next {
                None => self.terminating.changed.notified().await,
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = self.terminating.changed.notified() => continue,
                        () = sleep_until(at) => {}
                    }
                    let due = self.terminating.due.lock().pop_first();
                    if let Some((pod, uid)) = due {
                        let mut options =
                            DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
                        options.preconditions.uid = Some(uid);
                        // The uid protects a pod that was recreated under the same name.
                        let _gone = self.write(|writer| writer.delete(&pod, &options));
                    }
                }
            }
        }
    }
}
