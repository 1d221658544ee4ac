//! A worker: takes a key, reconciles it, and decides whether to queue it again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_informer::{Key, panic_text};
use kube_workqueue::{AddOptions, Work};
use tokio::time::Instant;
use tracing::Instrument;

use super::clusters::Members;
use super::context::{Context, Run};
use super::intake::Intake;
use super::report::{ReconcileOutcome, Reports};
use super::tools::Tools;
use super::tracking::SentWrites;
use crate::Stop;
use crate::action::{Action, Error, Failure, Retry};
use crate::deliberate_bug::deliberate_bug;
use crate::leader::Term;

pub(super) type Reconcile<D> =
    Box<dyn Fn(Context<D>, Key) -> BoxFuture<'static, Result<Action, Error>> + Send + Sync>;
pub(super) type Policy = Box<dyn Fn(Failure<'_>) -> Retry + Send + Sync>;

/// What all workers of a controller share.
pub(super) struct Job<D> {
    pub(super) name: Arc<str>,
    pub(super) data: Arc<D>,
    pub(super) intake: Arc<Intake>,
    pub(super) members: Arc<Members>,
    pub(super) reconcile: Reconcile<D>,
    pub(super) policy: Policy,
    pub(super) reports: Reports,
    /// The time limit of one reconcile.
    pub(super) deadline: Option<Duration>,
    /// The number of reconciles so far.
    pub(super) reconciles: AtomicU64,
    /// Cancelled reconciles.
    pub(super) cut_short: AtomicUsize,
    #[cfg(feature = "testing")]
    pub(super) activity: super::activity::Activity,
}

/// How long a key waits after its worker panicked. The rate limiter cannot decide: it may be what panicked.
const PANIC_WAIT: Duration = Duration::from_secs(10);

/// How often a cache is checked that must reach a resourceVersion after a live read. No event reports that a cache of a quiet
/// resource has reached it.
const REVISION_PAUSE: Duration = Duration::from_millis(250);

/// A key that a worker has taken. If the worker is cancelled or panics, the key is queued again.
struct Taken<'a, D> {
    job: &'a Job<D>,
    work: Work<Key>,
    /// Its object has left the controller's class, and the key was not reconciled since.
    is_leaving: bool,
    /// Its reconcile has begun.
    started: bool,
    finished: bool,
}

impl<D: Send + Sync + 'static> Job<D> {
    /// Works until stopped; a running reconcile is finished first. Dropping the future cancels it.
    pub(super) async fn work(self: Arc<Self>, stop: Stop, term: Option<Term>, sent: SentWrites) {
        let queue = &self.intake.queue;
        loop {
            let work = tokio::select! {
                biased;
                () = stop.stopping() => return,
                work = queue.get() => work,
            };
            let Some(work) = work else { return };
            let mut taken = Taken::new(&self, work);
            let Some(member) = self.members.get(taken.work.cluster()) else {
                // Its cluster was removed.
                self.done(&taken.work);
                taken.finished = true;
                continue;
            };
            let tools = &member.tools;
            let is_held = member.holds(&taken.work, taken.work.priority());
            if !is_held && self.is_ready(tools, &taken.work).await && taken.is_admitted(tools) {
                taken.started = true;
                let is_done = self.reconcile_key(tools, &taken.work, &stop, term.as_ref(), &sent).await;
                taken.is_leaving &= !is_done;
            }
            taken.finished = true;
        }
    }

    /// Whether the cache has the key's own writes. Otherwise the key is parked or queued again.
    async fn is_ready(&self, tools: &Tools, work: &Work<Key>) -> bool {
        let intake = &self.intake;
        let (key, priority) = (&**work, work.priority());
        if intake.writes.park(key, priority) {
            return false;
        }
        let again = AddOptions::new().priority(priority);
        let again = match tools.settle_writes(key).await {
            Ok(true) => return !intake.writes.park(key, priority),
            Ok(false) => again.after(REVISION_PAUSE),
            Err(error) => {
                let controller = &*self.name;
                tracing::warn!(controller, %key, %error, "cannot find out whether an earlier write succeeded; retrying");
                self.retries(key, &error);
                again.rate_limited()
            }
        };
        // Rejected only after shutdown.
        let _ = intake.queue.add_with(key.clone(), again);
        false
    }

    /// Reconciles a key; returns whether it is done: it succeeded, or is not retried.
    async fn reconcile_key(
        &self,
        tools: &Arc<Tools>,
        work: &Work<Key>,
        stop: &Stop,
        term: Option<&Term>,
        sent: &SentWrites,
    ) -> bool {
        let failures = self.intake.queue.num_requeues(work);
        let id = self.reconciles.fetch_add(1, Ordering::Relaxed);
        let run = Run {
            key: (**work).clone(),
            id,
            failures,
            tools: tools.clone(),
            stop: stop.clone(),
            term: term.cloned(),
            sent: sent.clone(),
            client: OnceLock::new(),
        };
        let span = tracing::info_span!("reconcile", controller = &*self.name, key = %**work, id);
        let context = Context::with_shared(self.data.clone(), run);
        let reconciled = async {
            let outcome = self.reconcile_once(context, (**work).clone()).await;
            self.settle(work, outcome, failures.saturating_add(1))
        };
        reconciled.instrument(span).await
    }

    async fn reconcile_once(&self, context: Context<D>, key: Key) -> Result<Action, Error> {
        let began = Instant::now();
        let _running = self.reports.running();
        // Unwind safe: a reconcile shares no mutable state with the controller.
        let run = AssertUnwindSafe(async { (self.reconcile)(context, key).await }).catch_unwind();
        let ended = match self.deadline {
            Some(limit) => tokio::time::timeout(limit.min(crate::LONGEST), run).await.map_err(|_| limit),
            None => Ok(run.await),
        };
        let outcome = match ended {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => {
                self.reports.panicked();
                Err(Error::new(Panicked(panic_text(&*panic).to_owned())))
            }
            Err(limit) => {
                self.reports.timed_out();
                Err(Error::new(DeadlineExceeded(limit)))
            }
        };
        self.reports.took(began.elapsed());
        outcome
    }

    /// Queues the key again if the outcome requires it; returns whether it is done.
    fn settle(&self, work: &Work<Key>, outcome: Result<Action, Error>, failures: u32) -> bool {
        let queue = &self.intake.queue;
        let (key, again) = (&**work, AddOptions::new().priority(work.priority()));
        let is_ok = outcome.is_ok();
        let again = match outcome {
            Ok(Action::Done) => {
                self.reports.count(ReconcileOutcome::Success);
                self.done(key);
                return true;
            }
            Ok(Action::RequeueAfter(delay)) => {
                self.reports.count(ReconcileOutcome::RequeueAfter);
                self.done(key);
                again.after(delay)
            }
            Ok(Action::RequeueWith { after, priority }) => {
                self.reports.count(ReconcileOutcome::RequeueAfter);
                self.done(key);
                AddOptions::new().priority(priority).after(after)
            }
            Err(error) => {
                let controller = &*self.name;
                self.reports.count(if error.is_terminal() {
                    ReconcileOutcome::Terminal
                } else {
                    ReconcileOutcome::Error
                });
                let retry = match error.is_terminal() {
                    true => Retry::Never,
                    false => self.ask_policy(Failure { key, error: &error, failures }),
                };
                tracing::warn!(controller, %key, error = format!("{error:#}"), failures, ?retry, "reconcile failed");
                match retry {
                    Retry::Backoff if deliberate_bug("failed-key-not-retried") => return is_ok,
                    Retry::Never => {
                        self.done(key);
                        return true;
                    }
                    Retry::Backoff => {
                        self.retries(key, &error);
                        again.rate_limited()
                    }
                    Retry::After(delay) => {
                        self.retries(key, &error);
                        again.after(delay)
                    }
                }
            }
        };
        // Rejected only after shutdown: a key that a worker holds always fits.
        let _ = queue.add_with(key.clone(), again);
        is_ok
    }

    /// The key succeeded, or is not retried.
    fn done(&self, key: &Key) {
        self.intake.queue.forget(key);
        #[cfg(feature = "testing")]
        self.activity.succeeds(key);
    }

    /// The key failed and is retried. Only tests ask which keys fail.
    #[cfg(feature = "testing")]
    fn retries(&self, key: &Key, error: &impl std::fmt::Display) {
        self.activity.fails(key, error);
    }

    #[cfg(not(feature = "testing"))]
    fn retries(&self, _: &Key, _: &impl std::fmt::Display) {}

    /// Calls the error policy. A panic in it means back-off.
    fn ask_policy(&self, failure: Failure<'_>) -> Retry {
        let key = failure.key;
        // Unwind safe, as for a reconcile.
        catch_unwind(AssertUnwindSafe(|| (self.policy)(failure))).unwrap_or_else(|panic| {
            self.reports.panicked();
            let (controller, why) = (&*self.name, panic_text(&*panic));
            tracing::error!(controller, %key, why, "the error policy panicked; retrying with back-off");
            Retry::Backoff
        })
    }
}

impl<'a, D> Taken<'a, D> {
    fn new(job: &'a Job<D>, work: Work<Key>) -> Self {
        #[cfg(feature = "testing")]
        job.activity.took_key();
        Self { job, work, is_leaving: false, started: false, finished: false }
    }

    /// Whether the controller is responsible for the key: its object is of the controller's class, is gone, or has just left.
    fn is_admitted(&mut self, tools: &Tools) -> bool {
        let Some(admits) = &tools.admits else { return true };
        self.is_leaving = self.job.intake.take_leaving(&self.work);
        self.is_leaving || admits(&self.work.in_cluster(""))
    }
}

impl<D> Drop for Taken<'_, D> {
    fn drop(&mut self) {
        #[cfg(feature = "testing")]
        self.job.activity.returned_key();
        if self.is_leaving {
            self.job.intake.leaves(self.work.clone());
        }
        if self.finished {
            return;
        }
        let again = AddOptions::new().priority(self.work.priority());
        let again = if std::thread::panicking() {
            self.job.reports.panicked();
            again.after(PANIC_WAIT)
        } else {
            self.job.cut_short.fetch_add(usize::from(self.started), Ordering::Relaxed);
            again
        };
        // Rejected only after shutdown.
        let _ = self.job.intake.queue.add_with(self.work.clone(), again);
    }
}

/// A reconcile panicked.
#[derive(Debug, thiserror::Error)]
#[error("reconcile panicked: {0}")]
struct Panicked(String);

/// A reconcile exceeded its deadline.
#[derive(Debug, thiserror::Error)]
#[error("reconcile exceeded its deadline of {0:?}")]
struct DeadlineExceeded(Duration);
