//! `GET /api/v1/stream`: one stream of events for everything that the page shows, as server-sent events.
//!
//! | event | data |
//! |---|---|
//! | `hello` | the run of the program, and the number of the newest change |
//! | `change` | one change |
//! | `skipped` | how many changes were left out at this point, and why |
//! | `status` | once per second, the informers whose figures have changed, the rates of all informers, the controllers, and the replicas that share work |
//!
//! The `id` of a change or a status lets a client resume with `Last-Event-ID`. If the filter rarely matches, it is that of a status.
//!
//! If a client reads slowly, or the cluster changes quickly, the changes of one object are coalesced. If that is not enough, the
//! oldest changes are left out, and `skipped` takes their place. A status that does not fit is delayed. Memory and bytes per second are
//! therefore bounded per client.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName};
use kube_informer::StoredObject;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::body::{Chunks, ReadTime, body};
use super::change::{Coalesced, SUMMARY, coalesce, compared};
use super::journal::JournalEntry;
use super::params::Params;
use super::selection::{Selection, key_contains};
use super::{Refusal, Served, informers, process};
use crate::terminal::escape;

/// Most bytes per client within any second.
const SECOND_BYTES_MAX: usize = 256_000;
/// A token bucket: within any second, it allows at most the sum of its size and its rate.
const BUCKET_BYTES: usize = 88_000;
const BYTES_PER_SECOND: usize = 168_000;
const _: () = assert!(BUCKET_BYTES + BYTES_PER_SECOND <= SECOND_BYTES_MAX);
/// The part of the bucket that changes leave for the next status.
const STATUS_RESERVE: usize = 24_000;
/// Most bytes of the past changes at the beginning of a stream.
const RECENT_BYTES_MAX: usize = BUCKET_BYTES - STATUS_RESERVE;
/// Changes are sent in groups, at most this often.
const CHANGES_PERIOD: Duration = Duration::from_millis(100);
/// Most changes of one group.
const CHANGES_MAX: usize = 40;
/// Most past changes that a new client can request, and that a client receives when it resumes.
const RECENT_MAX: usize = 100;
/// Most changes of one group whose differences are searched for the text of a filter. Those that have it in their key are found
/// anyway.
const SEARCHED_MAX: usize = 100;
/// The bytes of a group that are reserved for its `skipped` events.
const SKIPPED_BYTES_MAX: usize = 256;
/// Why changes were left out of a group.
const TOO_MANY: &str = "too many changes per second";
const STATUS_PERIOD: Duration = Duration::from_secs(1);
/// When to try again to send a status that did not fit.
const STATUS_RETRY: Duration = Duration::from_millis(50);
/// How long the buffers between the program and a client may stay full.
const READ_TIME_MAX: Duration = Duration::from_secs(60);
/// Most bytes of the informers in one status; informers that do not fit are in the next one. Their rates are in every status.
const INFORMERS_BYTES_MAX: usize = 16_000;

/// Which changes a client wants.
struct ChangeFilter {
    /// By the number of the mirror.
    mirrors: Vec<bool>,
    selection: Selection,
    /// In lower case; matches the key or the differences.
    text: Option<String>,
}

/// Changes that were selected to be sent together.
struct ChangeGroup {
    /// The events of the newest ones.
    events: String,
    sent: usize,
    /// How many older ones were left out.
    omitted: usize,
    /// Whether changes were left out without checking whether they match.
    is_unsure: bool,
}

/// The bytes that may be sent now: a token bucket.
struct Budget {
    /// Negative after an event that was larger than what was available: nothing is sent until the debt is paid.
    bytes: f64,
    at: Instant,
}

/// The stream of one client.
struct Feed {
    served: Arc<Served>,
    filter: Arc<ChangeFilter>,
    /// The number of the last change that was sent or left out.
    cursor: u64,
    newest: watch::Receiver<u64>,
    budget: Budget,
    /// The events that the stream begins with.
    greeting: String,
    /// Most changes of the next group.
    group_max: usize,
    /// Whether the next status has to report changes that were not searched.
    is_unsure: bool,
    next_changes: Instant,
    next_status: Instant,
    /// The status that was sent last, by the number of the mirror.
    statuses: Vec<Value>,
    /// The mirror that the next status begins with.
    status_from: usize,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn stream(
    State(served): State<Arc<Served>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let mut params = Params::parse(query.as_deref())?;
    let filter = ChangeFilter::take(&mut params, &served)?;
    let recent = params.number("recent", RECENT_MAX)?.unwrap_or(0);
    params.finish()?;
    let permit = served.streams.clone().try_acquire_owned();
    let permit = permit
        .map_err(|_| Refusal::unavailable(format!("{} streams are open already", super::STREAMS_MAX)))?;
    let last_event = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let mut feed = Feed::new(served, filter, permit);
    feed.greet(last_event, recent).await?;
    let unbuffered = (HeaderName::from_static("x-accel-buffering"), "no");
    let body = body(feed, ReadTime::Chunk(READ_TIME_MAX));
    Ok(([(CONTENT_TYPE, "text/event-stream"), unbuffered], body).into_response())
}

// === impl ChangeFilter ===

impl ChangeFilter {
    fn take(params: &mut Params, served: &Served) -> Result<Self, Refusal> {
        let mut mirrors = vec![false; served.mirrors.len()];
        let kinds = params.all("kind");
        for kind in &kinds {
            served.mirrors_of(kind)?.iter().for_each(|(number, _)| mirrors[*number] = true);
        }
        if kinds.is_empty() {
            mirrors.fill(true);
        }
        let mut selection = Selection::parse(params)?;
        if selection.index.is_some() {
            return Err(Refusal::bad_request("cannot select changes by index: use field=PATH=VALUE"));
        }
        let text = selection.text.take();
        // A kind without the field has no matching changes. If no kind has the field, the path is wrong.
        let mut wrong = None;
        for (number, mirror) in
            served.mirrors.iter().enumerate().filter(|(number, _)| mirrors[*number]).collect::<Vec<_>>()
        {
            match selection.check(mirror) {
                Ok(()) => {}
                Err(refusal) if refusal.code == http::StatusCode::FORBIDDEN => return Err(refusal),
                Err(refusal) => {
                    mirrors[number] = false;
                    wrong = Some(refusal);
                }
            }
        }
        match wrong {
            Some(refusal) if !mirrors.contains(&true) => Err(refusal),
            _ => Ok(Self { mirrors, selection, text }),
        }
    }

    /// Whether a change may match, without a comparison of its states.
    fn wants(&self, entry: &JournalEntry) -> bool {
        let object = entry.change.object();
        let selector = || self.selection.selector(object.type_meta());
        self.mirrors[entry.mirror] && selector().is_ok_and(|selector| selector.selects(object))
    }

    /// Whether the client receives every change.
    fn is_everything(&self) -> bool {
        !self.mirrors.contains(&false) && self.selection.is_everything() && self.text.is_none()
    }

    /// Whether the text is in the object's key. If not, the differences must be searched.
    fn names(&self, object: &StoredObject) -> bool {
        self.text.as_ref().is_none_or(|text| key_contains(object, text))
    }

    /// The event of a change; `None` if the change lacks the text.
    fn event(&self, served: &Served, change: &Coalesced) -> Option<String> {
        let rendered = change.render(served, SUMMARY);
        let has_text = self.names(change.last.change.object())
            || self
                .text
                .as_ref()
                .is_some_and(|text| rendered["differences"].to_string().to_lowercase().contains(text));
        has_text.then(|| event("change", rendered["id"].as_str(), &rendered))
    }

    /// Selects the newest of the wanted changes that match, at most this many and within these bytes.
    fn group(
        &self,
        served: &Served,
        wanted: Vec<Arc<JournalEntry>>,
        count_max: usize,
        bytes_max: usize,
    ) -> ChangeGroup {
        let (named, others) = wanted.into_iter().partition(|entry| self.names(entry.change.object()));
        let mut changes = coalesce(others, SEARCHED_MAX);
        let unsearched = changes.len().saturating_sub(SEARCHED_MAX);
        changes.drain(..unsearched);
        changes.extend(coalesce(named, count_max));
        changes.sort_unstable_by_key(|change| change.last.sequence);

        let mut group = ChangeGroup { events: String::new(), sent: 0, omitted: 0, is_unsure: unsearched > 0 };
        let (mut events, mut bytes, mut is_full) = (Vec::new(), 0, false);
        for change in changes.iter().rev() {
            is_full |= events.len() >= count_max;
            if is_full && !self.names(change.last.change.object()) {
                group.is_unsure = true;
                continue;
            }
            let event = if is_full { None } else { self.event(served, change) };
            bytes += event.as_ref().map_or(0, String::len);
            match event {
                Some(event) if bytes <= bytes_max => events.push(event),
                // It lacks the text.
                None if !is_full => {}
                _ => {
                    is_full = true;
                    group.omitted += change.count;
                }
            }
        }
        (group.sent, group.events) = (events.len(), in_order(events));
        group
    }

    /// The newest wanted changes up to a number, the oldest first: at most `count_max` that match because of their key, and at most
    /// [`SEARCHED_MAX`] others.
    fn newest(&self, served: &Served, last: u64, count_max: usize) -> Vec<Arc<JournalEntry>> {
        let (mut named, mut others) = (Vec::new(), Vec::new());
        let (entries, _) = served.journal.after(0);
        let past = entries.into_iter().rev().filter(|entry| entry.sequence <= last);
        for entry in past.filter(|entry| self.wants(entry)) {
            let is_named = self.names(entry.change.object());
            let (found, found_max) =
                if is_named { (&mut named, count_max) } else { (&mut others, SEARCHED_MAX) };
            if found.len() < found_max {
                found.push(entry);
            } else if self.text.is_none() {
                break;
            }
        }
        named.append(&mut others);
        named.sort_unstable_by_key(|entry| entry.sequence);
        named
    }
}

// === impl ChangeGroup ===

impl ChangeGroup {
    /// How many changes were left out; `None` if it is unknown how many of them match.
    fn left_out(&self) -> Option<usize> {
        (!self.is_unsure).then_some(self.omitted)
    }
}

// === impl Budget ===

impl Budget {
    fn new(now: Instant) -> Self {
        Self { bytes: BUCKET_BYTES as f64, at: now }
    }

    fn available(&mut self, now: Instant) -> usize {
        let flown = now.duration_since(self.at).as_secs_f64() * BYTES_PER_SECOND as f64;
        (self.bytes, self.at) = ((self.bytes + flown).min(BUCKET_BYTES as f64), now);
        // A debt becomes 0.
        self.bytes as usize
    }

    fn spend(&mut self, bytes: usize) {
        self.bytes -= bytes as f64;
    }

    /// Whether an event can be sent now. An event that is larger than the bucket waits until the bucket is full.
    fn fits(&mut self, bytes: usize, now: Instant) -> bool {
        self.available(now) >= bytes.min(BUCKET_BYTES)
    }
}

// === impl Feed ===

impl Feed {
    fn new(served: Arc<Served>, filter: ChangeFilter, permit: OwnedSemaphorePermit) -> Self {
        let now = Instant::now();
        let newest = served.journal.follow();
        Self {
            cursor: served.journal.last(),
            statuses: vec![Value::Null; served.mirrors.len()],
            status_from: 0,
            served,
            filter: Arc::new(filter),
            newest,
            budget: Budget::new(now),
            greeting: String::new(),
            group_max: CHANGES_MAX,
            is_unsure: false,
            next_changes: now,
            next_status: now,
            _permit: permit,
        }
    }

    /// Sets where the stream begins: after the last event that the client received, or with the next change.
    async fn greet(&mut self, last_event: Option<&str>, recent: usize) -> Result<(), Refusal> {
        let journal = &self.served.journal;
        let hello = json!({
            "session": journal.session(),
            "newest": self.cursor,
            "version": env!("CARGO_PKG_VERSION"),
            "demo": self.served.playground.is_some(),
        });
        let mut greeting = format!("retry: 1000\n{}", event("hello", None, &hello));
        match last_event.map(|id| id.split_once('-')) {
            Some(Some((session, sequence))) if session == journal.session() => {
                // The first group has the changes that the client missed.
                self.cursor = sequence.parse().unwrap_or(self.cursor).min(self.cursor);
                self.group_max = RECENT_MAX;
            }
            Some(_) => greeting += &skipped(None, "the server was restarted"),
            None => greeting += &self.recent(recent, RECENT_BYTES_MAX.saturating_sub(greeting.len())).await?,
        }
        self.budget.spend(greeting.len());
        self.greeting = greeting;
        Ok(())
    }

    /// The last changes, within these bytes.
    async fn recent(&self, count_max: usize, bytes_max: usize) -> Result<String, Refusal> {
        if count_max == 0 {
            return Ok(String::new());
        }
        let (filter, last) = (self.filter.clone(), self.cursor);
        let bytes_max = bytes_max.saturating_sub(SKIPPED_BYTES_MAX);
        let group = compared(&self.served, move |served| {
            let newest = filter.newest(served, last, count_max);
            filter.group(served, newest, count_max, bytes_max)
        });
        let group = group.await?;
        // Changes beyond the requested number do not count as left out.
        let missing = count_max - group.sent;
        let left_out = group.left_out().map(|omitted| omitted.min(missing));
        if missing == 0 || left_out == Some(0) {
            return Ok(group.events);
        }
        Ok(skipped(left_out, "the recent changes are too large") + &group.events)
    }

    /// Waits until there are changes that may be sent. Cancel safe: nothing is taken.
    async fn changes_due(&mut self) {
        while *self.newest.borrow_and_update() <= self.cursor {
            if self.newest.changed().await.is_err() {
                // Cannot happen: the journal lives as long as this stream.
                std::future::pending::<()>().await;
            }
        }
        tokio::time::sleep_until(self.next_changes).await;
    }

    /// The events for the changes since the last call: `skipped` for the oldest, if there are too many, then the newest.
    async fn changes(&mut self) -> String {
        self.next_changes = Instant::now() + CHANGES_PERIOD;
        let group_max = std::mem::replace(&mut self.group_max, CHANGES_MAX);
        let (entries, dropped) = self.served.journal.after(self.cursor);
        self.cursor = entries.last().map_or_else(|| self.served.journal.last(), |entry| entry.sequence);
        let budget = self.budget.available(Instant::now());
        let bytes_max = budget.saturating_sub(STATUS_RESERVE + SKIPPED_BYTES_MAX);
        let filter = self.filter.clone();
        let group = compared(&self.served, move |served| {
            let wanted = entries.into_iter().filter(|entry| filter.wants(entry)).collect();
            filter.group(served, wanted, group_max, bytes_max)
        });
        // An error means that the program ends.
        let Ok(mut group) = group.await else { return String::new() };

        let mut text = String::new();
        if dropped > 0 {
            let count = usize::try_from(dropped).ok().filter(|_| self.filter.is_everything());
            text += &skipped(count, "the client was too slow");
        }
        // If there is no event to send, this is reported with the next status instead, not ten times per second.
        group.is_unsure |= self.is_unsure;
        let is_reported = group.omitted > 0 || (group.is_unsure && group.sent > 0);
        self.is_unsure = group.is_unsure && !is_reported;
        if is_reported {
            text += &skipped(group.left_out(), TOO_MANY);
        }
        text += &group.events;
        self.budget.spend(text.len());
        text
    }

    /// The informers whose figures have changed; empty if the event has to wait.
    fn status(&mut self) -> String {
        let now = Instant::now();
        let (informers, next) = self.changed_informers();
        let status = json!({
            "time": jiff::Timestamp::now().as_millisecond(),
            "informers": informers.iter().map(|(_, informer)| informer).collect::<Vec<_>>(),
            "rates": self.served.timelines.rates(),
            "controllers": self.served.timelines.controllers(),
            "sharing": self.served.timelines.sharing(),
            "changes": self.served.journal.last(),
            "residentBytes": process::resident_bytes(),
            "demo": self.served.playground.as_deref().map(|playground| playground.report()),
        });
        let id = format!("{}-{}", self.served.journal.session(), self.cursor);
        let mut text = if self.is_unsure { skipped(None, TOO_MANY) } else { String::new() };
        text += &event("status", Some(&id), &status);
        if !self.budget.fits(text.len(), now) {
            self.next_status = now + STATUS_RETRY;
            return String::new();
        }
        for (number, informer) in informers {
            self.statuses[number] = informer;
        }
        (self.next_status, self.status_from) = (now + STATUS_PERIOD, next);
        self.is_unsure = false;
        self.budget.spend(text.len());
        text
    }

    /// The status of the informers that have changed since their last one, by number, and the informer that the next
    /// status begins with.
    fn changed_informers(&self) -> (Vec<(usize, Value)>, usize) {
        let (mut changed, mut bytes) = (Vec::new(), 0);
        let count = self.served.mirrors.len();
        for number in (0..count).map(|at| (self.status_from + at) % count) {
            let status = informers::status(&self.served, number);
            if self.statuses[number] == status {
                continue;
            }
            bytes += status.to_string().len();
            if bytes > INFORMERS_BYTES_MAX && !changed.is_empty() {
                return (changed, number);
            }
            changed.push((number, status));
        }
        (changed, self.status_from)
    }
}

impl Chunks for Feed {
    /// The next events; `None` when the program ends.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if !self.greeting.is_empty() {
            return Some(std::mem::take(&mut self.greeting).into());
        }
        let stop = self.served.stop.clone();
        loop {
            let status_at = self.next_status;
            let chunk = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = tokio::time::sleep_until(status_at) => self.status(),
                () = self.changes_due() => self.changes().await,
            };
            if !chunk.is_empty() {
                return Some(chunk.into());
            }
        }
    }
}

/// Changes that were left out at this point of the stream; `None` if their number is unknown.
fn skipped(count: Option<usize>, reason: &str) -> String {
    event("skipped", None, &json!({"count": count, "reason": reason}))
}

/// One text of events that were collected newest first.
fn in_order(mut events: Vec<String>) -> String {
    events.reverse();
    events.concat()
}

/// One server-sent event. JSON has no line breaks, so one line of data is enough.
fn event(name: &str, id: Option<&str>, data: &Value) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("event: {name}\n{id}data: {}\n\n", escape::json(&data.to_string()))
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::super::{STREAMS_MAX, testing};
    use super::*;

    /// Most bytes that were sent within a second.
    fn most_per_second(sent: &[(Duration, usize)]) -> usize {
        let from = |start: Duration| {
            let within = sent.iter().filter(|(at, _)| (start..start + Duration::from_secs(1)).contains(at));
            within.map(|(_, bytes)| bytes).sum()
        };
        sent.iter().map(|(at, _)| from(*at)).max().unwrap_or(0)
    }

    #[test]
    fn a_budget_never_allows_more_than_its_rate_in_any_second() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let mut sent = Vec::new();
        // Changes use all that is available, also between periods; statuses of varying size are sent when they fit.
        for step in 0..5000 {
            let at = Duration::from_millis(step);
            let status = 1000 + (step as usize * 7919) % STATUS_RESERVE;
            let changes = budget.available(start + at).saturating_sub(STATUS_RESERVE);
            let bytes = match step % 13 {
                0 => changes,
                5 if budget.fits(status, start + at) => status,
                _ => 0,
            };
            budget.spend(bytes);
            sent.push((at, bytes));
        }
        assert!(most_per_second(&sent) <= SECOND_BYTES_MAX, "{}", most_per_second(&sent));
        let total = sent.iter().map(|(_, bytes)| bytes).sum::<usize>();
        assert!(total > 5 * BYTES_PER_SECOND * 9 / 10, "most of the budget is used: {total}");
    }

    #[test]
    fn an_overdrawn_budget_blocks_sending_until_it_recovers() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        budget.spend(BUCKET_BYTES + BYTES_PER_SECOND);
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        assert_eq!((budget.available(start), budget.available(after(990))), (0, 0));
        assert!(!budget.fits(1, after(999)));
        assert!(budget.fits(BYTES_PER_SECOND / 10, after(1101)));
        // Larger than the bucket: only when it is full.
        assert!(!budget.fits(10 * BUCKET_BYTES, after(1101)));
        assert!(budget.fits(10 * BUCKET_BYTES, after(3000)));
    }

    #[tokio::test]
    async fn a_stream_that_is_not_read_frees_its_place() {
        let (_server, served) = testing::config_maps(Vec::new()).await;
        tokio::time::pause();
        let response = stream(State(served.clone()), HeaderMap::new(), RawQuery(None)).await.unwrap();
        let mut body = response.into_body().into_data_stream();
        for _ in 0..100 {
            assert!(!body.next().await.unwrap().unwrap().is_empty(), "a client that reads keeps its place");
        }
        assert_eq!(served.streams.available_permits(), STREAMS_MAX - 1);
        let all = served.streams.acquire_many(STREAMS_MAX as u32);
        assert!(tokio::time::timeout(Duration::from_secs(100), all).await.is_ok(), "the permit is held");
    }

    #[tokio::test]
    async fn every_status_has_the_rates_of_all_informers() {
        let (_server, served) = testing::mirrors(60).await;
        let mut params = Params::parse(None).unwrap();
        let filter = ChangeFilter::take(&mut params, &served).unwrap();
        let permit = served.streams.clone().acquire_owned().await.unwrap();
        let mut feed = Feed::new(served.clone(), filter, permit);
        let mut informers = 0;
        for second in 1..=3 {
            (0..60).for_each(|number| served.timelines.add_rate(number, second * 1000 + number as u64));
            let status = feed.status();
            let (_, data) = status.split_once("data: ").unwrap();
            let status: Value = serde_json::from_str(data).unwrap();
            let rates: Vec<_> = (0..60).map(|number| second * 1000 + number).collect();
            assert_eq!(status["rates"], json!(rates));
            informers = status["informers"].as_array().unwrap().len();
        }
        assert!((1..60).contains(&informers), "the other figures of some informers are delayed: {informers}");
    }

    #[test]
    fn changes_leave_capacity_for_a_status() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        for step in 0..100 {
            let now = start + step * CHANGES_PERIOD;
            let changes = budget.available(now).saturating_sub(STATUS_RESERVE);
            budget.spend(changes);
            assert!(budget.fits(STATUS_RESERVE, now), "after {step} groups");
        }
    }
}
