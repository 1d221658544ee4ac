//! Indexes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube_informer::building_blocks::Delta;
use kube_informer::building_blocks::Store;
use kube_informer::{Index, IndexError};
use kube_wire::{Projection, TypeMeta};
use parking_lot::Mutex;
use serde_json::json;

use super::support::*;

fn store_with(index: Index) -> Store {
    Store::new(config().index(index)).unwrap()
}

fn found(store: &Store, index: &str, value: &str) -> Vec<String> {
    keys(&store.by_index(index, value).unwrap())
}

fn values(store: &Store, index: &str) -> Vec<String> {
    let snapshot = store.snapshot();
    let mut values = snapshot
        .index_values(index)
        .unwrap()
        .map(|(value, count)| format!("{value}: {count}"))
        .collect::<Vec<_>>();
    values.sort();
    values
}

#[test]
fn an_index_reads_namespaces_owners_labels_and_fields() {
    let store = Store::new(
        config()
            .index(Index::namespace())
            .index(Index::owner("owner"))
            .index(Index::label("app", "app.kubernetes.io/name"))
            .index(Index::field("node", "spec.nodeName"))
            .index(Index::field("image", "spec.containers[*].image"))
            .index(Index::field("priority", "spec.priority")),
    )
    .unwrap();
    let more = json!({
        "metadata": {
            "labels": {"app.kubernetes.io/name": "api"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u1"},
                {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "u2"},
            ],
        },
        "spec": {"nodeName": "node-7", "priority": 3, "containers": [{"image": "one"}, {"image": "two"}]},
    });
    put(&store, pod_with("web/api", 1, &more));
    put(&store, pod("web/bare", 2));
    for (index, value) in [
        ("owner", "u1"),
        ("owner", "u2"),
        ("app", "api"),
        ("node", "node-7"),
        ("image", "two"),
        ("priority", "3"),
    ] {
        assert_eq!(found(&store, index, value), ["web/api"], "{index} {value}");
    }
    assert_eq!(found(&store, "namespace", "web"), ["web/api", "web/bare"]);
    assert_eq!(found(&store, "node", "node-8"), [""; 0]);
    let snapshot = store.snapshot();
    let names = snapshot.indexes().collect::<Vec<_>>();
    assert_eq!(names, ["namespace", "owner", "app", "node", "image", "priority"]);
}

#[test]
fn a_field_is_found_in_both_encodings() {
    let store = store_with(Index::field("name", "metadata.name"));
    put(&store, pod("web/api", 1));
    put(&store, pod_in_protobuf("db/api", 2));
    assert_eq!(found(&store, "name", "api"), ["db/api", "web/api"]);
}

#[test]
fn an_object_may_have_several_values_and_loses_those_it_no_longer_has() {
    let store = store_with(Index::by("letters", |object| {
        let letters = object.labels().get("letters").unwrap_or_default().into_owned();
        letters.split(',').map(str::to_owned).collect::<Vec<_>>()
    }));
    let mut version = 0;
    let mut put = |key: &str, letters: &str| {
        version += 1;
        put(&store, pod_with(key, version, &json!({"metadata": {"labels": {"letters": letters}}})));
    };
    put("k1", "foo");
    put("k2", "bar");
    assert_eq!(values(&store, "letters"), ["bar: 1", "foo: 1"]);
    put("k2", "foo,bar");
    put("k1", "foo,bar");
    put("k3", "foo,bar,baz");
    assert_eq!(values(&store, "letters"), ["bar: 3", "baz: 1", "foo: 3"]);
    put("k1", "foo");
    put("k2", "bar");
    assert_eq!(found(&store, "letters", "foo"), ["k1", "k3"]);
    assert_eq!(found(&store, "letters", "bar"), ["k2", "k3"]);
    delete(&store, pod("k1", 100));
    delete(&store, pod("k3", 101));
    assert_eq!(values(&store, "letters"), ["bar: 1"]);
}

#[test]
fn empty_groups_are_removed_and_others_kept() {
    let store = store_with(Index::label("app", "app"));
    for (at, key) in ["retain", "delete"].into_iter().enumerate() {
        put(&store, pod_with(key, at as u64 + 1, &json!({"metadata": {"labels": {"app": "x"}}})));
    }
    delete(&store, pod("delete", 5));
    assert_eq!(values(&store, "app"), ["x: 1"]);
    delete(&store, pod("retain", 6));
    assert_eq!(values(&store, "app"), [""; 0]);
}

#[test]
fn the_newest_state_is_found_under_an_unchanged_value() {
    let store = store_with(Index::namespace());
    put(&store, pod("web/api", 1));
    put(&store, pod("web/api", 2));
    assert_eq!(content(&store.by_index("namespace", "web").unwrap()), ["web/api 2"]);
}

#[test]
fn an_index_added_while_running_contains_stored_objects() {
    let store = new_store();
    for at in 0..200 {
        put(&store, pod(&format!("ns-{}/{at}", at % 3), at + 1));
    }
    assert_eq!(store.by_index("namespace", "ns-1").unwrap_err(), IndexError::Unknown("namespace".into()));
    let before = store.snapshot();
    store.add_index(&Index::namespace()).unwrap();
    store.add_index(&Index::by("last", |object| object.name().chars().last().map(String::from))).unwrap();
    assert_eq!(store.by_index("namespace", "ns-1").unwrap().len(), 67);
    assert_eq!(store.by_index("last", "7").unwrap().len(), 20);
    delete(&store, pod("ns-1/7", 900));
    assert_eq!(store.by_index("last", "7").unwrap().len(), 19);
    assert!(before.by_index("namespace", "ns-1").is_err(), "the earlier snapshot lacks the index");
}

#[test]
fn a_second_index_of_the_same_name_is_an_error() {
    let store = store_with(Index::namespace());
    let error = store.add_index(&Index::label("namespace", "x")).unwrap_err();
    assert_eq!(error.to_string(), "cannot add index `namespace`: the name is taken; choose another");
    let twice = config().index(Index::namespace()).index(Index::namespace());
    assert!(Store::new(twice).is_err());
}

#[test]
fn indexing_a_dropped_or_missing_field_is_an_error_at_the_start() {
    let config = || {
        config().projection(Projection::dropping(["status"]).unwrap()).type_meta(TypeMeta::new("v1", "Pod"))
    };
    let error = |path: &str| Store::new(config().index(Index::field("x", path))).unwrap_err().to_string();
    assert_eq!(
        error("status.phase"),
        "invalid index `x`: the projection drops field `status.phase`; keep it, or index another"
    );
    assert!(error("spec..nodeName").starts_with("invalid index `x`: "), "{}", error("spec..nodeName"));
    assert!(error("spec.nodName").starts_with("invalid index `x`: "), "{}", error("spec.nodName"));
    assert!(Store::new(config().index(Index::field("x", "spec.nodeName"))).is_ok());
    let running = Store::new(config()).unwrap();
    assert!(matches!(running.add_index(&Index::field("x", "status.phase")), Err(IndexError::Dropped(..))));
}

#[test]
fn a_failing_index_function_is_reported_with_the_key_and_the_object_is_stored() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let reported = reports.clone();
    let fails = Index::try_by("picky", |object| match object.name() {
        "error" => Err("no thanks".into()),
        "panic" => panic!("at the disco"),
        name => Ok(vec![name.to_owned()]),
    });
    let config =
        config().on_index_failure(move |failure| reported.lock().push(failure.to_string())).index(fails);
    let store = Store::new(config).unwrap();
    for name in ["error", "panic", "fine"] {
        put(&store, pod(name, 1));
    }
    assert_eq!(store.len(), 3);
    assert_eq!(values(&store, "picky"), ["fine: 1"]);
    assert_eq!(store.stats().index_failures, 2);
    assert_eq!(
        *reports.lock(),
        [
            "index `picky` cannot read object `error` and will not find it: no thanks",
            "index `picky` cannot read object `panic` and will not find it: panicked: at the disco",
        ]
    );
}

#[test]
fn an_index_that_can_no_longer_read_an_object_no_longer_finds_it() {
    let store = store_with(Index::try_by("picky", |object| match object.generation() {
        2 => Err("not this one".into()),
        generation => Ok([generation.to_string()]),
    }));
    let generation = |version: u64| pod_with("a", version, &json!({"metadata": {"generation": version}}));
    put(&store, generation(1));
    assert_eq!(values(&store, "picky"), ["1: 1"]);
    put(&store, generation(2));
    assert_eq!(values(&store, "picky"), [""; 0]);
    put(&store, generation(3));
    assert_eq!(values(&store, "picky"), ["3: 1"]);
}

#[test]
fn a_nondeterministic_index_function_leaves_no_stale_values() {
    let calls = AtomicUsize::new(0);
    let store = store_with(Index::by("fickle", move |_| [calls.fetch_add(1, Ordering::Relaxed).to_string()]));
    put(&store, pod("a", 1));
    assert_eq!(values(&store, "fickle"), ["0: 1"]);
    put(&store, pod("a", 2));
    assert_eq!(values(&store, "fickle"), ["1: 1"], "called once per state");
    delete(&store, pod("a", 3));
    assert_eq!(values(&store, "fickle"), [""; 0]);
}

#[test]
fn the_name_of_the_namespace_index_is_reserved() {
    let others = [
        Index::field("namespace", "spec.namespace"),
        Index::field("namespace", "metadata.namespace"),
        Index::label("namespace", "namespace"),
        Index::owner("namespace"),
        Index::by("namespace", |object| [object.namespace().to_owned()]),
    ];
    let store = new_store();
    put(&store, pod_with("web/api", 1, &json!({"spec": {"namespace": "other"}})));
    for other in others {
        let error = store.add_index(&other).unwrap_err();
        assert_eq!(error, IndexError::Duplicate("namespace".into()), "{other:?}");
        assert!(
            error.to_string().contains("cannot add index `namespace`: the name is taken; choose another"),
            "{error}"
        );
        assert_eq!(keys(store.snapshot().namespace("web")), ["web/api"]);
    }
    store.add_index(&Index::namespace()).unwrap();
    assert_eq!(keys(store.snapshot().namespace("web")), ["web/api"]);
}

/// The CPU time of this thread to write several states of one object with this many values.
fn cost_of_updates(index: &Index, values: u32) -> Duration {
    let state = |version: u64, from: u32| {
        let images = (from..from + values).map(|image| json!({"image": format!("image-{image}")}));
        let containers = images.collect::<Vec<_>>();
        stored(pod_with("web/api", version, &json!({"spec": {"containers": containers}})))
    };
    // Some values stay, some are removed, some are added; then all are replaced.
    let states = [state(1, 0), state(2, values / 2), state(3, 0), state(4, 2 * values)];
    let store = store_with(index.clone());
    let began = thread_time();
    for state in &states {
        apply(&store, [Delta::Updated(state.clone())]);
    }
    let cost = thread_time() - began;
    let snapshot = store.snapshot();
    assert_eq!(snapshot.index_values(index).unwrap().count(), values as usize);
    assert_eq!(found(&store, index.as_ref(), &format!("image-{}", 2 * values)), ["web/api"]);
    assert_eq!(found(&store, index.as_ref(), "image-0"), [""; 0]);
    cost
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn updating_an_index_costs_in_proportion_to_the_values_of_the_object() {
    let by_field = Index::field("image", "spec.containers[*].image");
    let by_function = Index::try_by("function", |object| {
        let value: serde_json::Value = object.decode()?;
        let containers = value["spec"]["containers"].as_array().cloned().unwrap_or_default();
        Ok(containers.into_iter().filter_map(|container| Some(container["image"].as_str()?.to_owned())))
    });
    for index in [by_field, by_function] {
        let (few, many) = (cost_of_updates(&index, 500), cost_of_updates(&index, 16_000));
        // 32 times the values: about 32 times the work if it is linear, 1,024 times if it is quadratic.
        assert!(many < 128 * few, "{index:?}: {few:?} for 500 values, {many:?} for 16,000");
    }
}

#[test]
fn an_object_with_a_hundred_thousand_values_is_updated_and_deleted() {
    const VALUES: usize = 100_000;
    let store = store_with(Index::by("numbers", |object| {
        let from = object.generation() as usize;
        (from..from + VALUES).map(|number| number.to_string()).collect::<Vec<_>>()
    }));
    for (version, from) in [(1, 0), (2, 1), (3, VALUES / 2), (4, 0)] {
        put(&store, pod_with("web/api", version, &json!({"metadata": {"generation": from}})));
        let snapshot = store.snapshot();
        assert_eq!(snapshot.index_values("numbers").unwrap().count(), VALUES);
        assert_eq!(found(&store, "numbers", &from.to_string()), ["web/api"]);
    }
    delete(&store, pod("web/api", 5));
    assert_eq!(values(&store, "numbers"), [""; 0]);
}

#[test]
fn a_panicking_index_error_callback_leaves_store_and_indexes_consistent() {
    let fails = Index::try_by("picky", |object| match object.name() {
        "error" => Err("no thanks".into()),
        name => Ok(vec![name.to_owned()]),
    });
    let config = config().on_index_failure(|_| panic!("in the callback")).index(fails);
    let store = Store::new(config).unwrap();
    let objects = ["fine", "error", "also-fine"].map(|name| stored(pod(name, 1)));
    let changes = apply(&store, objects.iter().cloned().map(Delta::Updated));
    assert_eq!(changes.len(), 3);
    assert_eq!(store.stats().index_failures, 1);
    assert_eq!(values(&store, "picky"), ["also-fine: 1", "fine: 1"]);
    delete(&store, pod("fine", 2));
    assert_eq!(values(&store, "picky"), ["also-fine: 1"]);
}

#[test]
fn a_panic_while_printing_an_index_error_is_reported_like_any_error() {
    #[derive(Debug)]
    struct Unprintable;
    impl std::error::Error for Unprintable {}
    impl std::fmt::Display for Unprintable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("in the error's text");
        }
    }
    let store = store_with(Index::try_by("picky", |object| match object.name() {
        "error" => Err(Unprintable.into()),
        name => Ok([name.to_owned()]),
    }));
    let objects = ["fine", "error"].map(|name| stored(pod(name, 1)));
    apply(&store, objects.iter().cloned().map(Delta::Updated));
    assert_eq!((store.len(), store.stats().index_failures), (2, 1));
    assert_eq!(values(&store, "picky"), ["fine: 1"]);
}
