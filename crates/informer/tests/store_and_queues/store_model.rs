//! The store against a map: after any sequence of writes, lists and indexes, the store equals the map, indexes equal a
//! recomputation, snapshots do not change, and a listener has the same state.

use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use kube_informer::Scope;
use kube_informer::building_blocks::Delta;
use kube_informer::building_blocks::{Change, Snapshot, Store};
use kube_informer::{Index, Origin, StoredObject};
use kube_wire::{Encoding, RawObject};
use proptest::prelude::*;
use serde_json::json;

use super::support::*;

const KEYS: [&str; 6] = ["a/x", "a/y", "a/z", "b/x", "b/y", "b/z"];

/// A state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    uid: u8,
    version: u64,
    label: u8,
    protobuf: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A batch of a watch.
    Watch(Vec<(usize, Watched)>),
    /// A complete list of the first or the second half of the keys.
    Relist {
        scope: u16,
        puts: Vec<(usize, State)>,
        removes: Vec<usize>,
        version: u64,
    },
    Bookmark {
        scope: u16,
        version: u64,
    },
    AddIndex,
    TakeSnapshot,
    DropSnapshots,
}

#[derive(Clone, Debug)]
pub(crate) enum Watched {
    Put(State),
    Delete(State),
}

#[derive(Clone, Debug, Default)]
struct Model {
    objects: BTreeMap<usize, State>,
    versions: [u64; 2],
    epochs: [u64; 2],
    complete: [bool; 2],
    stale: u64,
}

fn scope_of(key: usize) -> Scope {
    Scope((key / 3) as u16)
}

fn raw_of(key: usize, state: &State) -> RawObject {
    let (uid, label) = (format!("uid-{}", state.uid), format!("label-{}", state.label));
    if state.protobuf {
        return pod_in_protobuf_with(KEYS[key], state.version, &uid, Some(("label", &label)));
    }
    let more = json!({"metadata": {"uid": uid, "labels": {"label": label}}});
    pod_with(KEYS[key], state.version, &more)
}

fn state_of(object: &StoredObject) -> (usize, State) {
    let number = |text: &str| text.rsplit_once('-').unwrap().1.parse::<u8>().unwrap();
    let state = State {
        uid: number(object.uid()),
        version: object.resource_version().parse().unwrap(),
        label: number(&object.labels().get("label").unwrap()),
        protobuf: object.encoding() == Encoding::Protobuf,
    };
    (KEYS.iter().position(|key| *key == object.key().as_str()).unwrap(), state)
}

// === generating ===

fn state() -> impl Strategy<Value = State> {
    (0..2u8, 1..30u64, 0..3u8, any::<bool>()).prop_map(|(uid, version, label, protobuf)| State {
        uid,
        version,
        label,
        protobuf,
    })
}

fn op() -> impl Strategy<Value = Op> {
    let watched = prop_oneof![3 => state().prop_map(Watched::Put), 1 => state().prop_map(Watched::Delete)];
    let watch = prop::collection::vec((0..KEYS.len(), watched), 1..5).prop_map(Op::Watch);
    let relist = (
        0..2u16,
        prop::collection::vec((0..3usize, state()), 0..6),
        prop::collection::vec(0..3usize, 0..2),
        1..40u64,
    )
        .prop_map(|(scope, puts, removes, version)| {
            let in_scope = |key: usize| key + 3 * usize::from(scope);
            let puts = puts.into_iter().map(|(key, state)| (in_scope(key), state)).collect();
            Op::Relist { scope, puts, removes: removes.into_iter().map(in_scope).collect(), version }
        });
    prop_oneof![
        6 => watch,
        3 => relist,
        1 => (0..2u16, 1..40u64).prop_map(|(scope, version)| Op::Bookmark { scope, version }),
        1 => Just(Op::AddIndex),
        2 => Just(Op::TakeSnapshot),
        1 => Just(Op::DropSnapshots),
    ]
}

/// Any sequence of operations. `fuzz/fuzz_targets/packed_store.rs` uses it, too.
pub(crate) fn history() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..40)
}

// === the model ===

impl Model {
    fn watch(&mut self, key: usize, watched: &Watched) {
        let (Watched::Put(state) | Watched::Delete(state)) = watched;
        self.reach(scope_of(key), state.version);
        let known = self.objects.get(&key);
        let older = known.is_some_and(|known| state.version < known.version);
        match watched {
            Watched::Put(_) | Watched::Delete(_) if older => self.stale += 1,
            Watched::Put(_) => drop(self.objects.insert(key, state.clone())),
            Watched::Delete(_) => drop(self.objects.remove(&key)),
        }
    }

    fn relist(&mut self, scope: Scope, puts: &[(usize, State)], removes: &[usize], version: u64) {
        let mut list = puts.iter().cloned().collect::<BTreeMap<_, _>>();
        list.retain(|key, _| !removes.contains(key));
        let at = usize::from(scope.0);
        let went_back = list.iter().any(|(key, state)| {
            // Everything up to this version was received.
            let seen = self.complete[at] && state.version <= self.versions[at];
            match self.objects.get(key) {
                Some(known) if known.uid == state.uid => state.version < known.version,
                Some(known) => seen || state.version < known.version,
                None => seen,
            }
        });
        self.complete[at] = true;
        self.epochs[at] += u64::from(went_back || version < self.versions[at]);
        self.versions[at] = version;
        self.objects.retain(|key, _| scope_of(*key) != scope);
        self.objects.extend(list);
    }

    fn reach(&mut self, scope: Scope, version: u64) {
        let reached = &mut self.versions[usize::from(scope.0)];
        *reached = version.max(*reached);
    }
}

// === the listener ===

/// Knows only the reported changes.
#[derive(Default)]
struct Listener(BTreeMap<usize, State>);

impl Listener {
    fn receive(&mut self, change: &Change) {
        match change {
            Change::Added { object, .. } => {
                let (key, state) = state_of(object);
                assert!(self.0.insert(key, state).is_none(), "added twice: {change:?}");
            }
            Change::Updated { old, new, .. } => {
                let ((key, old), (_, new)) = (state_of(old), state_of(new));
                let known = self.0.insert(key, new).expect("updated an object that was never added");
                assert_eq!((known.uid, known.version), (old.uid, old.version), "{change:?}");
                assert_eq!(old.uid, self.0[&key].uid, "an update is never another object");
            }
            Change::Deleted { last, final_state_known, .. } => {
                let known = self.0.remove(&state_of(last).0);
                assert!(known.is_some(), "deleted an object that was never added: {change:?}");
                if change.origin() == Origin::Relist {
                    assert!(!final_state_known, "the deletion was not observed");
                }
            }
        }
    }

    fn knows(&self) -> BTreeMap<usize, (u8, u64)> {
        identities(&self.0)
    }
}

/// Uid and version: the same state in another encoding is replaced silently.
fn identities(objects: &BTreeMap<usize, State>) -> BTreeMap<usize, (u8, u64)> {
    objects.iter().map(|(key, state)| (*key, (state.uid, state.version))).collect()
}

// === checking ===

fn check(snapshot: &Snapshot, model: &Model) {
    let objects = snapshot.iter().map(state_of).collect::<BTreeMap<_, _>>();
    assert_eq!(objects, model.objects);
    assert_eq!(snapshot.len(), model.objects.len());
    for (key, state) in &model.objects {
        assert_eq!(&state_of(snapshot.get(&KEYS[*key].parse().unwrap()).unwrap()).1, state);
    }
    for scope in [A, B] {
        let at = usize::from(scope.0);
        let version = match model.versions[at] {
            0 => String::new(),
            version => version.to_string(),
        };
        assert_eq!(
            (snapshot.resource_version(scope), snapshot.epoch(scope)),
            (version.as_str(), model.epochs[at])
        );
    }
    for index in snapshot.indexes() {
        let mut expected = BTreeMap::<String, BTreeSet<String>>::new();
        for (key, state) in &model.objects {
            for value in values_of(index, KEYS[*key], state) {
                expected.entry(value).or_default().insert(format!("{}@{}", KEYS[*key], state.version));
            }
        }
        let values = snapshot.index_values(index).unwrap();
        let found = values.map(|(value, count)| {
            let objects = snapshot.by_index(index, value).unwrap().map(|object| format!("{object:?}"));
            let objects = objects.collect::<BTreeSet<_>>();
            assert_eq!(objects.len(), count);
            (value.to_owned(), objects)
        });
        assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "index {index}");
    }
}

/// The expected values of an index, from the model.
fn values_of(index: &str, key: &str, state: &State) -> Vec<String> {
    match index {
        "namespace" => vec![key[..1].to_owned()],
        "label" => vec![format!("label-{}", state.label)],
        // Two values, the second only for every other version; the third version is rejected.
        _ if state.version.is_multiple_of(3) => vec![],
        _ if state.version.is_multiple_of(2) => vec![key[2..].to_owned(), "even".to_owned()],
        _ => vec![key[2..].to_owned()],
    }
}

fn function_index() -> Index {
    Index::try_by("function", |object| {
        let (key, state) = state_of(object);
        match state.version % 3 {
            0 => Err("every third one".into()),
            _ => Ok(values_of("function", KEYS[key], &state)),
        }
    })
}

/// Promise 2: within an epoch the version under a key never regresses, even if the object is another.
fn check_never_back(before: &Model, after: &Model) {
    for (key, state) in &after.objects {
        let at = usize::from(scope_of(*key).0);
        if let Some(known) = before.objects.get(key)
            && before.epochs[at] == after.epochs[at]
        {
            assert!(known.version <= state.version, "{} went back", KEYS[*key]);
        }
    }
}

/// Runs the operations on a store and on the model, and compares after each.
pub(crate) fn check_history(ops: Vec<Op>) {
    let config = config().index(Index::namespace()).index(Index::label("label", "label"));
    let store = Store::new(config).unwrap();
    let (mut model, mut listener) = (Model::default(), Listener::default());
    let mut snapshots = Vec::<(Snapshot, Model)>::new();
    for op in ops {
        match op {
            Op::Watch(batch) => {
                let objects = batch.iter().map(|(key, watched)| {
                    let (Watched::Put(state) | Watched::Delete(state)) = watched;
                    StoredObject::new(scope_of(*key), raw_of(*key, state)).unwrap()
                });
                let objects = objects.collect::<Vec<_>>();
                let writes = batch.iter().zip(&objects).map(|((_, watched), object)| match watched {
                    Watched::Put(_) => Delta::Updated(object.clone()),
                    Watched::Delete(_) => Delta::Deleted(object.clone()),
                });
                for change in apply(&store, writes) {
                    listener.receive(&change);
                }
                for (key, watched) in &batch {
                    let before = model.clone();
                    model.watch(*key, watched);
                    check_never_back(&before, &model);
                }
            }
            Op::Relist { scope, puts, removes, version } => {
                let mut replacement = store.begin_replace(Scope(scope));
                for (key, state) in &puts {
                    replacement.put(raw_of(*key, state)).unwrap();
                }
                for key in &removes {
                    replacement.remove(&KEYS[*key].parse().unwrap());
                }
                let list = Delta::ReplacedAll(Arc::new(replacement.finish(&version.to_string())));
                let changes = apply(&store, [list]);
                changes.iter().for_each(|change| listener.receive(change));
                let before = model.clone();
                model.relist(Scope(scope), &puts, &removes, version);
                check_never_back(&before, &model);
            }
            Op::Bookmark { scope, version } => {
                apply(&store, [bookmark(Scope(scope), &version.to_string())]);
                model.reach(Scope(scope), version);
            }
            Op::AddIndex => drop(store.add_index(&function_index())),
            Op::TakeSnapshot => snapshots.push((store.snapshot(), model.clone())),
            Op::DropSnapshots => snapshots.clear(),
        }
        check(&store.snapshot(), &model);
        assert_eq!(listener.knows(), identities(&model.objects));
        assert_eq!(store.stats().stale, model.stale);
        for (snapshot, then) in &snapshots {
            check(snapshot, then);
        }
    }
}

proptest! {
    #[test]
    fn promises_2_3_and_8_hold_for_any_history(ops in history()) {
        check_history(ops);
    }
}
