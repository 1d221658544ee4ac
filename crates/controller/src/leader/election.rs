//! Acquiring a lease, holding it, releasing it.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::coordination::v1::Lease;
use kube_client::{Api, Client};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::record::{self, LeaseError, LeaseRefused, Leases, Observed};
use super::status::LeaderProbe;
use super::term::Term;
use crate::LONGEST;
use crate::deliberate_bug::deliberate_bug;

/// Competes for a lease, and runs work while this replica holds it.
///
/// ```no_run
/// # use kube_informer_controller::{LeaderElection, leader::Outcome};
/// # async fn example(client: kube_client::Client) {
/// let mut election = LeaderElection::new(client, "operators", "website");
/// loop {
///     let outcome = election.lead(async |term| {
///         println!("leading as {}", term.token());
///         // … until the work is finished; if leadership is lost, this future is dropped.
///         # std::future::pending::<()>().await;
///     });
///     match outcome.await {
///         Outcome::Finished(()) => break,
///         Outcome::Lost => println!("another replica may lead now"),
///     }
/// }
/// # }
/// ```
#[must_use = "an election does nothing until `lead` is called"]
pub struct LeaderElection {
    leases: Leases,
    identity: String,
    timing: LeaseTiming,
    random: StdRng,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    observed: Observed,
    probe: LeaderProbe,
}

/// How a term of leadership ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome<T> {
    /// The work finished, and the lease was released.
    Finished(T),
    /// The lease was not renewed in time, or was taken; the work was cancelled.
    Lost,
}

/// The times of a leader election, under client-go's names. They must be `lease_duration` > `renew_deadline` > 1.2 ×
/// `retry_period`: times that are too short are extended. Times over 30 years count as 30 years. Lease durations are
/// rounded up to whole seconds.
///
/// ```
/// # use std::time::Duration;
/// # use kube_informer_controller::LeaseTiming;
/// let timing = LeaseTiming { lease_duration: Duration::from_secs(60), ..LeaseTiming::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTiming {
    /// How long a lease is valid without a renewal. Default: 15 s.
    pub lease_duration: Duration,
    /// How long renewals can fail before leadership is lost. Default: 10 s.
    pub renew_deadline: Duration,
    /// The interval between attempts to renew or acquire. Default: 2 s.
    pub retry_period: Duration,
}

/// A held lease. Dropping it ends the term.
pub(crate) struct Held {
    lease: Lease,
    term: Term,
    /// When the last successful write was sent.
    sent: Instant,
    probe: LeaderProbe,
}

// === impl LeaderElection: settings ===

impl LeaderElection {
    /// An election for the lease of this name. Nothing is sent before [`lead`](Self::lead).
    pub fn new(client: impl Into<Client>, namespace: &str, name: &str) -> Self {
        let timing = LeaseTiming::default();
        let api = Api::namespaced(client.into(), namespace);
        // In a pod, this is the pod's name.
        let identity = std::env::var("HOSTNAME").unwrap_or_else(|_| "replica".to_owned());
        Self {
            leases: Leases {
                api,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                request_max: timing.request_max(),
            },
            identity,
            timing,
            random: rand::make_rng(),
            clock: Arc::new(SystemTime::now),
            observed: Observed::default(),
            probe: LeaderProbe::new(name.to_owned(), timing.lease_duration),
        }
    }

    /// Sets the times.
    pub fn timing(mut self, timing: LeaseTiming) -> Self {
        self.timing = timing.consistent();
        self.leases.request_max = self.timing.request_max();
        self.probe.set_lease(self.timing.lease_duration);
        self
    }

    /// Sets the first part of the holder's identity. Default: the environment variable `HOSTNAME`, in a pod the pod's name. The
    /// second part is random and differs for each term.
    pub fn identity(mut self, name: &str) -> Self {
        name.clone_into(&mut self.identity);
        self
    }

    /// Makes identities and waits reproducible. Each replica needs its own seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.random = StdRng::seed_from_u64(seed);
        self
    }

    /// Sets the clock whose time is written into the lease. That time is informational: a renewal changes the record even if
    /// the clock has stopped. Default: the system clock.
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(now);
        self
    }

    /// Reports to these metrics, labelled with the lease's name.
    #[cfg(feature = "metrics")]
    pub fn metrics(self, metrics: &super::LeaderMetrics) -> Self {
        metrics.add(&self.probe);
        self
    }

    /// A probe that reads the state of this election from anywhere.
    pub fn probe(&self) -> LeaderProbe {
        self.probe.clone()
    }

    /// The lease, as `namespace/name`.
    pub fn lease(&self) -> String {
        format!("{}/{}", self.leases.namespace, self.leases.name)
    }
}

// === impl LeaderElection: acquiring and leading ===

impl LeaderElection {
    /// Waits until this replica leads, then runs the work until it finishes or leadership is lost. If the server refuses the
    /// lease, it keeps retrying; [`LeaderProbe::refused`] has the reason.
    ///
    /// The lease is renewed while the work runs. If no renewal succeeds within the renew deadline, the [term](Term::lost) is lost.
    /// The work can then end by itself; it is dropped half-way between that moment and the end of the lease, before another
    /// replica can lead. If the lease was taken or deleted, the work is dropped immediately. Finally the lease is released, if
    /// it is still held.
    ///
    /// # Cancel safety
    /// Can be dropped at any point, together with the work. The term is then lost, and a held lease is left to expire.
    pub async fn lead<T, Done>(&mut self, work: impl FnOnce(Term) -> Done) -> Outcome<T>
    where
        Done: Future<Output = T>,
    {
        let identity = self.stand();
        loop {
            match self.acquire(&identity).await {
                Ok(held) => break self.hold(held, work).await,
                Err(_) => self.pause().await,
            }
        }
    }

    /// The identity of the next term.
    pub(crate) fn stand(&mut self) -> String {
        let identity = format!("{}_{:032x}", self.identity, self.random.random::<u128>());
        tracing::info!(lease = self.lease(), identity, "competing for leadership");
        identity
    }

    /// Waits until this replica holds the lease.
    ///
    /// # Errors
    /// Returns an error if the server permanently refuses the lease. [`pause`](Self::pause) before trying again.
    ///
    /// # Cancel safety
    /// Can be dropped at any point; a lease that is being acquired is left to expire.
    pub(crate) async fn acquire(&mut self, identity: &str) -> Result<Held, LeaseRefused> {
        let lease = self.lease();
        loop {
            match self.try_acquire(identity).await {
                Ok(Some(held)) => {
                    tracing::info!(lease, token = %held.term.token(), "leading");
                    self.probe.leads(&held.term, held.sent);
                    return Ok(held);
                }
                Ok(None) => self.probe.follows(self.observed.holder()),
                Err(error) => {
                    tracing::warn!(lease, %error, "cannot acquire the lease; retrying");
                    if let Some(refused) = error.refusal(&lease) {
                        self.probe.is_refused(refused.clone());
                        return Err(refused);
                    }
                }
            }
            self.pause().await;
        }
    }

    /// Waits between two attempts to acquire the lease.
    pub(crate) async fn pause(&mut self) {
        let wait = self.timing.retry_period.mul_f64(self.random.random_range(1.0..2.2));
        sleep(wait).await;
    }

    /// Runs the work while the lease can be renewed.
    pub(crate) async fn hold<T, Done>(&mut self, held: Held, work: impl FnOnce(Term) -> Done) -> Outcome<T>
    where
        Done: Future<Output = T>,
    {
        let mut held = held;
        let term = held.term.clone();
        let outcome = {
            let mut work = pin!(work(term.clone()));
            tokio::select! {
                biased;
                loss = self.renew(&mut held) => {
                    tracing::warn!(lease = self.lease(), token = %term.token(), why = %loss, "leadership is lost");
                    term.end();
                    // The work may end by itself until shortly before another replica can take the lease.
                    let cut_off = match loss {
                        _ if deliberate_bug("lost-leader-acts-on") => Instant::now() + 4 * self.timing.lease_duration,
                        Loss::Expiring(_) => held.sent + self.timing.cut_off(),
                        Loss::Taken(_) => Instant::now(),
                    };
                    let _ = timeout_at(cut_off, &mut work).await;
                    Outcome::Lost
                }
                done = &mut work => Outcome::Finished(done),
            }
            // The work has been dropped at this point.
        };
        term.end();
        let holder = self.release(&held).await;
        self.probe.follows(&holder);
        outcome
    }

    async fn try_acquire(&mut self, identity: &str) -> Result<Option<Held>, LeaseError> {
        let lasts = self.timing.lease_duration;
        let lease = match self.leases.get().await {
            Ok(lease) => {
                self.observed.observe(lease);
                // If the lease is already ours, the last attempt succeeded and its response was lost.
                if self.observed.holder() != identity && !self.observed.is_free() {
                    return Ok(None);
                }
                self.observed.lease().map(|lease| record::taken(lease, identity, lasts, (self.clock)()))
            }
            Err(LeaseError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let sent = Instant::now();
        let written = match lease {
            Some(lease) => self.leases.replace(&lease).await,
            None => {
                let lease = record::new(&self.leases.name, identity, lasts, (self.clock)());
                self.leases.create(&lease).await
            }
        };
        match written {
            Ok(lease) => {
                self.observed.observe(lease.clone());
                let term = Term::new(record::token(&lease), sent + lasts);
                Ok(Some(Held { lease, term, sent, probe: self.probe.clone() }))
            }
            // Another replica was faster.
            Err(LeaseError::Conflict) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renews the lease until it is lost; returns the reason.
    async fn renew(&mut self, held: &mut Held) -> Loss {
        let mut tried = held.sent;
        loop {
            let limit = self.timing.renew_deadline;
            let limit = if deliberate_bug("lease-renewed-after-its-deadline") { limit * 3 } else { limit };
            let deadline = held.sent + limit;
            let attempt = async {
                // The period is counted from the start of the last attempt.
                sleep_until(tried + self.timing.retry_period).await;
                tried = Instant::now();
                self.try_renew(held).await
            };
            match timeout_at(deadline, attempt).await {
                Ok(Ok(())) => {
                    held.term.prolong(held.sent + self.timing.lease_duration);
                    self.probe.leads(&held.term, held.sent);
                }
                Ok(Err(Renewal::Lost(why))) => return Loss::Taken(why),
                Ok(Err(Renewal::Failed(error))) => {
                    tracing::warn!(lease = self.lease(), %error, "cannot renew the lease; retrying");
                }
                Err(_) => return Loss::Expiring(self.timing.renew_deadline),
            }
        }
    }

    /// One attempt. While the lease is certainly ours, it is written without reading it first.
    async fn try_renew(&self, held: &mut Held) -> Result<(), Renewal> {
        let lasts = self.timing.lease_duration;
        if held.term.is_current() {
            let sent = Instant::now();
            match self.leases.replace(&record::renewed(&held.lease, lasts, (self.clock)())).await {
                Ok(lease) => return held.renewed(lease, sent),
                Err(error) => {
                    tracing::debug!(lease = self.lease(), %error, "reading the lease before renewing it");
                }
            }
        }
        self.probe.slow_path();
        let lease = match self.leases.get().await {
            Err(LeaseError::NotFound(_)) => return Err(Renewal::Lost("it was deleted".to_owned())),
            lease => lease.map_err(Renewal::Failed)?,
        };
        held.check(&lease)?;
        let sent = Instant::now();
        let lease = self.leases.replace(&record::renewed(&lease, lasts, (self.clock)())).await;
        held.renewed(lease.map_err(Renewal::Failed)?, sent)
    }

    /// Releases the lease if it is still ours; returns the holder afterwards, or an empty string if unknown.
    async fn release(&self, held: &Held) -> String {
        for _ in 0..RELEASE_TRIES {
            let released = async {
                let lease = self.leases.get().await?;
                if held.check(&lease).is_err() {
                    return Ok(lease);
                }
                self.leases.replace(&record::released(&lease, (self.clock)())).await
            };
            match released.await {
                Ok(lease) => return record::holder(&lease).to_owned(),
                Err(LeaseError::Conflict) => {}
                Err(error) => {
                    tracing::warn!(lease = self.lease(), %error, "cannot release the lease; it will expire");
                    break;
                }
            }
        }
        String::new()
    }
}

/// Attempts to release a lease that other clients keep writing.
const RELEASE_TRIES: usize = 5;

/// Why a lease was not renewed.
enum Renewal {
    Failed(LeaseError),
    Lost(String),
}

/// Why a lease is not held any longer.
#[derive(Debug, thiserror::Error)]
enum Loss {
    #[error("it was not renewed for {0:?}, and will expire")]
    Expiring(Duration),
    #[error("{0}")]
    Taken(String),
}

// === impl Held ===

impl Held {
    /// Checks that the lease still belongs to this term.
    fn check(&self, lease: &Lease) -> Result<(), Renewal> {
        let token = record::token(lease);
        match token == *self.term.token() {
            true => Ok(()),
            false => Err(Renewal::Lost(format!("it is at {token} now"))),
        }
    }

    fn renewed(&mut self, lease: Lease, sent: Instant) -> Result<(), Renewal> {
        // Our own write may have re-created a deleted lease.
        self.check(&lease)?;
        self.lease = lease;
        self.sent = sent;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.term.end();
        self.probe.leads_no_more();
    }
}

// === impl LeaseTiming ===

impl Default for LeaseTiming {
    fn default() -> Self {
        let [lease_duration, renew_deadline, retry_period] = [15, 10, 2].map(Duration::from_secs);
        Self { lease_duration, renew_deadline, retry_period }
    }
}

impl LeaseTiming {
    /// Extends times that are too short.
    pub(crate) fn consistent(self) -> Self {
        let Self { lease_duration, renew_deadline, retry_period } = self;
        let [lease, renew, retry] =
            [lease_duration, renew_deadline, retry_period].map(|time| time.min(LONGEST));
        let retry_period = retry.max(Duration::from_millis(1));
        let renew_deadline = renew.max(retry_period.mul_f64(1.2) + Duration::from_millis(1));
        let lease = lease.max(renew_deadline + Duration::from_millis(1));
        // A lease has whole seconds.
        let lease_duration = Duration::from_secs(lease.as_secs() + u64::from(lease.subsec_nanos() > 0));
        Self { lease_duration, renew_deadline, retry_period }
    }

    pub(crate) fn request_max(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// When unfinished work is dropped: well before the lease expires.
    pub(crate) fn cut_off(&self) -> Duration {
        self.renew_deadline + (self.lease_duration - self.renew_deadline) / 2
    }
}

impl fmt::Debug for LeaderElection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElection")
            .field("lease", &self.lease())
            .field("identity", &self.identity)
            .field("timing", &self.timing)
            .field("leads", &self.probe.is_leading())
            .finish_non_exhaustive()
    }
}
