//! Compares the queue with a model that is simple enough to be obviously right: maps that are searched from end to end. proptest
//! generates sequences of calls and shrinks one that shows a difference.

mod common;

use std::{collections::BTreeMap, task::Poll};

use common::{Polled, ms};
use kube_workqueue::{AddError, AddOptions, DrainAborted, Work, WorkQueue};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use tokio::{
    runtime::{self, Runtime},
    time::advance,
};

type Key = u8;

const KEYS: Key = 6;
const CAPACITY: usize = 4;
/// Milliseconds of waiting that are worth one point of priority.
const AGING_MS: i64 = 2;

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_behaves_like_its_model(sequential 1..60 => QueueTest);
}

#[derive(Clone, Debug)]
enum Call {
    Add(Key, i16),
    AddAfter(Key, i16, u64),
    /// Waits for a key; the getter stays if no key is queued.
    Get,
    DropGetter,
    Done(Key),
    Advance(u64),
    Shutdown,
    Drain,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Added {
    Taken,
    ShutDown,
    Full,
}

/// An add of a key.
#[derive(Clone, Copy, Debug)]
struct Want {
    since: i64,
    arrival: u64,
    priority: i16,
}

#[derive(Clone, Debug, Default)]
struct Model {
    now: i64,
    arrivals: u64,
    /// Whether a priority was used. Until then, the queue does not record times: all keys count as queued at time 0.
    timed: bool,
    queued: BTreeMap<Key, Want>,
    working: BTreeMap<Key, Option<Want>>,
    /// When delayed keys are due; `since` is not used.
    delayed: BTreeMap<Key, (i64, Want)>,
    closed: bool,
    /// The number of waiting `get` calls.
    idle: usize,
    draining: bool,
    /// The outcome of the last call.
    added: Option<Added>,
    handed_out: Vec<Key>,
}

impl Model {
    fn want(&mut self, key: Key, priority: i16, since: i64) {
        self.arrivals += 1;
        let new = Want { since: if self.timed { since } else { 0 }, arrival: self.arrivals, priority };
        let known = self.working.get(&key).map_or(self.queued.get(&key).copied(), |again| *again);
        let merged = known.map_or(new, |old| Want {
            since: old.since.min(new.since),
            priority: old.priority.max(new.priority),
            ..old
        });
        match self.working.get_mut(&key) {
            Some(again) => *again = Some(merged),
            None => drop(self.queued.insert(key, merged)),
        }
    }

    fn add(&mut self, key: Key, priority: i16, delay: u64) -> Added {
        let queued = self.queued.len() + self.working.len();
        let held = self.queued.contains_key(&key)
            || self.working.contains_key(&key)
            || self.delayed.contains_key(&key);
        if self.closed {
            return Added::ShutDown;
        }
        if !held && queued + self.delayed.len() >= CAPACITY {
            return Added::Full;
        }
        self.timed |= priority != 0;
        if delay == 0 {
            self.want(key, priority, self.now);
            return Added::Taken;
        }
        self.arrivals += 1;
        let at = self.now + delay as i64;
        let new = (at, Want { since: 0, arrival: self.arrivals, priority });
        let entry = self.delayed.entry(key).or_insert(new);
        entry.0 = entry.0.min(at);
        entry.1.priority = entry.1.priority.max(priority);
        Added::Taken
    }

    /// Queues the keys that are due. Then idle getters take keys, highest priority first.
    fn settle(&mut self) {
        let mut due: Vec<_> = self
            .delayed
            .iter()
            .filter(|(_, (at, _))| *at <= self.now)
            .map(|(&key, &delayed)| (key, delayed))
            .collect();
        due.sort_by_key(|(_, (at, want))| (*at, want.arrival));
        for (key, (at, want)) in due {
            self.delayed.remove(&key);
            self.want(key, want.priority, at);
        }
        while self.idle > 0 {
            let urgency = |want: &Want| i64::from(want.priority) * AGING_MS + (self.now - want.since);
            let next = self.queued.iter().max_by_key(|(_, want)| (urgency(want), u64::MAX - want.arrival));
            let Some((&key, _)) = next else { break };
            self.queued.remove(&key);
            self.working.insert(key, None);
            self.handed_out.push(key);
            self.idle -= 1;
        }
        if self.closed && self.queued.is_empty() && self.working.values().all(Option::is_none) {
            self.idle = 0;
        }
    }

    fn is_drained(&self) -> bool {
        self.closed && self.queued.is_empty() && self.working.is_empty()
    }
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Call;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(model: &Self) -> BoxedStrategy<Call> {
        let key = 0..KEYS;
        let priority = prop_oneof![3 => Just(0), 2 => -3..=3i16];
        let working: Vec<_> = model.working.keys().copied().collect();
        let done = if working.is_empty() {
            Just(Call::Get).boxed()
        } else {
            prop::sample::select(working).prop_map(Call::Done).boxed()
        };
        prop_oneof![
            8 => (key.clone(), priority.clone()).prop_map(|(key, priority)| Call::Add(key, priority)),
            6 => (key, priority, 0..6u64).prop_map(|(key, priority, delay)| Call::AddAfter(key, priority, delay)),
            8 => Just(Call::Get),
            1 => Just(Call::DropGetter),
            8 => done,
            5 => (1..5u64).prop_map(Call::Advance),
            1 => prop_oneof![Just(Call::Shutdown), Just(Call::Drain)],
        ]
        .boxed()
    }

    fn preconditions(model: &Self, call: &Call) -> bool {
        match call {
            Call::Get => model.idle < 3,
            Call::DropGetter => model.idle > 0,
            Call::Done(key) => model.working.contains_key(key),
            _ => true,
        }
    }

    fn apply(mut model: Self, call: &Call) -> Self {
        model.added = None;
        model.handed_out.clear();
        match *call {
            Call::Add(key, priority) => model.added = Some(model.add(key, priority, 0)),
            Call::AddAfter(key, priority, delay) => model.added = Some(model.add(key, priority, delay)),
            Call::Get => model.idle += 1,
            Call::DropGetter => model.idle -= 1,
            Call::Done(key) => {
                if let Some(Some(again)) = model.working.remove(&key) {
                    model.queued.insert(key, again);
                }
            }
            Call::Advance(millis) => model.now += millis as i64,
            Call::Shutdown => {
                model.closed = true;
                model.draining = false;
                model.delayed.clear();
            }
            Call::Drain => {
                model.closed = true;
                model.draining = true;
                model.delayed.clear();
            }
        }
        model.settle();
        model.draining &= !model.is_drained();
        model
    }
}

type Getter = Polled<Boxed<Option<Work<Key>>>>;
type Boxed<T> = std::pin::Pin<Box<dyn Future<Output = T>>>;

struct QueueTest {
    runtime: Runtime,
    queue: WorkQueue<Key>,
    getters: Vec<Getter>,
    drains: Vec<Polled<Boxed<Result<(), DrainAborted>>>>,
    working: BTreeMap<Key, Work<Key>>,
}

impl QueueTest {
    /// Polls woken futures until no future is woken. Returns the keys that getters took.
    fn run_woken(&mut self) -> Vec<Key> {
        let _context = self.runtime.enter();
        while let Some(woken) = self.drains.iter().position(Polled::take_wake) {
            if self.drains[woken].poll().is_ready() {
                self.drains.remove(woken);
            }
        }
        let mut handed_out = Vec::new();
        while let Some(woken) = self.getters.iter().position(Polled::take_wake) {
            if let Poll::Ready(result) = self.getters[woken].poll() {
                self.getters.remove(woken);
                if let Some(work) = result {
                    handed_out.push(*work);
                    let other = self.working.insert(*work, work);
                    assert!(other.is_none(), "two workers on one key");
                }
            }
        }
        handed_out
    }
}

impl StateMachineTest for QueueTest {
    type SystemUnderTest = Self;
    type Reference = Model;

    fn init_test(_: &Model) -> Self {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let context = runtime.enter();
        let queue = WorkQueue::builder().capacity(CAPACITY).aging(ms(AGING_MS as u64)).build();
        drop(context);
        Self { runtime, queue, getters: Vec::new(), drains: Vec::new(), working: BTreeMap::new() }
    }

    fn apply(mut test: Self, model: &Model, call: Call) -> Self {
        let mut added = None;
        let context = test.runtime.enter();
        match call {
            Call::Add(key, priority) => {
                added = Some(test.queue.add_with(key, AddOptions::new().priority(priority)));
            }
            Call::AddAfter(key, priority, delay) => {
                added = Some(test.queue.add_with(key, AddOptions::new().priority(priority).after(ms(delay))));
            }
            Call::Get => {
                let queue = test.queue.clone();
                test.getters.push(Polled::woken(Box::pin(async move { queue.get().await })));
            }
            Call::DropGetter => drop(test.getters.remove(0)),
            Call::Done(key) => test.working.remove(&key).expect("a precondition").done(),
            Call::Shutdown => test.queue.shutdown(),
            Call::Drain => {
                let queue = test.queue.clone();
                test.drains.push(Polled::woken(Box::pin(async move { queue.shutdown_with_drain().await })));
            }
            Call::Advance(millis) => {
                drop(context);
                test.runtime.block_on(advance(ms(millis)));
            }
        }
        let added = added.map(|result| match result {
            Ok(()) => Added::Taken,
            Err(AddError::ShutDown(_)) => Added::ShutDown,
            Err(_) => Added::Full,
        });
        assert_eq!(added, model.added);
        assert_eq!(test.run_woken(), model.handed_out);
        test
    }

    fn check_invariants(test: &Self, model: &Model) {
        let _context = test.runtime.enter();
        assert_eq!(test.queue.len(), model.queued.len());
        assert_eq!(test.getters.len(), model.idle, "getters that wait");
        assert!(test.working.keys().eq(model.working.keys()));
        assert_eq!(test.queue.is_shutting_down(), model.closed);
        assert_eq!(test.drains.is_empty(), !model.draining, "drains that wait");
    }
}
