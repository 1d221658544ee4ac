//! Tables of strategic merge patches on pods: containers, their environment and ports merge by key, finalizers as a
//! list of strings; commands and tolerations do not merge.

// Lists are written inline.
#![allow(clippy::needless_pass_by_value)]

use serde_json::{Value, json};

use super::{PatchError, strategic_merge_patch};
use crate::apply::TypeView;

fn patched(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    strategic_merge_patch(object, patch, TypeView::builtin("v1", "Pod").unwrap())
}

fn pod(containers: Value) -> Value {
    json!({"spec": {"containers": containers}})
}

fn finalizers(list: Value) -> Value {
    json!({"metadata": {"finalizers": list}})
}

/// Containers with these names, one letter each.
fn named(names: &str) -> Value {
    names.chars().map(|name| json!({"name": name.to_string()})).collect()
}

#[test]
fn objects_merge_and_nulls_delete() {
    let cases = [
        (
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
            json!({"metadata": {"labels": {"a": null, "c": "3"}}}),
            json!({"metadata": {"labels": {"b": "2", "c": "3"}}}),
        ),
        (
            json!({}),
            json!({"metadata": {"labels": {"a": null, "b": "1"}}}),
            json!({"metadata": {"labels": {"b": "1"}}}),
        ),
        (json!({"spec": {"hostname": "a"}}), json!({"spec": null}), json!({})),
        (
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "replace", "b": "2"}}}),
            json!({"metadata": {"labels": {"b": "2"}}}),
        ),
        (
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "delete"}}}),
            json!({"metadata": {"labels": {}}}),
        ),
        (
            json!({"metadata": {}}),
            json!({"metadata": {"labels": {"$patch": "delete"}}}),
            json!({"metadata": {}}),
        ),
        (json!({"a": 1}), json!({"$patch": "replace", "b": 2}), json!({"b": 2})),
        (json!({"a": 1}), json!({"$patch": "delete"}), json!({})),
        (
            json!({"spec": {"securityContext": {"runAsUser": 1, "fsGroup": 2}}}),
            json!({"spec": {"securityContext": {"$retainKeys": ["fsGroup"], "fsGroup": 3}}}),
            json!({"spec": {"securityContext": {"fsGroup": 3}}}),
        ),
        (
            json!({"spec": {"hostname": "a"}}),
            json!({"spec": {"hostname": {"odd": 1}}}),
            json!({"spec": {"hostname": {"odd": 1}}}),
        ),
    ];
    for (object, patch, expected) in cases {
        assert_eq!(patched(&object, &patch), Ok(expected), "{patch} on {object}");
    }
}

#[test]
fn keyed_lists_merge_element_by_element() {
    let two =
        || pod(json!([{"name": "a", "image": "1", "command": ["x", "y"]}, {"name": "b", "image": "2"}]));
    let cases = [
        (
            json!([{"name": "b", "image": "3"}]),
            json!([{"name": "a", "image": "1", "command": ["x", "y"]}, {"name": "b", "image": "3"}]),
        ),
        (
            json!([{"name": "a", "command": ["z"]}]),
            json!([{"name": "a", "image": "1", "command": ["z"]}, {"name": "b", "image": "2"}]),
        ),
        (
            json!([{"name": "a", "image": null}, {"name": "b", "image": null}]),
            json!([{"name": "a", "command": ["x", "y"]}, {"name": "b"}]),
        ),
        (json!([{"name": "a", "$patch": "delete"}]), json!([{"name": "b", "image": "2"}])),
        (
            json!([{"name": "z", "$patch": "delete"}, {"name": "a", "$patch": "delete"}, {"name": "c"}]),
            json!([{"name": "c"}, {"name": "b", "image": "2"}]),
        ),
        (json!([{"name": "a", "$patch": "replace", "image": "9"}]), json!([])),
        (json!([{"$patch": "replace"}, {"name": "c", "tty": null}]), json!([{"name": "c"}])),
        (
            json!([{"name": "a", "$retainKeys": ["name", "image"], "image": "5"}]),
            json!([{"name": "a", "image": "5"}, {"name": "b", "image": "2"}]),
        ),
        (json!([]), json!([{"name": "a", "image": "1", "command": ["x", "y"]}, {"name": "b", "image": "2"}])),
        (
            json!([{"name": "a", "env": [{"name": "E", "value": "1"}], "ports": [{"containerPort": 80}]}]),
            json!([{"name": "a", "image": "1", "command": ["x", "y"], "env": [{"name": "E", "value": "1"}],
                 "ports": [{"containerPort": 80}]}, {"name": "b", "image": "2"}]),
        ),
    ];
    for (patch, expected) in cases {
        assert_eq!(patched(&two(), &pod(patch.clone())), Ok(pod(expected)), "{patch}");
    }
}

#[test]
fn a_null_deletes_the_whole_list() {
    assert_eq!(patched(&pod(named("ab")), &pod(Value::Null)), Ok(json!({"spec": {}})));
}

#[test]
fn lists_nested_in_lists_merge_too() {
    let live = pod(json!([{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}]));
    let patch =
        pod(json!([{"name": "a", "env": [{"name": "Z", "value": "3"}, {"name": "X", "$patch": "delete"}]}]));
    let expected =
        pod(json!([{"name": "a", "env": [{"name": "Z", "value": "3"}, {"name": "Y", "value": "2"}]}]));
    assert_eq!(patched(&live, &patch), Ok(expected));
}

#[test]
fn string_lists_merge_without_duplicates() {
    let cases = [
        (json!(["a", "b"]), json!(["b", "c"]), json!(["a", "b", "c"])),
        (json!(["a", "b", "c"]), json!(["c", "a"]), json!(["b", "c", "a"])),
        (json!([]), json!(["x"]), json!(["x"])),
    ];
    for (live, patch, expected) in cases {
        assert_eq!(
            patched(&finalizers(live.clone()), &finalizers(patch.clone())),
            Ok(finalizers(expected)),
            "{patch} on {live}"
        );
    }
    let replaced = patched(
        &json!({"spec": {"tolerations": [{"key": "a"}]}}),
        &json!({"spec": {"tolerations": [{"key": "b"}]}}),
    );
    assert_eq!(replaced, Ok(json!({"spec": {"tolerations": [{"key": "b"}]}})));
}

#[test]
fn values_are_deleted_from_string_lists() {
    let delete = |values: Value| json!({"metadata": {"$deleteFromPrimitiveList/finalizers": values}});
    assert_eq!(
        patched(&finalizers(json!(["a", "b", "a"])), &delete(json!(["a", "z"]))),
        Ok(finalizers(json!(["b"])))
    );
    assert_eq!(patched(&json!({"metadata": {}}), &delete(json!(["a"]))), Ok(json!({"metadata": {}})));
    let both = json!({"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert_eq!(patched(&finalizers(json!(["a", "b"])), &both), Ok(finalizers(json!(["c", "b"]))));
    // Regardless of the list's merge strategy.
    let command = pod(json!([{"name": "a", "command": ["x", "y"]}]));
    let patch = pod(json!([{"name": "a", "$deleteFromPrimitiveList/command": ["x"]}]));
    assert_eq!(patched(&command, &patch), Ok(pod(json!([{"name": "a", "command": ["y"]}]))));
}

#[test]
fn set_element_order_is_applied() {
    // live, order, patch, merged
    let cases = [
        ("abc", "cba", "", "cba"),
        ("abc", "ca", "", "bca"),
        ("abxc", "cba", "", "xcba"),
        ("abc", "abdc", "d", "abdc"),
        ("xaby", "ba", "", "xbay"),
        ("axb", "cab", "c", "caxb"),
        ("", "ab", "ab", "ab"),
        ("ab", "ab", "ab", "ab"),
        ("abc", "zab", "", "abc"),
    ];
    for (live, order, patch, merged) in cases {
        let mut spec = json!({"$setElementOrder/containers": named(order)});
        if !patch.is_empty() {
            spec["containers"] = named(patch);
        }
        let result = patched(&pod(named(live)), &json!({"spec": spec}));
        assert_eq!(result, Ok(pod(named(merged))), "{order} on {live} with {patch}");

        let texts = |names: &str| json!(names.chars().map(String::from).collect::<Vec<_>>());
        let mut metadata = json!({"$setElementOrder/finalizers": texts(order)});
        if !patch.is_empty() {
            metadata["finalizers"] = texts(patch);
        }
        let result = patched(&finalizers(texts(live)), &json!({"metadata": metadata}));
        assert_eq!(result, Ok(finalizers(texts(merged))), "{order} on texts {live} with {patch}");
    }
}

#[test]
fn directives_are_removed_from_new_values() {
    let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [
        {"name": "a", "$retainKeys": ["name"], "$setElementOrder/env": [], "env": [{"name": "X", "$patch": "delete"}]}]}});
    assert_eq!(patched(&json!({}), &patch), Ok(pod(json!([{"name": "a", "env": []}]))));
}

#[test]
fn contradictory_patches_are_rejected_with_the_kube_apiserver_message() {
    let live = json!({"metadata": {"finalizers": ["a"], "labels": {"l": "1"}}, "spec": {"containers": [{"name": "a"}],
                      "odd": {"a": 1}}});
    let cases = [
        (json!([]), 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [{"$patch": "delete"}]}}),
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [{"name": "a", "$patch": "frob"}]}}),
            500,
            "unknown patch type: frob in map: map[$patch:frob name:a]",
        ),
        (
            json!({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"metadata": {"labels": {"$patch": "frob"}}}),
            500,
            "unknown patch type: frob in map: map[$patch:frob]",
        ),
        (
            json!({"spec": {"containers": ["a"]}}),
            500,
            "list element types are not identical: [[map[name:a]] [a]]",
        ),
        (json!({"metadata": {"finalizers": [1]}}), 500, "list element types are not identical: [[a] [1]]"),
        (
            json!({"spec": {"odd": {"a": 2}}}),
            500,
            "unable to find api field in struct PodSpec for the json field \"odd\"",
        ),
        (json!({"spec": {"$retainKeys": "x"}}), 400, "invalid patch format of retainKeys"),
        (
            json!({"spec": {"$retainKeys": ["containers"], "hostname": "x"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({"metadata": {"$setElementOrder/finalizers": "x"}}),
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            json!({"metadata": {"$setElementOrder": ["x"]}}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList": ["x"]}}),
            400,
            "invalid patch format of primitive list",
        ),
        (
            json!({"metadata": {"$setElementOrder/finalizers": ["b"], "finalizers": ["c"]}}),
            500,
            "The order in patch list:\n[c]\n doesn't match $setElementOrder list:\n[b]\n",
        ),
        (
            json!({"metadata": {"$setElementOrder/finalizers": ["b", "c"], "finalizers": ["c", "b"]}}),
            500,
            "The order in patch list:\n[c b]\n doesn't match $setElementOrder list:\n[b c]\n",
        ),
    ];
    for (patch, code, message) in cases {
        let error = patched(&live, &patch).expect_err(&patch.to_string());
        assert_eq!((error.code(), error.message().as_str()), (code, message), "{patch}");
    }
}
