//! The history of each informer since the start: its states with their reasons, and its events per second.
//!
//! A sampler reads the state of every informer ten times per second. A watch that breaks and reopens between two samples shows in
//! the counters, and so does a list that begins and ends between them. Both are recorded as well. Every timeline is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube_informer::building_blocks::{ReflectorState, ReflectorStatus};
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::gauges::{self, Gauges, PendingChanges};
use super::scopes::{self, WatchedScope};
use super::{Served, estimate};
use crate::mirror::Mirror;
use crate::terminal::escape;

/// How often informers are sampled.
const SAMPLE: Duration = Duration::from_millis(100);
/// Samples per second, and between two estimates of the decoded size.
const SAMPLES_PER_SECOND: u64 = 10;
const SAMPLES_PER_ESTIMATE: u64 = 100;
/// Most states that are kept per informer.
pub(super) const SEGMENTS_MAX: usize = 256;
/// Longest reason that is kept, in characters: a server's message can have 64 KiB.
const REASON_CHARS_MAX: usize = 500;
/// Most bytes of all timelines in one response. The page reads timelines next to its stream, at most every other second.
pub(super) const PASTS_BYTES_MAX: usize = 256_000;
/// Seconds for which the rate is kept.
const RATES_MAX: usize = 120;

/// One timeline per mirror.
pub(super) struct Timelines {
    timelines: Mutex<Vec<Timeline>>,
    controllers: Mutex<ControllerPast>,
}

/// The controllers and the replicas that share work, as they were at the last full second, and the reconciles per second by the
/// controller's name.
#[derive(Default)]
struct ControllerPast {
    present: Vec<Value>,
    sharing: Vec<Value>,
    rates: BTreeMap<String, VecDeque<u64>>,
}

/// The history of one informer.
#[derive(Default)]
struct Timeline {
    segments: VecDeque<Segment>,
    /// Events per second, the newest last.
    rates: VecDeque<u64>,
    /// Events at the last full second.
    events: u64,
    /// What is in the timeline already, by scope.
    noted: Vec<NotedScope>,
    decoded_bytes: Option<u64>,
    waiting: PendingChanges,
}

/// The counters of a scope at the last sample.
#[derive(Clone, Copy, Debug, Default)]
struct NotedScope {
    /// Broken watches and failed requests.
    errors: u64,
    complete_lists: u64,
    /// How many of them were watch-lists.
    streamed_lists: u64,
    /// A list was in progress.
    is_listing: bool,
}

/// A state, and since when.
#[derive(Clone, Debug, PartialEq)]
struct Segment {
    since: Timestamp,
    state: &'static str,
    reason: Option<String>,
    /// The namespace that is in this state, if several are watched.
    namespace: Option<String>,
}

impl Timelines {
    pub(super) fn new(mirrors: usize) -> Self {
        let timelines = std::iter::repeat_with(Timeline::default).take(mirrors).collect();
        Self { timelines: Mutex::new(timelines), controllers: Mutex::default() }
    }

    /// The controllers of this process; `serve` runs no controller.
    pub(super) fn controllers(&self) -> Vec<Value> {
        self.lock_controllers().present.clone()
    }

    /// The replicas of this process that share work.
    pub(super) fn sharing(&self) -> Vec<Value> {
        self.lock_controllers().sharing.clone()
    }

    /// The controllers with their past.
    pub(super) fn controllers_with_past(&self) -> Vec<Value> {
        let controllers = self.lock_controllers();
        let with_past = |controller: &Value| {
            let mut controller = controller.clone();
            let rates = controller["name"].as_str().and_then(|name| controllers.rates.get(name));
            controller["reconcilesPerSecond"] = json!(rates);
            controller
        };
        controllers.present.iter().map(with_past).collect()
    }

    fn lock_controllers(&self) -> MutexGuard<'_, ControllerPast> {
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The states and rates of these informers, as JSON; only those since a time in milliseconds, if there is one. Also returns the number
    /// of older states that do not fit into [`PASTS_BYTES_MAX`].
    pub(super) fn pasts(&self, numbers: &[usize], since: Option<i64>) -> (Vec<Value>, usize) {
        let (timelines, now) = (self.lock(), Timestamp::now().as_millisecond());
        let asked: Vec<_> = numbers.iter().map(|number| &timelines[*number]).collect();
        let (segments, omitted) = newest(&asked, since);
        let rates = asked.iter().map(|timeline| timeline.rates_since(since, now));
        let past = |(segments, rates)| json!({"timeline": segments, "eventsPerSecond": rates});
        (segments.into_iter().zip(rates).map(past).collect(), omitted)
    }

    /// The current state, rate and estimate of one informer.
    pub(super) fn present(&self, mirror: usize) -> Value {
        let timelines = self.lock();
        let timeline = &timelines[mirror];
        json!({
            "state": timeline.segments.back().map(Segment::to_json),
            "rate": timeline.rates.back(),
            "decodedBytesEstimate": timeline.decoded_bytes,
            "queued": timeline.waiting.queued,
            "undelivered": timeline.waiting.undelivered,
        })
    }

    /// The events of the last second of every informer, by the number of the mirror.
    pub(super) fn rates(&self) -> Vec<u64> {
        self.lock().iter().map(|timeline| timeline.rates.back().copied().unwrap_or(0)).collect()
    }

    /// Adds a back-off.
    #[cfg(test)]
    pub(super) fn add_failure(&self, mirror: usize, second: i64, reason: &str) {
        let since = Timestamp::from_second(second).unwrap();
        let segment =
            Segment { since, state: "backing off", reason: Some(reason.to_owned()), namespace: None };
        self.lock()[mirror].push(segment);
    }

    /// Adds the events of another second.
    #[cfg(test)]
    pub(super) fn add_rate(&self, mirror: usize, rate: u64) {
        remember(&mut self.lock()[mirror].rates, rate);
    }

    fn has_estimate(&self, mirror: usize) -> bool {
        self.lock()[mirror].decoded_bytes.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Timeline>> {
        self.timelines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Samples all informers until the program ends.
pub(super) async fn sample(served: Arc<Served>) {
    let mut ticks = tokio::time::interval(SAMPLE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut gauges = Gauges::default();
    for tick in 0_u64.. {
        tokio::select! {
            biased;
            () = served.stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let is_second = tick.is_multiple_of(SAMPLES_PER_SECOND);
        if is_second {
            let before = std::mem::replace(&mut gauges, gauges::read(&served.registry));
            served.timelines.lock_controllers().note(gauges.controllers(&before), gauges.sharing());
        }
        for (number, mirror) in served.mirrors.iter().enumerate() {
            // Before the informer is synced, an estimate would be far too low. Mirrors are sampled at different times.
            let is_turn = (tick + number as u64).is_multiple_of(SAMPLES_PER_ESTIMATE);
            let is_due = is_turn || !served.timelines.has_estimate(number);
            let estimate =
                if is_due && mirror.informer.is_synced() { decoded_bytes(mirror).await } else { None };
            let mut timelines = served.timelines.lock();
            let timeline = &mut timelines[number];
            timeline.look(mirror);
            timeline.decoded_bytes = estimate.or(timeline.decoded_bytes);
            if is_second {
                timeline.count(mirror.traffic.events());
                let name = mirror.selected.kind.qualified();
                timeline.waiting = gauges.pending.get(&name).copied().unwrap_or_default();
            }
        }
    }
}

/// The estimate for a mirror, on another thread: decoding objects takes a while.
async fn decoded_bytes(mirror: &Mirror) -> Option<u64> {
    let view = mirror.informer.lister().view();
    tokio::task::spawn_blocking(move || estimate::decoded_bytes(view.snapshot())).await.ok()
}

impl Timeline {
    fn look(&mut self, mirror: &Mirror) {
        self.note(&scopes::watched(&mirror.informer.status()), Timestamp::now());
    }

    fn note(&mut self, watched: &[WatchedScope<'_>], now: Timestamp) {
        self.noted.resize(watched.len(), NotedScope::default());
        let (mut failed, mut listed) = (None, None);
        for (scope, known) in watched.iter().zip(&mut self.noted) {
            let noted = NotedScope::of(scope.status);
            if noted.errors > known.errors {
                failed = Some(*scope);
            }
            if noted.complete_lists > known.complete_lists && !known.is_listing {
                let is_streamed = noted.streamed_lists > known.streamed_lists;
                let state = if is_streamed { ReflectorState::Streaming } else { ReflectorState::Listing };
                listed = Some((scope.namespace, state));
            }
            *known = noted;
        }
        let Some(mut scope) = scopes::worst(watched) else { return };
        if let Some((namespace, list)) = listed
            && scopes::is_better(&scope.status.state, &list)
        {
            // The list began and ended between two samples.
            let (state, reason) = name(&list);
            self.push(Segment { since: now, state, reason, namespace: namespace.map(str::to_owned) });
        }
        let (state, mut reason) = name(&scope.status.state);
        if reason.is_none()
            && let Some(failed) = failed
        {
            // The scope has failed and recovered between two samples.
            reason = failed.status.last_error.as_ref().map(|error| shortened(error.to_string()));
            scope = failed;
        }
        let namespace = scope.namespace.filter(|_| state != "watching" || reason.is_some());
        let is_new = self.segments.back().is_none_or(|last| {
            // If another namespace fails next, the state stays the same: compare the namespace too.
            let moved = reason.is_some() && last.namespace.as_deref() != namespace;
            last.state != state || moved || (reason.is_some() && failed.is_some())
        });
        if is_new {
            self.push(Segment { since: now, state, reason, namespace: namespace.map(str::to_owned) });
        }
    }

    /// The events in each second, from the second of this time on.
    fn rates_since(&self, since: Option<i64>, now: i64) -> Vec<u64> {
        // A future time has no seconds, the current one has the last.
        let seconds = since.map(|since| (now - since).div_euclid(1000) + 1);
        let seconds = seconds.map_or(RATES_MAX, |seconds| usize::try_from(seconds).unwrap_or(0));
        self.rates.iter().skip(self.rates.len().saturating_sub(seconds)).copied().collect()
    }

    fn push(&mut self, segment: Segment) {
        self.segments.push_back(segment);
        if self.segments.len() > SEGMENTS_MAX {
            self.segments.pop_front();
        }
    }

    fn count(&mut self, events: u64) {
        remember(&mut self.rates, events.saturating_sub(self.events));
        self.events = events;
    }
}

impl NotedScope {
    fn of(status: &ReflectorStatus) -> Self {
        Self {
            errors: scopes::errors(status),
            complete_lists: status.complete_lists,
            streamed_lists: status.streamed_lists,
            is_listing: matches!(status.state, ReflectorState::Listing | ReflectorState::Streaming),
        }
    }
}

impl ControllerPast {
    fn note(&mut self, controllers: Vec<Value>, sharing: Vec<Value>) {
        for controller in &controllers {
            if let (Some(name), Some(rate)) = (controller["name"].as_str(), controller["rate"].as_u64()) {
                remember(self.rates.entry(name.to_owned()).or_default(), rate);
            }
        }
        (self.present, self.sharing) = (controllers, sharing);
    }
}

/// The newest segments of each timeline since a time, the newest last, and how many older ones did not fit. The timelines take turns, so
/// that a long one does not displace the others.
fn newest(timelines: &[&Timeline], since: Option<i64>) -> (Vec<VecDeque<Value>>, usize) {
    let is_asked = |segment: &&Segment| since.is_none_or(|since| segment.since.as_millisecond() >= since);
    let mut left: Vec<_> =
        timelines.iter().map(|timeline| timeline.segments.iter().rev().filter(is_asked)).collect();
    let mut taken = vec![VecDeque::new(); timelines.len()];
    let (mut bytes, mut omitted) = (0, 0);
    while omitted == 0 {
        let before = bytes;
        for (segments, taken) in left.iter_mut().zip(&mut taken) {
            let Some(segment) = segments.next() else { continue };
            let segment = segment.to_json();
            bytes += escape::json(&segment.to_string()).len();
            if bytes <= PASTS_BYTES_MAX {
                taken.push_front(segment);
            } else {
                omitted += 1;
            }
        }
        if bytes == before {
            break;
        }
    }
    (taken, omitted + left.into_iter().map(Iterator::count).sum::<usize>())
}

fn remember(rates: &mut VecDeque<u64>, rate: u64) {
    rates.push_back(rate);
    if rates.len() > RATES_MAX {
        rates.pop_front();
    }
}

impl Segment {
    fn to_json(&self) -> Value {
        json!({
            "since": self.since.as_millisecond(),
            "state": self.state,
            "reason": self.reason,
            "namespace": self.namespace,
        })
    }
}

/// The name of a state on the page, and its reason.
fn name(state: &ReflectorState) -> (&'static str, Option<String>) {
    match state {
        ReflectorState::Pending => ("pending", None),
        ReflectorState::Listing => ("listing", None),
        ReflectorState::Streaming => ("streaming", None),
        ReflectorState::Opening => ("opening", None),
        ReflectorState::Watching => ("watching", None),
        ReflectorState::BackingOff { error, .. } => ("backing off", Some(shortened(error.to_string()))),
        ReflectorState::Degraded { error } => ("degraded", Some(shortened(error.to_string()))),
        ReflectorState::Stopped => ("stopped", None),
        _ => ("unknown", None),
    }
}

/// The beginning of a long reason.
fn shortened(mut reason: String) -> String {
    if let Some((end, _)) = reason.char_indices().nth(REASON_CHARS_MAX) {
        reason.truncate(end);
        reason.push('…');
        reason.shrink_to_fit();
    }
    reason
}

#[cfg(test)]
mod tests {
    use kube_informer::building_blocks::ReflectorError;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_state_is_noted_once_and_old_ones_are_dropped() {
        let mut timeline = Timeline::default();
        let mut note = |state: &ReflectorState, second| {
            let mut status = ReflectorStatus::default();
            status.state = state.clone();
            timeline.note(&[WatchedScope { namespace: None, status: &status }], at(second));
            timeline.segments.len()
        };
        for second in 0..10 {
            assert_eq!(note(&ReflectorState::Pending, second), 1);
        }
        for second in 0..2 * SEGMENTS_MAX as i64 {
            note(if second % 2 == 0 { &ReflectorState::Watching } else { &ReflectorState::Opening }, second);
        }
        assert_eq!(timeline.segments.len(), SEGMENTS_MAX);
        assert_eq!(timeline.segments.back().unwrap().state, "opening");
    }

    #[test]
    fn an_error_in_any_namespace_is_noted_with_its_name() {
        let mut timeline = Timeline::default();
        let mut statuses = [ReflectorStatus::default(), ReflectorStatus::default()];
        statuses.iter_mut().for_each(|status| status.state = ReflectorState::Watching);
        let mut note = |statuses: &[ReflectorStatus; 2], second| {
            let [a, b] = statuses;
            let scopes = [(Some("a"), a), (Some("b"), b)];
            timeline.note(&scopes.map(|(namespace, status)| WatchedScope { namespace, status }), at(second));
            let last = timeline.segments.back().unwrap();
            (timeline.segments.len(), last.state, last.namespace.clone())
        };
        assert_eq!(note(&statuses, 1), (1, "watching", None));
        // The second namespace recovered between two samples.
        statuses[1].broken_watches = 1;
        statuses[1].last_error = Some(ReflectorError::VeryShortWatch.into());
        assert_eq!(note(&statuses, 2), (2, "watching", Some("b".to_owned())));
        assert_eq!(note(&statuses, 3), (2, "watching", Some("b".to_owned())));
        let error = ReflectorError::VeryShortWatch.into();
        statuses[0].state = ReflectorState::Degraded { error };
        assert_eq!(note(&statuses, 4), (3, "degraded", Some("a".to_owned())));
        statuses[0].state = ReflectorState::Watching;
        assert_eq!(note(&statuses, 5), (4, "watching", None));
    }

    #[test]
    fn a_list_between_two_samples_is_noted_once() {
        let mut timeline = Timeline::default();
        let mut status = ReflectorStatus::default();
        let mut note = |status: &ReflectorStatus, second| {
            let before = timeline.segments.len();
            timeline.note(&[WatchedScope { namespace: None, status }], at(second));
            timeline.segments.iter().skip(before).map(|segment| segment.state).collect::<Vec<_>>()
        };
        // The initial list was complete before the first sample.
        (status.state, status.complete_lists) = (ReflectorState::Watching, 1);
        assert_eq!(note(&status, 1), ["listing", "watching"]);
        assert_eq!(note(&status, 2), [""; 0]);
        // The watch broke, and the relist was as quick.
        (status.complete_lists, status.broken_watches) = (2, 1);
        status.last_error = Some(ReflectorError::VeryShortWatch.into());
        assert_eq!(note(&status, 3), ["listing", "watching"]);
        // The next list was a watch-list.
        (status.complete_lists, status.streamed_lists, status.broken_watches) = (3, 1, 2);
        assert_eq!(note(&status, 4), ["streaming", "watching"]);
        (status.complete_lists, status.broken_watches) = (4, 3);
        assert_eq!(note(&status, 5), ["listing", "watching"]);
        // A list that a sample has seen is not noted again.
        for state in [ReflectorState::Listing, ReflectorState::Streaming] {
            let name = name(&state).0;
            status.state = state;
            assert_eq!(note(&status, 6), [name]);
            (status.state, status.complete_lists) = (ReflectorState::Watching, status.complete_lists + 1);
            assert_eq!(note(&status, 7), ["watching"]);
        }
    }

    #[test]
    fn a_list_of_one_namespace_does_not_hide_the_worse_state_of_another() {
        let mut timeline = Timeline::default();
        let mut statuses = [ReflectorStatus::default(), ReflectorStatus::default()];
        let error = ReflectorError::VeryShortWatch.into();
        statuses[0].state = ReflectorState::Degraded { error };
        let mut note = |statuses: &[ReflectorStatus; 2], second| {
            let before = timeline.segments.len();
            let [a, b] = statuses;
            let scopes = [(Some("a"), a), (Some("b"), b)];
            timeline.note(&scopes.map(|(namespace, status)| WatchedScope { namespace, status }), at(second));
            let new = timeline.segments.iter().skip(before);
            new.map(|segment| (segment.state, segment.namespace.clone())).collect::<Vec<_>>()
        };
        assert_eq!(note(&statuses, 1), [("degraded", Some("a".to_owned()))]);
        (statuses[1].state, statuses[1].complete_lists) = (ReflectorState::Watching, 1);
        assert_eq!(note(&statuses, 2), []);
        (statuses[0].state, statuses[0].complete_lists) = (ReflectorState::Watching, 1);
        assert_eq!(note(&statuses, 3), [("listing", Some("a".to_owned())), ("watching", None)]);
    }

    #[test]
    fn long_reasons_are_shortened() {
        let error = || ReflectorError::UnknownEvent("ü".repeat(40_000)).into();
        let mut timeline = Timeline::default();
        let mut status = ReflectorStatus::default();
        let mut note = |status: &ReflectorStatus, second| {
            timeline.note(&[WatchedScope { namespace: None, status }], at(second));
            timeline.segments.back().unwrap().reason.clone().unwrap()
        };
        status.state = ReflectorState::Degraded { error: error() };
        let degraded = note(&status, 1);
        // The informer failed and recovered between two samples.
        (status.state, status.broken_watches) = (ReflectorState::Watching, 1);
        status.last_error = Some(error());
        let reopened = note(&status, 2);
        for reason in [degraded, reopened] {
            assert_eq!(reason.chars().count(), REASON_CHARS_MAX + 1);
            assert!(reason.contains('ü') && reason.ends_with('…'), "{reason}");
        }
    }

    #[test]
    fn rates_are_events_since_the_last_second() {
        let mut timeline = Timeline::default();
        for events in [5, 5, 12] {
            timeline.count(events);
        }
        assert_eq!(timeline.rates, [5, 0, 7]);
        let rates = |since: Option<i64>| timeline.rates_since(since.map(|second| second * 1000), 100_000);
        assert_eq!(
            [rates(None), rates(Some(0)), rates(Some(99))],
            [vec![5, 0, 7], vec![5, 0, 7], vec![0, 7]]
        );
        assert_eq!([rates(Some(100)), rates(Some(101))], [vec![7], vec![]]);
    }
}
