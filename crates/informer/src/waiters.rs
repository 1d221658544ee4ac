//! Callers that sleep until a change they wait for, woken without missing one and without being woken for others.
//!
//! Each caller names its topics, and a change wakes the callers of its topics only: hundreds of waiting callers cost a
//! change nothing that does not concern them. Kept apart from what is waited for so that every interleaving can be tried
//! (see `tests/loom.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker, ready};

use tokio::task::coop;

use crate::calls::wake;
use crate::sync::{AtomicUsize, Mutex};

/// The waiting callers. Without any, a change costs one look at a counter.
#[derive(Debug)]
pub(crate) struct Waiters<T> {
    count: AtomicUsize,
    seats: Mutex<Seats<T>>,
}

#[derive(Debug)]
struct Seats<T> {
    /// Numbers ascend: the caller that has waited longest comes first.
    by_number: BTreeMap<u64, Seat<T>>,
    by_topic: BTreeSet<(T, u64)>,
    next: u64,
}

/// The state of one waiting caller.
#[derive(Debug)]
enum Seat<T> {
    Asleep(Waker),
    /// Woken, and has not looked yet.
    Woken,
    /// Likewise, in place of all callers of this topic. If it leaves, it wakes the next one.
    Chosen(T),
}

/// A caller's place among the others, left on drop.
struct Place<'a, T: Ord + Clone, const N: usize> {
    waiters: &'a Waiters<T>,
    topics: [T; N],
    /// `None` until it has to wait.
    number: Option<u64>,
    /// The topic it was chosen for, while it looks.
    chosen: Option<T>,
}

// === impl Waiters ===

impl<T: Ord + Clone> Waiters<T> {
    /// Whether any caller waits.
    ///
    /// Asked after a change can be seen, under the lock through which callers look at it: either the caller is counted
    /// before, or it sees the change.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Wakes every caller of these topics. Called after the change can be seen, as [`any`](Self::any).
    pub(crate) fn wake(&self, topics: impl IntoIterator<Item = RangeInclusive<T>>) {
        self.wake_with(|seats, woken| {
            for topics in topics {
                let (first, last) = topics.into_inner();
                for (_, number) in seats.by_topic.range((first, 0)..=(last, u64::MAX)) {
                    woken.extend(seats.by_number.get_mut(number).and_then(|seat| seat.rouse(Seat::Woken)));
                }
            }
        });
    }

    /// Wakes every caller.
    pub(crate) fn wake_all(&self) {
        self.wake_with(|seats, woken| {
            woken.extend(seats.by_number.values_mut().filter_map(|seat| seat.rouse(Seat::Woken)));
        });
    }

    /// Wakes the caller of a topic that has waited longest, for a change that serves one caller. A caller that leaves,
    /// satisfied or not, wakes the next; the chain ends with one that finds nothing and sleeps again.
    pub(crate) fn wake_one(&self, topic: &T) {
        if self.any() {
            let chosen = self.seats.lock().choose(topic);
            chosen.into_iter().for_each(wake);
        }
    }

    /// Waits until `check` finds something. It is called when one of the topics may have changed, and at the beginning.
    ///
    /// A caller that never has to wait spends its task's budget all the same, so that other tasks get their turn.
    ///
    /// # Cancel safety
    /// `check` is called between waits only: dropping the future while it waits leaves everything as it is.
    pub(crate) async fn until_some<R, const N: usize>(
        &self,
        topics: [T; N],
        mut check: impl FnMut() -> Option<R>,
    ) -> R {
        let mut place = Place { waiters: self, topics, number: None, chosen: None };
        poll_fn(|context| {
            let budget = ready!(coop::poll_proceed(context));
            let mut found = if place.number.is_none() { check() } else { None };
            // Listening begins before looking, so that nothing is missed in between.
            if found.is_none() && place.listen(context.waker()) {
                found = check();
            }
            match found {
                Some(found) => {
                    budget.made_progress();
                    Poll::Ready(found)
                }
                None => {
                    place.chosen = None;
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Wakers are called when no lock is held.
    fn wake_with(&self, choose: impl FnOnce(&mut Seats<T>, &mut Vec<Waker>)) {
        if self.any() {
            let mut woken = Vec::new();
            choose(&mut self.seats.lock(), &mut woken);
            woken.into_iter().for_each(wake);
        }
    }
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        let seats = Seats { by_number: BTreeMap::new(), by_topic: BTreeSet::new(), next: 0 };
        Self { count: AtomicUsize::new(0), seats: Mutex::new(seats) }
    }
}

// === impl Seats ===

impl<T: Ord + Clone> Seats<T> {
    /// The waker of the first caller of a topic that sleeps.
    fn choose(&mut self, topic: &T) -> Option<Waker> {
        let numbers = self.by_topic.range((topic.clone(), 0)..=(topic.clone(), u64::MAX));
        for (_, number) in numbers {
            let seat = self.by_number.get_mut(number);
            if let Some(waker) = seat.and_then(|seat| seat.rouse(Seat::Chosen(topic.clone()))) {
                return Some(waker);
            }
        }
        None
    }
}

// === impl Seat ===

impl<T> Seat<T> {
    /// The waker of a caller that sleeps, which is then `woken`.
    fn rouse(&mut self, woken: Self) -> Option<Waker> {
        if !matches!(self, Self::Asleep(_)) {
            return None;
        }
        match std::mem::replace(self, woken) {
            Self::Asleep(waker) => Some(waker),
            _ => None,
        }
    }
}

// === impl Place ===

impl<T: Ord + Clone, const N: usize> Place<'_, T, N> {
    /// Sleeps from now on; whether there may be something new since the caller last looked.
    fn listen(&mut self, waker: &Waker) -> bool {
        let mut seats = self.waiters.seats.lock();
        let number = *self.number.get_or_insert_with(|| {
            self.waiters.count.fetch_add(1, Ordering::SeqCst);
            let number = seats.next;
            seats.next += 1;
            seats.by_topic.extend(self.topics.iter().map(|topic| (topic.clone(), number)));
            number
        });
        let before = seats.by_number.get(&number);
        if matches!(before, Some(Seat::Asleep(known)) if known.will_wake(waker)) {
            return false;
        }
        let before = seats.by_number.insert(number, Seat::Asleep(waker.clone()));
        drop(seats);
        match before {
            // Dropped when no lock is held: its task may go with it.
            Some(Seat::Asleep(_earlier)) => return false,
            Some(Seat::Chosen(topic)) => self.chosen = Some(topic),
            Some(Seat::Woken) | None => {}
        }
        true
    }
}

impl<T: Ord + Clone, const N: usize> Drop for Place<'_, T, N> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut seats = self.waiters.seats.lock();
        for topic in &self.topics {
            seats.by_topic.remove(&(topic.clone(), number));
        }
        let seat = seats.by_number.remove(&number);
        self.waiters.count.fetch_sub(1, Ordering::SeqCst);
        drop(seats);
        if let Some(Seat::Chosen(topic)) = seat {
            self.chosen = Some(topic);
        }
        if let Some(topic) = self.chosen.take() {
            self.waiters.wake_one(&topic);
        }
    }
}
