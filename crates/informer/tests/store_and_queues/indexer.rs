//! client-go's Indexer surface.

use std::sync::Arc;

use futures::FutureExt;
use kube_informer::Index;
use kube_informer::StoredObject;
use kube_informer::building_blocks::Indexer;
use kube_informer::building_blocks::{Delta, DeltaFifo, DeltaFifoConfig};
use kube_wire::RawObject;
use serde_json::json;

use super::support::*;

fn valued(name: &str, version: u64, value: &str) -> StoredObject {
    stored(object_valued(name, version, value))
}

fn object_valued(name: &str, version: u64, value: &str) -> RawObject {
    pod_with(name, version, &json!({"metadata": {"labels": {"value": value}}}))
}

fn value_of(object: &StoredObject) -> String {
    object.labels().get("value").unwrap().into_owned()
}

#[test]
fn add_update_delete_get_list_and_replace() {
    let indexer = Indexer::new(Arc::new(new_store()));
    indexer.add(&valued("foo", 1, "bar"));
    assert_eq!(value_of(&indexer.get(&valued("foo", 9, "")).unwrap()), "bar");
    indexer.update(&valued("foo", 2, "baz"));
    assert_eq!(value_of(&indexer.get_by_key(&"foo".parse().unwrap()).unwrap()), "baz");
    indexer.delete(&valued("foo", 3, ""));
    assert!(indexer.get_by_key(&"foo".parse().unwrap()).is_none());

    for (name, value) in [("a", "b"), ("c", "d"), ("e", "e")] {
        indexer.add(&valued(name, 4, value));
    }
    assert_eq!(keys(&indexer.list()), ["a", "c", "e"]);
    let mut listed = indexer.list_keys();
    listed.sort();
    assert_eq!(listed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a", "c", "e"]);

    indexer.replace(A, [valued("foo", 5, "foo"), valued("bar", 6, "bar")], "7");
    assert_eq!(keys(&indexer.list()), ["bar", "foo"]);
    assert_eq!(indexer.store().resource_version(A), "7");

    indexer.apply(&Delta::Replaced(valued("foo", 1, "older")));
    assert_eq!(value_of(&indexer.get_by_key(&"foo".parse().unwrap()).unwrap()), "older");
    indexer.apply(&Delta::Vanished(valued("foo", 0, "")));
    indexer.apply(&Delta::Vanished(valued("never-there", 1, "")));
    assert_eq!(keys(&indexer.list()), ["bar"]);
}

#[test]
fn index_finds_objects_that_share_a_value() {
    let indexer = Indexer::new(Arc::new(new_store()));
    indexer.add_indexers([Index::label("by_val", "value")]).unwrap();
    for (name, value) in [("a", "b"), ("c", "b"), ("e", "f"), ("g", "h")] {
        indexer.add(&valued(name, 1, value));
    }
    let like = |value: &str| keys(&indexer.index("by_val", &valued("not-stored", 1, value)).unwrap());
    assert_eq!(like("b"), ["a", "c"]);
    assert_eq!(like("f"), ["e"]);
    assert_eq!(like("none"), [""; 0]);
    let mut values = indexer.list_index_func_values("by_val").unwrap();
    values.sort();
    assert_eq!(values, ["b", "f", "h"]);
    assert!(indexer.index("no such index", &valued("a", 1, "b")).is_err());
    assert!(indexer.list_index_func_values("no such index").is_err());
    assert!(indexer.index_keys("no such index", "b").is_err());
    assert!(indexer.add_indexers([Index::label("by_val", "other")]).is_err());
}

#[test]
fn an_object_is_found_once_however_many_values_it_shares() {
    let indexer = Indexer::new(Arc::new(new_store()));
    let letters = Index::by("letters", |object| object.name().chars().map(String::from).collect::<Vec<_>>());
    indexer.add_indexers([letters]).unwrap();
    indexer.add(&valued("abc", 1, ""));
    assert_eq!(keys(&indexer.index("letters", &valued("cab", 1, "")).unwrap()), ["abc"]);
}

#[test]
fn by_index_follows_additions_changes_and_deletions() {
    let indexer = Indexer::new(Arc::new(new_store()));
    let users = Index::by("byUser", |object| {
        let users = value_of(object);
        users.split('.').map(str::to_owned).collect::<Vec<_>>()
    });
    indexer.add_indexers([users]).unwrap();
    for (name, users) in [("one", "ernie.bert"), ("two", "bert.oscar"), ("tre", "ernie.elmo")] {
        indexer.add(&valued(name, 1, users));
    }
    let of = |user: &str| keys(&indexer.by_index("byUser", user).unwrap());
    assert_eq!(
        (of("ernie"), of("bert")),
        (vec!["one".into(), "tre".into()], vec!["one".into(), "two".into()])
    );
    assert_eq!((of("elmo"), of("elmo1")), (vec!["tre".to_owned()], vec![]));
    indexer.delete(&valued("tre", 2, ""));
    assert_eq!((of("ernie"), of("elmo")), (vec!["one".to_owned()], vec![]));
    indexer.update(&valued("two", 2, "oscar"));
    assert_eq!(of("bert"), ["one"]);
    let keys = indexer.index_keys("byUser", "oscar").unwrap();
    assert_eq!(keys.iter().map(ToString::to_string).collect::<Vec<_>>(), ["two"]);
}

#[test]
fn a_delta_from_a_queue_by_key_does_not_advance_the_scope() {
    let store = Arc::new(new_store());
    let indexer = Indexer::new(store.clone());
    indexer.replace(A, [valued("a", 10, ""), valued("b", 11, "")], "11");
    let mut config = DeltaFifoConfig::default();
    config.known_objects = Some(store.clone());
    let fifo = DeltaFifo::new(config);
    for (name, version) in [("a", 20), ("b", 30), ("a", 40)] {
        update(&fifo, pod(name, version)).unwrap();
    }
    let pop = || {
        let popped = now(fifo.pop()).unwrap();
        popped.deltas().iter().for_each(|delta| indexer.apply(delta));
        popped.done();
    };
    let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
    pop();
    assert!(store.has_seen(A, &a, "40"), "the object has the version");
    assert!(!store.has_seen(A, &b, "30"), "b has not changed");
    assert!(store.wait_for(A, &b, "30").now_or_never().is_none());
    assert_eq!(store.resource_version(A), "11");
    pop();
    assert!(store.has_seen(A, &b, "30"));
    assert_eq!(content(store.snapshot().iter()), ["a 40", "b 30"]);

    indexer.apply(&Delta::Replaced(valued("a", 50, "")));
    indexer.delete(&valued("b", 60, ""));
    indexer.apply(&Delta::Vanished(valued("a", 50, "")));
    assert_eq!(store.resource_version(A), "11");
    apply(&store, [bookmark(A, "60")]);
    assert!(store.has_seen(A, &b, "60"), "the bookmark covers it");
}

#[test]
fn an_index_function_can_query_another_index() {
    let store = Arc::new(new_store());
    let indexer = Indexer::new(store.clone());
    let reader = Arc::downgrade(&store);
    // Counts the objects with the same value, while the store is being written to.
    let rank = Index::by("rank", move |object| {
        let indexer = Indexer::new(reader.upgrade()?);
        Some(indexer.index("by_val", object).ok()?.len().to_string())
    });
    indexer.add_indexers([Index::label("by_val", "value"), rank]).unwrap();
    for (name, value) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "x")] {
        indexer.add(&valued(name, 1, value));
    }
    let of = |rank: &str| keys(&indexer.by_index("rank", rank).unwrap());
    assert_eq!(of("0"), ["a", "c"]);
    assert_eq!((of("1"), of("2")), (vec!["b".to_owned()], vec!["d".to_owned()]));
}

#[test]
fn objects_that_share_many_values_are_found_once_each() {
    let indexer = Indexer::new(Arc::new(new_store()));
    // All objects share the first two values; the second is returned twice.
    let shared = Index::by("shared", |object| ["all", "each", "each", object.name()].map(str::to_owned));
    indexer.add_indexers([shared]).unwrap();
    let objects = (0..300).map(|at| valued(&format!("pod-{at}"), 1, "")).collect::<Vec<_>>();
    indexer.replace(A, objects.clone(), "1");
    assert_eq!(keys(&indexer.index("shared", &objects[7]).unwrap()), keys(&objects));
}

#[test]
fn an_object_that_an_index_cannot_read_finds_nothing() {
    let store = Arc::new(new_store());
    let indexer = Indexer::new(store.clone());
    let picky = Index::try_by("picky", |object| match object.name() {
        "odd" => Err("no thanks".into()),
        _ => Ok(["even".to_owned()]),
    });
    indexer.add_indexers([picky]).unwrap();
    indexer.add(&valued("a", 1, ""));
    assert_eq!(keys(&indexer.index("picky", &valued("b", 1, "")).unwrap()), ["a"]);
    assert_eq!(keys(&indexer.index("picky", &valued("odd", 1, "")).unwrap()), [""; 0]);
    assert_eq!(store.stats().index_failures, 1);
}
