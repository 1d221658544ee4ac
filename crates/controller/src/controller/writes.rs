//! Read your own writes, without anybody waiting.
//!
//! A reconcile that has written and runs again before its informer shows the write would act on what is no longer true:
//! create twice, or undo what it did. So each write, and each deletion, is remembered with the key that made it. A worker that
//! takes such a key parks it and goes on with another; the event that brings the write in, or the end of a time limit, queues
//! it again. Nothing is polled, and no task waits.
//!
//! Clean-ups that succeeded are remembered here too, until the cache shows that their object is gone: that is the same
//! question, asked by the same events, but without a time limit.

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
    state: Mutex<WritesState>,
    /// The first deadline has changed.
    changed: Notify,
    limit: Duration,
}

/// An object in an informer: the informer's number, and the object's key.
pub(crate) type Place = (usize, Key);

/// What a cache is to show before a key is reconciled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Where: in any one of these.
    pub(crate) places: Vec<Place>,
    /// The object.
    pub(crate) uid: String,
    /// At least this state of it has to be in the cache.
    pub(crate) version: String,
    /// And it has to be gone.
    pub(crate) gone: bool,
}

#[derive(Debug, Default)]
struct WritesState {
    waiting: HashMap<Key, Waiting>,
    /// The keys that wait for an object.
    waited_for: HashMap<Place, BTreeSet<Key>>,
    /// When waiting keys give up.
    deadlines: BTreeSet<(Instant, Key)>,
    cleaned: HashMap<Place, Cleaned>,
}

#[derive(Debug)]
struct Waiting {
    expected: Vec<Expected>,
    until: Instant,
    /// It was queued meanwhile, with this priority.
    wanted: Option<i16>,
}

/// An object that was cleaned up, and the cache still shows.
#[derive(Debug)]
struct Cleaned {
    /// That it is gone.
    expected: Expected,
    finalizers: BTreeSet<String>,
}

/// A key to be queued.
pub(crate) type Released = (Key, i16);

impl Writes {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), limit: limit.min(LONGEST) }
    }

    /// Remembers what `key` waits for, unless the cache shows it already.
    pub(crate) fn expect(&self, key: &Key, expected: Expected, is_met: impl Fn(&Expected) -> bool) {
        let mut state = self.state.lock();
        // Looked at under the lock that `seen` takes: the event that brings the write in comes before, or finds it remembered.
        if is_met(&expected) {
            return;
        }
        let until = Instant::now() + self.limit;
        for place in &expected.places {
            state.waited_for.entry(place.clone()).or_default().insert(key.clone());
        }
        let waiting = state.waiting.entry(key.clone());
        let waiting = waiting.or_insert_with(|| Waiting { expected: Vec::new(), until, wanted: None });
        let before = std::mem::replace(&mut waiting.until, until);
        // A later write of an object stands for the earlier ones.
        waiting.expected.retain(|earlier| earlier.places != expected.places);
        waiting.expected.push(expected);
        state.deadlines.remove(&(before, key.clone()));
        state.deadlines.insert((until, key.clone()));
        drop(state);
        self.changed.notify_one();
    }

    /// Remembers that the clean-up for a finalizer succeeded, until what is expected (that the object is gone) is met.
    pub(crate) fn cleaned(
        &self,
        place: Place,
        expected: Expected,
        finalizer: &str,
        is_met: impl Fn(&Expected) -> bool,
    ) {
        let mut state = self.state.lock();
        // As in `expect`.
        if is_met(&expected) {
            return;
        }
        let cleaned = Cleaned { expected: expected.clone(), finalizers: BTreeSet::new() };
        let known = state.cleaned.entry(place).or_insert(cleaned);
        if known.expected.uid != expected.uid {
            *known = Cleaned { expected, finalizers: BTreeSet::new() };
        }
        known.finalizers.insert(finalizer.to_owned());
    }

    /// Whether the clean-up for a finalizer succeeded before.
    pub(crate) fn is_cleaned(&self, place: &Place, uid: &str, finalizer: &str) -> bool {
        let state = self.state.lock();
        state
            .cleaned
            .get(place)
            .is_some_and(|cleaned| cleaned.expected.uid == uid && cleaned.finalizers.contains(finalizer))
    }

    /// Parks a key if it waits for a write; says whether it does.
    pub(crate) fn park(&self, key: &Key, priority: i16) -> bool {
        let mut state = self.state.lock();
        let Some(waiting) = state.waiting.get_mut(key) else { return false };
        waiting.wanted = Some(waiting.wanted.map_or(priority, |known| known.max(priority)));
        true
    }

    /// An object has changed, and the store shows it: returns the keys that waited only for that and are wanted.
    pub(crate) fn seen(&self, place: &Place, is_met: impl Fn(&Expected) -> bool) -> Vec<Released> {
        let mut state = self.state.lock();
        if state.cleaned.get(place).is_some_and(|cleaned| is_met(&cleaned.expected)) {
            state.cleaned.remove(place);
        }
        let Some(keys) = state.waited_for.get(place) else { return Vec::new() };
        let mut released = Vec::new();
        for key in keys.clone() {
            let Some(waiting) = state.waiting.get_mut(&key) else { continue };
            let met = |expected: &mut Expected| expected.places.contains(place) && is_met(expected);
            let met = waiting.expected.extract_if(.., met).collect::<Vec<_>>();
            if waiting.expected.is_empty() {
                released.extend(state.forget(&key));
            }
            for expected in &met {
                state.cease_to_wait(&key, expected);
            }
        }
        released
    }

    /// Waits until a key has waited for too long; returns those that are wanted.
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
                tracing::debug!(%key, limit = ?self.limit, "the cache did not show its own write in time; going on without");
                released.extend(state.forget(&key));
            }
            return released;
        }
    }
}

impl WritesState {
    /// The key waits no longer.
    fn forget(&mut self, key: &Key) -> Option<Released> {
        let waiting = self.waiting.remove(key)?;
        self.deadlines.remove(&(waiting.until, key.clone()));
        for expected in &waiting.expected {
            self.cease_to_wait(key, expected);
        }
        Some((key.clone(), waiting.wanted?))
    }

    /// The key waits for this no longer; for something else in the same places it may.
    fn cease_to_wait(&mut self, key: &Key, expected: &Expected) {
        for place in &expected.places {
            let others = self.waiting.get(key).map_or(&[][..], |waiting| &waiting.expected);
            if others.iter().any(|other| other.places.contains(place)) {
                continue;
            }
            if let Some(keys) = self.waited_for.get_mut(place) {
                keys.remove(key);
                if keys.is_empty() {
                    self.waited_for.remove(place);
                }
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

    fn expected(places: &[&Place], version: &str) -> Expected {
        let places = places.iter().copied().cloned().collect();
        Expected { places, uid: String::new(), version: version.to_owned(), gone: false }
    }

    fn is_empty(writes: &Writes) -> bool {
        let state = writes.state.lock();
        state.waiting.is_empty()
            && state.waited_for.is_empty()
            && state.deadlines.is_empty()
            && state.cleaned.is_empty()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_released_when_the_last_of_its_writes_is_seen_and_only_if_wanted() {
        let writes = Writes::new(Duration::from_secs(30));
        let (one, two) = ((0, key("one")), (1, key("two")));
        writes.expect(&key("a"), expected(&[&one], "7"), |_| true);
        assert!(!writes.park(&key("a"), 0), "it was in already");

        writes.expect(&key("a"), expected(&[&one], "7"), |_| false);
        writes.expect(&key("a"), expected(&[&two], "8"), |_| false);
        writes.expect(&key("b"), expected(&[&two], "8"), |_| false);
        assert!(writes.park(&key("a"), -100) && writes.park(&key("a"), 0));
        assert_eq!(writes.seen(&one, |_| false), [], "an older state");
        assert_eq!(writes.seen(&one, |expected| expected.version == "7"), []);
        assert_eq!(writes.seen(&two, |_| true), [(key("a"), 0)], "b is not wanted");
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_of_several_places_is_enough_and_the_others_are_forgotten() {
        let writes = Writes::new(Duration::from_secs(30));
        let (here, there) = ((0, key("x")), (1, key("x")));
        writes.expect(&key("a"), expected(&[&here, &there], "7"), |_| false);
        writes.expect(&key("a"), expected(&[&here], "8"), |_| false);
        writes.park(&key("a"), 0);
        assert_eq!(writes.seen(&there, |_| true), [], "one more is missing");
        assert_eq!(writes.seen(&here, |expected| expected.version == "8"), [(key("a"), 0)]);
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clean_up_is_remembered_until_its_object_is_gone() {
        let writes = Writes::new(Duration::from_secs(30));
        let place = (0, key("x"));
        let of = |uid: &str| Expected { uid: uid.to_owned(), gone: true, ..expected(&[&place], "7") };
        writes.cleaned(place.clone(), of("one"), "a/b", |_| true);
        assert!(!writes.is_cleaned(&place, "one", "a/b"), "it is gone already");
        writes.cleaned(place.clone(), of("one"), "a/b", |_| false);
        writes.cleaned(place.clone(), of("one"), "a/c", |_| false);
        assert!(writes.is_cleaned(&place, "one", "a/b") && writes.is_cleaned(&place, "one", "a/c"));
        assert!(!writes.is_cleaned(&place, "two", "a/b") && !writes.is_cleaned(&place, "one", "a/d"));
        writes.cleaned(place.clone(), of("two"), "a/b", |_| false);
        assert!(writes.is_cleaned(&place, "two", "a/b") && !writes.is_cleaned(&place, "two", "a/c"));
        writes.seen(&place, |_| false);
        assert!(!is_empty(&writes));
        writes.seen(&place, |_| true);
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_the_limit_counted_from_the_last_write() {
        let writes = Writes::new(Duration::from_secs(30));
        let start = Instant::now();
        let one = (0, key("one"));
        writes.expect(&key("a"), expected(&[&one], "7"), |_| false);
        tokio::time::advance(Duration::from_secs(10)).await;
        writes.expect(&key("a"), expected(&[&one], "9"), |_| false);
        writes.park(&key("a"), 3);
        assert_eq!(writes.expired().await, [(key("a"), 3)]);
        assert_eq!(start.elapsed(), Duration::from_secs(40));
        assert!(!writes.park(&key("a"), 0));
        assert!(writes.expired().now_or_never().is_none());
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_limit_is_no_limit() {
        let writes = Writes::new(Duration::MAX);
        writes.expect(&key("a"), expected(&[&(0, key("one"))], "7"), |_| false);
        tokio::time::advance(Duration::from_secs(365 * 24 * 3600)).await;
        assert!(writes.park(&key("a"), 0));
        assert!(writes.expired().now_or_never().is_none());
    }
}
