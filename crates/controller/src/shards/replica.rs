//! A replica that shares the work: it takes a seat, works on its slots while it can renew the seat, and starts again under another
//! identity when it has lost it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Api;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::pin;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::group::Group;
use super::lease::ShardedLease;
use super::seat::{Candidate, Seat, SeatLoss};
use super::slots::Slots;
use super::steering::{LeaveReason, SeatHolder, Steering};
use crate::controller::Managed;
use crate::deliberate_bug::deliberate_bug;
use crate::leader::LeaseRefused;
use crate::leader::record::{LeaseError, Leases};
use crate::{RunError, Stop};

/// Shares the work until it ends after a stop. Returns what it returns.
///
/// A refusal before the first seat is an error, as of a leader election; later ones are retried.
pub(crate) async fn share(
    lease: &ShardedLease,
    controllers: Vec<&dyn Managed>,
    stop: &Stop,
    work: impl Future<Output = usize>,
) -> Result<usize, RunError> {
    let _running = lease.begin()?;
    let mut replica = SharingReplica::new(lease, controllers)?;
    let ended = CancellationToken::new();
    let member = replica.run(stop, &ended);
    pin!(member, work);
    tokio::select! {
        biased;
        left = &mut member => {
            left?;
            Ok(work.await)
        }
        unfinished = &mut work => {
            ended.cancel();
            member.await?;
            Ok(unfinished)
        }
    }
}

struct SharingReplica<'a> {
    lease: ShardedLease,
    steering: Steering<'a>,
    random: StdRng,
    attempt: Option<Attempt>,
    /// Since when it waits for the seat of a replica that leaves.
    waiting_since: Option<Instant>,
    /// Consecutive attempts that failed because another replica was faster or the cache was behind.
    conflicts: i32,
}

/// Attempts to take a seat under one identity. The answer to one may have been lost: the seat is then this replica's, and the next
/// attempt takes it again.
struct Attempt {
    candidate: Candidate,
    /// Seats that it may have taken.
    unknown: BTreeSet<u32>,
}

/// How long a replica with the deliberate bug works on.
const LONGER_THAN_A_LEASE: Duration = Duration::from_secs(60);

/// How long a replica that could not list its slots waits before it takes a seat again: at first, and at most.
const PAUSE: Duration = Duration::from_secs(30);
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Ends all terms when it is dropped, with everything that runs under them.
struct EndOnDrop(Arc<Slots>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.lose_all();
        self.0.cut_all();
    }
}

impl<'a> SharingReplica<'a> {
    fn new(lease: &ShardedLease, controllers: Vec<&'a dyn Managed>) -> Result<Self, RunError> {
        let ShardedLease { client, namespace, name, timing, .. } = lease;
        let slots = lease.status.slots().clone();
        let mut random: StdRng = lease.seed.map_or_else(rand::make_rng, StdRng::seed_from_u64);
        let steering = Steering {
            group: watch(lease)?,
            slots,
            status: lease.status.clone(),
            leases: Leases {
                api: Api::namespaced(client.clone(), namespace),
                namespace: namespace.clone(),
                name: name.clone(),
                request_max: timing.request_max(),
            },
            controllers,
            timing: *timing,
            clock: lease.clock.clone(),
            name: name.clone(),
            random: StdRng::from_rng(&mut random),
            wanted: Default::default(),
            free_since: Default::default(),
        };
        Ok(Self { lease: lease.clone(), steering, random, attempt: None, waiting_since: None, conflicts: 0 })
    }

    async fn run(&mut self, stop: &Stop, ended: &CancellationToken) -> Result<(), RunError> {
        let _end = EndOnDrop(self.steering.slots.clone());
        let (mut has_joined, mut pause) = (false, PAUSE);
        while !stop.is_stopping() {
            let joined = self.join(has_joined, stop).await;
            self.leave_unknown().await;
            let Some(mut seat) = joined? else { break };
            has_joined = true;
            if stop.is_stopping() {
                self.limited(seat.leave()).await;
                break;
            }
            let wait = match self.hold(seat, stop, ended).await {
                LeaveReason::Stop | LeaveReason::SeatLost => {
                    pause = PAUSE;
                    continue;
                }
                LeaveReason::CannotList => pause,
                // No informer starts again.
                LeaveReason::InformerStopped => crate::LONGEST,
            };
            pause = (pause * 2).min(PAUSE_MAX);
            unless_stopped(stop, sleep(wait)).await;
        }
        Ok(())
    }

    /// Waits until this replica has a seat. Returns `None` after a stop. A request that was sent is finished first.
    async fn join(&mut self, has_joined: bool, stop: &Stop) -> Result<Option<Seat>, RunError> {
        let lease = self.lease.full_name();
        let (mut watched_since, mut is_synced) = (Instant::now(), true);
        self.waiting_since = None;
        while !stop.is_stopping() {
            let lasts = self.lease.timing.lease_duration;
            let is_behind = !self.steering.group.is_fresh() || self.conflicts > 0;
            if (is_behind || !is_synced) && watched_since.elapsed() >= lasts {
                // Its watch may be stuck.
                self.steering.group.replace(watch(&self.lease)?);
                if let Some(Ok(revision)) = unless_stopped(stop, self.steering.leases.revision()).await
                    && self.steering.group.accept_restore(&revision)
                {
                    tracing::warn!(lease, revision, "the server was restored from a backup; joining again");
                }
                watched_since = Instant::now();
                self.conflicts = 0;
            }
            let synced = timeout(lasts, self.steering.group.synced());
            let tried = match unless_stopped(stop, synced).await {
                None => break,
                Some(Err(_)) => {
                    is_synced = false;
                    continue;
                }
                Some(Ok(Err(error))) => Err(JoinError::Unusable(error.to_string())),
                Some(Ok(Ok(()))) => match unless_aborted(stop, self.try_join()).await {
                    None => break,
                    Some(tried) => tried,
                },
            };
            is_synced = true;
            let retry = self.lease.timing.retry_period;
            let wait = match tried {
                Ok(Some(seat)) => {
                    tracing::info!(lease, seat = seat.number, "sharing the work");
                    self.lease.status.joined(&seat.candidate.identity, seat.number);
                    self.conflicts = 0;
                    return Ok(Some(seat));
                }
                // Another replica was faster or leaves its seat, or the tables are being created: the cache will show it.
                Ok(None) => {
                    let factor = 2_f64.powi(self.conflicts.min(5));
                    retry.mul_f64(self.random.random_range(0.01..0.1) * factor)
                }
                Err(error) => {
                    tracing::warn!(lease, %error, "cannot take a seat; retrying");
                    match error {
                        JoinError::Unusable(reason) if !has_joined => {
                            return Err(self.lease.error(&reason));
                        }
                        JoinError::Refused(refused) if !has_joined => return Err(refused.into()),
                        _ => {}
                    }
                    retry.mul_f64(self.random.random_range(1.0..2.2))
                }
            };
            unless_stopped(stop, sleep(wait)).await;
        }
        Ok(None)
    }

    async fn try_join(&mut self) -> Result<Option<Seat>, JoinError> {
        let Self { lease, steering, random, attempt, waiting_since, conflicts } = self;
        let view = steering.group.view();
        if let Some(mismatch) = view.unusable.values().next() {
            return Err(JoinError::Unusable(mismatch.to_string()));
        }
        if steering.group.tables().any(|number| !view.has_table(number)) {
            let created = steering.create_tables(&view).await;
            let created = created.map_err(|error| JoinError::of_lease(error, lease))?;
            *conflicts += i32::from(!created);
            return Ok(None);
        }
        if !steering.group.is_fresh() {
            return Ok(None);
        }
        let attempt = attempt.get_or_insert_with(|| {
            let candidate = Candidate {
                group: lease.name.clone(),
                // Another one for each seat that is held.
                identity: format!("{}_{:032x}", lease.identity, random.random::<u128>()),
                weight: lease.weight,
                timing: lease.timing,
                clock: lease.clock.clone(),
            };
            Attempt { candidate, unknown: BTreeSet::new() }
        });
        let held = view.seat_of(&attempt.candidate.identity);
        let number = held.unwrap_or_else(|| view.free_seat());
        if held.is_none() && view.should_wait_instead_of(number) {
            let since = *waiting_since.get_or_insert_with(|| {
                tracing::info!(lease = lease.full_name(), "waiting for the seat of a replica that leaves");
                Instant::now()
            });
            // A replica that leaves cancels its work after the grace period. If it crashes, its seat expires.
            if since.elapsed() < lease.timing.lease_duration.saturating_add(steering.grace()) {
                return Ok(None);
            }
        }
        let leases = steering.leases.named(steering.group.seat_name(number));
        let taken = view.seats.get(&number).map(|seat| &*seat.lease);
        attempt.unknown.insert(number);
        match attempt.candidate.clone().take(leases, number, taken).await {
            Ok(Some(seat)) => {
                attempt.unknown.remove(&number);
                Ok(Some(seat))
            }
            // An earlier attempt may have changed it: the cache will show it.
            Ok(None) => {
                *conflicts += 1;
                Ok(None)
            }
            Err(error) => Err(JoinError::of_lease(error, lease)),
        }
    }

    /// Ends an attempt to take a seat. Frees the seats that it may have taken, unless another one is held under its identity.
    async fn leave_unknown(&mut self) {
        let Some(Attempt { candidate, unknown }) = self.attempt.take() else { return };
        if self.lease.status.get().identity == candidate.identity {
            return;
        }
        for number in unknown {
            let leases = self.steering.leases.named(self.steering.group.seat_name(number));
            if let Some(Err(error)) = self.limited(candidate.leave(&leases)).await {
                tracing::warn!(lease = leases.name, %error, "cannot leave the seat; it will expire");
            }
        }
    }

    /// Runs a future for at most the time limit of a request: a replica that stops must end.
    async fn limited<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        timeout(self.lease.timing.request_max(), future).await.ok()
    }

    /// Works until this replica leaves after a stop, or has lost its seat.
    async fn hold(&mut self, mut seat: Seat, stop: &Stop, ended: &CancellationToken) -> LeaveReason {
        let me = SeatHolder::of(&seat);
        let loss = tokio::select! {
            biased;
            loss = seat.renew() => Err(loss),
            reason = self.steering.run(&me, stop, ended) => Ok(reason),
        };
        let slots = self.steering.slots.clone();
        let lease = self.lease.full_name();
        let is_idle = match &loss {
            Err(loss) => {
                tracing::warn!(lease, seat = seat.number, why = %loss, "the seat is lost");
                self.lease.status.lost(slots.all().len());
                if deliberate_bug("lost-seat-works-on") {
                    sleep(LONGER_THAN_A_LEASE).await;
                }
                slots.lose_all();
                // Running work can end by itself until another replica could free the seat.
                let cut_off = match loss {
                    SeatLoss::Expiring(_) | SeatLoss::Unseen(_) => {
                        me.renewals().counted() + self.lease.timing.cut_off()
                    }
                    SeatLoss::Taken(_) => Instant::now(),
                };
                if timeout_at(cut_off, idle(&slots)).await.is_err() {
                    slots.cut_all();
                    // Each ends at its next await; until then it can still act.
                    unless_aborted(stop, idle(&slots)).await;
                }
                slots.is_empty()
            }
            // After a second stop, slots can be left.
            Ok(_) => {
                slots.lose_all();
                slots.cut_all();
                self.limited(idle(&slots)).await.is_some()
            }
        };
        self.lease.status.left();
        if is_idle {
            // No work is left on its slots. If the server can be reached, the others need not wait for the seat to expire.
            self.limited(seat.leave()).await;
        }
        self.steering.group.need(seat.lease_name().to_owned(), seat.version());
        if matches!(loss, Err(SeatLoss::Unseen(_)))
            && let Ok(group) = watch(&self.lease)
        {
            self.steering.group.replace(group);
        }
        loss.unwrap_or(LeaveReason::SeatLost)
    }
}

/// Runs a future until a stop is requested.
async fn unless_stopped<T>(stop: &Stop, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = stop.stopping() => None,
        output = future => Some(output),
    }
}

/// Runs a future until a stop is requested for the second time.
async fn unless_aborted<T>(stop: &Stop, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = stop.aborting() => None,
        output = future => Some(output),
    }
}

/// Watches the leases of the group.
fn watch(lease: &ShardedLease) -> Result<Group, RunError> {
    let ShardedLease { client, namespace, name, timing, seed, .. } = lease;
    let division = lease.status.slots().division();
    let group = Group::watch(client.clone(), namespace, name, division, *seed, timing.retry_period);
    group.map_err(|error| lease.error(&error))
}

/// Waits until no work is left on lost slots.
async fn idle(slots: &Slots) {
    loop {
        slots.remove_lost();
        if slots.is_empty() {
            return;
        }
        slots.changed().await;
    }
}

/// Why a replica has no seat.
#[derive(Debug, thiserror::Error)]
enum JoinError {
    /// It cannot be part of the group.
    #[error("{0}")]
    Unusable(String),
    /// The server permanently refuses a lease.
    #[error(transparent)]
    Refused(LeaseRefused),
    #[error(transparent)]
    Failed(LeaseError),
}

impl JoinError {
    fn of_lease(error: LeaseError, lease: &ShardedLease) -> Self {
        match error.refusal(&lease.full_name()) {
            Some(refused) => Self::Refused(refused),
            None => Self::Failed(error),
        }
    }
}
