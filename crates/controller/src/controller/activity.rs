//! What a controller is doing, for tests that wait until it has settled.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kube_informer::Key;
use parking_lot::Mutex;

use super::clusters::Member;
use super::trigger::Listening;
use super::worker::Job;

/// What the workers of a controller have done.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Keys that failed and are retried, with their errors.
    failing: Mutex<BTreeMap<Key, String>>,
}

/// A controller with a key that is due within this time has not settled.
const DUE_SOON: Duration = Duration::from_secs(1);

impl Activity {
    pub(super) fn fails(&self, key: &Key, error: &impl fmt::Display) {
        self.failing.lock().insert(key.clone(), format!("{error:#}"));
    }

    pub(super) fn succeeds(&self, key: &Key) {
        self.failing.lock().remove(key);
    }

    /// Forgets keys that fail.
    pub(super) fn forget(&self, is_key: impl Fn(&Key) -> bool) {
        self.failing.lock().retain(|key, _| !is_key(key));
    }

    /// The first key that fails and passes the test, with its error.
    fn first_failing(&self, is_checked: impl Fn(&Key) -> bool) -> Option<(Key, String)> {
        let failing = self.failing.lock();
        failing.iter().find(|(key, _)| is_checked(key)).map(|(key, error)| (key.clone(), error.clone()))
    }
}

/// Returns the revision that the server of a cluster has; `None` for a cluster that is not checked.
pub(crate) type Revisions<'a> = &'a dyn Fn(Option<&str>) -> Option<u64>;

/// Reports why a controller has not settled at these revisions; `None` if it has.
pub(crate) type SettledCheck = Box<dyn Fn(Revisions<'_>) -> Option<String> + Send + Sync>;

impl<D> Job<D> {
    /// Why the controller has not settled at these revisions of its servers; `None` if it has.
    pub(super) fn unsettled(&self, revisions: Revisions<'_>) -> Option<String> {
        let intake = &self.intake;
        // A reconcile that ran when its cluster was removed may have failed since.
        let is_checked =
            |key: &Key| revisions(key.cluster()).is_some() && self.members.get(key.cluster()).is_some();
        if let Some(reason) = self.members.all().iter().find_map(|member| member.unsettled(revisions)) {
            return Some(self.because(&reason));
        }
        // The queue counts a key until its worker is done with it. By then, the worker has recorded why the key is not finished: these
        // records are read after the queue, so a key that moves from one to the other is not missed.
        let (unfinished, due) = intake.queue.outstanding();
        let reason = if let Some((key, error)) = intake.activity.first_failing(is_checked) {
            format!("{key} fails: {error}")
        } else if unfinished > 0 {
            format!("{unfinished} keys are queued or reconciled")
        } else if intake.writes.pending() > 0 {
            format!("{} keys wait for their own writes", intake.writes.pending())
        } else if let Some(due) = due.filter(|due| *due <= DUE_SOON) {
            format!("a key is due in {due:?}")
        } else {
            return None;
        };
        Some(self.because(&reason))
    }

    fn because(&self, reason: &str) -> String {
        format!("controller `{}`: {reason}", self.name)
    }
}

impl Member {
    fn unsettled(&self, revisions: Revisions<'_>) -> Option<String> {
        let revision = revisions(self.cluster.as_deref())?.to_string();
        for watched in &self.tools.watched {
            if let Some(reason) = watched.behind(&revision) {
                let plural = &watched.resource().plural;
                return Some(format!(
                    "its informer of {plural} has not reached resourceVersion {revision}: {reason}"
                ));
            }
        }
        let is_idle = self.is_warm() && self.listening.iter().all(Listening::is_idle);
        (!is_idle).then(|| "it has pending events".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, AtomicUsize};

    use futures::FutureExt;
    use futures::future::ready;
    use kube_workqueue::WorkQueue;

    use super::super::clusters::Members;
    use super::super::intake::Intake;
    use super::super::report::Reports;
    use super::super::writes::Writes;
    use super::*;
    use crate::{Action, Retry};

    fn job() -> Job<()> {
        let intake = Arc::new(Intake::new(WorkQueue::new(), 10, Writes::new(DUE_SOON), None));
        let (members, _) = Members::new("t".into(), intake.clone(), "t".to_owned());
        Job {
            name: "t".into(),
            data: Arc::new(()),
            intake,
            members,
            reconcile: Box::new(|_, _| ready(Ok(Action::Done)).boxed()),
            policy: Box::new(|_| Retry::Backoff),
            reports: Reports::default(),
            deadline: None,
            reconciles: AtomicU64::new(0),
            cut_short: AtomicUsize::new(0),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_a_worker_has_just_taken_is_left_to_do() {
        let job = job();
        let unsettled = || job.unsettled(&|_| None);
        assert_eq!(unsettled(), None);
        job.intake.add(Key::new("web", "a"), 0);
        let left = Some("controller `t`: 1 keys are queued or reconciled".to_owned());
        assert_eq!(unsettled(), left);
        // The worker has not begun with the key.
        let taken = job.intake.queue.get().await;
        assert_eq!(unsettled(), left);
        drop(taken);
        assert_eq!(unsettled(), None);
    }
}
