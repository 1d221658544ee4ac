//! The slots that this replica has, as its workers see them: whether a key may be worked on, in which term, and what is still
//! running. Nothing here talks to the server; [`steering`](super::steering) decides what happens to each slot.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_informer::internals::compare_resource_versions;
use kube_informer::{AssignedShard, InvalidShard, Shard};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::table::Division;
use crate::deliberate_bug::deliberate_bug;
use crate::leader::Term;

/// The last resourceVersion written, by resource (`deployments.apps`).
pub(crate) type WrittenVersions = BTreeMap<String, String>;

/// The slots of this replica.
#[derive(Debug)]
pub(crate) struct Slots {
    division: Division,
    /// Without slots: it computes the slot of an object.
    hash: Shard,
    /// The shard of the main informers: all slots that this replica has.
    assigned: AssignedShard,
    states: Mutex<Vec<Option<LocalSlot>>>,
    /// A slot that is to be released is idle.
    idle: Notify,
}

/// A slot that this replica has.
#[derive(Debug)]
struct LocalSlot {
    term: Term,
    phase: SlotPhase,
    /// Since when this replica has seen the slot without an owner.
    free_since: Instant,
    /// Reconciles and writes that run.
    running: usize,
    /// Cancels running work.
    cut: CancellationToken,
    /// When running work is cancelled.
    cut_at: Option<Instant>,
    /// What the next owner's cache must have; `None` if it is unknown.
    written: Option<WrittenVersions>,
}

/// What a replica does with a slot that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotPhase {
    /// It finds out which state its caches must reach.
    Preparing,
    /// Its caches list the slot and catch up with the previous owner.
    CatchingUp,
    /// Keys of the slot are reconciled.
    Working,
    /// Nothing new begins, and running work can finish.
    Releasing,
    /// The slot may belong to another replica soon, or does already.
    Lost,
}

/// The ownership of a slot in one term. It does not keep the slot: see [`permit`](Self::permit).
#[derive(Clone, Debug)]
pub(crate) struct SlotTerm {
    slots: Arc<Slots>,
    slot: u32,
    term: Term,
    cut: CancellationToken,
}

/// Work on a slot that runs: the slot is not released before this is dropped.
#[derive(Debug)]
pub(crate) struct SlotPermit(SlotTerm);

/// Why a key may not be worked on now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// This replica keeps the slot, but its term is not current: a renewal was late. The key must be tried again.
    Later,
    /// The slot is another replica's, or its keys are queued once it is ready.
    Elsewhere,
}

// === impl Slots ===

impl Slots {
    /// So many slots, by uid.
    pub(super) fn new(of: u32) -> Result<Self, InvalidShard> {
        Ok(Self::without_any(Shard::new([], of)?, false))
    }

    /// As many slots, by namespace.
    pub(super) fn by_namespace(&self) -> Self {
        Self::without_any(self.hash.clone().by_namespace(), true)
    }

    fn without_any(hash: Shard, by_namespace: bool) -> Self {
        let of = hash.of();
        Self {
            division: Division { of, by_namespace },
            assigned: AssignedShard::new(hash.clone()),
            hash,
            states: Mutex::new((0..of).map(|_| None).collect()),
            idle: Notify::new(),
        }
    }

    pub(super) fn division(&self) -> Division {
        self.division
    }

    pub(crate) fn assigned(&self) -> &AssignedShard {
        &self.assigned
    }

    /// The slot of an object, or of a key whose object is unknown; `None` if it is unknown.
    pub(crate) fn slot_of(&self, namespace: &str, uid: Option<&str>) -> Option<u32> {
        match uid {
            Some(uid) => Some(self.hash.slot(namespace, uid)),
            None => self.division.by_namespace.then(|| self.hash.slot(namespace, "")),
        }
    }

    /// Whether this replica has a slot, and is not about to release it.
    pub(crate) fn keeps(&self, slot: u32) -> bool {
        let states = self.states.lock();
        let state = states.get(slot as usize).and_then(Option::as_ref);
        state.is_some_and(|state| !matches!(state.phase, SlotPhase::Releasing | SlotPhase::Lost))
    }

    /// Permits work on a slot, if this replica owns it and its caches have caught up.
    pub(crate) fn admit(self: &Arc<Self>, slot: u32) -> Result<SlotPermit, NotAdmitted> {
        let mut states = self.states.lock();
        let Some(Some(state)) = states.get_mut(slot as usize) else { return Err(NotAdmitted::Elsewhere) };
        state.admits()?;
        state.running += 1;
        let (term, cut) = (state.term.clone(), state.cut.clone());
        Ok(SlotPermit(SlotTerm { slots: self.clone(), slot, term, cut }))
    }

    /// Adds a slot that this replica has taken. `inherited` is what its caches must have.
    pub(super) fn gain(
        &self,
        slot: u32,
        term: Term,
        free_since: Instant,
        inherited: Option<WrittenVersions>,
    ) {
        let state = LocalSlot {
            term,
            phase: SlotPhase::Preparing,
            free_since,
            running: 0,
            cut: CancellationToken::new(),
            cut_at: None,
            written: inherited,
        };
        if let Some(place) = self.states.lock().get_mut(slot as usize) {
            *place = Some(state);
        }
    }

    /// Begins to list slots, unless they were lost meanwhile.
    pub(super) fn begin_listing(&self, slots: &[(u32, Term)]) {
        self.advance(slots, SlotPhase::Preparing, |state| state.phase = SlotPhase::CatchingUp);
        self.assign();
    }

    /// Permits work on slots, unless they were lost meanwhile. The caches have everything up to `reached`. Returns the slots, and
    /// since when they had no owner.
    pub(super) fn begin_work(&self, slots: &[(u32, Term)], reached: &WrittenVersions) -> Vec<(u32, Instant)> {
        let mut begun = Vec::new();
        self.advance(slots, SlotPhase::CatchingUp, |state| {
            state.phase = SlotPhase::Working;
            state.written = Some(reached.clone());
            begun.push((state.term.token().slot.unwrap_or_default(), state.free_since));
        });
        self.assign();
        begun
    }

    fn advance(&self, slots: &[(u32, Term)], from: SlotPhase, mut to: impl FnMut(&mut LocalSlot)) {
        let mut states = self.states.lock();
        for (slot, term) in slots {
            let Some(Some(state)) = states.get_mut(*slot as usize) else { continue };
            if state.term.is(term) && state.phase == from {
                to(state);
            }
        }
    }

    /// Begins to release slots: nothing new begins, and running work is cancelled at `cut_at`.
    pub(super) fn release(&self, slots: impl IntoIterator<Item = u32>, cut_at: Option<Instant>) {
        let mut states = self.states.lock();
        for slot in slots {
            let Some(Some(state)) = states.get_mut(slot as usize) else { continue };
            if !matches!(state.phase, SlotPhase::Releasing | SlotPhase::Lost) {
                state.phase = SlotPhase::Releasing;
                state.cut_at = cut_at;
            }
        }
    }

    /// Begins to release all slots, without a time limit.
    pub(super) fn release_all(&self) {
        self.release(0..self.division.of, None);
    }

    /// The slots whose work has ended and whose release can be written, with what their next owner's cache must have. Their terms end
    /// here.
    pub(super) fn drained(&self) -> Vec<(u32, Option<WrittenVersions>)> {
        let states = self.states.lock();
        let is_idle = |state: &LocalSlot| state.running == 0 || deliberate_bug("released-while-running");
        let drained =
            states.iter().flatten().filter(|state| state.phase == SlotPhase::Releasing && is_idle(state));
        let end = |state: &LocalSlot| {
            state.term.end();
            (state.term.token().slot.unwrap_or_default(), state.written.clone())
        };
        drained.map(end).collect()
    }

    /// Removes slots whose release is written.
    pub(super) fn remove(&self, slots: impl IntoIterator<Item = u32>) {
        for slot in slots {
            if let Some(place) = self.states.lock().get_mut(slot as usize) {
                *place = None;
            }
        }
        self.assign();
    }

    /// A slot is lost: its term has ended, and its work is cancelled.
    pub(super) fn lose(&self, slot: u32) {
        let mut states = self.states.lock();
        let Some(Some(state)) = states.get_mut(slot as usize) else { return };
        state.term.end();
        state.cut.cancel();
        state.phase = SlotPhase::Lost;
        self.idle.notify_one();
    }

    /// All slots are lost: their terms have ended. Running work is cancelled only by [`cut_all`](Self::cut_all).
    pub(super) fn lose_all(&self) {
        for state in self.states.lock().iter_mut().flatten() {
            state.term.end();
            state.phase = SlotPhase::Lost;
        }
    }

    /// Cancels all running work.
    pub(super) fn cut_all(&self) {
        self.states.lock().iter().flatten().for_each(|state| state.cut.cancel());
    }

    /// Cancels the work of slots whose time limit has passed. Returns when the next one does.
    pub(super) fn cut_overdue(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut next = None;
        for state in self.states.lock().iter_mut().flatten() {
            match state.cut_at {
                Some(at) if at <= now => state.cut.cancel(),
                Some(at) if next.is_none_or(|next| at < next) => next = Some(at),
                _ => {}
            }
        }
        next
    }

    /// Removes lost slots without running work.
    pub(super) fn remove_lost(&self) {
        let mut removed = false;
        for place in self.states.lock().iter_mut() {
            if place.as_ref().is_some_and(|state| state.phase == SlotPhase::Lost && state.running == 0) {
                *place = None;
                removed = true;
            }
        }
        if removed {
            self.assign();
        }
    }

    /// The slots that this replica has.
    pub(super) fn all(&self) -> Vec<(u32, Term, SlotPhase)> {
        let states = self.states.lock();
        let slots = (0..).zip(states.iter());
        slots
            .filter_map(|(slot, state)| state.as_ref().map(|state| (slot, state.term.clone(), state.phase)))
            .collect()
    }

    /// Whether this replica has no slot, and no work on any.
    pub(super) fn is_empty(&self) -> bool {
        self.states.lock().iter().all(Option::is_none)
    }

    /// Waits until the last work has ended on a slot that is to be released or is lost.
    pub(super) async fn changed(&self) {
        self.idle.notified().await;
    }

    /// Sets the shard of the main informers. Each change makes them list the whole shard again, so a change that only removes slots
    /// waits until no slots are being listed or released.
    fn assign(&self) {
        let states = self.states.lock();
        let listed = |state: &LocalSlot| state.phase != SlotPhase::Preparing;
        let slots = (0..).zip(states.iter()).filter(|(_, state)| state.as_ref().is_some_and(listed));
        let slots: BTreeSet<u32> = slots.map(|(slot, _)| slot).collect();
        let is_changing =
            |state: &LocalSlot| matches!(state.phase, SlotPhase::CatchingUp | SlotPhase::Releasing);
        if states.iter().flatten().any(is_changing) && slots.is_subset(&self.assigned.get().slots().collect())
        {
            return;
        }
        // Cannot fail: all slots are below the number of slots.
        let Ok(shard) = Shard::new(slots, self.division.of) else { return };
        // Under the lock, so that a later change is not overwritten.
        self.assigned.set(if self.division.by_namespace { shard.by_namespace() } else { shard });
    }
}

// === impl LocalSlot ===

impl LocalSlot {
    /// Whether a reconcile may begin.
    fn admits(&self) -> Result<(), NotAdmitted> {
        match self.phase {
            SlotPhase::Working if self.term.is_current() => Ok(()),
            SlotPhase::Working => Err(NotAdmitted::Later),
            _ => Err(NotAdmitted::Elsewhere),
        }
    }
}

// === impl SlotTerm ===

impl SlotTerm {
    /// Whether a reconcile may begin. The slot can be lost, or begin to be released, after its key was admitted.
    pub(crate) fn may_begin(&self) -> Result<(), NotAdmitted> {
        self.with(|state| state.admits()).unwrap_or(Err(NotAdmitted::Elsewhere))
    }

    /// Permits further work of a reconcile that runs; `None` if the slot is released or lost.
    pub(crate) fn permit(&self) -> Option<SlotPermit> {
        let permitted = self.with(|state| {
            let is_kept = matches!(state.phase, SlotPhase::Working | SlotPhase::Releasing);
            let is_permitted = is_kept && state.term.is_current();
            state.running += usize::from(is_permitted);
            is_permitted
        });
        permitted.unwrap_or(false).then(|| SlotPermit(self.clone()))
    }

    /// Runs a function on the state of the slot, if it is still this term's.
    fn with<T>(&self, change: impl FnOnce(&mut LocalSlot) -> T) -> Option<T> {
        let mut states = self.slots.states.lock();
        let state = states.get_mut(self.slot as usize)?.as_mut()?;
        (state.term.token() == self.term.token()).then(|| change(state))
    }

    /// The term in which this replica owns the slot.
    pub(crate) fn term(&self) -> &Term {
        &self.term
    }

    /// Waits until the work must end.
    pub(crate) async fn cut(&self) {
        self.cut.cancelled().await;
    }

    /// Records a write to a watched resource: the next owner's cache must have it.
    pub(crate) fn wrote(&self, resource: &str, version: &str) {
        self.with(|state| {
            let Some(written) = &mut state.written else { return };
            let known = written.entry(resource.to_owned()).or_default();
            if compare_resource_versions(known, version).is_none_or(Ordering::is_lt) {
                version.clone_into(known);
            }
        });
    }

    /// A write has an unknown outcome: the next owner must compare its caches with the server.
    pub(crate) fn wrote_unknown(&self) {
        self.with(|state| state.written = None);
    }
}

// === impl SlotPermit ===

impl SlotPermit {
    pub(crate) fn slot_term(&self) -> &SlotTerm {
        &self.0
    }
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        self.0.with(|state| {
            state.running -= 1;
            if state.running == 0 && matches!(state.phase, SlotPhase::Releasing | SlotPhase::Lost) {
                self.0.slots.idle.notify_one();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::leader::{FencingToken, Validity};

    fn term(slot: u32, transitions: i32) -> Term {
        let token = FencingToken {
            lease_uid: "uid".to_owned(),
            transitions,
            holder: "me".to_owned(),
            slot: Some(slot),
        };
        Term::within(token, Validity::new(Mutex::new(Instant::now() + Duration::from_secs(10))))
    }

    fn working(slots: &Arc<Slots>, slot: u32, transitions: i32) -> Term {
        let term = term(slot, transitions);
        slots.gain(slot, term.clone(), Instant::now(), Some(WrittenVersions::new()));
        slots.begin_listing(&[(slot, term.clone())]);
        assert!(slots.admit(slot).is_err(), "caches have not caught up");
        assert_eq!(slots.begin_work(&[(slot, term.clone())], &WrittenVersions::new()).len(), 1);
        term
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_is_released_when_its_work_has_ended() {
        let slots = Arc::new(Slots::new(4).unwrap());
        let term = working(&slots, 2, 1);
        let permit = slots.admit(2).unwrap();
        permit.slot_term().wrote("configmaps", "9");
        permit.slot_term().wrote("configmaps", "10");
        permit.slot_term().wrote("configmaps", "9");
        slots.release([2], None);
        assert!(slots.admit(2).is_err() && slots.drained().is_empty() && term.is_current());
        drop(permit);
        slots.changed().await;
        let written = WrittenVersions::from([("configmaps".to_owned(), "10".to_owned())]);
        assert_eq!(slots.drained(), [(2, Some(written))]);
        assert!(!term.is_current(), "nothing is sent after the release");
        assert_eq!(slots.assigned().get().slots().collect::<Vec<_>>(), [2]);
        slots.remove([2]);
        assert_eq!(slots.assigned().get().slots().count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn slots_that_leave_do_not_restart_a_list() {
        let slots = Arc::new(Slots::new(4).unwrap());
        let assigned = || slots.assigned().get().slots().collect::<Vec<_>>();
        for slot in [0, 1, 2] {
            working(&slots, slot, 1);
        }
        let term = term(3, 1);
        slots.gain(3, term.clone(), Instant::now(), Some(WrittenVersions::new()));
        slots.begin_listing(&[(3, term.clone())]);
        slots.release([0, 1], None);
        slots.remove([0]);
        assert_eq!(assigned(), [0, 1, 2, 3], "a list runs");
        slots.begin_work(&[(3, term)], &WrittenVersions::new());
        assert_eq!(assigned(), [0, 1, 2, 3], "another slot is released soon");
        slots.remove([1]);
        assert_eq!(assigned(), [2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn c11_a_catch_up_from_before_a_loss_begins_no_work() {
        let slots = Arc::new(Slots::new(4).unwrap());
        let lost = term(0, 1);
        slots.gain(0, lost.clone(), Instant::now(), None);
        slots.begin_listing(&[(0, lost.clone())]);
        slots.lose(0);
        slots.remove([0]);
        // The record still names this replica, so the slot is regained under the same token.
        let regained = term(0, 1);
        slots.gain(0, regained.clone(), Instant::now(), None);
        slots.begin_listing(&[(0, regained.clone())]);
        assert_eq!(slots.begin_work(&[(0, lost)], &WrittenVersions::new()), []);
        assert_eq!(slots.begin_work(&[(0, regained)], &WrittenVersions::new()).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn work_of_an_earlier_term_does_not_count() {
        let slots = Arc::new(Slots::new(4).unwrap());
        working(&slots, 0, 1);
        let permit = slots.admit(0).unwrap();
        slots.lose(0);
        slots.remove_lost();
        assert!(!slots.is_empty(), "its work has not ended");
        drop(permit);
        slots.remove_lost();
        assert!(slots.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_leaked_context_does_not_keep_a_slot() {
        let slots = Arc::new(Slots::new(4).unwrap());
        working(&slots, 0, 1);
        let permit = slots.admit(0).unwrap();
        let leaked = permit.slot_term().clone();
        slots.release([0], None);
        let write = leaked.permit().unwrap();
        drop(permit);
        assert!(slots.drained().is_empty(), "a write of the reconcile is sent");
        drop(write);
        assert_eq!(slots.drained().len(), 1);
        assert!(leaked.permit().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn no_work_begins_after_the_validity_has_passed() {
        let slots = Arc::new(Slots::new(4).unwrap());
        working(&slots, 0, 1);
        let permit = slots.admit(0).unwrap();
        assert_eq!(permit.slot_term().may_begin(), Ok(()));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(slots.admit(0).unwrap_err(), NotAdmitted::Later, "a late renewal may prolong it");
        assert_eq!(permit.slot_term().may_begin(), Err(NotAdmitted::Later));
        slots.lose(0);
        assert_eq!(slots.admit(0).unwrap_err(), NotAdmitted::Elsewhere);
        assert_eq!(permit.slot_term().may_begin(), Err(NotAdmitted::Elsewhere));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_write_is_passed_on_as_unknown() {
        let slots = Arc::new(Slots::new(4).unwrap());
        working(&slots, 1, 1);
        let permit = slots.admit(1).unwrap();
        permit.slot_term().wrote_unknown();
        permit.slot_term().wrote("configmaps", "9");
        drop(permit);
        slots.release_all();
        assert_eq!(slots.drained(), [(1, None)]);
    }
}
