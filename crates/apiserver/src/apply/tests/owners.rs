//! Field owners after different writes.

use serde_json::json;

use super::*;
use crate::apply::{FieldSet, normalize, path::PathElement};

#[test]
fn a_field_stays_while_it_has_an_owner() {
    let mut story = Story::new();
    story.apply("one", json!({"text": "a", "number": 1})).apply("two", json!({"text": "a"}));
    assert_eq!(*story.apply("one", json!({"number": 1})).spec(), json!({"text": "a", "number": 1}));
    assert_eq!(*story.apply("two", json!({})).spec(), json!({"number": 1}));
    assert_eq!(story.owned("two", "Apply"), json!({"f:spec": {}}));
    assert_eq!(
        *story.apply("one", json!({})).spec(),
        json!(null),
        "as on a kube-apiserver: emptied, not kept empty"
    );
}

#[test]
fn keyed_list_elements_are_owned_separately_with_default_keys() {
    let mut story = Story::new();
    story.apply("one", json!({"list": [{"name": "a", "value": "1"}, {"name": "b"}]}));
    story.apply("two", json!({"list": [{"name": "a", "port": 80, "more": "2"}, {"name": "a", "port": 81}]}));
    assert_eq!(
        *story.spec(),
        json!({"list": [
            {"name": "a", "port": 80, "value": "1", "more": "2"}, {"name": "b"}, {"name": "a", "port": 81}]})
    );
    assert_eq!(
        story.owned("one", "Apply")["f:spec"]["f:list"][r#"k:{"name":"a","port":80}"#],
        json!({".": {}, "f:name": {}, "f:value": {}})
    );
    story.apply("one", json!({"list": [{"name": "b"}]}));
    assert_eq!(
        *story.spec(),
        json!({"list": [{"name": "a", "port": 80, "more": "2"}, {"name": "b"}, {"name": "a", "port": 81}]})
    );
}

#[test]
fn the_applied_order_of_shared_elements_wins() {
    let element =
        |names: &str| -> Vec<Value> { names.chars().map(|c| json!({"name": c.to_string()})).collect() };
    // live, applied, merged
    let cases = [
        ("abc", "ca", "bca"),
        ("abc", "d", "abcd"),
        ("abc", "da", "dabc"),
        ("abc", "cd", "abcd"),
        ("abcd", "dxb", "acdxb"),
        ("abc", "cba", "cba"),
        ("", "ab", "ab"),
        ("ab", "", "ab"),
        ("abc", "axb", "axbc"),
    ];
    for (live, applied, merged) in cases {
        let mut story = Story::new();
        story
            .update("writer", json!({"list": element(live)}))
            .force("one", json!({"list": element(applied)}));
        let order: String = story.spec()["list"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].as_str().unwrap())
            .collect();
        assert_eq!(order, merged, "{applied} on {live}");
    }
}

#[test]
fn sets_are_owned_by_value_and_keep_their_order() {
    let mut story = Story::new();
    story.apply("one", json!({"set": ["b", "a"]})).apply("two", json!({"set": ["c", "a"]}));
    assert_eq!(*story.spec(), json!({"set": ["b", "c", "a"]}));
    assert_eq!(*story.apply("one", json!({"set": ["b"]})).spec(), json!({"set": ["b", "c", "a"]}));
    assert_eq!(*story.apply("two", json!({"set": ["c"]})).spec(), json!({"set": ["b", "c"]}));
}

#[test]
fn atomic_fields_conflict_as_a_whole() {
    let mut story = Story::new();
    story.apply("one", json!({"whole": {"a": "1"}, "plain": ["x"]}));
    let other = json!({"whole": {"b": "1"}, "plain": ["x", "y"]});
    assert_eq!(story.refused("two", &other), [r#""one" .spec.plain"#, r#""one" .spec.whole"#]);
    assert_eq!(*story.force("two", other.clone()).spec(), other);
    assert_eq!(story.owned("one", "Apply"), json!(null), "nothing is left to own");
}

#[test]
fn untyped_maps_merge_by_member_and_untyped_lists_are_atomic() {
    let mut story = Story::new();
    story
        .apply("one", json!({"any": {"a": {"b": 1}, "l": [1]}}))
        .apply("two", json!({"any": {"a": {"c": 2}}}));
    assert_eq!(*story.spec(), json!({"any": {"a": {"b": 1, "c": 2}, "l": [1]}}));
    assert_eq!(story.refused("two", &json!({"any": {"l": [2]}})), [r#""one" .spec.any.l"#]);
    assert_eq!(story.refused("two", &json!({"any": {"a": 3}})), [r#""one" .spec.any.a"#]);
}

#[test]
fn an_update_takes_ownership_of_changed_fields() {
    let mut story = Story::new();
    story.apply("one", json!({"text": "a", "map": {"k": "1", "l": "1"}}));
    story.update("writer", json!({"text": "a", "map": {"k": "2", "l": "1"}, "number": 3}));
    assert_eq!(story.owned("one", "Apply"), json!({"f:spec": {"f:text": {}, "f:map": {"f:l": {}}}}));
    assert_eq!(story.owned("writer", "Update"), json!({"f:spec": {"f:number": {}, "f:map": {"f:k": {}}}}));
    assert_eq!(
        story.refused("one", &json!({"map": {"k": "1"}})),
        [r#""writer" using example.com/v1 .spec.map.k"#]
    );
    // Removed fields have no owner.
    story.update("writer", json!({"text": "a"}));
    assert_eq!(story.owned("one", "Apply"), json!({"f:spec": {"f:text": {}}}));
    assert_eq!(story.owned("writer", "Update"), json!(null));
}

#[test]
fn a_no_op_write_changes_no_entry() {
    let mut story = Story::new();
    story.update("writer", json!({"text": "a"}));
    let before = story.object.clone();
    story.update("writer", json!({"text": "a"})).update("other", json!({"text": "a"}));
    assert_eq!(story.object, before);
}

#[test]
fn cleared_entries_stay_cleared_until_the_next_apply() {
    for forget in [json!([]), json!([{}])] {
        let mut story = Story::new();
        story.update("writer", json!({"text": "a"}));
        let mut reset = story.object.clone().unwrap();
        reset["metadata"]["managedFields"] = forget;
        record_update(story.object.as_ref(), &mut reset, &story.write("writer"));
        assert_eq!(reset["metadata"].get("managedFields"), None);
        story.object = Some(reset);

        story.update("writer", json!({"text": "b"}));
        assert_eq!(story.owned("writer", "Update"), json!(null));
        story.apply("one", json!({"number": 1}));
        assert_eq!(story.owned("before-first-apply", "Update"), json!({"f:spec": {".": {}, "f:text": {}}}));
        assert_eq!(story.owned("one", "Apply"), json!({"f:spec": {"f:number": {}}}));
    }
}

#[test]
fn at_most_ten_update_entries_are_kept() {
    let mut story = Story::new();
    for n in 0..15 {
        let numbers: serde_json::Map<_, _> = (0..=n).map(|n| (format!("k{n:02}"), json!("v"))).collect();
        story.update(&format!("writer-{n:02}"), json!({"map": numbers}));
    }
    let entries = story.object.as_ref().unwrap()["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 10);
    let folded = story.owned("ancient-changes", "Update");
    assert_eq!(
        folded["f:spec"]["f:map"].as_object().unwrap().len(),
        7,
        "six keys and the map itself: {folded}"
    );
}

#[test]
fn a_type_that_became_atomic_is_owned_by_all_owners_of_a_part() {
    let mut story = Story::new();
    story.apply("one", json!({"map": {"k": "1"}})).apply("two", json!({"map": {"l": "1"}}));
    let spec = story.schema.properties.get_mut("spec").unwrap();
    spec.properties.get_mut("map").unwrap().atomic_map = true;
    story.apply("one", json!({"map": {"k": "1", "l": "1"}}));
    assert_eq!(story.owned("one", "Apply"), json!({"f:spec": {"f:map": {}}}));
    assert_eq!(story.owned("two", "Apply"), json!({"f:spec": {"f:map": {}}}));
}

#[test]
fn an_invalid_configuration_is_rejected_with_the_kube_apiserver_message() {
    let cases = [
        (json!({"nope": 1}), ".spec.nope: field not declared in schema"),
        (json!({"number": "1"}), ".spec.number: expected numeric (int or float), got string"),
        (json!({"text": 1}), ".spec.text: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"map": ["a"]}), ".spec.map: expected map, got &{[a]}"),
        (json!({"set": {"a": 1}}), ".spec.set: expected list, got &{map[a:1]}"),
        (json!({"set": ["a", "a"]}), r#".spec.set: duplicate entries for key [="a"]"#),
        (
            json!({"set": [{}]}),
            ".spec.set: element 0: associative list without keys has an element that's a map type",
        ),
        (
            json!({"list": [1]}),
            ".spec.list: element 0: associative list with keys may not have non-map elements",
        ),
        (
            json!({"list": [{"name": "a"}, {"name": "a", "port": 80}]}),
            r#".spec.list: duplicate entries for key [name="a",port=80]"#,
        ),
    ];
    for (spec, expected) in cases {
        let error = Story::new().try_apply("one", &spec, false).unwrap_err();
        let prefix = "failed to create typed patch object (/t; example.com/v1, Kind=Thing): ";
        assert_eq!(error.to_string(), format!("{prefix}{expected}"), "{spec}");
        assert_eq!(error.code(), 500);
    }
}

#[test]
fn a_deep_field_set_round_trips() {
    let fields =
        json!({"f:a": {".": {}, "f:b": {}, "k:{\"x\":1,\"y\":\"z\"}": {"v:true": {}, "i:3": {}}}, "f:c": {}});
    let set = FieldSet::from_fields_v1(&fields).unwrap();
    assert_eq!(set.to_fields_v1(), fields);
    assert!(set.contains(&[PathElement::field("a")]) && set.contains(&[PathElement::field("c")]));
    assert!(!set.contains(&[PathElement::field("b")]));
    let unknown = FieldSet::from_fields_v1(&json!({"f:a": {}, "q:new": {}})).unwrap();
    assert_eq!(unknown.to_fields_v1(), json!({"f:a": {}}));
    assert!(FieldSet::from_fields_v1(&json!({"f:a": 1})).is_err());
    assert!(FieldSet::from_fields_v1(&json!({"broken": {}})).is_err());
}

#[test]
fn built_in_objects_are_normalized_like_go() {
    let cases = [
        ("v1", "ConfigMap", json!({"data": {}, "metadata": {"labels": {}}}), json!({"metadata": {}})),
        (
            "v1",
            "Service",
            json!({"metadata": {}, "spec": {"ports": [{"port": 1}]}}),
            json!({"metadata": {}, "spec": {"ports": [{"port": 1, "targetPort": 0}]}, "status": {"loadBalancer": {}}}),
        ),
        (
            "coordination.k8s.io/v1",
            "Lease",
            json!({"spec": {"holderIdentity": "", "leaseTransitions": 0}}),
            json!({"metadata": {}, "spec": {"holderIdentity": "", "leaseTransitions": 0}}),
        ),
        (
            "apps/v1",
            "Deployment",
            json!({"metadata": {"creationTimestamp": null}, "spec": {"paused": false}}),
            json!({"metadata": {}, "spec": {"selector": null, "strategy": {}, "template": {
                    "metadata": {}, "spec": {"containers": null}}}, "status": {}}),
        ),
    ];
    for (api_version, kind, mut object, expected) in cases {
        normalize(&mut object, TypeView::builtin(api_version, kind).unwrap());
        assert_eq!(object, expected, "{kind}");
        let once = object.clone();
        normalize(&mut object, TypeView::builtin(api_version, kind).unwrap());
        assert_eq!(object, once, "{kind} again");
    }
}
