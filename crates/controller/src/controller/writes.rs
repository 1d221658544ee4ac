//! Reading your own writes, without a waiting worker.
//!
//! If a key has made a write, and is reconciled again before the informer has that write, the reconcile acts on stale state: it
//! creates a second child, or reverts its own change. Each write and each deletion is therefore recorded with the key that made it.
//! A worker that takes such a key parks it and continues with another. The watch event of the write queues it again, or else a time
//! limit does. No task waits.
//!
//! A cache can also reach a write without an event of the object: a list no longer contains it, a field selector excludes it, or its
//! namespace is no longer watched. The caches are therefore checked at short intervals while keys wait. If such a check finds a
//! written object missing, its key is queued: nothing else may report the loss.
//!
//! A key also waits while one of its requests is unanswered; [`tracking`](super::tracking) limits the time of requests. Writes
//! whose outcome is unknown are kept in [`unsettled`](super::unsettled).
//!
//! Cleanups that succeeded are recorded here too, until the cache no longer has their object. The same events show this, but there
//! is no time limit.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::pending;
use std::time::Duration;

use kube_informer::Key;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::expected::{Expected, Place, Progress};
use super::intake::BACKGROUND;
use super::unsettled::UnsettledWrites;
use crate::LONGEST;
use crate::deliberate_bug::deliberate_bug;

/// How often to check whether a cache has reached a resourceVersion, if no event may show it.
pub(super) const REVISION_PAUSE: Duration = Duration::from_millis(250);

/// Keys whose writes are not in the cache yet.
#[derive(Debug)]
pub(crate) struct Writes {
    state: Mutex<WritesState>,
    /// Notified when the first deadline changes.
    changed: Notify,
    limit: Duration,
    /// Writes whose outcome is unknown.
    pub(crate) unsettled: UnsettledWrites,
}

#[derive(Debug, Default)]
struct WritesState {
    waiting: BTreeMap<Key, Waiting>,
    /// The keys that wait for an object.
    waited_for: HashMap<Place, BTreeSet<Key>>,
    /// When each waiting key is released without its write.
    deadlines: BTreeSet<(Instant, Key)>,
    /// When to check the caches; `None` if no key waits for one.
    next_check: Option<Instant>,
    cleaned: HashMap<Place, Cleaned>,
    /// The number of the next request.
    next_request: u64,
}

#[derive(Debug)]
struct Waiting {
    expected: Vec<Expected>,
    /// Unanswered requests. The key is not released while there are any.
    in_flight: BTreeSet<u64>,
    until: Instant,
    /// The priority with which the key was queued meanwhile; `None` if it was not.
    wanted: Option<i16>,
}

/// An object that was cleaned up, and is still in the cache.
#[derive(Debug)]
struct Cleaned {
    /// The condition that ends this record: the object is gone from the cache.
    expected: Expected,
    finalizers: BTreeSet<String>,
}

/// A key to queue.
pub(crate) type Released = (Key, i16);

// === impl Writes ===

impl Writes {
    pub(crate) fn new(limit: Duration) -> Self {
        let limit = limit.min(LONGEST);
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            limit,
            unsettled: UnsettledWrites::new(limit),
        }
    }

    /// Records what `key` waits for, unless the cache has it already.
    pub(crate) fn expect(&self, key: &Key, mut expected: Expected, progress: impl Fn(&Expected) -> Progress) {
        let mut state = self.state.lock();
        if let Some(waiting) = state.waiting.get(key) {
            waiting.expected.iter().for_each(|earlier| expected.include(earlier));
        }
        // Checked under the lock that `seen` takes too. If the event of the write came earlier, the check finds the write in the
        // cache; if it comes later, `seen` finds this record.
        let progress = progress(&expected);
        if progress == Progress::Done {
            return;
        }
        let until = Instant::now() + self.limit;
        for place in &expected.places {
            state.waited_for.entry(place.clone()).or_default().insert(key.clone());
        }
        state.wait(key, until, |waiting| {
            // A later write of an object replaces the earlier ones.
            waiting.expected.retain(|earlier| !expected.replaces(earlier));
            waiting.expected.push(expected);
            if progress == Progress::Lost {
                // The next check releases the key.
                waiting.want(BACKGROUND);
            }
        });
        drop(state);
        self.changed.notify_one();
    }

    /// Records that a request of `key` is sent: the key waits until it is answered. Returns the number of the request.
    pub(crate) fn sent(&self, key: &Key) -> u64 {
        let mut state = self.state.lock();
        let request = state.next_request;
        state.next_request += 1;
        let until = Instant::now() + self.limit;
        state.wait(key, until, |waiting| waiting.in_flight.insert(request));
        request
    }

    /// Records that a request of `key` has ended. Returns the key if it is parked and waited for nothing else.
    pub(crate) fn answered(&self, key: &Key, request: u64) -> Option<Released> {
        let mut state = self.state.lock();
        // The key may have been forgotten in between, and may now wait for another request.
        if !state.waiting.get(key)?.in_flight.contains(&request) {
            return None;
        }
        let until = Instant::now() + self.limit;
        let is_over = state.wait(key, until, |waiting| {
            waiting.in_flight.remove(&request);
            waiting.is_over()
        });
        let released = if is_over { state.forget(key) } else { None };
        drop(state);
        self.changed.notify_one();
        released
    }

    /// Records that the object of this uid was deleted: the key now waits until the object is gone. The places are those recorded at
    /// the creation, because an object can be deleted before an informer has it.
    pub(crate) fn expect_gone(&self, key: &Key, uid: &str) {
        let mut state = self.state.lock();
        let Some(waiting) = state.waiting.get_mut(key).filter(|_| !uid.is_empty()) else { return };
        waiting
            .expected
            .iter_mut()
            .filter(|expected| expected.uid == uid)
            .for_each(|expected| expected.gone = true);
    }

    /// What `key` waits for.
    pub(crate) fn expected(&self, key: &Key) -> Vec<Expected> {
        self.state.lock().waiting.get(key).map(|waiting| waiting.expected.clone()).unwrap_or_default()
    }

    /// Records that the cleanup for a finalizer succeeded. The record is removed when `expected` is met: the object is gone.
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

    /// Whether the cleanup for a finalizer succeeded before.
    pub(crate) fn is_cleaned(&self, place: &Place, uid: &str, finalizer: &str) -> bool {
        let state = self.state.lock();
        state
            .cleaned
            .get(place)
            .is_some_and(|cleaned| cleaned.expected.uid == uid && cleaned.finalizers.contains(finalizer))
    }

    /// The uid and the finalizers of an object whose cleanups succeeded.
    pub(crate) fn cleanups(&self, place: &Place) -> Option<(String, BTreeSet<String>)> {
        let state = self.state.lock();
        state.cleaned.get(place).map(|cleaned| (cleaned.expected.uid.clone(), cleaned.finalizers.clone()))
    }

    /// Forgets the cleanups of an object that is not being deleted: a restore has brought it back.
    pub(crate) fn forget_cleaned(&self, place: &Place) {
        self.state.lock().cleaned.remove(place);
    }

    /// Parks a key if it waits for a write; returns whether it does.
    pub(crate) fn park(&self, key: &Key, priority: i16) -> bool {
        if deliberate_bug("own-write-not-awaited") {
            return false;
        }
        let mut state = self.state.lock();
        let Some(waiting) = state.waiting.get_mut(key) else { return false };
        waiting.want(priority);
        true
    }

    /// Forgets keys, and the informers of these numbers. Returns the keys that are parked.
    pub(crate) fn forget_all(
        &self,
        is_key: impl Fn(&Key) -> bool,
        is_informer: impl Fn(usize) -> bool,
    ) -> Vec<Released> {
        self.unsettled.forget(&is_key);
        let mut state = self.state.lock();
        state.cleaned.retain(|place, _| !is_informer(place.0));
        let keys = state.waiting.keys().filter(|key| is_key(key)).cloned().collect::<Vec<_>>();
        keys.iter().filter_map(|key| state.forget(key)).collect()
    }

    /// The number of keys that are parked or have unanswered requests.
    #[cfg(feature = "testing")]
    pub(crate) fn pending(&self) -> usize {
        let is_pending = |waiting: &&Waiting| waiting.wanted.is_some() || !waiting.in_flight.is_empty();
        self.state.lock().waiting.values().filter(is_pending).count()
    }

    /// Called when the store has a change of an object. Returns the parked keys that waited for nothing else.
    pub(crate) fn seen(&self, place: &Place, is_met: impl Fn(&Expected) -> bool) -> Vec<Released> {
        let mut state = self.state.lock();
        if state.cleaned.get(place).is_some_and(|cleaned| is_met(&cleaned.expected)) {
            state.cleaned.remove(place);
        }
        let Some(keys) = state.waited_for.get(place).cloned() else { return Vec::new() };
        state.release(keys, |_, expected| Progress::of(expected.places.contains(place) && is_met(expected)))
    }

    /// Waits until a key need not wait any more, although no event has released it: a check of the caches finds what it waited for,
    /// or it has waited for the limit. A key that has waited for the limit, or whose write is lost, is returned even if nothing has
    /// queued it: no event may ever report a lost write.
    ///
    /// While a cache that should show a write is cut off from the server (`is_failing`), the key waits regardless of the limit: that
    /// cache is known to be outdated.
    ///
    /// # Cancel safety
    /// Can be dropped at any point.
    pub(crate) async fn released(
        &self,
        progress: impl Fn(&Key, &Expected) -> Progress,
        is_failing: impl Fn(&Key, &Expected) -> bool,
    ) -> Vec<Released> {
        loop {
            let next = self.state.lock().next();
            tokio::select! {
                biased;
                () = at(next) => {}
                () = self.changed.notified() => continue,
            }
            let mut state = self.state.lock();
            let now = Instant::now();
            let mut released = Vec::new();
            if state.next_check.take_if(|check| *check <= now).is_some() {
                let keys = state.waiting.keys().cloned().collect::<Vec<_>>();
                released = state.release(keys, &progress);
            }
            while let Some((until, key)) = state.deadlines.first().cloned()
                && until <= now
            {
                let mut expected = state.waiting.get(&key).into_iter().flat_map(|waiting| &waiting.expected);
                if expected.any(|expected| is_failing(&key, expected)) {
                    tracing::debug!(%key, "the cache fails to receive the key's write; still waiting");
                    let until = now + self.limit.max(REVISION_PAUSE);
                    state.wait(&key, until, |_| ());
                    continue;
                }
                tracing::warn!(%key, limit = ?self.limit, "the cache did not receive the key's write in time; reconciling anyway");
                released.push(state.forget(&key).unwrap_or((key, BACKGROUND)));
            }
            if !released.is_empty() {
                return released;
            }
        }
    }
}

impl Waiting {
    fn is_over(&self) -> bool {
        self.expected.is_empty() && self.in_flight.is_empty()
    }

    /// Records that the key was queued.
    fn want(&mut self, priority: i16) {
        self.wanted = self.wanted.max(Some(priority));
    }
}

impl WritesState {
    /// Changes what the key waits for. The key is released at `until`, unless it has unanswered requests then.
    fn wait<T>(&mut self, key: &Key, until: Instant, change: impl FnOnce(&mut Waiting) -> T) -> T {
        let empty = || Waiting { expected: Vec::new(), in_flight: BTreeSet::new(), until, wanted: None };
        let waiting = self.waiting.entry(key.clone()).or_insert_with(empty);
        let before = std::mem::replace(&mut waiting.until, until);
        self.deadlines.remove(&(before, key.clone()));
        let changed = change(waiting);
        if waiting.in_flight.is_empty() {
            self.deadlines.insert((until, key.clone()));
        }
        changed
    }

    /// When the next key may have to be released.
    fn next(&mut self) -> Option<Instant> {
        if self.waited_for.is_empty() {
            self.next_check = None;
        } else if self.next_check.is_none() {
            self.next_check = Some(Instant::now() + REVISION_PAUSE);
        }
        let deadline = self.deadlines.first().map(|(until, _)| *until);
        self.next_check.into_iter().chain(deadline).min()
    }

    /// Removes what these keys no longer wait for. Returns the keys that waited for nothing else, if they are parked or have lost
    /// a write.
    fn release(
        &mut self,
        keys: impl IntoIterator<Item = Key>,
        progress: impl Fn(&Key, &Expected) -> Progress,
    ) -> Vec<Released> {
        let mut released = Vec::new();
        for key in keys {
            let Some(waiting) = self.waiting.get_mut(&key) else { continue };
            let mut is_lost = false;
            let is_met = |expected: &mut Expected| {
                let progress = progress(&key, expected);
                is_lost |= progress == Progress::Lost;
                progress != Progress::Pending
            };
            let met = waiting.expected.extract_if(.., is_met).collect::<Vec<_>>();
            if is_lost {
                tracing::debug!(%key, "an object that the key wrote is missing in the cache; reconciling again");
                waiting.want(BACKGROUND);
            }
            if waiting.is_over() {
                released.extend(self.forget(&key));
            }
            for expected in &met {
                self.stop_waiting(&key, expected);
            }
        }
        released
    }

    /// Removes a key. Returns it if it is parked.
    fn forget(&mut self, key: &Key) -> Option<Released> {
        let waiting = self.waiting.remove(key)?;
        self.deadlines.remove(&(waiting.until, key.clone()));
        for expected in &waiting.expected {
            self.stop_waiting(key, expected);
        }
        Some((key.clone(), waiting.wanted?))
    }

    /// Removes the key from the places of one expected state, except places where it expects another state.
    fn stop_waiting(&mut self, key: &Key, expected: &Expected) {
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

    use Progress::{Done, Lost, Pending};

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
            && writes.unsettled.is_empty()
            && state.cleaned.is_empty()
    }

    #[tokio::test(start_paused = true)]
    async fn a_queued_key_is_released_by_the_last_of_its_writes() {
        let writes = Writes::new(Duration::from_secs(30));
        let (one, two) = ((0, key("one")), (1, key("two")));
        writes.expect(&key("a"), expected(&[&one], "7"), |_| Done);
        assert!(!writes.park(&key("a"), 0), "the cache already has the write");

        writes.expect(&key("a"), expected(&[&one], "7"), |_| Pending);
        writes.expect(&key("a"), expected(&[&two], "8"), |_| Pending);
        writes.expect(&key("b"), expected(&[&two], "8"), |_| Pending);
        assert!(writes.park(&key("a"), -100) && writes.park(&key("a"), 0));
        assert_eq!(writes.seen(&one, |_| false), [], "the event has an older state");
        assert_eq!(writes.seen(&one, |expected| expected.version == "7"), []);
        assert_eq!(writes.seen(&two, |_| true), [(key("a"), 0)], "b is not parked");
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_several_places_suffices() {
        let writes = Writes::new(Duration::from_secs(30));
        let (here, there) = ((0, key("x")), (1, key("x")));
        writes.expect(&key("a"), expected(&[&here, &there], "7"), |_| Pending);
        writes.expect(&key("a"), expected(&[&here], "8"), |_| Pending);
        writes.park(&key("a"), 0);
        assert_eq!(writes.seen(&there, |_| true), [], "one write is missing");
        assert_eq!(writes.seen(&here, |expected| expected.version == "8"), [(key("a"), 0)]);
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cleanup_is_remembered_until_its_object_is_gone() {
        let writes = Writes::new(Duration::from_secs(30));
        let place = (0, key("x"));
        let of = |uid: &str| Expected { uid: uid.to_owned(), gone: true, ..expected(&[&place], "7") };
        writes.cleaned(place.clone(), of("one"), "a/b", |_| true);
        assert!(!writes.is_cleaned(&place, "one", "a/b"), "the object is already gone");
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
        writes.cleaned(place.clone(), of("one"), "a/b", |_| false);
        writes.forget_cleaned(&place);
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_the_limit_after_the_last_write() {
        let writes = Writes::new(Duration::from_secs(30));
        let start = Instant::now();
        let one = (0, key("one"));
        writes.expect(&key("a"), expected(&[&one], "7"), |_| Pending);
        tokio::time::advance(Duration::from_secs(10)).await;
        writes.expect(&key("a"), expected(&[&one], "9"), |_| Pending);
        writes.park(&key("a"), 3);
        assert_eq!(writes.released(|_, _| Pending, |_, _| false).await, [(key("a"), 3)]);
        assert_eq!(start.elapsed(), Duration::from_secs(40));
        assert!(!writes.park(&key("a"), 0));
        assert!(writes.released(|_, _| Pending, |_, _| false).now_or_never().is_none());
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_of_the_caches_releases_parked_keys() {
        let writes = Writes::new(Duration::MAX);
        let (one, two) = ((0, key("one")), (1, key("two")));
        writes.expect(&key("a"), expected(&[&one], "7"), |_| Pending);
        writes.expect(&key("a"), expected(&[&two], "8"), |_| Pending);
        writes.expect(&key("b"), expected(&[&two], "8"), |_| Pending);
        writes.park(&key("a"), 0);
        let start = Instant::now();
        let progress = |_: &Key, expected: &Expected| {
            Progress::of(expected.version == "7" || start.elapsed() > 10 * REVISION_PAUSE)
        };
        assert_eq!(writes.released(progress, |_, _| false).await, [(key("a"), 0)], "b is not parked");
        assert_eq!(start.elapsed(), 11 * REVISION_PAUSE);
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_whose_write_never_appears_is_released_without_being_queued() {
        let writes = Writes::new(Duration::from_secs(30));
        writes.expect(&key("a"), expected(&[&(0, key("one"))], "7"), |_| Pending);
        assert_eq!(writes.released(|_, _| Pending, |_, _| false).await, [(key("a"), BACKGROUND)]);
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_whose_write_is_lost_is_released_without_being_queued() {
        let writes = Writes::new(Duration::MAX);
        let (one, two) = ((0, key("one")), (1, key("two")));
        writes.expect(&key("a"), expected(&[&one], "7"), |_| Pending);
        let start = Instant::now();
        assert_eq!(writes.released(|_, _| Lost, |_, _| false).await, [(key("a"), BACKGROUND)]);
        assert_eq!(start.elapsed(), REVISION_PAUSE);
        assert!(is_empty(&writes));

        writes.expect(&key("a"), expected(&[&one], "7"), |_| Lost);
        assert_eq!(
            writes.released(|_, _| Lost, |_, _| false).await,
            [(key("a"), BACKGROUND)],
            "lost before the answer"
        );
        assert!(is_empty(&writes));

        writes.expect(&key("a"), expected(&[&one], "7"), |_| Pending);
        writes.expect(&key("a"), expected(&[&two], "8"), |_| Pending);
        let lost = |_: &Key, expected: &Expected| if expected.version == "7" { Lost } else { Pending };
        assert!(tokio::time::timeout(REVISION_PAUSE * 2, writes.released(lost, |_, _| false)).await.is_err());
        assert_eq!(writes.seen(&two, |_| true), [(key("a"), BACKGROUND)], "after its other write");
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_beyond_the_limit_while_its_cache_fails() {
        let writes = Writes::new(Duration::from_secs(30));
        writes.expect(&key("a"), expected(&[&(0, key("one"))], "7"), |_| Pending);
        let start = Instant::now();
        let is_failing = |_: &Key, _: &Expected| start.elapsed() < Duration::from_secs(70);
        assert_eq!(writes.released(|_, _| Pending, is_failing).await, [(key("a"), BACKGROUND)]);
        assert_eq!(start.elapsed(), Duration::from_secs(90));
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn the_maximum_limit_never_expires() {
        let writes = Writes::new(Duration::MAX);
        writes.expect(&key("a"), expected(&[&(0, key("one"))], "7"), |_| Pending);
        tokio::time::advance(Duration::from_secs(365 * 24 * 3600)).await;
        assert!(writes.park(&key("a"), 0));
        assert!(writes.released(|_, _| Pending, |_, _| false).now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_keeps_the_version_and_the_places_of_the_creation() {
        let writes = Writes::new(Duration::from_secs(30));
        let place = (0, key("x"));
        let of =
            |version: &str, gone| Expected { uid: "one".to_owned(), gone, ..expected(&[&place], version) };
        writes.expect(&key("a"), of("7", false), |_| Pending);
        // The deletion's answer has no resourceVersion, and the cache does not have the object yet.
        writes.expect(&key("a"), of("", true), |expected| Progress::of(expected.version.is_empty()));
        assert!(writes.park(&key("a"), 0));
        assert_eq!(writes.seen(&place, |expected| !expected.gone), [], "the creation alone is not enough");
        assert_eq!(writes.seen(&place, |expected| *expected == of("7", true)), [(key("a"), 0)]);

        writes.expect(&key("a"), of("7", false), |_| Pending);
        writes.expect_gone(&key("a"), "one");
        // An older answer that arrives late changes nothing.
        writes.expect(&key("a"), of("6", false), |_| Pending);
        assert!(writes.park(&key("a"), 0));
        assert_eq!(writes.seen(&place, |expected| *expected == of("7", true)), [(key("a"), 0)]);
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_for_its_unanswered_requests() {
        let writes = Writes::new(Duration::from_secs(30));
        let place = (0, key("x"));
        let (one, two) = (writes.sent(&key("a")), writes.sent(&key("a")));
        assert!(writes.park(&key("a"), 5));
        assert_eq!(writes.answered(&key("a"), one), None, "another request is unanswered");
        writes.expect(&key("a"), expected(&[&place], "7"), |_| Pending);
        assert_eq!(writes.seen(&place, |_| true), [], "the request is unanswered");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(
            writes.released(|_, _| Pending, |_, _| false).now_or_never().is_none(),
            "the limit applies to answered requests only"
        );
        assert_eq!(writes.answered(&key("a"), two), Some((key("a"), 5)));
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_does_not_count_for_a_later_request() {
        let writes = Writes::new(Duration::from_secs(30));
        let early = writes.sent(&key("a"));
        assert_eq!(writes.forget_all(|_| true, |_| true), []);
        let late = writes.sent(&key("a"));
        assert!(writes.park(&key("a"), 5));
        assert_eq!(writes.answered(&key("a"), early), None, "the later request is unanswered");
        assert_eq!(writes.answered(&key("a"), late), Some((key("a"), 5)));
        assert!(is_empty(&writes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_without_a_version_does_not_replace_a_creation() {
        let writes = Writes::new(Duration::from_secs(30));
        let place = (0, key("x"));
        let of = |uid: &str, version: &str, gone| Expected {
            uid: uid.to_owned(),
            gone,
            ..expected(&[&place], version)
        };
        writes.expect(&key("a"), of("new", "9", false), |_| Pending);
        writes.expect(&key("a"), of("old", "", true), |_| Pending);
        writes.park(&key("a"), 0);
        assert_eq!(writes.seen(&place, |expected| expected.uid == "old"), [], "the creation is missing");
        assert_eq!(writes.seen(&place, |expected| expected.uid == "new"), [(key("a"), 0)]);
        assert!(is_empty(&writes));
    }
}
