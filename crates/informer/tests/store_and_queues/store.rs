//! Objects, resourceVersions, stale states, snapshots.

use kube_informer::Index;
use kube_informer::Key;
use kube_informer::StoredObject;
use kube_informer::building_blocks::Delta;
use kube_informer::building_blocks::Store;
use kube_wire::Encoding;
use serde_json::json;

use super::support::*;

#[test]
fn the_key_is_namespace_and_name_or_name_for_cluster_scoped_objects() {
    let store = new_store();
    put(&store, pod("web/api", 1));
    put(&store, pod("node-7", 2));
    assert_eq!(snapshot_content(&store.snapshot()), ["node-7 2", "web/api 1"]);
    assert_eq!(store.get(&Key::new("web", "api")).unwrap().resource_version(), "1");
    assert_eq!(store.get(&"node-7".parse().unwrap()).unwrap().namespace(), "");
    assert!(store.get(&Key::new("web", "node-7")).is_none());
    assert!(store.get(&Key::new("", "api")).is_none());
}

#[test]
fn an_object_without_a_valid_key_is_rejected_with_its_key() {
    for (namespace, name) in [("web", ""), ("web", "a/b"), ("a/b", "api")] {
        let object = raw(&json!({"metadata": {"namespace": namespace, "name": name}}));
        let error = StoredObject::new(A, object).unwrap_err().to_string();
        assert!(error.contains(&format!("invalid object key `{namespace}/{name}`")), "{error}");
    }
}

#[test]
fn a_handle_shows_the_head_without_decoding_and_returns_the_object() {
    let more = json!({
        "metadata": {
            "generation": 3, "labels": {"app": "api"}, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "owner", "controller": true}],
        },
        "spec": {"nodeName": "node-7"},
    });
    let source = pod_with("web/api", 7, &more);
    let object = StoredObject::new(B, source.clone()).unwrap();
    assert_eq!((object.namespace(), object.name(), object.uid()), ("web", "api", "uid-web/api"));
    assert_eq!((object.resource_version(), object.generation(), object.is_deleting()), ("7", 3, true));
    assert_eq!(object.labels().get("app").as_deref(), Some("api"));
    assert_eq!(object.owners().next().unwrap().uid, "owner");
    assert_eq!((object.encoding(), object.scope()), (Encoding::Json, B));
    assert_eq!(object.raw().bytes(), source.bytes());
    assert_eq!(object.stored_bytes(), source.bytes().len());
    assert_eq!(format!("{object:?}"), "web/api@7");
}

#[test]
fn the_content_hash_is_the_same_on_every_machine() {
    // 64-bit XXH3 of the stored bytes.
    let object = stored(raw(&json!({"metadata": {"name": "a"}})));
    assert_eq!(object.raw().bytes(), &br#"{"metadata":{"name":"a"}}"#[..]);
    assert_eq!(object.content_hash(), 13_451_952_499_705_976_702);
}

#[test]
fn the_version_advances_with_bookmarks_writes_and_deletes_but_not_with_tombstones() {
    let store = new_store();
    let version = || store.resource_version(A);
    assert_eq!(version(), "");
    put(&store, pod("a", 10));
    assert_eq!(version(), "10");
    put(&store, pod("b", 20));
    assert_eq!(version(), "20");
    apply(&store, [bookmark(A, "25")]);
    assert_eq!(version(), "25");
    delete(&store, pod("b", 30));
    assert_eq!(version(), "30");
    apply(&store, [Delta::Vanished(stored(pod("a", 99)))]);
    assert_eq!(version(), "30", "a tombstone has no version of the deletion");
    apply(&store, [Delta::Updated(stored(pod("c", 40))), Delta::Updated(stored(pod("d", 35)))]);
    assert_eq!(version(), "40", "the highest of a batch");
    put(&store, raw(&json!({"metadata": {"name": "e"}})));
    assert_eq!(version(), "40", "an object without a version does not count");
    replace(&store, A, vec![pod("a", 41)], "50");
    assert_eq!(version(), "50");
    assert_eq!(store.resource_version(B), "", "each scope has its own version");
}

#[test]
fn promise_2_an_older_state_of_the_same_object_never_replaces_a_newer_one_and_is_counted() {
    let store = new_store();
    assert_eq!(put(&store, pod("web/api", 9)), ["live: added web/api 9"]);
    assert!(put(&store, pod("web/api", 8)).is_empty());
    assert!(delete(&store, pod("web/api", 8)).is_empty());
    assert_eq!(store.stats().stale, 2);
    assert_eq!(snapshot_content(&store.snapshot()), ["web/api 9"]);
    // Incomparable versions are accepted.
    let odd = pod_with("web/api", 0, &json!({"metadata": {"resourceVersion": "x"}}));
    assert_eq!(put(&store, odd), ["live: updated web/api 9 -> x"]);
    assert_eq!(store.stats().stale, 2);
}

#[test]
fn promise_2_an_older_state_of_an_earlier_object_never_replaces_the_recreated_one() {
    let store = Store::new(config().index(Index::label("app", "app"))).unwrap();
    let object = |uid: &str, version: u64| {
        pod_with("web/api", version, &json!({"metadata": {"uid": uid, "labels": {"app": uid}}}))
    };
    put(&store, object("first", 5));
    delete(&store, object("first", 8));
    assert_eq!(put(&store, object("second", 9)), ["live: added web/api 9"]);
    assert!(put(&store, object("first", 5)).is_empty());
    assert!(delete(&store, object("first", 8)).is_empty());
    assert_eq!(store.stats().stale, 2);
    assert_eq!(store.get(&Key::new("web", "api")).unwrap().uid(), "second");
    assert_eq!(keys(&store.by_index("app", "second").unwrap()), ["web/api"]);
    assert_eq!(keys(&store.by_index("app", "first").unwrap()), [""; 0]);
    // A newer object replaces it even though the deletion was missed. So does an object with an incomparable version.
    assert_eq!(put(&store, object("third", 12)), ["live: vanished web/api 9", "live: added web/api 12"]);
    let odd = pod_with("web/api", 0, &json!({"metadata": {"uid": "fourth", "resourceVersion": "x"}}));
    assert_eq!(put(&store, odd), ["live: vanished web/api 12", "live: added web/api x"]);
    assert_eq!(store.stats().stale, 2);
}

#[test]
fn a_repeated_state_is_a_resync_and_keeps_the_stored_object() {
    let store = new_store();
    put(&store, pod("web/api", 9));
    let before = store.get(&Key::new("web", "api")).unwrap();
    assert_eq!(put(&store, pod("web/api", 9)), ["resync: updated web/api 9 -> 9"]);
    assert!(store.get(&Key::new("web", "api")).unwrap().ptr_eq(&before));
}

#[test]
fn the_same_version_with_other_bytes_is_an_update() {
    let store = new_store();
    put(&store, pod("web/api", 9));
    let converted = pod_with("web/api", 9, &json!({"spec": {"defaulted": true}}));
    assert_eq!(put(&store, converted), ["live: updated web/api 9 -> 9"]);
}

#[test]
fn a_recreated_object_is_reported_as_vanished_and_added() {
    let store = new_store();
    put(&store, pod("web/api", 5));
    let recreated = || pod_with("web/api", 7, &json!({"metadata": {"uid": "other"}}));
    assert_eq!(put(&store, recreated()), ["live: vanished web/api 5", "live: added web/api 7"]);
    // The late deletion of the first object does not remove the second.
    assert!(delete(&store, pod("web/api", 6)).is_empty());
    assert_eq!(snapshot_content(&store.snapshot()), ["web/api 7"]);
    // A later deletion implies that the stored object is gone.
    assert_eq!(delete(&store, pod("web/api", 8)), ["live: vanished web/api 7"]);
    assert!(store.is_empty());
}

#[test]
fn promise_3_a_repeated_or_unknown_deletion_is_not_reported() {
    let store = new_store();
    put(&store, pod("web/api", 5));
    assert_eq!(delete(&store, pod("web/api", 6)), ["live: deleted web/api 6"]);
    assert!(delete(&store, pod("web/api", 6)).is_empty());
    assert!(delete(&store, pod("web/other", 7)).is_empty());
}

#[test]
fn a_key_that_appears_twice_in_one_write_is_written_twice() {
    let store = Store::new(config().index(Index::label("app", "app"))).unwrap();
    let labelled = |version, app: &str| {
        stored(pod_with("web/api", version, &json!({"metadata": {"labels": {"app": app}}})))
    };
    let (first, second) = (labelled(1, "one"), labelled(2, "two"));
    let changes = lines(apply(&store, [Delta::Updated(first), Delta::Updated(second)]));
    assert_eq!(changes, ["live: added web/api 1", "live: updated web/api 1 -> 2"]);
    assert!(store.by_index("app", "one").unwrap().is_empty());
    assert_eq!(content(&store.by_index("app", "two").unwrap()), ["web/api 2"]);
}

#[test]
fn promise_8_a_snapshot_is_one_moment_of_objects_indexes_and_versions() {
    let store = Store::new(config().index(Index::namespace())).unwrap();
    for at in 0..500 {
        put(&store, pod(&format!("ns-{}/pod-{at}", at % 7), at + 1));
    }
    let snapshot = store.snapshot();
    let before = snapshot_content(&snapshot);
    for at in 0..500 {
        delete(&store, pod(&format!("ns-{}/pod-{at}", at % 7), at + 1000));
    }
    assert!(store.is_empty());
    assert_eq!(snapshot_content(&snapshot), before);
    assert_eq!((snapshot.len(), snapshot.resource_version(A)), (500, "500"));
    assert_eq!(snapshot.namespace("ns-3").count(), 71);
    assert_eq!(snapshot.by_index(Index::namespace(), "ns-3").unwrap().count(), 71);
    assert_eq!(snapshot.clone().into_objects().len(), 500);
    assert_eq!(content(&snapshot.into_objects().collect::<Vec<_>>()), before);
}

#[test]
fn a_namespace_is_listed_with_or_without_its_index() {
    for config in [config(), config().index(Index::namespace())] {
        let store = Store::new(config).unwrap();
        for key in ["web/a", "web/b", "api/a", "node"] {
            put(&store, pod(key, 1));
        }
        let snapshot = store.snapshot();
        assert_eq!(keys(snapshot.namespace("web")), ["web/a", "web/b"]);
        assert_eq!(keys(snapshot.namespace("")), ["node"]);
        assert_eq!(keys(snapshot.namespace("none")), [""; 0]);
    }
}

#[test]
fn the_order_of_a_list_depends_only_on_history() {
    let list = || {
        let store = new_store();
        for at in 0..300 {
            put(&store, pod(&format!("ns/{at}"), at + 1));
        }
        store.snapshot().iter().map(|object| object.key().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(list(), list());
}

#[test]
fn the_bytes_of_all_objects_are_counted() {
    let store = new_store();
    let (first, second) = (stored(pod("a", 1)), stored(pod_with("a", 2, &json!({"spec": {"more": "text"}}))));
    apply(&store, [Delta::Updated(first)]);
    let held = || store.get(&Key::new("", "a")).map(|object| object.stored_bytes());
    assert_eq!(Some(store.snapshot().stored_bytes()), held());
    apply(&store, [Delta::Updated(second.clone())]);
    assert_eq!(Some(store.snapshot().stored_bytes()), held());
    apply(&store, [Delta::Deleted(second)]);
    assert_eq!(store.snapshot().stored_bytes(), 0);
}
