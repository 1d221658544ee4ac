//! Read your own writes, without anybody waiting.
//!
//! A reconcile that has written and runs again before its informer shows the write would act on what is no longer true:
//! create twice, or undo what it did. So each write is remembered with the key that made it. A worker that takes such a
//! key puts it aside and goes on with another; the event that brings the write in, or the end of a time limit, queues it
//! again. Nothing is polled, and no task waits.

use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::time::Duration;

use kube_informer::Key;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::LONGEST;

/// Keys whose writes are not in the cache yet.
#[derive(Debug)]
pub(crate) struct Writes {
    state: Mutex<State>,
    /// The first deadline has changed.
    changed: Notify,
    limit: Duration,
}

/// An object in an informer: the informer's number, and the object's key.
type Place = (usize, Key);

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<Key, Waiting>,
    /// Who waits for an object.
    waited_for: HashMap<Place, BTreeSet<Key>>,
    /// When those who wait give up.
    deadlines: BTreeSet<(Instant, Key)>,
}

#[derive(Debug)]
struct Waiting {
    /// The resourceVersion that is waited for.
    writes: HashMap<Place, String>,
    until: Instant,
    /// It was queued meanwhile, with this priority.
    wanted: Option<i16>,
}

/// A key to be queued.
pub(crate) type Released = (Key, i16);

impl Writes {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), limit: limit.min(LONGEST) }
    }

    /// Remembers a write of `key`, unless it is in already.
    pub(crate) fn wrote(&self, key: &Key, place: Place, version: &str, has_seen: impl Fn() -> bool) {
        let mut state = self.state.lock();
        // Looked at under the lock that `seen` takes: whoever brings the write in comes before, or finds it remembered.
        if has_seen() {
            return;
        }
        let until = Instant::now() + self.limit;
        state.waited_for.entry(place.clone()).or_default().insert(key.clone());
        let waiting = state.waiting.entry(key.clone());
        let waiting = waiting.or_insert_with(|| Waiting { writes: HashMap::new(), until, wanted: None });
        let before = std::mem::replace(&mut waiting.until, until);
        waiting.writes.insert(place, version.to_owned());
        state.deadlines.remove(&(before, key.clone()));
        state.deadlines.insert((until, key.clone()));
        drop(state);
        self.changed.notify_one();
    }

    /// Puts a key aside if it waits for a write; says whether it does.
    pub(crate) fn put_aside(&self, key: &Key, priority: i16) -> bool {
        let mut state = self.state.lock();
        let Some(waiting) = state.waiting.get_mut(key) else { return false };
        waiting.wanted = Some(waiting.wanted.map_or(priority, |known| known.max(priority)));
        true
    }

    /// An object has changed, and the store shows it: gives those who waited only for that and are wanted.
    pub(crate) fn seen(&self, place: &Place, has_seen: impl Fn(&str) -> bool) -> Vec<Released> {
        let mut state = self.state.lock();
        let Some(keys) = state.waited_for.get(place) else { return Vec::new() };
        let mut released = Vec::new();
        for key in keys.clone() {
            let Some(waiting) = state.waiting.get_mut(&key) else { continue };
            if waiting.writes.get(place).is_some_and(|version| !has_seen(version)) {
                continue;
            }
            waiting.writes.remove(place);
            if waiting.writes.is_empty() {
                released.extend(state.forget(&key));
            }
            state.ceases_to_wait_for(place, &key);
        }
        released
    }

    /// Waits until somebody has waited for too long; gives those who are wanted.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub(crate) async fn expired(&self) -> Vec<Released> {
        loop {
            let first = self.state.lock().deadlines.first().map(|(until, _)| *until);
            tokio::select! {
                biased;
                () = at(first) => {}
                () = self.changed.notified() => continue,
            }
            let mut state = self.state.lock();
            let now = Instant::now();
            let mut released = Vec::new();
            while let Some((until, key)) = state.deadlines.first().cloned()
                && until <= now
            {
                tracing::debug!(%key, limit = ?self.limit, "its own write did not show up in time; going on without");
                released.extend(state.forget(&key));
            }
            return released;
        }
    }
}

impl State {
    /// The key waits no longer.
    fn forget(&mut self, key: &Key) -> Option<Released> {
        let waiting = self.waiting.remove(key)?;
        self.deadlines.remove(&(waiting.until, key.clone()));
        for place in waiting.writes.keys() {
            self.ceases_to_wait_for(place, key);
        }
        Some((key.clone(), waiting.wanted?))
    }

    fn ceases_to_wait_for(&mut self, place: &Place, key: &Key) {
        if let Some(keys) = self.waited_for.get_mut(place) {
            keys.remove(key);
            if keys.is_empty() {
                self.waited_for.remove(place);
            }
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn key(name: &str) -> Key {
        Key::new("", name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_released_when_the_last_of_its_writes_is_seen_and_only_if_wanted() {
        let writes = Writes::new(Duration::from_secs(30));
        let (one, two) = ((0, key("one")), (1, key("two")));
        writes.wrote(&key("a"), one.clone(), "7", || true);
        assert!(!writes.put_aside(&key("a"), 0), "it was in already");

        writes.wrote(&key("a"), one.clone(), "7", || false);
        writes.wrote(&key("a"), two.clone(), "8", || false);
        writes.wrote(&key("b"), two.clone(), "8", || false);
        assert!(writes.put_aside(&key("a"), -100) && writes.put_aside(&key("a"), 0));
        assert_eq!(writes.seen(&one, |_| false), [], "an older state");
        assert_eq!(writes.seen(&one, |version| version == "7"), []);
        assert_eq!(writes.seen(&two, |_| true), [(key("a"), 0)], "b is not wanted");
        let state = writes.state.lock();
        assert!(state.waiting.is_empty() && state.waited_for.is_empty() && state.deadlines.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_the_limit_counted_from_the_last_write() {
        let writes = Writes::new(Duration::from_secs(30));
        let start = Instant::now();
        writes.wrote(&key("a"), (0, key("one")), "7", || false);
        tokio::time::advance(Duration::from_secs(10)).await;
        writes.wrote(&key("a"), (0, key("one")), "9", || false);
        writes.put_aside(&key("a"), 3);
        assert_eq!(writes.expired().await, [(key("a"), 3)]);
        assert_eq!(start.elapsed(), Duration::from_secs(40));
        assert!(!writes.put_aside(&key("a"), 0));
        assert!(writes.expired().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_limit_is_no_limit() {
        let writes = Writes::new(Duration::MAX);
        writes.wrote(&key("a"), (0, key("one")), "7", || false);
        tokio::time::advance(Duration::from_secs(365 * 24 * 3600)).await;
        assert!(writes.put_aside(&key("a"), 0));
        assert!(writes.expired().now_or_never().is_none());
    }
}
