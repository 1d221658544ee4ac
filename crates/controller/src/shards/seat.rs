//! The seat of a replica: taking it, renewing it, and leaving it. A seat is a Lease, and follows the rules of
//! [leader election](crate::leader): it is renewed every retry period, it is lost when no renewal succeeds within the renew deadline,
//! and others can take it only after its duration. Slots are not renewed: they are lost with the seat.
//!
//! A renewal counts only when this replica's cache shows it. The cache then has everything that happened before, such as the
//! deletion of a record. A replica whose watch is behind would otherwise keep slots that others take, or be given slots that it
//! does not see.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use tokio::pin;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::group::{LEAVING_ANNOTATION, WEIGHT_ANNOTATION};
use super::table::group_lease;
use crate::deliberate_bug::deliberate_bug;
use crate::leader::record::{self, LeaseError, Leases};
use crate::leader::{LeaseTiming, Validity};

/// The clock whose time is written into leases.
pub(super) type LeaseClock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// A replica that takes a seat.
#[derive(Clone)]
pub(super) struct Candidate {
    /// The name of the sharded lease.
    pub(super) group: String,
    /// Unique to this membership.
    pub(super) identity: String,
    pub(super) weight: u32,
    pub(super) timing: LeaseTiming,
    pub(super) clock: LeaseClock,
}

/// A taken seat.
pub(super) struct Seat {
    pub(super) number: u32,
    pub(super) candidate: Candidate,
    leases: Leases,
    lease: Lease,
    /// When the last successful write was sent.
    sent: Instant,
    pub(super) renewals: Renewals,
    /// This replica leaves: it should get no more slots.
    pub(super) leaving: CancellationToken,
}

/// The renewals of a seat, and which of them count. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Renewals {
    state: Arc<Mutex<RenewalState>>,
    answered: Arc<Notify>,
    /// How long the terms of all slots are valid.
    pub(super) validity: Validity,
    timing: LeaseTiming,
}

#[derive(Debug)]
struct RenewalState {
    /// Renewals that the cache has not shown yet, the oldest first: resourceVersion, and when it was sent.
    unseen: VecDeque<(String, Instant)>,
    /// When the newest renewal that counts was sent.
    counted: Instant,
}

/// Why a seat is lost.
#[derive(Debug, thiserror::Error)]
pub(super) enum SeatLoss {
    #[error("it was not renewed for {0:?}, and will expire")]
    Expiring(Duration),
    #[error("the watch of the leases has not shown its renewals for {0:?}")]
    Unseen(Duration),
    #[error("{0}")]
    Taken(String),
}

/// Why a seat was not renewed.
enum NotRenewed {
    Failed(LeaseError),
    Lost(String),
}

/// Attempts to leave a seat whose lease is written concurrently.
const LEAVE_TRIES: usize = 5;

impl Candidate {
    /// Takes a free seat. `lease` is the seat's lease if it exists. Returns `None` if another replica was faster.
    pub(super) async fn take(
        self,
        leases: Leases,
        number: u32,
        lease: Option<&Lease>,
    ) -> Result<Option<Seat>, LeaseError> {
        let sent = Instant::now();
        let written = match lease {
            Some(lease) => {
                let taken = record::taken(lease, &self.identity, self.timing.lease_duration, (self.clock)());
                leases.replace(&self.annotated(taken, false)).await
            }
            None => {
                let new =
                    record::new(&leases.name, &self.identity, self.timing.lease_duration, (self.clock)());
                let group = group_lease(&self.group, leases.name.clone());
                leases.create(&self.annotated(Lease { spec: new.spec, ..group }, false)).await
            }
        };
        match written {
            Ok(lease) => {
                let renewals = Renewals::new(sent, self.timing);
                let leaving = CancellationToken::new();
                Ok(Some(Seat { number, candidate: self, leases, lease, sent, renewals, leaving }))
            }
            Err(LeaseError::Conflict) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn annotated(&self, mut lease: Lease, is_leaving: bool) -> Lease {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(WEIGHT_ANNOTATION.to_owned(), self.weight.to_string());
        match is_leaving {
            true => annotations.insert(LEAVING_ANNOTATION.to_owned(), "true".to_owned()),
            false => annotations.remove(LEAVING_ANNOTATION),
        };
        lease
    }
}

impl Seat {
    /// Renews the seat until it is lost; returns the reason.
    pub(super) async fn renew(&mut self) -> SeatLoss {
        let timing = self.candidate.timing;
        let renewals = self.renewals.clone();
        let mut tried = self.sent;
        let mut leaves = false;
        loop {
            let renewed = {
                let attempt = async {
                    tokio::select! {
                        biased;
                        // The group should know immediately.
                        () = self.leaving.cancelled(), if !leaves => leaves = true,
                        () = sleep_until(tried + timing.retry_period) => {}
                    }
                    tried = Instant::now();
                    self.try_renew().await
                };
                pin!(attempt);
                loop {
                    let deadline = renewals.counted() + timing.renew_deadline;
                    match timeout_at(deadline, &mut attempt).await {
                        Ok(renewed) => break Some(renewed),
                        // An earlier renewal has been seen meanwhile.
                        Err(_) if renewals.counted() + timing.renew_deadline > deadline => {}
                        Err(_) => break None,
                    }
                }
            };
            match renewed {
                Some(Ok(())) => {}
                Some(Err(NotRenewed::Lost(why))) => return SeatLoss::Taken(why),
                Some(Err(NotRenewed::Failed(error))) => {
                    tracing::warn!(lease = self.leases.name, %error, "cannot renew the seat; retrying");
                }
                None if self.sent + timing.renew_deadline > Instant::now() => {
                    return SeatLoss::Unseen(timing.renew_deadline);
                }
                None => return SeatLoss::Expiring(timing.renew_deadline),
            }
        }
    }

    /// One attempt. The lease is read only if writing it fails.
    async fn try_renew(&mut self) -> Result<(), NotRenewed> {
        let sent = Instant::now();
        match self.leases.replace(&self.renewed(&self.lease)).await {
            Ok(lease) => return self.is_renewed(lease, sent),
            Err(error) => {
                tracing::debug!(lease = self.leases.name, %error, "reading the seat before renewing it");
            }
        }
        let lease = match self.leases.get().await {
            Err(LeaseError::NotFound(_)) => return Err(NotRenewed::Lost("it was deleted".to_owned())),
            lease => lease.map_err(NotRenewed::Failed)?,
        };
        self.check(&lease)?;
        let sent = Instant::now();
        let lease = self.leases.replace(&self.renewed(&lease)).await;
        self.is_renewed(lease.map_err(NotRenewed::Failed)?, sent)
    }

    fn renewed(&self, lease: &Lease) -> Lease {
        let Candidate { timing, clock, .. } = &self.candidate;
        let renewed = record::renewed(lease, timing.lease_duration, clock());
        self.candidate.annotated(renewed, self.leaving.is_cancelled())
    }

    fn is_renewed(&mut self, lease: Lease, sent: Instant) -> Result<(), NotRenewed> {
        // Our own write may have re-created a deleted lease.
        self.check(&lease)?;
        (self.lease, self.sent) = (lease, sent);
        self.renewals.answered(self.version(), sent);
        Ok(())
    }

    /// Checks that the lease is still this replica's.
    fn check(&self, lease: &Lease) -> Result<(), NotRenewed> {
        let is_ours =
            record::holder(lease) == self.candidate.identity && lease.metadata.uid == self.lease.metadata.uid;
        match is_ours {
            true => Ok(()),
            false => Err(NotRenewed::Lost(format!("it is at {} now", record::token(lease)))),
        }
    }

    /// The name of its lease.
    pub(super) fn lease_name(&self) -> &str {
        &self.leases.name
    }

    /// The resourceVersion of its lease when it was last written.
    pub(super) fn version(&self) -> String {
        self.lease.metadata.resource_version.clone().unwrap_or_default()
    }

    /// Frees the seat, if it is still this replica's. The weight stays for the next holder.
    pub(super) async fn leave(&mut self) {
        match self.candidate.leave(&self.leases).await {
            Ok(Some(lease)) => self.lease = lease,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(lease = self.leases.name, %error, "cannot leave the seat; it will expire");
            }
        }
    }
}

impl Candidate {
    /// Frees the seat if this candidate holds it. It may hold it without knowing: the answer was lost, or a renewal has created the
    /// lease again after its deletion.
    pub(super) async fn leave(&self, leases: &Leases) -> Result<Option<Lease>, LeaseError> {
        let mut tries = 1;
        loop {
            let lease = match leases.get().await {
                Err(LeaseError::NotFound(_)) => return Ok(None),
                lease => lease?,
            };
            if record::holder(&lease) != self.identity {
                return Ok(None);
            }
            let freed = record::released(&lease, (self.clock)());
            match leases.replace(&self.annotated(freed, false)).await {
                Err(LeaseError::Conflict) if tries < LEAVE_TRIES => tries += 1,
                left => return left.map(Some),
            }
        }
    }
}

// === impl Renewals ===

impl Renewals {
    /// A seat that was just taken counts before the cache shows it, because the replica owns no slots under it yet.
    fn new(sent: Instant, timing: LeaseTiming) -> Self {
        let state = RenewalState { unseen: VecDeque::new(), counted: sent };
        let validity = Validity::new((sent + timing.cut_off()).into());
        Self { state: Arc::new(Mutex::new(state)), answered: Arc::default(), validity, timing }
    }

    /// When the newest renewal that counts was sent.
    pub(super) fn counted(&self) -> Instant {
        self.state.lock().counted
    }

    /// A renewal succeeded.
    fn answered(&self, version: String, sent: Instant) {
        self.state.lock().unseen.push_back((version, sent));
        self.answered.notify_one();
    }

    /// Waits until a renewal has succeeded.
    pub(super) async fn was_answered(&self) {
        self.answered.notified().await;
    }

    /// Takes the renewals that the cache has. Returns when the newest of them was sent.
    pub(super) fn take_seen(&self, has_seen: impl Fn(&str) -> bool) -> Option<Instant> {
        let unseen = &mut self.state.lock().unseen;
        let newest = unseen.iter().rposition(|(version, _)| has_seen(version))?;
        unseen.drain(..=newest).next_back().map(|(_, sent)| sent)
    }

    /// Counts a renewal whose changes were considered: the terms are valid for longer.
    pub(super) fn count(&self, sent: Instant) {
        let mut state = self.state.lock();
        state.counted = state.counted.max(sent);
        let is_lasting = deliberate_bug("lost-seat-works-on");
        *self.validity.lock() = state.counted + self.timing.cut_off() * if is_lasting { 100 } else { 1 };
    }
}
