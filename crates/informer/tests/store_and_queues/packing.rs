//! Packing is invisible: the bytes stay the same through training and repacking, dictionaries are few, and objects stay
//! uncompressed where packing does not help.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_informer::building_blocks::Delta;
use kube_informer::building_blocks::{Packing, Snapshot, Store, StoreConfig};
use kube_informer::{Index, Memory, StoredObject};
use kube_wire::path::PathReader;
use kube_wire::{Encoding, RawObject, TypeMeta};
use proptest::prelude::*;
use serde_json::json;

use super::support::*;

/// The last object put under each name.
type Model = BTreeMap<String, RawObject>;

#[derive(Clone, Debug)]
enum Step {
    /// Objects of one flavour, which determines what they have in common.
    Put {
        from: usize,
        count: usize,
        flavour: u8,
        protobuf: bool,
    },
    Remove {
        from: usize,
        count: usize,
    },
    /// A complete list of these.
    Replace {
        count: usize,
        flavour: u8,
    },
    /// A reader holds a snapshot.
    Pin,
}

fn step() -> impl Strategy<Value = Step> {
    let put = (0..60_usize, 1..40_usize, any::<u8>(), any::<bool>());
    prop_oneof![
        6 => put.prop_map(|(from, count, flavour, protobuf)| Step::Put { from, count, flavour, protobuf }),
        2 => (0..60_usize, 1..40_usize).prop_map(|(from, count)| Step::Remove { from, count }),
        1 => (0..80_usize, any::<u8>()).prop_map(|(count, flavour)| Step::Replace { count, flavour }),
        1 => Just(Step::Pin),
    ]
}

fn object(number: usize, version: u64, flavour: u8, protobuf: bool) -> RawObject {
    let key = format!("web/pod-{number}");
    if protobuf {
        let text = format!("{flavour}-{}", "x".repeat(flavour.into()));
        return pod_in_protobuf_with(&key, version, &format!("uid-{key}"), Some(("label", &text)));
    }
    let text = format!("flavour {flavour} ").repeat(usize::from(flavour) % 40);
    let labels = json!({"flavour": format!("{}", flavour % 5)});
    pod_with(
        &key,
        version,
        &json!({"metadata": {"labels": labels}, "spec": {"text": text, "number": number}}),
    )
}

/// Every object is as it was put, through every way to read it.
fn check(snapshot: &Snapshot, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(snapshot.len(), model.len());
    for (name, source) in model {
        let found = snapshot.get(&Key::new("web", name)).expect("it was put");
        let (head, restored) = (source.head(), found.raw());
        prop_assert_eq!(restored.bytes(), source.bytes());
        for (kept, put) in [
            (found.name(), head.name()),
            (found.uid(), head.uid()),
            (found.resource_version(), head.resource_version()),
            (restored.head().name(), head.name()),
        ] {
            prop_assert_eq!(kept, put);
        }
        prop_assert_eq!(found.labels().collect::<Vec<_>>(), head.labels().collect::<Vec<_>>());
        prop_assert_eq!(found.encoding(), source.encoding());
        let flavour = found.labels().get("flavour");
        if let Some(flavour) = flavour {
            let group = snapshot.by_index("flavour", &flavour).expect("it is indexed");
            prop_assert!(group.into_iter().any(|other| other.ptr_eq(found)));
        }
    }
    let counted = snapshot.iter().map(StoredObject::stored_bytes).sum::<usize>();
    prop_assert_eq!(snapshot.stored_bytes(), counted);
    // Two kinds: JSON and protobuf.
    prop_assert!(snapshot.dictionaries() <= 8, "{} dictionaries", snapshot.dictionaries());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_sequence_of_puts_trainings_and_repackings_preserves_the_bytes(
        steps in prop::collection::vec(step(), 1..30),
        drift_objects in 1..60_u64,
    ) {
        let mut packing = Packing::eager();
        packing.drift_objects = drift_objects;
        let config = StoreConfig::default().memory(packing).index(Index::label("flavour", "flavour"));
        let store = Store::new(config.index(Index::by("all", |object| [object.name().to_owned()]))).unwrap();
        let (mut model, mut version, mut pinned) = (Model::new(), 0, Vec::new());
        for step in steps {
            version += 1;
            match step {
                Step::Put { from, count, flavour, protobuf } => {
                    let made = (from..from + count).map(|number| object(number, version, flavour, protobuf));
                    let made = made.map(stored).collect::<Vec<_>>();
                    apply(&store, made.iter().cloned().map(Delta::Updated));
                    model.extend(made.iter().map(|object| (object.name().to_owned(), object.raw())));
                }
                Step::Remove { from, count } => {
                    for number in from..from + count {
                        let name = format!("pod-{number}");
                        if let Some(known) = store.get(&Key::new("web", &name)) {
                            apply(&store, [Delta::Vanished(known.clone())]);
                            model.remove(&name);
                        }
                    }
                }
                Step::Replace { count, flavour } => {
                    let made = (0..count).map(|number| object(number, version, flavour, false)).collect::<Vec<_>>();
                    model = made.iter().map(|object| (object.head().name().to_owned(), object.clone())).collect();
                    replace(&store, A, made, &version.to_string());
                }
                Step::Pin => pinned.push((store.snapshot(), model.clone())),
            }
            check(&store.snapshot(), &model)?;
        }
        drop(store);
        for (snapshot, model) in pinned {
            check(&snapshot, &model)?;
        }
    }
}

/// Similar objects, about half a kilobyte each.
fn alike(count: usize, what: &str) -> Vec<RawObject> {
    let one = |number: usize| {
        // Long and without repetition: only a dictionary makes it short.
        let text = (1..40).map(|word| format!("{what} {} ", word * 7919 % 9973)).collect::<String>();
        let labels = json!({"app": format!("app-{}", number / 10)});
        pod_with(
            &format!("web/{what}-{number}"),
            1,
            &json!({"metadata": {"labels": labels}, "spec": {"text": text}}),
        )
    };
    (0..count).map(one).collect()
}

fn is_packed(store: &Store) -> (usize, usize) {
    let snapshot = store.snapshot();
    (snapshot.iter().filter(|object| object.is_packed()).count(), snapshot.len())
}

#[test]
fn an_escaped_json_name_is_found_and_its_bytes_are_preserved() {
    let store = Store::new(config().memory(Packing::eager())).unwrap();
    let escaped = |number: usize| {
        let text = format!(
            r#"{{"metadata":{{"name":"R\u0026D-{number}","uid":"u-{number}","resourceVersion":"{number}"}},"rules":["get"]}}"#
        );
        raw_text(&text)
    };
    let objects = (1..50).map(escaped).collect::<Vec<_>>();
    replace(&store, A, objects.clone(), "100");
    for (number, object) in (1..50).zip(&objects) {
        let name = format!("R&D-{number}");
        let stored = store.get(&Key::new("", &name)).unwrap();
        assert_eq!((stored.name(), stored.uid()), (&*name, &*format!("u-{number}")));
        assert_eq!(stored.raw().bytes(), object.bytes());
        assert_eq!(stored.raw().head().name(), name);
    }
    assert!(store.get(&Key::new("", "R&D-7")).unwrap().is_packed());
}

#[test]
fn an_initial_list_is_packed_as_it_arrives_with_one_dictionary() {
    let store = Store::default();
    let objects = alike(8000, "lists");
    let bytes = objects.iter().map(|object| object.bytes().len()).sum::<usize>();
    replace(&store, A, objects, "10");
    assert_eq!(is_packed(&store), (8000, 8000));
    assert_eq!(store.snapshot().dictionaries(), 1);
    assert!(store.snapshot().stored_bytes() < bytes / 4, "{} of {bytes}", store.snapshot().stored_bytes());
}

#[test]
fn objects_from_a_watch_are_packed_once_there_are_enough() {
    let store = Store::default();
    for object in alike(6000, "events") {
        put(&store, object);
    }
    let (packed, all) = is_packed(&store);
    assert!(packed > all * 9 / 10, "{packed} of {all}");
}

#[test]
fn small_stores_incompressible_objects_and_plain_stores_stay_uncompressed() {
    let small = Store::default();
    replace(&small, A, alike(100, "settings"), "10");
    assert_eq!(is_packed(&small), (0, 100));

    let plain = Store::new(StoreConfig::default().memory(Memory::Uncompressed)).unwrap();
    replace(&plain, A, alike(8000, "lists"), "10");
    assert_eq!(is_packed(&plain), (0, 8000));

    let mut state = 1_u64;
    let mut noise = || {
        let mut text = String::new();
        while text.len() < 600 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // More distinct letters than a byte of packed text can distinguish.
            text.push(char::from_u32(0x4e00 + (state >> 40) as u32 % 0x4000).unwrap_or('x'));
        }
        text
    };
    let varied = Store::default();
    let one = |number: usize| pod_with(&format!("n-{number}"), 1, &json!({"n": noise()}));
    let objects = (0..4000).map(one).collect::<Vec<_>>();
    let before = objects.iter().map(|object| object.bytes().len()).sum::<usize>();
    replace(&varied, A, objects, "10");
    assert!(varied.snapshot().stored_bytes() <= before);
}

#[test]
fn drift_trains_a_new_dictionary_and_never_a_fifth() {
    let store = Store::default();
    replace(&store, A, alike(6000, "lists"), "10");
    let mut most = 0;
    for what in ["kittens", "bridges", "volcanoes", "alphabets", "gardens", "harbours", "lanterns"] {
        let objects = alike(6000, what).into_iter().map(stored).collect::<Vec<_>>();
        for part in objects.chunks(50) {
            apply(&store, part.iter().cloned().map(Delta::Updated));
            most = most.max(store.snapshot().dictionaries());
        }
    }
    assert!((2..=4).contains(&most), "{most} dictionaries at the same time");
    for object in store.snapshot().iter() {
        let raw = object.raw();
        assert_eq!(StoredObject::new(A, raw).unwrap().content_hash(), object.content_hash());
    }
}

#[test]
fn objects_are_compacted_unchanged_when_most_are_deleted() {
    let store = Store::new(StoreConfig::default().index(Index::namespace())).unwrap();
    replace(&store, A, alike(6000, "object"), "10");
    let handles = store.snapshot().iter().cloned().collect::<Vec<_>>();
    let (left, gone) = handles.split_at(1000);
    // Only the remaining objects are held elsewhere.
    apply(&store, gone.iter().cloned().map(Delta::Vanished));
    let mut bookmarks = 0;
    let is_moved = || store.snapshot().iter().all(|object| !left.iter().any(|held| held.ptr_eq(object)));
    while !is_moved() {
        bookmarks += 1;
        assert!(bookmarks < 200, "the objects were not moved");
        assert!(apply(&store, [bookmark(A, "11")]).is_empty(), "no changes");
    }
    assert_eq!(is_packed(&store), (1000, 1000));
    let snapshot = store.snapshot();
    for held in left {
        let moved = snapshot.get(&Key::new(held.namespace(), held.name())).unwrap();
        assert_eq!(moved.raw().bytes(), held.raw().bytes());
        let group = snapshot.by_index("namespace", held.namespace()).unwrap();
        assert!(group.into_iter().any(|object| object.ptr_eq(moved)), "the index has the stored object");
    }
}

#[test]
fn a_snapshot_outlives_its_store_and_its_dictionaries() {
    let config = StoreConfig::default().memory(Packing::eager());
    let store = Store::new(config).unwrap();
    let first = alike(50, "lists");
    replace(&store, A, first.clone(), "10");
    let snapshot = store.snapshot();
    for round in 11..30_u64 {
        replace(&store, A, alike(50, &format!("round-{round}")), &round.to_string());
    }
    drop(store);
    for object in first {
        let kept = snapshot.get(&Key::new("web", object.head().name())).unwrap();
        assert_eq!(kept.raw().bytes(), object.bytes());
    }
}

#[test]
fn an_object_of_one_store_can_be_put_into_another() {
    let memories = || [Memory::from(Packing::eager()), Memory::Uncompressed, Memory::from(Packing::eager())];
    let stores = memories().map(|memory| Store::new(StoreConfig::default().memory(memory)).unwrap());
    replace(&stores[0], A, alike(20, "lists"), "10");
    for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 2)] {
        let objects = stores[from].snapshot().into_objects().collect::<Vec<_>>();
        apply(&stores[to], objects.iter().cloned().map(Delta::Replaced));
        assert_eq!(stores[to].len(), 20);
    }
    assert_eq!(is_packed(&stores[1]), (0, 20));
    assert_eq!(is_packed(&stores[2]), (20, 20));
    assert!(stores[2].snapshot().dictionaries() <= 4);
    drop(stores[0].snapshot());
    let [one, _, other] = stores;
    drop(one);
    for (object, source) in other.snapshot().iter().map(|object| (object.raw(), object)) {
        assert_eq!(object.bytes().len(), source.uncompressed_bytes());
    }
}

#[test]
fn a_change_holds_the_object_as_received_and_refers_to_the_stored_one() {
    let store = Store::new(StoreConfig::default().memory(Packing::eager())).unwrap();
    // The dictionary is trained on the first object.
    put(&store, pod("first", 1));
    let changes = apply(&store, [Delta::Updated(stored(pod("web/api", 2)))]);
    let reported = changes[0].object();
    let kept = store.get(&Key::new("web", "api")).unwrap();
    assert!(!reported.is_packed() && kept.is_packed());
    assert!(reported.ptr_eq(&kept) && kept.ptr_eq(reported));
}

#[test]
fn fields_are_read_from_packed_objects_in_both_encodings() {
    let store = Store::new(StoreConfig::default().memory(Packing::eager())).unwrap();
    put(&store, pod("first", 1));
    put(&store, pod_with("web/api", 2, &json!({"spec": {"nodeName": "node-7"}})));
    put(&store, pod_in_protobuf("first-too", 3));
    put(&store, pod_in_protobuf_with("web/too", 4, "u", Some(("app", "x"))));
    let read = |name: &str, path: &str| {
        let object = store.get(&Key::new("web", name)).unwrap();
        assert!(object.is_packed());
        let path = PathReader::new(&path.parse().unwrap(), &TypeMeta::new("v1", "Pod")).unwrap();
        let mut found = Vec::new();
        object
            .for_each_field(&path, |value| found.extend(value.text().map(|text| text.into_owned())))
            .unwrap();
        found
    };
    assert_eq!(read("api", "spec.nodeName"), ["node-7"]);
    assert_eq!(read("api", "kind"), ["Pod"]);
    assert_eq!(read("too", "metadata.labels['app']"), ["x"]);
    assert_eq!(store.get(&Key::new("web", "too")).unwrap().encoding(), Encoding::Protobuf);
}

#[test]
fn two_stores_keep_the_same_handle_independently() {
    for memory in [Memory::Uncompressed, Memory::from(Packing::eager())] {
        let other = Arc::new(Store::new(StoreConfig::default().memory(Packing::eager())).unwrap());
        put(&other, pod("first", 1));
        // The other store gets the handle during a write: what one store records in it must not affect the other.
        let copy = other.clone();
        let copied = Index::by("copied", move |object| {
            apply(&copy, [Delta::Updated(object.clone())]);
            [object.namespace().to_owned()]
        });
        let plain = memory == Memory::Uncompressed;
        let store = Store::new(StoreConfig::default().memory(memory).index(copied)).unwrap();
        for (object, version) in alike(20, "copied").into_iter().zip(1..) {
            let reported = apply(&store, [Delta::Updated(stored(object))]);
            let here = store.get(&Key::new("web", reported[0].object().name())).unwrap();
            let there = other.get(&Key::new("web", here.name())).unwrap();
            assert!(there.is_packed());
            // (A packed object may have been repacked immediately.)
            assert!(
                !plain || !here.is_packed() && here.ptr_eq(reported[0].object()),
                "{here:?} in a plain store"
            );
            let found = store.by_index("copied", "web").unwrap();
            assert_eq!(found.iter().filter(|found| found.ptr_eq(&here)).count(), 1);
            assert_eq!(found.len(), version);
        }
        assert_eq!(store.snapshot().dictionaries() == 0, plain);
        replace(&store, A, Vec::new(), "100");
        let left = store.snapshot();
        assert_eq!((left.len(), left.stored_bytes(), left.dictionaries()), (0, 0, 0));
        assert_eq!(left.index_values("copied").unwrap().count(), 0);
    }
}
