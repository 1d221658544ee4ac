//! Steers the slots of a replica: releases those that another replica should own, takes free ones that this replica should own, and
//! frees the seats of replicas that have stopped renewing.
//!
//! Every decision is made from the cache, and every write is a compare-and-swap on the state that the decision was made from. An
//! outdated cache therefore delays hand-overs, and never causes two owners:
//!
//! - A slot's record changes only with its table's resourceVersion, so two replicas cannot take one slot.
//! - A slot is taken from an owner only after that owner's seat was freed. Freeing an expired seat fails if its holder has renewed
//!   it, and the holder's next renewal fails after it. The holder has stopped working by then: its renew deadline is shorter than
//!   the duration that has passed.
//! - A table or a seat that was deleted is created again only after the lease duration. Its owners have lost their slots by then:
//!   they have seen the deletion, or none of their renewals since then counts ([`seat`](super::seat)). This includes a group that
//!   looks new: it may have been deleted.
//!
//! Writes run concurrently, and changes are processed meanwhile, so a slow response does not delay the loss of a slot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::group::{Group, GroupView, ReadTable};
use super::seat::{LeaseClock, Renewals, Seat};
use super::seats::assign_seats;
use super::slots::{SlotPhase, Slots, WrittenVersions};
use super::status::StatusCell;
use super::table::{SLOTS_PER_TABLE, SlotTable, group_lease};
use crate::Stop;
use crate::controller::{CannotCatchUp, Managed};
use crate::deliberate_bug::deliberate_bug;
use crate::leader::record::{self, LeaseError, Leases};
use crate::leader::{FencingToken, LeaseTiming, Term};

/// Decides about the slots of a replica.
pub(super) struct Steering<'a> {
    pub(super) group: Group,
    pub(super) slots: Arc<Slots>,
    pub(super) status: Arc<StatusCell>,
    pub(super) leases: Leases,
    pub(super) controllers: Vec<&'a dyn Managed>,
    pub(super) timing: LeaseTiming,
    pub(super) clock: LeaseClock,
    /// The name of the sharded lease.
    pub(super) name: String,
    pub(super) random: StdRng,
    /// The last result of the assignment, and what it was computed from.
    pub(super) wanted: (BTreeMap<u32, (u32, bool)>, Vec<Option<u32>>),
    /// Slots without an owner: since when.
    pub(super) free_since: BTreeMap<u32, Instant>,
}

/// The replica whose slots are steered.
pub(super) struct SeatHolder {
    seat: u32,
    identity: String,
    weight: u32,
    renewals: Renewals,
    leaving: CancellationToken,
    /// When it can take slots of a group in which no slot has an owner.
    gathered_at: Instant,
}

/// Why a replica leaves its seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaveReason {
    Stop,
    SeatLost,
    /// The caches cannot list the slots that it has taken.
    CannotList,
    /// An informer has stopped, and does not start again.
    InformerStopped,
}

/// The group as observed, and the seat that should own each slot.
struct Situation {
    view: GroupView,
    wanted: Vec<Option<u32>>,
}

/// What changes in one table: releases of this replica's slots, and slots that it takes, with what their previous owners wrote.
struct HandOver {
    number: u32,
    after: ReadTable,
    released: Vec<u32>,
    taken: Vec<(u32, Option<WrittenVersions>)>,
}

/// A write that has ended.
struct EndedWrite {
    /// The name of the lease.
    lease: String,
    result: Result<Lease, LeaseError>,
    hand_over: Option<HandOver>,
}

/// A slot that was taken, and what its previous owner wrote.
struct Gained {
    slot: u32,
    term: Term,
    inherited: Option<WrittenVersions>,
}

/// Slots whose caches have caught up.
struct CaughtUp {
    slots: Vec<(u32, Term)>,
    reached: WrittenVersions,
}

impl SeatHolder {
    pub(super) fn of(seat: &Seat) -> Self {
        Self {
            seat: seat.number,
            identity: seat.candidate.identity.clone(),
            weight: seat.candidate.weight,
            renewals: seat.renewals.clone(),
            leaving: seat.leaving.clone(),
            gathered_at: Instant::now() + seat.candidate.timing.retry_period,
        }
    }

    pub(super) fn renewals(&self) -> &Renewals {
        &self.renewals
    }

    /// Whether it takes slots that should be its own. If no slot has an owner, the group has just started, and more replicas may join
    /// soon: the first one would list all objects, and release most of them.
    fn takes_slots(&self, view: &GroupView) -> bool {
        !self.leaving.is_cancelled() && (Instant::now() >= self.gathered_at || !view.owners().is_empty())
    }

    fn term(&self, read: &ReadTable, slot: u32) -> Term {
        let token = FencingToken {
            lease_uid: read.lease.metadata.uid.clone().unwrap_or_default(),
            transitions: read.table.record(slot).term,
            holder: self.identity.clone(),
            slot: Some(slot),
        };
        Term::within(token, self.renewals.validity.clone())
    }
}

impl<'a> Steering<'a> {
    /// Steers until this replica has left: after a stop, when the work has `ended`, or because its caches cannot list its slots. It
    /// then releases all slots, and gives up after the renew deadline. Ends immediately after a second stop.
    pub(super) async fn run(
        &mut self,
        me: &SeatHolder,
        stop: &Stop,
        ended: &CancellationToken,
    ) -> LeaveReason {
        let mut catching_up: FuturesUnordered<BoxFuture<'a, Result<CaughtUp, CannotCatchUp>>> =
            FuturesUnordered::new();
        let mut writes: Option<BoxFuture<'static, Vec<EndedWrite>>> = None;
        let (mut gives_up, mut retry_at, mut leave_by) = (None, Instant::now(), None);
        self.group.identify(&me.identity);
        loop {
            if stop.is_stopping() {
                me.leaving.cancel();
                self.slots.release_all();
            } else if gives_up.is_some() {
                // A slot may have been taken by a write that was under way.
                self.slots.release(0..self.slots.division().of, Some(self.cut_at()));
            }
            let situation = self.observe(me);
            if writes.is_none() && Instant::now() >= retry_at {
                let (planned, gained) = self.plan(situation, me);
                writes = (!planned.is_empty()).then(|| join_all(planned).boxed());
                self.begin_catching_up(gained, &catching_up);
            }
            if gives_up.is_none() && self.controllers.iter().any(|controller| controller.is_stopped()) {
                gives_up = Some(self.give_up(me, &CannotCatchUp::Stopped));
            }
            let has_ended = ended.is_cancelled();
            if me.leaving.is_cancelled() && (has_ended || gives_up.is_some()) {
                // Without a seat, the slots are free too, and their next owners compare their caches with the server.
                let work_ends = if has_ended { Instant::now() } else { self.cut_at() };
                let leave_by = leave_by.get_or_insert(work_ends + self.timing.renew_deadline);
                let is_done = self.slots.is_empty() && writes.is_none();
                if is_done || Instant::now() >= *leave_by {
                    return gives_up.unwrap_or(LeaveReason::Stop);
                }
            }
            let tick = Instant::now() + self.timing.retry_period;
            let mut wake = self.slots.cut_overdue().map_or(tick, |cut| cut.min(tick));
            for at in [retry_at, me.gathered_at] {
                if at > Instant::now() {
                    wake = wake.min(at);
                }
            }
            tokio::select! {
                biased;
                () = stop.aborting() => return LeaveReason::Stop,
                () = stop.stopping(), if !me.leaving.is_cancelled() => {}
                () = ended.cancelled(), if !has_ended => {}
                Some(caught_up) = catching_up.next(), if !catching_up.is_empty() => match caught_up {
                    Ok(caught_up) => self.begin_work(&caught_up),
                    Err(error) => gives_up = gives_up.or_else(|| Some(self.give_up(me, &error))),
                },
                ended = ended_writes(&mut writes) => {
                    writes = None;
                    retry_at = Instant::now() + pause_after(&ended, self.timing.retry_period, &mut self.random);
                    let gained = self.written(ended, me);
                    self.begin_catching_up(gained, &catching_up);
                }
                () = self.slots.changed() => {}
                () = self.group.changed() => {}
                // The cache may have shown the renewal before.
                () = me.renewals.was_answered() => {}
                () = sleep_until(wake) => {
                    self.slots.cut_overdue();
                }
            }
        }
    }

    /// This replica leaves its slots to others.
    fn give_up(&self, me: &SeatHolder, error: &CannotCatchUp) -> LeaveReason {
        tracing::error!(lease = self.name, %error, "cannot work on slots; leaving them to other replicas");
        me.leaving.cancel();
        self.slots.release(0..self.slots.division().of, Some(self.cut_at()));
        match error {
            CannotCatchUp::Stopped => LeaveReason::InformerStopped,
            CannotCatchUp::Failed(_) => LeaveReason::CannotList,
        }
    }

    /// When the work of slots that begin to be released now is cancelled.
    fn cut_at(&self) -> Instant {
        Instant::now() + self.grace()
    }

    /// How long the work of a slot can continue after its release has begun.
    pub(super) fn grace(&self) -> Duration {
        let grace = self.controllers.iter().map(|controller| controller.grace()).max().unwrap_or_default();
        grace.min(crate::LONGEST)
    }

    /// Considers everything that the cache has: loses slots whose records were changed, and begins to release those that others should
    /// own. Renewals that the cache has count then.
    fn observe(&mut self, me: &SeatHolder) -> Situation {
        let seat = self.group.seat_name(me.seat);
        // Before reading the leases, so that they are at least as new.
        let renewed = me.renewals.take_seen(|version| self.group.has_seen(&seat, version));
        let view = self.group.view();
        self.compare(&view, me);
        if let Some(sent) = renewed {
            me.renewals.count(sent);
        }
        let wanted = self.wanted(&view, me);
        let others =
            |slot: u32| wanted.get(slot as usize).is_some_and(|to| to.is_some_and(|to| to != me.seat));
        let unwanted = self.slots.all().into_iter().map(|(slot, ..)| slot).filter(|slot| others(*slot));
        self.slots.release(unwanted, Some(self.cut_at()));
        Situation { view, wanted }
    }

    /// All writes that are possible now, and slots that were taken by an earlier write.
    fn plan(
        &mut self,
        Situation { view, wanted }: Situation,
        me: &SeatHolder,
    ) -> (Vec<BoxFuture<'static, EndedWrite>>, Vec<Gained>) {
        let mut writes: Vec<BoxFuture<'static, EndedWrite>> = Vec::new();
        writes.extend(
            self.missing_tables(&view).into_iter().map(|write| {
                write.map(|(lease, result)| EndedWrite { lease, result, hand_over: None }).boxed()
            }),
        );
        let simple = |lease: String, write: BoxFuture<'static, Result<Lease, LeaseError>>| {
            write.map(|result| EndedWrite { lease, result, hand_over: None }).boxed()
        };
        writes.extend(self.free_expired(&view, me).into_iter().map(|(lease, write)| simple(lease, write)));
        let drained = self.slots.drained().into_iter().collect();
        let mut gained = Vec::new();
        for (number, read) in &view.tables {
            let Some(hand_over) = self.hand_over(*number, read, &view, &drained, &wanted, me) else {
                continue;
            };
            if hand_over.after.table == read.table {
                gained.extend(self.changed_hands(hand_over, me));
                continue;
            }
            let name = self.group.table_name(*number);
            let leases = self.leases.named(name.clone());
            let lease = hand_over.after.table.write_to(&read.lease);
            let write = async move {
                let result = leases.replace(&lease).await;
                EndedWrite { lease: name, result, hand_over: Some(hand_over) }
            };
            writes.push(write.boxed());
        }
        (writes, gained)
    }

    /// Records what was written. Returns the slots that were taken.
    fn written(&mut self, ended: Vec<EndedWrite>, me: &SeatHolder) -> Vec<Gained> {
        let mut gained = Vec::new();
        for EndedWrite { lease, result, hand_over } in ended {
            if matches!(result, Err(LeaseError::Conflict)) {
                // If it was to be created, it exists, and the cache does not show it.
                self.group.is_present(&lease);
            }
            let written = self.report(&lease, result);
            let (Some(written), Some(mut hand_over)) = (written, hand_over) else { continue };
            hand_over.after.lease = written;
            self.group.wrote(hand_over.number, Arc::new(hand_over.after.clone()));
            gained.extend(self.changed_hands(hand_over, me));
        }
        gained
    }

    /// Slots have changed hands.
    fn changed_hands(&mut self, hand_over: HandOver, me: &SeatHolder) -> Vec<Gained> {
        let HandOver { after, released, taken, .. } = hand_over;
        self.status.released(released.len());
        self.slots.remove(released);
        let now = Instant::now();
        let gain = |(slot, inherited): (u32, Option<WrittenVersions>)| {
            let term = me.term(&after, slot);
            let free_since = self.free_since.remove(&slot).unwrap_or(now);
            self.slots.gain(slot, term.clone(), free_since, inherited.clone());
            Gained { slot, term, inherited }
        };
        taken.into_iter().map(gain).collect()
    }

    /// Begins to list slots that were taken. A slot that its previous owner did not release waits for a comparison with the server;
    /// a released slot does not.
    fn begin_catching_up(
        &self,
        gained: Vec<Gained>,
        catching_up: &FuturesUnordered<BoxFuture<'a, Result<CaughtUp, CannotCatchUp>>>,
    ) {
        let (known, unknown): (Vec<_>, Vec<_>) =
            gained.into_iter().partition(|gained| gained.inherited.is_some());
        for gained in [known, unknown].into_iter().filter(|gained| !gained.is_empty()) {
            catching_up.push(catch_up(self.controllers.clone(), self.slots.clone(), gained).boxed());
        }
    }

    /// Creates tables that have been missing for the lease duration. Returns `false` if one of them existed already.
    pub(super) async fn create_tables(&mut self, view: &GroupView) -> Result<bool, LeaseError> {
        let created = self.missing_tables(view).into_iter().map(|write| async {
            match write.await {
                (name, Err(LeaseError::Conflict)) => Ok(Some(name)),
                (_, written) => written.map(|_| None),
            }
        });
        let conflicts: Vec<String> = try_join_all(created).await?.into_iter().flatten().collect();
        // They exist, and the cache does not show them.
        conflicts.iter().for_each(|name| self.group.is_present(name));
        Ok(conflicts.is_empty())
    }

    /// Writes that create the tables that have been missing for the lease duration. Their owners have lost their slots by then.
    fn missing_tables(
        &mut self,
        view: &GroupView,
    ) -> Vec<BoxFuture<'static, (String, Result<Lease, LeaseError>)>> {
        let mut writes = Vec::new();
        for number in self.group.tables() {
            let name = self.group.table_name(number);
            if !view.has_table(number) && self.group.is_missing_for(name.clone(), self.timing.lease_duration)
            {
                let table = SlotTable { division: self.slots.division(), slots: BTreeMap::new() };
                let lease = table.write_to(&group_lease(&self.name, name.clone()));
                let leases = self.leases.named(name.clone());
                writes.push(async move { (name, leases.create(&lease).await) }.boxed());
            }
        }
        writes
    }

    /// Writes that free the seats whose holders have not renewed them in time, and re-create those that were deleted while their
    /// holders own slots.
    fn free_expired(
        &mut self,
        view: &GroupView,
        me: &SeatHolder,
    ) -> Vec<(String, BoxFuture<'static, Result<Lease, LeaseError>>)> {
        let mut writes: Vec<(String, BoxFuture<'static, _>)> = Vec::new();
        for (number, seat) in view.seats.iter().filter(|(number, _)| **number != me.seat) {
            // An earlier attempt of this replica took it, and its answer was lost.
            let is_ours = record::holder(&seat.lease) == me.identity;
            if !seat.is_expired && !is_ours {
                continue;
            }
            let name = self.group.seat_name(*number);
            tracing::info!(lease = name, holder = record::holder(&seat.lease), "freeing an expired seat");
            let (leases, freed) =
                (self.leases.named(name.clone()), record::released(&seat.lease, (self.clock)()));
            writes.push((name, async move { leases.replace(&freed).await }.boxed()));
        }
        let owners = view.owners();
        self.group.need_seats(&owners);
        for number in owners {
            let name = self.group.seat_name(number);
            if !view.seats.contains_key(&number)
                && self.group.is_missing_for(name.clone(), self.timing.lease_duration)
            {
                let (leases, lease) =
                    (self.leases.named(name.clone()), group_lease(&self.name, name.clone()));
                writes.push((name, async move { leases.create(&lease).await }.boxed()));
            }
        }
        writes
    }

    fn report<T>(&self, lease: &str, written: Result<T, LeaseError>) -> Option<T> {
        match written {
            Ok(written) => return Some(written),
            // Another replica was faster, or the cache is behind.
            Err(LeaseError::Conflict) => tracing::debug!(lease, "changed by another replica"),
            Err(error) => tracing::warn!(lease, %error, "cannot write the lease; retrying"),
        }
        None
    }

    /// Compares the slots of this replica with their records, and notes which slots have no owner.
    fn compare(&mut self, view: &GroupView, me: &SeatHolder) {
        for (slot, term, phase) in self.slots.all() {
            let table = view.tables.get(&(slot / SLOTS_PER_TABLE));
            let record = table.map(|read| read.table.record(slot)).unwrap_or_default();
            let uid = table.and_then(|read| read.lease.metadata.uid.as_deref()).unwrap_or_default();
            let token = term.token();
            let is_same_term = token.lease_uid == uid && token.transitions == record.term;
            if is_same_term && record.owner == me.identity {
                continue;
            }
            if is_same_term && record.owner.is_empty() && phase == SlotPhase::Releasing && !term.is_current()
            {
                // The answer to the release was lost.
                self.slots.remove([slot]);
            } else if phase != SlotPhase::Lost {
                tracing::warn!(lease = self.name, slot, "the slot's record was changed or deleted");
                self.slots.lose(slot);
                self.status.lost(1);
            }
        }
        self.slots.remove_lost();
        let now = Instant::now();
        for slot in 0..self.slots.division().of {
            if view.record(slot).is_some_and(|record| view.is_free(&record)) {
                self.free_since.entry(slot).or_insert(now);
            } else {
                self.free_since.remove(&slot);
            }
        }
    }

    /// The seat that should own each slot.
    fn wanted(&mut self, view: &GroupView, me: &SeatHolder) -> Vec<Option<u32>> {
        let mut seats = view.members();
        seats.insert(me.seat, (me.weight, !me.leaving.is_cancelled()));
        let members: BTreeMap<u32, u32> = seats
            .iter()
            .filter(|(_, (_, stays))| *stays)
            .map(|(seat, (weight, _))| (*seat, *weight))
            .collect();
        self.status.members(members.len());
        let slots = self.slots.division().of as usize;
        if self.wanted.0 != seats || self.wanted.1.len() != slots {
            let weight_of = |seat| seats.get(&seat).map_or(1, |(weight, _)| *weight);
            let wanted = assign_seats(&members, weight_of, slots);
            self.wanted = (seats, wanted);
        }
        self.wanted.1.clone()
    }

    /// What should change in one table; `None` for nothing.
    fn hand_over(
        &self,
        number: u32,
        read: &ReadTable,
        view: &GroupView,
        drained: &BTreeMap<u32, Option<WrittenVersions>>,
        wanted: &[Option<u32>],
        me: &SeatHolder,
    ) -> Option<HandOver> {
        let own: BTreeMap<u32, SlotPhase> =
            self.slots.all().into_iter().map(|(slot, _, phase)| (slot, phase)).collect();
        let mut after = read.clone();
        let (mut released, mut taken) = (Vec::new(), Vec::new());
        let takes_slots = me.takes_slots(view);
        let first = number * SLOTS_PER_TABLE;
        for slot in first..self.slots.division().of.min(first + SLOTS_PER_TABLE) {
            let record = read.table.record(slot);
            if let Some(written) = drained.get(&slot) {
                after.table.slots.insert(slot, record.released(written.clone()));
                released.push(slot);
            } else if own.contains_key(&slot) {
                continue;
            } else if record.owner == me.identity {
                // The answer to an earlier write was lost.
                taken.push((slot, None));
            } else if takes_slots
                && wanted[slot as usize] == Some(me.seat)
                && !is_forgotten(slot, me, wanted)
                && (view.is_free(&record) || deliberate_bug("slot-taken-before-release"))
            {
                after.table.slots.insert(slot, record.taken(&me.identity, me.seat));
                taken.push((slot, record.written.filter(|_| record.owner.is_empty())));
            }
        }
        (!released.is_empty() || !taken.is_empty()).then_some(HandOver { number, after, released, taken })
    }

    fn begin_work(&self, caught_up: &CaughtUp) {
        let begun = self.slots.begin_work(&caught_up.slots, &caught_up.reached);
        let slots: Vec<u32> = begun.iter().map(|(slot, _)| *slot).collect();
        tracing::info!(lease = self.name, ?slots, "working on slots");
        self.status.gained(slots.len(), begun.iter().map(|(_, since)| since.elapsed()).sum::<Duration>());
        if !deliberate_bug("gained-keys-not-queued") {
            self.controllers.iter().for_each(|controller| controller.queue_slots(&slots));
        }
    }
}

/// A deliberate bug: a replica, unless it has the first seat, never takes one of its slots.
fn is_forgotten(slot: u32, me: &SeatHolder, wanted: &[Option<u32>]) -> bool {
    deliberate_bug("slot-forgotten")
        && me.seat > 0
        && wanted.iter().position(|to| *to == Some(me.seat)) == usize::try_from(slot).ok()
}

/// Waits until the caches have what the previous owners of slots wrote.
async fn catch_up(
    controllers: Vec<&dyn Managed>,
    slots: Arc<Slots>,
    gained: Vec<Gained>,
) -> Result<CaughtUp, CannotCatchUp> {
    let mut needed = WrittenVersions::new();
    let is_known = gained.iter().all(|gained| gained.inherited.is_some());
    gained
        .iter()
        .flat_map(|gained| gained.inherited.iter())
        .for_each(|versions| include(&mut needed, versions));
    if !is_known {
        for controller in &controllers {
            include(&mut needed, &controller.server_versions().await?);
        }
    }
    let terms: Vec<(u32, Term)> = gained.into_iter().map(|gained| (gained.slot, gained.term)).collect();
    slots.begin_listing(&terms);
    if deliberate_bug("catch-up-skipped") {
        needed.clear();
    }
    try_join_all(controllers.iter().map(|controller| controller.caught_up(&needed))).await?;
    Ok(CaughtUp { slots: terms, reached: needed })
}

/// How long to wait before the next writes: after a conflict until the cache has the change, and longer after an error. Varies, so
/// that replicas with conflicting writes do not repeat them at the same time.
fn pause_after(ended: &[EndedWrite], retry: Duration, random: &mut StdRng) -> Duration {
    let pause = |write: &EndedWrite| match write.result {
        Ok(_) => Duration::ZERO,
        Err(LeaseError::Conflict) => retry / 20,
        Err(_) => retry / 2,
    };
    let pause = ended.iter().map(pause).max().unwrap_or_default();
    pause.mul_f64(random.random_range(0.5..1.5))
}

/// Waits until the writes have ended; forever without any.
async fn ended_writes(writes: &mut Option<BoxFuture<'static, Vec<EndedWrite>>>) -> Vec<EndedWrite> {
    match writes {
        Some(writes) => writes.await,
        None => std::future::pending().await,
    }
}

/// Keeps the later version of each resource.
fn include(needed: &mut WrittenVersions, others: &WrittenVersions) {
    for (resource, version) in others {
        let known = needed.entry(resource.clone()).or_default();
        if kube_informer::internals::compare_resource_versions(known, version)
            .is_none_or(std::cmp::Ordering::is_lt)
        {
            version.clone_into(known);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn writes_that_conflict_are_repeated_after_various_pauses() {
        let ended = |result| [EndedWrite { lease: "web-slots-0".to_owned(), result, hand_over: None }];
        let retry = Duration::from_secs(2);
        let pauses = |seed: u64| {
            let mut random = StdRng::seed_from_u64(seed);
            let conflict = ended(Err(LeaseError::Conflict));
            (0..50).map(|_| pause_after(&conflict, retry, &mut random)).collect::<Vec<_>>()
        };
        let limits = Duration::from_millis(50)..Duration::from_millis(150);
        assert!(pauses(1).iter().all(|pause| limits.contains(pause)), "{:?}", pauses(1));
        assert_eq!(pauses(1), pauses(1));
        assert!(pauses(1).iter().zip(pauses(2)).all(|(one, other)| *one != other));
        let mut random = StdRng::seed_from_u64(1);
        assert_eq!(pause_after(&ended(Ok(Lease::default())), retry, &mut random), Duration::ZERO);
        let failed = ended(Err(LeaseError::TimedOut(retry)));
        assert!(pause_after(&failed, retry, &mut random) >= retry / 4);
    }
}
