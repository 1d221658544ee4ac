//! Invariants that hold after any sequence of writes.

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::apply::{FieldSet, PathElement, extent::field_set};

const MANAGERS: [&str; 3] = ["one", "two", "three"];

#[derive(Debug, Clone)]
enum AnyWrite {
    Apply { manager: usize, spec: Value, force: bool },
    Update { manager: usize, spec: Value },
}

fn text() -> impl Strategy<Value = Value> {
    "[ab]".prop_map(Value::from)
}

fn texts() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[k-n]", text(), 1..3).prop_map(|m| Value::Object(m.into_iter().collect()))
}

fn members(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::collection::btree_map(prop::sample::select(names), text(), 1..3)
        .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()))
}

fn keyed() -> impl Strategy<Value = Value> {
    let element = ("[a-c]", prop::option::of(80i64..82), members(&["value", "more"]));
    prop::collection::vec(element, 1..4).prop_shuffle().prop_map(|elements| {
        let mut seen = Vec::new();
        let mut list = Vec::new();
        for (name, port, members) in elements {
            let id = (name.clone(), port.unwrap_or(80));
            if seen.contains(&id) {
                continue;
            }
            seen.push(id);
            let mut element = members.as_object().cloned().unwrap_or_default();
            element.insert("name".to_owned(), json!(name));
            if let Some(port) = port {
                element.insert("port".to_owned(), json!(port));
            }
            list.push(Value::Object(element));
        }
        Value::Array(list)
    })
}

/// Any spec that matches the type, without empty lists and maps: an empty list has no owner, and a map that is emptied
/// becomes null, which differs from an empty map. (As on a kube-apiserver, whose captures include such cases.)
fn spec() -> impl Strategy<Value = Value> {
    let set =
        prop::sample::subsequence(vec!["a", "b", "c", "d"], 1..4).prop_shuffle().prop_map(|set| json!(set));
    let member = prop_oneof![
        text().prop_map(|v| ("text", v)),
        (0i64..3).prop_map(|v| ("number", json!(v))),
        texts().prop_map(|v| ("map", v)),
        set.prop_map(|v| ("set", v)),
        keyed().prop_map(|v| ("list", v)),
        prop::collection::vec("[ab]", 0..3).prop_map(|v| ("plain", json!(v))),
        members(&["a", "b"]).prop_map(|v| ("whole", v)),
        members(&["a", "b"]).prop_map(|v| ("nested", json!({"inner": v}))),
        texts().prop_map(|v| ("any", json!({"x": v}))),
    ];
    prop::collection::vec(member, 1..6).prop_map(|members| {
        Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>())
    })
}

fn write() -> impl Strategy<Value = AnyWrite> {
    prop_oneof![
        4 => (0..3usize, spec(), any::<bool>()).prop_map(|(manager, spec, force)| AnyWrite::Apply { manager, spec, force }),
        1 => (0..3usize, spec()).prop_map(|(manager, spec)| AnyWrite::Update { manager, spec }),
    ]
}

/// All fields that an object sets in its spec, and all owned fields.
fn named_and_owned(story: &Story) -> (FieldSet, FieldSet) {
    let object = story.object.as_ref().unwrap();
    let named = field_set(TypeView::custom(&story.schema), &json!({"spec": object["spec"]}));
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let owned = entries.iter().fold(FieldSet::default(), |all, entry| {
        all.union(&FieldSet::from_fields_v1(&entry["fieldsV1"]).unwrap())
    });
    (named, owned)
}

/// Removes empty containers: where everything is removed, a kube-apiserver leaves null, and so does this server.
fn tidy(value: Value) -> Value {
    let empty = |value: &Value| matches!(value, Value::Null) || *value == json!({}) || *value == json!([]);
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, member)| (name, tidy(member)));
            Value::Object(members.filter(|(_, member)| !empty(member)).collect())
        }
        Value::Null => json!({}),
        other => other,
    }
}

fn leaves(set: &FieldSet) -> Vec<Vec<PathElement>> {
    let paths = set.paths();
    paths
        .iter()
        .filter(|path| !paths.iter().any(|other| other.len() > path.len() && other.starts_with(path)))
        .cloned()
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn owners_only_own_existing_fields_after_any_writes(writes in prop::collection::vec(write(), 1..8)) {
        let mut story = Story::new();
        for write in writes {
            match write {
                AnyWrite::Apply { manager, spec, force } => {
                    let Ok(object) = story.try_apply(MANAGERS[manager], &spec, force) else {
                        prop_assert!(!force, "forced, and refused");
                        continue;
                    };
                    let applied = story.object.replace(object);

                    // All set fields have their values: merging them again changes nothing.
                    let again = story.try_apply(MANAGERS[manager], &spec, false).unwrap();
                    prop_assert_eq!(tidy(again), tidy(story.object.clone().unwrap()), "applied again");
                    // Every field was there before or is in the configuration.
                    if let Some(before) = applied {
                        let types = TypeView::custom(&story.schema);
                        let known = field_set(types, &json!({"spec": before["spec"]})).union(&field_set(types, &json!({"spec": spec})));
                        let (named, _) = named_and_owned(&story);
                        for path in leaves(&named) {
                            // A leaf may remain where everything below it was removed.
                            prop_assert!(path.len() == 1 || known.contains(&path) || known.below_any(&path), "{:?} came from nowhere", path);
                        }
                    }
                }
                AnyWrite::Update { manager, spec } => drop(story.update(MANAGERS[manager], spec)),
            }
            // Every owned field exists in the object, and sets are in canonical form.
            let object = story.object.as_ref().unwrap();
            for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
                let set = FieldSet::from_fields_v1(&entry["fieldsV1"]).unwrap();
                prop_assert!(!set.is_empty());
                prop_assert_eq!(set.to_fields_v1(), entry["fieldsV1"].clone());
            }
        }
    }

    #[test]
    fn with_appliers_only_every_field_has_an_owner_and_is_removed_with_the_last(
        writes in prop::collection::vec((0..3usize, spec()), 1..8),
    ) {
        let mut story = Story::new();
        for (manager, spec) in writes {
            story.force(MANAGERS[manager], spec);
            let (named, owned) = named_and_owned(&story);
            for path in leaves(&named) {
                prop_assert!(owned.contains(&path) || owned.below_any(&path), "{:?} has no owner", path);
            }
        }
        for manager in MANAGERS {
            story.force(manager, json!({}));
            prop_assert_eq!(story.owned(manager, "Apply"), json!({"f:spec": {}}));
        }
        prop_assert_eq!(tidy(story.spec().clone()), json!({}));
    }

    #[test]
    fn field_sets_obey_set_algebra(a in spec(), b in spec()) {
        let schema = schema();
        let types = TypeView::custom(&schema);
        let (a, b) = (field_set(types, &json!({"spec": a})), field_set(types, &json!({"spec": b})));
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(&a.difference(&b).union(&a.intersection(&b)), &a);
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.union(&b).difference(&b), a.difference(&b));
        for path in a.union(&b).paths() {
            prop_assert!(a.contains(&path) || b.contains(&path));
        }
        prop_assert_eq!(FieldSet::from_fields_v1(&a.to_fields_v1()).unwrap(), a);
    }
}

impl FieldSet {
    /// Whether a path of the set is below this one.
    fn below_any(&self, path: &[PathElement]) -> bool {
        self.paths().iter().any(|other| other.len() > path.len() && other.starts_with(path))
    }
}
