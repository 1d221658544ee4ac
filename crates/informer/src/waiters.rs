//! Waiting callers. Each is woken by exactly the changes that it waits for.
//!
//! Each caller names its topics; a change wakes only the callers of its topics, so hundreds of unrelated callers add no
//! cost. This is separate from the awaited state so that loom can try every interleaving (see `tests/loom.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker, ready};

use tokio::task::coop;

use crate::panic::wake;
use crate::sync::{AtomicUsize, Mutex};

/// The waiting callers. Without any, a change costs one load of a counter.
#[derive(Debug)]
pub(crate) struct Waiters<T> {
    count: AtomicUsize,
    list: Mutex<WaiterList<T>>,
}

#[derive(Debug)]
struct WaiterList<T> {
    /// Numbers ascend: the longest-waiting caller comes first.
    by_number: BTreeMap<u64, WaiterState<T>>,
    by_topic: BTreeSet<(T, u64)>,
    next: u64,
}

/// The state of one waiting caller.
#[derive(Debug)]
enum WaiterState<T> {
    Asleep(Waker),
    /// Woken, and has not checked yet.
    Woken,
    /// Woken on behalf of all callers of this topic. If it leaves, it wakes the next one.
    Chosen(T),
}

/// A caller's entry in the list; removed on drop.
struct Waiter<'a, T: Ord + Clone, const N: usize> {
    waiters: &'a Waiters<T>,
    topics: [T; N],
    /// `None` until it has to wait.
    number: Option<u64>,
    /// The topic it was chosen for, while it checks.
    chosen: Option<T>,
}

// === impl Waiters ===

impl<T: Ord + Clone> Waiters<T> {
    /// Whether any caller is waiting.
    ///
    /// Called after the change is visible, under the lock with which callers check it: either the caller is counted before,
    /// or it sees the change.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Wakes every caller of these topics. Called after the change is visible, like [`any`](Self::any).
    pub(crate) fn wake(&self, topics: impl IntoIterator<Item = RangeInclusive<T>>) {
        self.wake_with(|list, woken| {
            for topics in topics {
                let (first, last) = topics.into_inner();
                for (_, number) in list.by_topic.range((first, 0)..=(last, u64::MAX)) {
                    woken.extend(
                        list.by_number.get_mut(number).and_then(|state| state.rouse(WaiterState::Woken)),
                    );
                }
            }
        });
    }

    /// Wakes every caller.
    pub(crate) fn wake_all(&self) {
        self.wake_with(|list, woken| {
            woken.extend(list.by_number.values_mut().filter_map(|state| state.rouse(WaiterState::Woken)));
        });
    }

    /// Wakes the longest-waiting caller of a topic, for a change that serves one caller. A caller that leaves, satisfied or
    /// not, wakes the next; the chain ends with a caller that finds nothing and sleeps again.
    pub(crate) fn wake_one(&self, topic: &T) {
        if self.any() {
            let chosen = self.list.lock().choose(topic);
            chosen.into_iter().for_each(wake);
        }
    }

    /// Waits until `check` returns a value. `check` is called first immediately, then whenever one of the topics may have
    /// changed.
    ///
    /// A caller that never has to wait still spends its task's budget, so that other tasks get their turn.
    ///
    /// # Cancel safety
    /// `check` runs only between waits. Dropping the future while it waits changes nothing.
    pub(crate) async fn until_some<R, const N: usize>(
        &self,
        topics: [T; N],
        mut check: impl FnMut() -> Option<R>,
    ) -> R {
        let mut waiter = Waiter { waiters: self, topics, number: None, chosen: None };
        poll_fn(|context| {
            let budget = ready!(coop::poll_proceed(context));
            let mut found = if waiter.number.is_none() { check() } else { None };
            // Register before checking, so that no change is missed in between.
            if found.is_none() && waiter.listen(context.waker()) {
                found = check();
            }
            match found {
                Some(found) => {
                    budget.made_progress();
                    Poll::Ready(found)
                }
                None => {
                    waiter.chosen = None;
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Calls wakers after the lock is released.
    fn wake_with(&self, choose: impl FnOnce(&mut WaiterList<T>, &mut Vec<Waker>)) {
        if self.any() {
            let mut woken = Vec::new();
            choose(&mut self.list.lock(), &mut woken);
            woken.into_iter().for_each(wake);
        }
    }
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        let list = WaiterList { by_number: BTreeMap::new(), by_topic: BTreeSet::new(), next: 0 };
        Self { count: AtomicUsize::new(0), list: Mutex::new(list) }
    }
}

// === impl WaiterList ===

impl<T: Ord + Clone> WaiterList<T> {
    /// The waker of the first sleeping caller of a topic.
    fn choose(&mut self, topic: &T) -> Option<Waker> {
        let numbers = self.by_topic.range((topic.clone(), 0)..=(topic.clone(), u64::MAX));
        for (_, number) in numbers {
            let state = self.by_number.get_mut(number);
            if let Some(waker) = state.and_then(|state| state.rouse(WaiterState::Chosen(topic.clone()))) {
                return Some(waker);
            }
        }
        None
    }
}

// === impl WaiterState ===

impl<T> WaiterState<T> {
    /// Returns the waker of a sleeping caller, and sets its state to `woken`.
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

// === impl Waiter ===

impl<T: Ord + Clone, const N: usize> Waiter<'_, T, N> {
    /// Goes to sleep. Returns whether something may have changed since the caller last checked.
    fn listen(&mut self, waker: &Waker) -> bool {
        let mut list = self.waiters.list.lock();
        let number = *self.number.get_or_insert_with(|| {
            self.waiters.count.fetch_add(1, Ordering::SeqCst);
            let number = list.next;
            list.next += 1;
            list.by_topic.extend(self.topics.iter().map(|topic| (topic.clone(), number)));
            number
        });
        let before = list.by_number.get(&number);
        if matches!(before, Some(WaiterState::Asleep(known)) if known.will_wake(waker)) {
            return false;
        }
        let before = list.by_number.insert(number, WaiterState::Asleep(waker.clone()));
        drop(list);
        match before {
            // Drop it without the lock: this may drop its task.
            Some(WaiterState::Asleep(_earlier)) => return false,
            Some(WaiterState::Chosen(topic)) => self.chosen = Some(topic),
            Some(WaiterState::Woken) | None => {}
        }
        true
    }
}

impl<T: Ord + Clone, const N: usize> Drop for Waiter<'_, T, N> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut list = self.waiters.list.lock();
        for topic in &self.topics {
            list.by_topic.remove(&(topic.clone(), number));
        }
        let state = list.by_number.remove(&number);
        self.waiters.count.fetch_sub(1, Ordering::SeqCst);
        drop(list);
        if let Some(WaiterState::Chosen(topic)) = state {
            self.chosen = Some(topic);
        }
        if let Some(topic) = self.chosen.take() {
            self.waiters.wake_one(&topic);
        }
    }
}
