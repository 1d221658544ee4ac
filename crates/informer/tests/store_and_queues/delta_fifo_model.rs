//! `DeltaFifo` against a model: a list of keys with their deltas that follows the rules literally.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use kube_informer::building_blocks::Indexer;
use kube_informer::building_blocks::{DeltaFifo, DeltaFifoConfig, KnownObjects, Popped, Sink};
use proptest::prelude::*;

use super::delta_fifo::shown;
use super::support::*;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Debug)]
enum Op {
    Add(usize),
    Update(usize),
    Delete(usize),
    Replace(Vec<usize>),
    Resync,
    Pop,
    Done,
    DropPopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Added,
    Updated,
    Deleted,
    Vanished,
    Replaced,
    Sync,
}

type Deltas = Vec<(Kind, u64)>;

#[derive(Default)]
struct Model {
    queue: Vec<(usize, Deltas)>,
    out: Option<(usize, Deltas, bool)>,
    /// The objects that the reader has stored.
    known: BTreeMap<usize, u64>,
    populated: bool,
    initial: usize,
    version: u64,
}

impl Model {
    fn push(&mut self, key: usize, delta: (Kind, u64)) {
        let at = self.queue.iter().position(|(queued, _)| *queued == key).unwrap_or_else(|| {
            self.queue.push((key, Deltas::new()));
            self.queue.len() - 1
        });
        append(&mut self.queue[at].1, delta);
    }

    fn queued(&self, key: usize) -> Option<&Deltas> {
        self.queue.iter().find(|(queued, _)| *queued == key).map(|(_, deltas)| deltas)
    }

    fn is_out(&self, key: usize) -> bool {
        self.out.as_ref().is_some_and(|(out, ..)| *out == key)
    }

    /// `stored` is the order of the reader's objects, which is unspecified.
    fn replace(&mut self, list: &[usize], stored: &[usize]) {
        for &key in list {
            self.version += 1;
            self.push(key, (Kind::Replaced, self.version));
        }
        let queued =
            self.queue.iter().map(|(key, deltas)| (*key, deltas.last().unwrap().1)).collect::<Vec<_>>();
        for (key, version) in queued.into_iter().filter(|(key, _)| !list.contains(key)) {
            self.push(key, (Kind::Vanished, version));
        }
        // The key being processed counts as queued.
        if let Some((key, deltas, _)) = &self.out
            && let (key, (kind, version)) = (*key, *deltas.last().unwrap())
            && !list.contains(&key)
            && self.queued(key).is_none()
            && !matches!(kind, Kind::Deleted | Kind::Vanished)
        {
            self.push(key, (Kind::Vanished, version));
        }
        for &key in stored.iter().filter(|key| self.known.contains_key(key)).collect::<Vec<_>>() {
            if !list.contains(&key) && self.queued(key).is_none() && !self.is_out(key) {
                self.push(key, (Kind::Vanished, self.known[&key]));
            }
        }
        if !self.populated {
            self.populated = true;
            self.initial = self.queue.len();
        }
    }

    /// What the reader does with the deltas.
    fn store(&mut self, key: usize, deltas: &Deltas) {
        for (kind, version) in deltas {
            match kind {
                Kind::Deleted | Kind::Vanished => drop(self.known.remove(&key)),
                _ => drop(self.known.insert(key, *version)),
            }
        }
    }
}

/// Two consecutive deletions become one: the first observed one.
fn append(deltas: &mut Deltas, delta: (Kind, u64)) {
    match (deltas.last_mut(), delta.0) {
        (Some((Kind::Deleted, _)), Kind::Deleted | Kind::Vanished) => {}
        (Some(last @ (Kind::Vanished, _)), Kind::Deleted | Kind::Vanished) => *last = delta,
        _ => deltas.push(delta),
    }
}

fn text(key: usize, deltas: &Deltas) -> String {
    let deltas = deltas.iter().map(|(kind, version)| format!("{kind:?} {version}").to_lowercase());
    format!("{}: {}", KEYS[key], deltas.collect::<Vec<_>>().join(", "))
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..KEYS.len();
    prop_oneof![
        3 => key().prop_map(Op::Add),
        3 => key().prop_map(Op::Update),
        3 => key().prop_map(Op::Delete),
        2 => prop::sample::subsequence(vec![0, 1, 2, 3], 0..=4).prop_shuffle().prop_map(Op::Replace),
        1 => Just(Op::Resync),
        4 => Just(Op::Pop),
        4 => Just(Op::Done),
        1 => Just(Op::DropPopped),
    ]
}

fn step(op: &Op, fifo: &DeltaFifo, indexer: &Indexer, model: &mut Model, popped: &mut Option<Popped>) {
    let version = model.version + 1;
    match op {
        Op::Add(key) => {
            add(fifo, pod(KEYS[*key], version)).unwrap();
            (model.version, model.populated) = (version, true);
            model.push(*key, (Kind::Added, version));
        }
        Op::Update(key) => {
            update(fifo, pod(KEYS[*key], version)).unwrap();
            (model.version, model.populated) = (version, true);
            model.push(*key, (Kind::Updated, version));
        }
        Op::Delete(key) => {
            remove(fifo, pod(KEYS[*key], version)).unwrap();
            (model.version, model.populated) = (version, true);
            if model.queued(*key).is_some() || model.is_out(*key) || model.known.contains_key(key) {
                model.push(*key, (Kind::Deleted, version));
            }
        }
        Op::Replace(list) => {
            let objects = list.iter().zip(version..).map(|(key, version)| pod(KEYS[*key], version));
            replace_in(fifo, A, objects.collect(), &(version + list.len() as u64).to_string());
            model.replace(list, &stored_order(indexer));
        }
        Op::Resync => {
            now(fifo.resync(A)).unwrap();
            for key in stored_order(indexer) {
                if model.queued(key).is_none() && !model.is_out(key) {
                    model.push(key, (Kind::Sync, model.known[&key]));
                }
            }
        }
        Op::Pop => {
            let next = fifo.pop().now_or_never().flatten();
            if model.out.is_some() || model.queue.is_empty() {
                assert!(next.is_none());
                return;
            }
            let (key, deltas) = model.queue.remove(0);
            let next = next.unwrap();
            assert_eq!(shown(&next), text(key, &deltas));
            assert_eq!(next.is_initial(), model.initial > 0);
            model.out = Some((key, deltas, model.initial > 0));
            *popped = Some(next);
        }
        Op::Done => {
            let (Some(next), Some((key, deltas, initial))) = (popped.take(), model.out.take()) else {
                return;
            };
            next.deltas().iter().for_each(|delta| indexer.apply(delta));
            next.done();
            model.store(key, &deltas);
            model.initial -= usize::from(initial);
        }
        Op::DropPopped => {
            let (Some(next), Some((key, mut deltas, _))) = (popped.take(), model.out.take()) else { return };
            drop(next);
            if let Some(at) = model.queue.iter().position(|(queued, _)| *queued == key) {
                model.queue.remove(at).1.into_iter().for_each(|delta| append(&mut deltas, delta));
            }
            model.queue.insert(0, (key, deltas));
        }
    }
}

fn stored_order(indexer: &Indexer) -> Vec<usize> {
    let keys = indexer.list_keys();
    keys.iter().map(|stored| KEYS.iter().position(|key| *key == stored.as_str()).unwrap()).collect()
}

proptest! {
    #[test]
    fn popped_deltas_match_the_model_and_the_reader_converges(
        ops in prop::collection::vec(op(), 1..60),
        known in any::<bool>(),
    ) {
        let store = Arc::new(new_store());
        let indexer = Indexer::new(store.clone());
        let mut config = DeltaFifoConfig::default();
        config.known_objects = known.then(|| store.clone() as Arc<dyn KnownObjects>);
        let fifo = DeltaFifo::new(config);
        let (mut model, mut popped) = (Model::default(), None);
        for op in &ops {
            // The model cannot compare with a reader that the queue does not know.
            if !known && matches!(op, Op::Resync) {
                continue;
            }
            step(op, &fifo, &indexer, &mut model, &mut popped);
            if !known {
                model.known.clear();
            }
            prop_assert_eq!(fifo.len(), model.queue.len());
            prop_assert_eq!(fifo.is_synced(A), model.populated && model.initial == 0);
        }
        if known {
            while model.out.is_some() || !model.queue.is_empty() {
                for op in [Op::Pop, Op::Done] {
                    step(&op, &fifo, &indexer, &mut model, &mut popped);
                }
            }
            let stored = model.known.iter().map(|(key, version)| format!("{} {version}", KEYS[*key]));
            prop_assert_eq!(snapshot_content(&store.snapshot()), stored.collect::<Vec<_>>());
        }
    }
}
