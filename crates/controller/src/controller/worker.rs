//! A worker: takes a key, reconciles it, and decides what becomes of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_informer::{Key, panic_text};
use kube_workqueue::{AddOptions, Work};
use tokio::time::Instant;

use super::context::{Context, Tools};
use super::report::{Outcome, Reports};
use crate::Stop;
use crate::action::{Action, Error, Failure, Retry};
use crate::leader::Term;

pub(super) type Reconcile<D> =
    Box<dyn Fn(Context<D>, Key) -> BoxFuture<'static, Result<Action, Error>> + Send + Sync>;
pub(super) type Policy = Box<dyn Fn(Failure<'_>) -> Retry + Send + Sync>;

/// What all workers of a controller share.
pub(super) struct Job<D> {
    pub(super) name: Arc<str>,
    pub(super) data: Arc<D>,
    pub(super) tools: Arc<Tools>,
    pub(super) reconcile: Reconcile<D>,
    pub(super) policy: Policy,
    pub(super) reports: Reports,
    /// Reconciles that were cut short.
    pub(super) cut_short: AtomicUsize,
}

/// How long a key waits with which a worker has panicked. Whoever else could say is what has panicked: the rate limiter.
const PANIC_WAIT: Duration = Duration::from_secs(10);

/// A key that a worker has taken. If the worker is cut short or panics, the key is queued again.
struct Taken<'a, D> {
    job: &'a Job<D>,
    work: Work<Key>,
    finished: bool,
}

impl<D: Send + Sync + 'static> Job<D> {
    /// Works until told to stop; a reconcile that runs then is finished. Dropped, it cuts that short.
    pub(super) async fn work(self: Arc<Self>, stop: Stop, term: Option<Term>) {
        let queue = &self.tools.intake.queue;
        loop {
            let work = tokio::select! {
                biased;
                () = stop.stopping() => return,
                work = queue.get() => work,
            };
            let Some(work) = work else { return };
            if self.tools.intake.writes.park(&work, work.priority()) {
                continue;
            }
            let mut taken = Taken { job: &self, work, finished: false };
            let failures = queue.num_requeues(&taken.work);
            let context = Context::new(
                self.data.clone(),
                self.tools.clone(),
                taken.work.clone(),
                failures,
                stop.clone(),
                term.clone(),
            );
            let outcome = self.reconcile_once(context, taken.work.clone()).await;
            self.settle(&taken.work, outcome, failures.saturating_add(1));
            taken.finished = true;
        }
    }

    async fn reconcile_once(&self, context: Context<D>, key: Key) -> Result<Action, Error> {
        let began = Instant::now();
        let _running = self.reports.running();
        // Whatever state a panic leaves behind is the reconcile's own: it has no part of the controller's in its hands.
        let run = AssertUnwindSafe(async { (self.reconcile)(context, key).await }).catch_unwind();
        let outcome = run.await.unwrap_or_else(|panic| {
            self.reports.panicked();
            Err(Error::new(Panicked(panic_text(&*panic).to_owned())))
        });
        self.reports.took(began.elapsed());
        outcome
    }

    /// Queues the key again if that is to be.
    fn settle(&self, work: &Work<Key>, outcome: Result<Action, Error>, failures: u32) {
        let queue = &self.tools.intake.queue;
        let (key, again) = (&**work, AddOptions::new().priority(work.priority()));
        let again = match outcome {
            Ok(Action::Done) => {
                self.reports.count(Outcome::Success);
                queue.forget(key);
                return;
            }
            Ok(Action::RequeueAfter(delay)) => {
                self.reports.count(Outcome::RequeueAfter);
                queue.forget(key);
                again.after(delay)
            }
            Err(error) => {
                let controller = &*self.name;
                self.reports.count(if error.is_terminal() { Outcome::Terminal } else { Outcome::Error });
                let retry = match error.is_terminal() {
                    true => Retry::Never,
                    false => self.ask_policy(Failure { key, error: &error, failures }),
                };
                tracing::warn!(controller, %key, %error, failures, ?retry, "a reconcile failed");
                match retry {
                    Retry::Never => {
                        queue.forget(key);
                        return;
                    }
                    Retry::Backoff => again.rate_limited(),
                    Retry::After(delay) => again.after(delay),
                }
            }
        };
        // Refused only when shut down: a key that is with a worker is never refused for want of room.
        let _ = queue.add_with(key.clone(), again);
    }

    /// A policy that panics has no say.
    fn ask_policy(&self, failure: Failure<'_>) -> Retry {
        let key = failure.key;
        // As for a reconcile.
        catch_unwind(AssertUnwindSafe(|| (self.policy)(failure))).unwrap_or_else(|panic| {
            self.reports.panicked();
            let (controller, why) = (&*self.name, panic_text(&*panic));
            tracing::error!(controller, %key, why, "the error policy panicked; the key is tried again with back-off");
            Retry::Backoff
        })
    }
}

impl<D> Drop for Taken<'_, D> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let again = AddOptions::new().priority(self.work.priority());
        let again = if std::thread::panicking() {
            self.job.reports.panicked();
            again.after(PANIC_WAIT)
        } else {
            self.job.cut_short.fetch_add(1, Ordering::Relaxed);
            again
        };
        // Refused only when shut down.
        let _ = self.job.tools.intake.queue.add_with(self.work.clone(), again);
    }
}

/// A reconcile panicked.
#[derive(Debug, thiserror::Error)]
#[error("the reconcile panicked: {0}")]
struct Panicked(String);
