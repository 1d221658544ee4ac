//! `Fifo` against a list: strict order, batches, back-pressure, nothing lost when a batch is dropped, and in the end the
//! store equals the server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures::FutureExt;
use kube_informer::Scope;
use kube_informer::building_blocks::Store;
use kube_informer::building_blocks::{Delta, DeltaBatch, FifoConfig, Replace, Sink};
use proptest::prelude::*;

use super::support::*;

const KEYS: [&str; 6] = ["a/x", "a/y", "a/z", "b/x", "b/y", "b/z"];
const DELTAS_MAX: usize = 8;

#[derive(Clone, Debug)]
enum Op {
    Put(usize),
    Delete(usize),
    Bookmark(u16),
    /// The reflector relists: the server's objects are put into a replace.
    Relist(u16),
    Pop,
    Done,
    DropBatch,
}

/// A queued delta as text, with what the rules need.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Queued {
    text: String,
    key: Option<usize>,
    scope: u16,
    atomic: bool,
    replaces: bool,
}

#[derive(Default)]
struct Model {
    queue: VecDeque<Queued>,
    out: Option<Vec<Queued>>,
    synced: [bool; 2],
    /// The server: all accepted changes, in order.
    server: BTreeMap<usize, u64>,
    version: u64,
}

impl Model {
    fn is_full(&self) -> bool {
        self.queue.len() >= DELTAS_MAX
    }

    fn is_idle(&self, scope: u16) -> bool {
        let out = self.out.iter().flatten();
        self.queue.iter().chain(out).all(|queued| queued.scope != scope)
    }

    /// The longest prefix that may form a batch.
    fn pop(&mut self) -> Option<Vec<Queued>> {
        if self.out.is_some() || self.queue.is_empty() {
            return None;
        }
        let mut batch = Vec::<Queued>::new();
        while let Some(next) = self.queue.front() {
            let repeats = next.key.is_some() && batch.iter().any(|queued| queued.key == next.key);
            if !batch.is_empty() && (next.atomic || batch[0].atomic || repeats) {
                break;
            }
            batch.extend(self.queue.pop_front());
        }
        self.out = Some(batch.clone());
        Some(batch)
    }
}

fn show(delta: &Delta) -> String {
    let object = |what| format!("{what} {:?}", delta.object().unwrap());
    match delta {
        Delta::Added(_) | Delta::Updated(_) => object("put"),
        Delta::Deleted(_) => object("delete"),
        Delta::Bookmark { scope, resource_version } => format!("bookmark {} {resource_version}", scope.0),
        Delta::ReplacedAll(list) => format!("replaced {} {}", list.scope.0, list.resource_version),
        _ => unreachable!(),
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..KEYS.len()).prop_map(Op::Put),
        2 => (0..KEYS.len()).prop_map(Op::Delete),
        1 => (0..2u16).prop_map(Op::Bookmark),
        2 => (0..2u16).prop_map(Op::Relist),
        4 => Just(Op::Pop),
        4 => Just(Op::Done),
        1 => Just(Op::DropBatch),
    ]
}

fn scope_of(key: usize) -> Scope {
    Scope((key / 3) as u16)
}

/// Runs one operation against both; `batch` is the one being processed.
fn step(op: &Op, fifo: &Queue, store: &Store, model: &mut Model, batch: &mut Option<DeltaBatch>) {
    let full = model.is_full();
    let version = model.version + 1;
    match *op {
        Op::Put(key) => {
            let taken = fifo.update(scope_of(key), pod(KEYS[key], version)).now_or_never();
            assert_eq!(taken.is_none(), full);
            if !full {
                model.version = version;
                model.server.insert(key, version);
                let text = format!("put {}@{version}", KEYS[key]);
                let queued =
                    Queued { text, key: Some(key), scope: scope_of(key).0, atomic: false, replaces: false };
                model.queue.push_back(queued);
            }
        }
        Op::Delete(key) => {
            let taken = fifo.delete(scope_of(key), pod(KEYS[key], version)).now_or_never();
            assert_eq!(taken.is_none(), full);
            if !full {
                model.version = version;
                model.server.remove(&key);
                let text = format!("delete {}@{version}", KEYS[key]);
                let queued =
                    Queued { text, key: Some(key), scope: scope_of(key).0, atomic: false, replaces: false };
                model.queue.push_back(queued);
            }
        }
        Op::Bookmark(scope) => {
            let version = model.version.to_string();
            assert_eq!(fifo.bookmark(Scope(scope), &version).now_or_never().is_none(), full);
            if !full {
                let text = format!("bookmark {scope} {version}");
                model.queue.push_back(Queued { text, key: None, scope, atomic: false, replaces: false });
            }
        }
        Op::Relist(scope) => {
            let begun = fifo.begin_replace(Scope(scope)).now_or_never();
            assert_eq!(begun.is_some(), model.is_idle(scope));
            let Some(begun) = begun else { return };
            let mut replace = begun.unwrap();
            for (key, version) in model.server.iter().filter(|(key, _)| scope_of(**key).0 == scope) {
                replace.put(pod(KEYS[*key], *version)).unwrap();
            }
            let version = model.version.to_string();
            assert_eq!(replace.commit(&version).now_or_never().is_none(), full);
            if !full {
                let text = format!("replaced {scope} {version}");
                model.queue.push_back(Queued { text, key: None, scope, atomic: true, replaces: true });
            }
        }
        Op::Pop => {
            let popped = fifo.take().now_or_never().flatten();
            let expected = model.pop();
            assert_eq!(popped.is_some(), expected.is_some());
            if let (Some(popped), Some(expected)) = (popped, expected) {
                let texts = expected.iter().map(|queued| queued.text.clone()).collect::<Vec<_>>();
                assert_eq!(popped.deltas().iter().map(show).collect::<Vec<_>>(), texts);
                *batch = Some(popped);
            }
        }
        Op::Done => {
            if let (Some(popped), Some(out)) = (batch.take(), model.out.take()) {
                store.apply(popped.deltas());
                popped.done();
                for queued in out {
                    model.synced[usize::from(queued.scope)] |= queued.replaces;
                }
            }
        }
        Op::DropBatch => {
            if let (Some(popped), Some(out)) = (batch.take(), model.out.take()) {
                drop(popped);
                out.into_iter().rev().for_each(|queued| model.queue.push_front(queued));
            }
        }
    }
}

proptest! {
    #[test]
    fn order_batches_and_bounds_match_the_model_and_the_store_converges(
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let store = Arc::new(new_store());
        let mut config = FifoConfig::default();
        config.deltas_max = DELTAS_MAX;
        let fifo = Queue::new(store.clone(), config);
        let (mut model, mut batch) = (Model::default(), None);
        for op in &ops {
            step(op, &fifo, &store, &mut model, &mut batch);
            prop_assert_eq!(fifo.len(), model.queue.len());
            for scope in [A, B] {
                prop_assert_eq!(fifo.is_synced(scope), model.synced[usize::from(scope.0)]);
            }
        }
        while model.out.is_some() || !model.queue.is_empty() {
            for op in [Op::Pop, Op::Done] {
                step(&op, &fifo, &store, &mut model, &mut batch);
            }
        }
        let server = model.server.iter().map(|(key, version)| format!("{} {version}", KEYS[*key]));
        prop_assert_eq!(snapshot_content(&store.snapshot()), server.collect::<Vec<_>>());
        prop_assert_eq!(store.stats().stale, 0);
    }
}
