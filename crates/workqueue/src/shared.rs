//! The concurrent core: the queue's state and its waiters behind one lock.
//!
//! No getter sleeps while there is a key to take, and one key wakes one getter. Each call wakes at most one getter. A getter that
//! leaves, with a key or because it was dropped, checks whether to wake the next one, so no wake-up is lost. One sleeping getter
//! also has an alarm for the first delayed key; when it leaves, the next getter sets the alarm.

use std::{
    collections::{BTreeMap, VecDeque},
    task::{Context, Poll, Waker},
};

use crate::{
    core::{Core, Taken},
    sync::{Mutex, MutexGuard},
};

/// The queue's state and its waiters.
pub(crate) struct Shared<T> {
    state: Mutex<State<T>>,
}

/// A call that waits for a key. Dropping it removes its entry from the waiters.
pub(crate) struct Getter<'a, T> {
    shared: &'a Shared<T>,
    place: Option<u64>,
}

/// The next step of a getter.
pub(crate) enum GetStep<T> {
    /// Stop: with a key, or without one because no key can follow.
    Stop(Option<Taken<T>>),
    /// Sleep until woken, or until that time if one is given.
    Sleep(Option<u64>),
}

/// A call that waits for the end of a drain.
pub(crate) struct Drainer<'a, T> {
    shared: &'a Shared<T>,
    place: Option<u64>,
    /// The number of aborts when this drain began.
    aborts: u64,
}

struct State<T> {
    core: Core<T>,
    /// Sleeping getters by ascending places: the one that has waited longest is first.
    getters: VecDeque<(u64, Waker)>,
    /// The number of getters that were woken and not polled since.
    woken: usize,
    /// The place of the getter with the alarm, and the time for which the alarm is set.
    watch: Option<(u64, u64)>,
    /// Sleeping drainers by their places, each with its `aborts`.
    drainers: BTreeMap<u64, (u64, Waker)>,
    /// How often drains were aborted.
    aborts: u64,
    places: u64,
}

impl<T> Shared<T> {
    pub(crate) fn new(core: Core<T>) -> Self {
        let state = State {
            core,
            getters: VecDeque::new(),
            woken: 0,
            watch: None,
            drainers: BTreeMap::new(),
            aborts: 0,
            places: 0,
        };
        Self { state: Mutex::new(state) }
    }

    /// Runs `act` on the queue's state, then wakes the waiters that can proceed.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Core<T>) -> R) -> R {
        self.with_state(|state| act(&mut state.core))
    }

    /// Like [`with`](Self::with) for operations that may be refused. A refusal changes nothing and wakes no waiter.
    #[inline]
    pub(crate) fn try_with<E>(&self, act: impl FnOnce(&mut Core<T>) -> Result<(), E>) -> Result<(), E> {
        let mut state = self.state.lock();
        act(&mut state.core)?;
        Self::leave(state);
        Ok(())
    }

    pub(crate) fn getter(&self) -> Getter<'_, T> {
        Getter { shared: self, place: None }
    }

    #[inline]
    fn with_state<R>(&self, act: impl FnOnce(&mut State<T>) -> R) -> R {
        let mut state = self.state.lock();
        let result = act(&mut state);
        Self::leave(state);
        result
    }

    /// Unlocks, then wakes the waiters that can proceed.
    #[inline]
    fn leave(state: MutexGuard<'_, State<T>>) {
        if !(state.getters.is_empty() && state.drainers.is_empty()) {
            Self::leave_and_wake(state);
        }
    }

    #[inline(never)]
    fn leave_and_wake(mut state: MutexGuard<'_, State<T>>) {
        let sleepers = [state.next_getter(), state.next_drainer()];
        drop(state);
        for waker in sleepers.into_iter().flatten() {
            waker.wake();
        }
    }
}

impl<T: Eq> Shared<T> {
    /// Queues all keys that are due. Releases the lock between slices.
    pub(crate) fn promote_all(&self, now: impl Fn() -> u64) {
        while self.with(|core| core.promote(&now)) {}
    }

    /// Refuses new keys and aborts all drains.
    pub(crate) fn shutdown(&self, now: impl Fn() -> u64) {
        self.promote_all(&now);
        self.with_state(|state| {
            state.close(now);
            state.aborts += 1;
        });
    }

    /// Refuses new keys and waits until all keys are done.
    pub(crate) fn drain(&self, now: impl Fn() -> u64) -> Drainer<'_, T> {
        self.promote_all(&now);
        let aborts = self.with_state(|state| {
            state.close(now);
            state.aborts
        });
        Drainer { shared: self, place: None, aborts }
    }
}

impl<T: Clone + Eq> Getter<'_, T> {
    /// Takes the next key, or a place among the waiters.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: impl Fn() -> u64) -> GetStep<T> {
        self.shared.with_state(|state| {
            state.leave(self.place.take());
            state.core.promote(&now);
            if let Some(taken) = state.core.take(now) {
                return GetStep::Stop(Some(taken));
            }
            if state.core.is_finished() {
                return GetStep::Stop(None);
            }
            let place = state.next_place();
            self.place = Some(place);
            state.getters.push_back((place, cx.waker().clone()));
            let alarm = state.unwatched();
            if let Some(alarm) = alarm {
                state.watch = Some((place, alarm));
            }
            GetStep::Sleep(alarm)
        })
    }
}

impl<T> Drop for Getter<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let place @ Some(_) = self.place {
            self.shared.with_state(|state| state.leave(place));
        }
    }
}

impl<T> Drainer<'_, T> {
    /// Ready when the drain is over. An error has the number of keys that were left when it was aborted.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), usize>> {
        self.shared.with_state(|state| {
            state.leave_drain(self.place.take());
            if state.core.is_drained() {
                return Poll::Ready(Ok(()));
            }
            if state.aborts != self.aborts {
                return Poll::Ready(Err(state.core.unfinished()));
            }
            let place = state.next_place();
            self.place = Some(place);
            state.drainers.insert(place, (self.aborts, cx.waker().clone()));
            Poll::Pending
        })
    }
}

impl<T> Drop for Drainer<'_, T> {
    fn drop(&mut self) {
        self.shared.with_state(|state| state.leave_drain(self.place));
    }
}

impl<T> State<T> {
    fn close(&mut self, now: impl Fn() -> u64)
    where
        T: Eq,
    {
        // Keys that became due since `promote_all`.
        while self.core.promote(&now) {}
        self.core.close();
    }

    fn next_place(&mut self) -> u64 {
        self.places += 1;
        self.places
    }

    #[inline]
    fn leave(&mut self, place: Option<u64>) {
        let Some(place) = place else { return };
        match self.getters.binary_search_by_key(&place, |&(place, _)| place) {
            Ok(index) => drop(self.getters.remove(index)),
            Err(_) => self.woken -= 1,
        }
        self.watch = self.watch.filter(|&(watcher, _)| watcher != place);
    }

    fn leave_drain(&mut self, place: Option<u64>) {
        if let Some(place) = place {
            self.drainers.remove(&place);
        }
    }

    /// When the first delayed key is due, if no alarm is set for that time or an earlier one.
    #[inline]
    fn unwatched(&self) -> Option<u64> {
        let due = self.core.next_due()?;
        self.watch.is_none_or(|(_, alarm)| due < alarm).then_some(due)
    }

    /// The getter to wake now. A getter that was woken already will set the alarm, so none is woken for that alone.
    fn next_getter(&mut self) -> Option<Waker> {
        let needed = self.core.len() > self.woken
            || self.core.is_finished()
            || self.woken == 0 && self.unwatched().is_some();
        if !needed {
            return None;
        }
        let (_, waker) = self.getters.pop_front()?;
        self.woken += 1;
        Some(waker)
    }

    /// The drainer to wake now.
    fn next_drainer(&mut self) -> Option<Waker> {
        let first = self.drainers.first_entry()?;
        let over = self.core.is_drained() || first.get().0 != self.aborts;
        over.then(|| first.remove().1)
    }
}
