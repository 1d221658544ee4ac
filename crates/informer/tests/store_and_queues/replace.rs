//! A complete list: compared, staged, and applied as a whole.

use std::sync::Arc;

use kube_informer::Key;
use kube_informer::building_blocks::Delta;
use kube_informer::building_blocks::{Change, Packing, Snapshot, Store, StoreConfig};
use kube_informer::{Index, Memory, StoredObject};
use kube_wire::Encoding;
use serde_json::json;

use super::support::*;

fn store_of(objects: &[(&str, u64)]) -> Store {
    let store = new_store();
    replace(&store, A, objects.iter().map(|(key, version)| pod(key, *version)).collect(), "10");
    store
}

#[test]
fn the_first_list_is_initial_and_later_ones_are_relists() {
    let store = new_store();
    assert!(!store.snapshot().is_complete(A));
    let first = replace(&store, A, vec![pod("b", 2), pod("a", 1)], "10");
    assert_eq!(first, ["initial: added b 2", "initial: added a 1"]);
    assert!(store.snapshot().is_complete(A));
    assert_eq!(replace(&store, A, vec![pod("a", 11), pod("b", 2)], "12"), ["relist: updated a 1 -> 11"]);
    assert_eq!(store.resource_version(A), "12");
}

#[test]
fn deletions_are_reported_first_then_new_and_changed_objects_in_list_order() {
    let store = store_of(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)]);
    let changes = replace(&store, A, vec![pod("z", 12), pod("d", 11), pod("b", 2), pod("e", 10)], "12");
    let (gone, rest) = changes.split_at(2);
    let mut gone = gone.to_vec();
    gone.sort();
    assert_eq!(gone, ["relist: vanished a 1", "relist: vanished c 3"]);
    assert_eq!(rest, ["relist: added z 12", "relist: updated d 4 -> 11", "relist: added e 10"]);
    assert_eq!(snapshot_content(&store.snapshot()), ["b 2", "d 11", "e 10", "z 12"]);
}

#[test]
fn an_unreadable_listed_object_keeps_its_cached_state() {
    let store = store_of(&[("a", 1), ("b", 2), ("c", 3)]);
    replace(&store, B, vec![pod("of-b", 4)], "11");
    let mut replacement = store.begin_replace(A);
    replacement.put(pod("b", 12)).unwrap();
    // Keys that are unknown or in another scope are not invented.
    ["a", "of-b", "unknown"].iter().for_each(|key| replacement.keep(&key.parse().unwrap()));
    let list = Delta::ReplacedAll(Arc::new(replacement.finish("12")));
    let changes = apply(&store, [list]);
    assert_eq!(lines(changes), ["relist: vanished c 3", "relist: updated b 2 -> 12"]);
    assert_eq!(snapshot_content(&store.snapshot()), ["a 1", "b 12", "of-b 4"]);
}

#[test]
fn promise_3_an_object_recreated_meanwhile_is_reported_as_vanished_and_added() {
    let store = store_of(&[("a", 1), ("b", 2)]);
    let recreated = pod_with("a", 11, &json!({"metadata": {"uid": "other"}}));
    let changes = replace(&store, A, vec![recreated, pod("b", 2)], "12");
    assert_eq!(changes, ["relist: vanished a 1", "relist: added a 11"]);
    assert_eq!(snapshot_content(&store.snapshot()), ["a 11", "b 2"]);
}

#[test]
fn unchanged_means_equal_uid_version_and_bytes() {
    let store = new_store();
    let unversioned = || raw(&json!({"metadata": {"name": "metrics"}, "usage": 1}));
    let versioned = || pod_with("a", 5, &json!({"spec": {"x": 1}}));
    replace(&store, A, vec![unversioned(), versioned()], "10");
    let handle = store.get(&Key::new("", "a")).unwrap();
    // Without a version, equality cannot be determined.
    assert_eq!(replace(&store, A, vec![unversioned(), versioned()], "11"), ["relist: updated metrics  -> "]);
    assert!(store.get(&Key::new("", "a")).unwrap().ptr_eq(&handle), "an unchanged object is kept");
    // Defaulting and conversion change bodies without a new version.
    let converted = pod_with("a", 5, &json!({"spec": {"x": 2}}));
    let changes = replace(&store, A, vec![unversioned(), converted], "12");
    assert_eq!(changes, ["relist: updated metrics  -> ", "relist: updated a 5 -> 5"]);
}

#[test]
fn across_encodings_uid_and_version_decide_and_the_bytes_are_replaced_silently() {
    let store = store_of(&[("web/a", 5), ("web/b", 6)]);
    let changes = replace(&store, A, vec![pod_in_protobuf("web/a", 5), pod_in_protobuf("web/b", 11)], "12");
    assert_eq!(changes, ["relist: updated web/b 6 -> 11"]);
    assert_eq!(store.get(&Key::new("web", "a")).unwrap().encoding(), Encoding::Protobuf);
    assert!(put(&store, pod("web/a", 5)).is_empty(), "by a watch too");
    assert_eq!(store.get(&Key::new("web", "a")).unwrap().encoding(), Encoding::Json);
}

#[test]
fn the_last_of_several_objects_with_one_key_counts() {
    let store = store_of(&[("a", 5)]);
    let changes = replace(&store, A, vec![pod("b", 7), pod("a", 6), pod("b", 8), pod("a", 5)], "12");
    assert_eq!(changes, ["relist: added b 8"], "a is unchanged after all");
    assert_eq!(snapshot_content(&store.snapshot()), ["a 5", "b 8"]);
}

#[test]
fn an_object_removed_during_streaming_is_not_part_of_the_list() {
    let store = store_of(&[("a", 5), ("b", 6)]);
    let mut replacement = store.begin_replace(A);
    for object in [pod("a", 5), pod("b", 6), pod("c", 7)] {
        replacement.put(object).unwrap();
    }
    for key in ["a", "c", "never-put"] {
        replacement.remove(&key.parse::<Key>().unwrap());
    }
    let list = Delta::ReplacedAll(Arc::new(replacement.finish("12")));
    let changes = apply(&store, [list]);
    assert_eq!(lines(changes), ["relist: vanished a 5"]);
    assert_eq!(snapshot_content(&store.snapshot()), ["b 6"]);
}

#[test]
fn an_interrupted_list_leaves_the_store_unchanged() {
    let store = store_of(&[("a", 5)]);
    let mut replacement = store.begin_replace(A);
    replacement.put(pod("b", 7)).unwrap();
    drop(replacement);
    assert_eq!(snapshot_content(&store.snapshot()), ["a 5"]);
    assert_eq!(store.resource_version(A), "10");
}

#[test]
fn a_replace_touches_its_own_scope_only() {
    let store = new_store();
    replace(&store, A, vec![pod("a/x", 1)], "10");
    assert_eq!(replace(&store, B, vec![pod("b/x", 2)], "20"), ["initial: added b/x 2"]);
    assert_eq!(replace(&store, A, vec![], "30"), ["relist: vanished a/x 1"]);
    let snapshot = store.snapshot();
    assert_eq!(snapshot_content(&snapshot), ["b/x 2"]);
    assert_eq!((snapshot.resource_version(A), snapshot.resource_version(B)), ("30", "20"));
    assert_eq!(content(snapshot.scope(B)), ["b/x 2"]);
}

#[test]
fn an_older_list_begins_a_new_epoch_and_resets_versions() {
    let store = store_of(&[("a", 5), ("b", 9)]);
    put(&store, pod("a", 12));
    let changes = replace(&store, A, vec![pod("a", 5), pod("b", 9)], "9");
    assert_eq!(
        changes,
        ["relist: updated a 12 -> 5"],
        "identical objects stay, every difference is reported"
    );
    assert_eq!((store.snapshot().epoch(A), store.resource_version(A).as_str()), (1, "9"));
    assert_eq!(store.stats().stale, 0);
}

#[test]
fn an_older_item_under_the_same_uid_begins_a_new_epoch() {
    let store = store_of(&[("a", 8)]);
    let recreated = || pod_with("a", 11, &json!({"metadata": {"uid": "other"}}));
    let mut replacement = store.begin_replace(A);
    replacement.put(pod("a", 3)).unwrap();
    replacement.put(recreated()).unwrap();
    assert!(!replacement.finish("11").new_epoch, "the last put has another uid");
    replace(&store, A, vec![pod("a", 3)], "11");
    assert_eq!(store.snapshot().epoch(A), 1);
    replace(&store, A, vec![pod("a", 3)], "12");
    assert_eq!(store.snapshot().epoch(A), 1);
}

#[test]
fn an_unknown_item_older_than_the_cache_begins_a_new_epoch() {
    let store = store_of(&[("a", 8)]);
    put(&store, pod("b", 12));
    delete(&store, pod("b", 14));
    // The server was restored to 11, and has advanced to 15 again with a different history.
    assert_eq!(replace(&store, A, vec![pod("a", 8), pod("b", 11)], "15"), ["relist: added b 11"]);
    assert_eq!(store.snapshot().epoch(A), 1, "b was cached in a later state");
    replace(&store, A, vec![pod("a", 8), pod("b", 11), pod("c", 16)], "16");
    assert_eq!(store.snapshot().epoch(A), 1);
}

#[test]
fn a_large_replace_is_applied_in_one_step_while_a_snapshot_is_held() {
    let store = new_store();
    let many = |version: u64| (0..3000).map(|at| pod(&format!("ns/{at}"), version + at)).collect::<Vec<_>>();
    replace(&store, A, many(1), "5000");
    let snapshot = store.snapshot();
    assert_eq!(replace(&store, A, many(10_000), "20000").len(), 3000);
    assert_eq!(snapshot.resource_version(A), "5000");
    assert!(snapshot.iter().all(|object| object.resource_version().len() < 5));
    assert!(store.snapshot().iter().all(|object| object.resource_version().len() == 5));
}

#[test]
fn a_large_replace_updates_every_index() {
    let indexed = || {
        let config = config()
            .index(Index::namespace())
            .index(Index::field("node", "spec.nodeName"))
            .index(Index::by("last", |object| object.name().chars().last().map(String::from)));
        Store::new(config).unwrap()
    };
    let pods = |numbers: std::ops::Range<u64>, version: u64| {
        let one = |number| {
            let node = json!({"spec": {"nodeName": format!("node-{}", (number + version) % 7)}});
            pod_with(&format!("ns-{}/pod-{number}", number % 5), version + number, &node)
        };
        numbers.map(one).collect::<Vec<_>>()
    };
    let (store, other) = (indexed(), indexed());
    replace(&store, A, pods(0..3000, 1), "5000");
    // A thousand are deleted, a thousand are new, and two thousand moved to another node.
    replace(&store, A, pods(1000..4000, 10_000), "20000");
    replace(&other, A, pods(1000..4000, 10_000), "20000");
    let (store, other) = (store.snapshot(), other.snapshot());
    assert_eq!(store.len(), 3000);
    let groups =
        |prefix: &str, count: usize| (0..count).map(|at| format!("{prefix}{at}")).collect::<Vec<_>>();
    for (index, values) in
        [("namespace", groups("ns-", 5)), ("node", groups("node-", 7)), ("last", groups("", 10))]
    {
        let mut all = 0;
        for value in values {
            let of = |snapshot: &Snapshot| {
                let mut names: Vec<_> =
                    snapshot.by_index(index, &value).unwrap().map(|object| format!("{object:?}")).collect();
                names.sort();
                names
            };
            assert_eq!(of(&store), of(&other), "{index} {value}");
            all += of(&store).len();
        }
        assert_eq!(all, 3000, "{index}");
    }
}

#[test]
fn stored_objects_share_no_block_of_memory_with_released_ones() {
    // With slightly more bytes than this, the rest is packed.
    let mut soon = Packing::default();
    (soon.sample_bytes, soon.bytes_min) = (2000, 1);
    // The last has too few bytes to be packed by default.
    for memory in [memory(), Memory::from(soon), Memory::default()] {
        let store = Store::new(StoreConfig::default().memory(memory.clone())).unwrap();
        for version in [1, 2] {
            let mut replacement = store.begin_replace(A);
            for number in 0..50 {
                let pod = pod(&format!("pod-{number}"), version);
                assert!(pod.is_in_block());
                replacement.put(pod).unwrap();
            }
            let list = Delta::ReplacedAll(Arc::new(replacement.finish("5")));
            let (reported, stored) = (apply(&store, [list]), store.snapshot());
            assert_eq!((reported.len(), stored.len()), (50, 50));
            let held = reported.iter().map(Change::object).chain(stored.iter());
            assert!(held.into_iter().all(|object| !object.raw().is_in_block()), "{memory:?}");
        }
        let live = StoredObject::new(A, pod("pod-1", 3)).unwrap();
        assert!(!live.raw().is_in_block());
        assert_eq!(live.raw().bytes(), pod("pod-1", 3).bytes());
    }
}

#[test]
fn listed_objects_count_even_if_older() {
    let store = store_of(&[("a", 8)]);
    let changes = apply(&store, [Delta::Replaced(stored(pod("a", 3)))]);
    assert_eq!(lines(changes), ["relist: updated a 8 -> 3"]);
}
