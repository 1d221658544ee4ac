//! The concurrent core: the queue's state and those who wait for it, behind one lock.
//!
//! Nobody is woken twice for one key, and nobody sleeps while there is a key to take. Each call
//! wakes at most one getter; a getter that leaves, with a key or because it was dropped, looks
//! whether the next one has to be woken. So wake-ups are handed on and never lost. One of the sleeping
//! getters also watches the clock for keys put off, and hands that on in the same way.

use std::{
    collections::BTreeMap,
    task::{Context, Poll, Waker},
};

use crate::{
    core::{Core, Taken},
    sync::Mutex,
};

/// The queue's state and its waiters.
pub(crate) struct Shared<T> {
    state: Mutex<State<T>>,
}

/// A place in the waiting line, taken when a poll finds nothing and given back at the next.
#[derive(Default)]
pub(crate) struct Ticket(Option<u64>);

/// What a getter is to do.
pub(crate) enum Step<T> {
    /// Stop: here is a key, or there will never be one again.
    Stop(Option<Taken<T>>),
    /// Sleep until woken, or until that time if one is given.
    Sleep(Option<u64>),
}

struct State<T> {
    core: Core<T>,
    /// Sleeping getters, longest first.
    getters: BTreeMap<u64, Waker>,
    /// Those who wait for the end of a drain, each with the number of aborts when it began.
    drainers: BTreeMap<u64, (u64, Waker)>,
    /// Getters that were woken and have not come back yet.
    woken: usize,
    /// The getter that watches the clock, and the time for which its alarm is set.
    watch: Option<(u64, u64)>,
    /// How often draining was called off.
    aborts: u64,
    tickets: u64,
}

impl<T> Shared<T> {
    pub(crate) fn new(core: Core<T>) -> Self {
        let state = State {
            core,
            getters: BTreeMap::new(),
            drainers: BTreeMap::new(),
            woken: 0,
            watch: None,
            aborts: 0,
            tickets: 0,
        };
        Self { state: Mutex::new(state) }
    }

    /// Does something with the queue's state, and wakes whom that concerns.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Core<T>) -> R) -> R {
        self.with_state(|state| act(&mut state.core))
    }

    /// Refuses new keys, and calls off all drains.
    pub(crate) fn shutdown(&self, now: impl Fn() -> u64)
    where
        T: Eq,
    {
        self.with_state(|state| {
            state.core.promote(now);
            state.core.close();
            state.aborts += 1;
        });
    }

    /// Refuses new keys; the answer is for [`Shared::poll_drain`].
    pub(crate) fn start_drain(&self, now: impl Fn() -> u64) -> u64
    where
        T: Eq,
    {
        self.with_state(|state| {
            state.core.promote(now);
            state.core.close();
            state.aborts
        })
    }

    /// Takes the next key, or a place in the line.
    #[inline]
    pub(crate) fn poll_get(&self, ticket: &mut Ticket, cx: &mut Context<'_>, now: impl Fn() -> u64) -> Step<T>
    where
        T: Clone + Eq,
    {
        self.with_state(|state| {
            state.leave(ticket);
            state.core.promote(&now);
            if let Some(taken) = state.core.take(now) {
                return Step::Stop(Some(taken));
            }
            if state.core.is_finished() {
                return Step::Stop(None);
            }
            let number = state.next_ticket();
            state.getters.insert(number, cx.waker().clone());
            ticket.0 = Some(number);
            if let Some(due) = state.unwatched() {
                state.watch = Some((number, due));
            }
            Step::Sleep(state.watch.filter(|&(watcher, _)| watcher == number).map(|(_, alarm)| alarm))
        })
    }

    /// Gives a getter's place back.
    #[inline]
    pub(crate) fn leave(&self, ticket: &mut Ticket) {
        if ticket.0.is_some() {
            self.with_state(|state| state.leave(ticket));
        }
    }

    /// Whether the drain that [`Shared::start_drain`] began is over; if it was called off, how many keys were left.
    pub(crate) fn poll_drain(
        &self,
        started: u64,
        ticket: &mut Ticket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), usize>> {
        self.with_state(|state| {
            state.leave_drain(ticket);
            if state.core.is_drained() {
                return Poll::Ready(Ok(()));
            }
            if state.aborts != started {
                return Poll::Ready(Err(state.core.unfinished()));
            }
            let number = state.next_ticket();
            state.drainers.insert(number, (started, cx.waker().clone()));
            ticket.0 = Some(number);
            Poll::Pending
        })
    }

    /// Gives a drainer's place back.
    pub(crate) fn leave_drain(&self, ticket: &mut Ticket) {
        if ticket.0.is_some() {
            self.with_state(|state| state.leave_drain(ticket));
        }
    }

    #[inline]
    fn with_state<R>(&self, act: impl FnOnce(&mut State<T>) -> R) -> R {
        let mut state = self.state.lock();
        let result = act(&mut state);
        let getter = state.next_getter();
        let drainer = state.next_drainer();
        drop(state);
        if let Some(waker) = getter {
            waker.wake();
        }
        if let Some(waker) = drainer {
            waker.wake();
        }
        result
    }
}

impl<T> State<T> {
    fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    fn leave(&mut self, ticket: &mut Ticket) {
        let Some(number) = ticket.0.take() else { return };
        if self.getters.remove(&number).is_none() {
            self.woken -= 1;
        }
        self.watch = self.watch.filter(|&(watcher, _)| watcher != number);
    }

    fn leave_drain(&mut self, ticket: &mut Ticket) {
        if let Some(number) = ticket.0.take() {
            self.drainers.remove(&number);
        }
    }

    /// When the first key put off is due, if no alarm is set for that time or an earlier one.
    #[inline]
    fn unwatched(&self) -> Option<u64> {
        let due = self.core.next_due()?;
        self.watch.is_none_or(|(_, alarm)| due < alarm).then_some(due)
    }

    /// The getter that has to be woken now. One on its way will look after the clock, so that none is woken for it.
    #[inline]
    fn next_getter(&mut self) -> Option<Waker> {
        if self.getters.is_empty() {
            return None;
        }
        let needed = self.core.len() > self.woken
            || self.core.is_finished()
            || self.woken == 0 && self.unwatched().is_some();
        if !needed {
            return None;
        }
        let (_, waker) = self.getters.pop_first()?;
        self.woken += 1;
        Some(waker)
    }

    /// The drainer that has to be woken now.
    #[inline]
    fn next_drainer(&mut self) -> Option<Waker> {
        let first = self.drainers.first_entry()?;
        let over = self.core.is_drained() || first.get().0 != self.aborts;
        over.then(|| first.remove().1)
    }
}
