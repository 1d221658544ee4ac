//! Pruning, defaulting and validation with synthetic schemas. The crate's `tests/custom_resources.rs` compares with
//! responses of a kube-apiserver.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Structural, aggregate, drop_nulls, prune, set_defaults, validate};
use crate::patch::testing::json_value;

fn schema(properties: &Value) -> Structural {
    Structural::compile(&json!({"type": "object", "properties": properties})).unwrap()
}

#[test]
fn undeclared_fields_are_pruned() {
    let schema = schema(&json!({
        "known": {"type": "object", "properties": {"a": {"type": "string"}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "kept": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "strict": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true,
                     "x-kubernetes-preserve-unknown-fields": true},
        "bare": {"type": "object"},
    }));
    let mut object = json!({
        "apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "odd": 1, "creationTimestamp": null},
        "known": {"a": "x", "b": 1}, "unknown": {"c": 1},
        "map": {"k": {"a": "x", "b": 1}}, "list": [{"a": "x"}, {"b": 1}],
        "kept": {"free": {"x": [1]}, "strict": {"a": "x", "b": 1}},
        "embedded": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "odd": 1}, "more": 1},
        "bare": {"gone": 1},
    });
    let unknown = prune(&mut object, &schema);
    assert_eq!(
        object,
        json!({
            "apiVersion": "v1", "kind": "K", "metadata": {"name": "n"},
            "known": {"a": "x"}, "map": {"k": {"a": "x"}}, "list": [{"a": "x"}, {}],
            "kept": {"free": {"x": [1]}, "strict": {"a": "x"}},
            "embedded": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "more": 1},
            "bare": {},
        })
    );
    assert_eq!(
        unknown,
        [
            "bare.gone",
            "embedded.metadata.odd",
            "kept.strict.b",
            "known.b",
            "list[1].b",
            "map.k.b",
            "metadata.odd",
            "unknown"
        ]
    );
}

#[test]
fn defaults_fill_only_absent_fields() {
    let schema = schema(&json!({
        "text": {"type": "string", "default": "d"},
        "maybe": {"type": "string", "nullable": true, "default": "d"},
        "plain": {"type": "string"},
        "object": {"type": "object", "default": {"a": 1}, "properties": {
            "a": {"type": "integer", "default": 7}, "b": {"type": "integer", "default": 8}}},
        "absent": {"type": "object", "properties": {"a": {"type": "integer", "default": 7}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer", "default": 7}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "default": {}, "properties": {
            "a": {"type": "integer", "default": 7}}}},
    }));
    let cases = [
        (json!({}), json!({"text": "d", "maybe": "d", "object": {"a": 1, "b": 8}})),
        (
            json!({"text": null, "maybe": null, "plain": null, "object": {}, "list": [{}, {"a": 1}], "map": {"k": null}}),
            json!({"text": "d", "maybe": null, "object": {"a": 7, "b": 8}, "list": [{"a": 7}, {"a": 1}],
                   "map": {"k": {"a": 7}}}),
        ),
        (
            json!({"absent": {}, "text": ""}),
            json!({"absent": {"a": 7}, "text": "", "maybe": "d", "object": {"a": 1, "b": 8}}),
        ),
    ];
    for (mut object, expected) in cases {
        let sent = object.clone();
        drop_nulls(&mut object, &schema);
        set_defaults(&mut object, &schema);
        assert_eq!(object, expected, "{sent}");
    }
}

#[test]
fn unchanged_invalid_values_do_not_fail_an_update() {
    let schema = schema(&json!({
        "text": {"type": "string", "maxLength": 2},
        "number": {"type": "integer", "maximum": 5},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                 "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 5}}}},
    }));
    let old = json!({"text": "long", "number": 1, "list": [{"k": "a", "v": 9}, {"k": "b", "v": 1}]});
    let fields = |new: &Value| -> Vec<String> {
        validate(new, Some(&old), &schema, "").into_iter().map(|error| error.field).collect()
    };
    assert_eq!(fields(&old), [""; 0]);
    assert_eq!(fields(&json!({"text": "long", "number": 9})), ["number"]);
    assert_eq!(fields(&json!({"text": "longer", "number": 1})), ["text"]);
    let moved = json!({"list": [{"k": "b", "v": 8}, {"k": "a", "v": 9}]});
    assert_eq!(fields(&moved), ["list[0].v"], "elements are identified by their keys");
}

#[test]
fn several_errors_are_listed_once_each_in_brackets() {
    let schema = schema(
        &json!({"a": {"type": "string"}, "b": {"type": "string", "allOf": [{"minLength": 3}, {"minLength": 3}]}}),
    );
    let errors = validate(&json!({"a": 1}), None, &schema, "");
    assert_eq!(
        aggregate(&errors),
        r#"a: Invalid value: "integer": a in body must be of type string: "integer""#
    );
    let errors = validate(&json!({"a": 1, "b": "x"}), None, &schema, "");
    assert_eq!(
        aggregate(&errors),
        concat!(
            r#"[a: Invalid value: "integer": a in body must be of type string: "integer", "#,
            r#"b: Invalid value: "x": b in body should be at least 3 chars long, "#,
            r#"<nil>: Invalid value: "": "b" must validate all the schemas (allOf)]"#
        )
    );
}

/// Any schema over the member names that [`json_value`] generates, with valid defaults.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "default": "d"})),
        Just(json!({"type": "integer", "default": 1, "nullable": true})),
        Just(json!({"type": "boolean"})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let members = prop::collection::btree_map("[a-d]", inner.clone(), 0..4);
        prop_oneof![
            members.clone().prop_map(|m| json!({"type": "object", "properties": m})),
            members.clone().prop_map(|m| json!({"type": "object", "properties": m, "default": {}})),
            members.prop_map(|m| json!({
                "type": "object", "properties": m, "x-kubernetes-preserve-unknown-fields": true})),
            inner.clone().prop_map(|inner| json!({"type": "object", "additionalProperties": inner})),
            inner.prop_map(|inner| json!({"type": "array", "items": inner})),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_and_defaulting_again_change_nothing(schema in any_schema(), object in json_value()) {
        let schema = Structural::compile(&schema).unwrap();
        let mut pruned = object;
        prune(&mut pruned, &schema);
        let once = pruned.clone();
        prop_assert_eq!(prune(&mut pruned, &schema), Vec::<String>::new());
        prop_assert_eq!(&pruned, &once);

        set_defaults(&mut pruned, &schema);
        let defaulted = pruned.clone();
        set_defaults(&mut pruned, &schema);
        prop_assert_eq!(&pruned, &defaulted);
        // Defaults consist of declared members.
        prop_assert_eq!(prune(&mut pruned, &schema), Vec::<String>::new());
    }

    #[test]
    fn a_stored_object_is_valid_again(schema in any_schema(), object in json_value()) {
        let schema = Structural::compile(&schema).unwrap();
        let errors = validate(&object, Some(&object), &schema, "");
        prop_assert_eq!(errors, vec![]);
    }
}
