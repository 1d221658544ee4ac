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
use super::slot_keys::SlotKeys;
use super::tools::Tools;
use super::tracking::SentWrites;
use super::writes::REVISION_PAUSE;
use crate::Stop;
use crate::action::{Action, Error, Failure, Retry};
use crate::deliberate_bug::deliberate_bug;
use crate::leader::Term;
use crate::shards::{NotAdmitted, SlotTerm};

pub(super) type Reconcile<D> =
    Box<dyn Fn(Context<D>, Key) -> BoxFuture<'static, Result<Action, Error>> + Send + Sync>;
pub(super) type Policy = Box<dyn Fn(Failure<'_>) -> Retry + Send + Sync>;

/// The state that all workers of a controller share.
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
}

/// How long a key waits after its worker panicked. The rate limiter is not asked, because it may have caused the panic.
const PANIC_WAIT: Duration = Duration::from_secs(10);

/// How long a key waits whose slot is kept, and must not be worked on now. The next renewal decides whether it is lost.
const SLOT_PAUSE: Duration = Duration::from_millis(500);

/// A key that a worker has taken. If the worker is cancelled or panics, the key is queued again.
struct Taken<'a, D> {
    job: &'a Job<D>,
    work: Work<Key>,
    /// Whether the key's object has stopped passing the main trigger's filter or was deleted, and the key was not reconciled since.
    is_leaving: bool,
    /// Whether the reconcile has begun.
    started: bool,
    finished: bool,
}

/// What the reconciles of a worker have in common.
#[derive(Clone, Copy)]
struct Scope<'a> {
    stop: &'a Stop,
    term: Option<&'a Term>,
    sent: &'a SentWrites,
    /// Present if several replicas share the work.
    slot: Option<&'a SlotTerm>,
}

/// What happens to a key after its reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// It succeeded, or is not retried.
    Finished,
    /// It succeeded, and is queued again as requested.
    Requeued,
    /// It failed, and is retried.
    Retried,
}

impl<D: Send + Sync + 'static> Job<D> {
    /// Works until stopped; a running reconcile is finished first. Dropping the future cancels it.
    pub(super) async fn work(self: Arc<Self>, stop: Stop, term: Option<Term>, sent: SentWrites) {
        let queue = &self.intake.queue;
        loop {
            let work = tokio::select! {
                biased;
                () = stop.stopping(), if !deliberate_bug("work-after-stop") => return,
                work = queue.get() => work,
            };
            let Some(work) = work else { return };
            let mut taken = Taken::new(&self, work);
            let Some(member) = self.members.get(taken.work.cluster()) else {
                // The key's cluster was removed.
                self.done(&taken.work);
                taken.finished = true;
                continue;
            };
            let tools = &member.tools;
            let scope = Scope { stop: &stop, term: term.as_ref(), sent: &sent, slot: None };
            match &self.intake.slot_keys {
                _ if member.holds(&taken.work, taken.work.priority()) => {}
                None => {
                    self.work_on(tools, &mut taken, &scope).await;
                }
                Some(slot_keys) => self.work_on_own(slot_keys, tools, &mut taken, scope).await,
            }
            taken.finished = true;
        }
    }

    /// Works on a key, unless another replica owns its slot. The next owner of a slot reconciles all of its keys, so a key that is
    /// dropped here is not lost.
    async fn work_on_own(
        &self,
        slot_keys: &SlotKeys,
        tools: &Arc<Tools>,
        taken: &mut Taken<'_, D>,
        scope: Scope<'_>,
    ) {
        let key = (*taken.work).clone();
        let admitted = match slot_keys.admit(tools, &key) {
            Ok(admitted) => admitted,
            Err(why) => return self.turn_away(&taken.work, why),
        };
        let slot = admitted.permit.slot_term();
        let scope = Scope { term: Some(slot.term()), slot: Some(slot), ..scope };
        tokio::select! {
            biased;
            () = slot.cut() => {
                tracing::info!(controller = %self.name, %key, "cancelled: another replica gets the key's slot");
                self.done(&key);
            }
            settled = self.work_on(tools, taken, &scope) => {
                if settled == Some(Settled::Finished) {
                    slot_keys.finished(&key, &admitted);
                }
            }
        }
    }

    /// Drops a key of another replica's slot. Queues the key again if its slot is kept, and must not be worked on now.
    fn turn_away(&self, work: &Work<Key>, why: NotAdmitted) {
        match why {
            NotAdmitted::Later => {
                let again = AddOptions::new().priority(work.priority()).after(SLOT_PAUSE);
                // Rejected only after shutdown.
                let _ = self.intake.queue.add_with((**work).clone(), again);
            }
            NotAdmitted::Elsewhere => self.done(work),
        }
    }

    /// Reconciles a key, unless it must wait or is not the controller's. Returns what happens to it then.
    async fn work_on(
        &self,
        tools: &Arc<Tools>,
        taken: &mut Taken<'_, D>,
        scope: &Scope<'_>,
    ) -> Option<Settled> {
        // A live read can outlast a stop, and the key's slot.
        let is_ready = self.is_ready(tools, &taken.work).await;
        if !is_ready || (scope.stop.is_stopping() && !deliberate_bug("work-after-stop")) {
            return None;
        }
        if let Some(Err(why)) = scope.slot.map(SlotTerm::may_begin) {
            self.turn_away(&taken.work, why);
            return None;
        }
        if !taken.is_admitted(tools) {
            self.done(&taken.work);
            return None;
        }
        taken.started = true;
        let settled = self.reconcile_key(tools, &taken.work, scope).await;
        taken.is_leaving &= settled != Settled::Finished;
        Some(settled)
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

    /// Reconciles a key.
    async fn reconcile_key(&self, tools: &Arc<Tools>, work: &Work<Key>, scope: &Scope<'_>) -> Settled {
        let failures = self.intake.queue.num_requeues(work);
        let id = self.reconciles.fetch_add(1, Ordering::Relaxed);
        let run = Run {
            key: (**work).clone(),
            owner: tools.owner_uid(work),
            cleanups: tools.cleanups(work),
            id,
            failures,
            tools: tools.clone(),
            stop: scope.stop.clone(),
            term: scope.term.cloned(),
            slot: scope.slot.cloned(),
            sent: scope.sent.clone(),
            client: OnceLock::new(),
        };
        let span = tracing::info_span!("reconcile", controller = &*self.name, key = %**work, id);
        let context = Context::with_shared(self.data.clone(), run);
        let run = context.run.clone();
        let reconciled = async {
            let outcome = self.reconcile_once(context, (**work).clone()).await;
            self.settle(work, outcome, &run)
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

    /// Queues the key again if the outcome requires it.
    fn settle(&self, work: &Work<Key>, outcome: Result<Action, Error>, run: &Run) -> Settled {
        let (queue, failures) = (&self.intake.queue, run.failures.saturating_add(1));
        let (key, again) = (&**work, AddOptions::new().priority(work.priority()));
        let settled = if outcome.is_ok() { Settled::Requeued } else { Settled::Retried };
        let again = match outcome {
            Ok(Action::Done) => {
                self.reports.count(ReconcileOutcome::Success);
                self.done(key);
                return Settled::Finished;
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
            // This cannot repeat: the next run begins with another object, or with none.
            Err(error) if error.is_outdated() && run.is_superseded() => {
                let controller = &*self.name;
                tracing::debug!(controller, %key, error = format!("{error:#}"), "the object was deleted or re-created during the reconcile; reconciling again");
                self.reports.count(ReconcileOutcome::RequeueAfter);
                self.done(key);
                again
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
                    Retry::Backoff if deliberate_bug("failed-key-not-retried") => return settled,
                    Retry::Never => {
                        self.done(key);
                        return Settled::Finished;
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
        settled
    }

    /// Records that the key succeeded, or is not retried.
    fn done(&self, key: &Key) {
        self.intake.queue.forget(key);
        #[cfg(feature = "testing")]
        self.intake.activity.succeeds(key);
    }

    /// Records that the key failed and is retried. Only tests read this.
    #[cfg(feature = "testing")]
    fn retries(&self, key: &Key, error: &impl std::fmt::Display) {
        self.intake.activity.fails(key, error);
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
        Self { job, work, is_leaving: false, started: false, finished: false }
    }

    /// Whether to reconcile the key: its object passes the main trigger's filter, has just stopped passing, or was deleted, even if a
    /// new object of its name does not pass.
    fn is_admitted(&mut self, tools: &Tools) -> bool {
        let Some(admits) = &tools.admits else { return true };
        let intake = &self.job.intake;
        self.is_leaving = intake.take_leaving(&self.work);
        let was_deleted = || intake.slot_keys.as_ref().is_some_and(|keys| keys.was_deleted(&self.work));
        self.is_leaving || was_deleted() || admits(&self.work.in_cluster(""))
    }
}

impl<D> Drop for Taken<'_, D> {
    fn drop(&mut self) {
        if self.is_leaving {
            self.job.intake.leaves(self.work.clone());
        }
        if self.finished || (self.started && deliberate_bug("key-dropped-at-shutdown")) {
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
