//! client-go's Indexer surface.

use std::sync::Arc;

use kube_informer::store::{Index, Indexer, StoredObject};
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

    indexer.set(&valued("foo", 1, "older"));
    assert_eq!(value_of(&indexer.get_by_key(&"foo".parse().unwrap()).unwrap()), "older");
    indexer.delete_key(&"foo".parse().unwrap());
    indexer.delete_key(&"never-there".parse().unwrap());
    assert_eq!(keys(&indexer.list()), ["bar"]);
}

#[test]
fn index_finds_what_shares_a_value_with_an_object() {
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
