//! Lists in JSON: complete, split and damaged.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{any_bytes, any_json, captures, mutated, split, write_spaced};
use crate::error::{Error, Result};
use crate::frame::ListHead;
use crate::json::ListBody;
use crate::limits::Limits;

type ListOutcome = (Vec<Result<Vec<u8>>>, Result<ListHead>);

fn read(chunks: Vec<Bytes>, limits: &Limits) -> ListOutcome {
    let mut body = ListBody::new(limits);
    let mut items = Vec::new();
    for chunk in chunks {
        body.push(chunk);
        while let Some(item) = body.next() {
            items.push(item.map(|(_, text)| text.to_vec()));
        }
    }
    (items, body.finish())
}

fn read_whole(text: &[u8]) -> ListOutcome {
    read(split(text, &[]), &Limits::DEFAULT)
}

fn texts(outcome: &ListOutcome) -> Vec<String> {
    outcome.0.iter().map(|item| String::from_utf8(item.clone().unwrap()).unwrap()).collect()
}

#[test]
fn members_may_be_in_any_order() {
    let metadata =
        r#""metadata":{"resourceVersion":"7","continue":"next","remainingItemCount":3,"selfLink":""}"#;
    let members = [r#""kind":"PodList""#, r#""apiVersion":"v1""#, metadata, r#""items":[{"a":1},{"b":[2]}]"#];
    for first in 0..4 {
        let mut order = members;
        order.rotate_left(first);
        for text in [format!("{{{}}}", order.join(",")), format!(" {{ {} }}\n", order.join(" ,\n"))] {
            let outcome = read_whole(text.as_bytes());
            assert_eq!(texts(&outcome), [r#"{"a":1}"#, r#"{"b":[2]}"#]);
            let head = outcome.1.unwrap();
            assert_eq!((&*head.kind, &*head.api_version), ("PodList", "v1"));
            assert_eq!((&*head.resource_version, &*head.continue_token), ("7", "next"));
            assert_eq!(head.remaining_item_count, Some(3));
        }
    }
}

#[test]
fn empty_lists_and_other_responses_have_no_items() {
    for text in [
        "{}",
        r#"{"items":[]}"#,
        r#"{"items":null}"#,
        r#"{"metadata":null,"items":[ ]}"#,
        r#"{"kind":"Table","rows":[{"items":[1]}],"columns":"items"}"#,
        r#"{"kind":"Status","details":{"items":[{}]}}"#,
    ] {
        let (items, head) = read_whole(text.as_bytes());
        assert_eq!(items, [], "{text}");
        head.unwrap();
    }
}

#[test]
fn a_body_that_is_not_a_list_is_a_fatal_error() {
    for text in [
        "404 page not found",
        "<html>",
        "[]",
        r#"{"items":{}}"#,
        r#"{"items":[{"a":]}"#,
        r#"{"items":[{} {}]}"#,
        r#"{"items":[,]}"#,
        r#"{"items":[]]"#,
        r#"{"items":[],}"#,
        r#"{"items" []}"#,
        r#"{items:[]}"#,
        r#"{"items":[]} {}"#,
        r#"{"metadata":{"resourceVersion":7}}"#,
        r#"{"metadata":{"remainingItemCount":"x"}}"#,
        r#"{"metadata":[]}"#,
        r#"{"kind":5}"#,
        r#"{"a\x":5}"#,
    ] {
        let (items, head) = read_whole(text.as_bytes());
        let errors: Vec<_> = items.into_iter().filter_map(Result::err).collect();
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        assert!(errors[0].is_fatal(), "{text}: {errors:?}");
        assert_eq!(head.unwrap_err(), errors[0], "{text}");
    }
}

#[test]
fn a_truncated_body_is_an_error_at_its_end() {
    let text = r#"{"metadata":{},"items":[{"a":"\""},{}],"rest":tru}"#;
    for end in 0..text.len() {
        let (items, head) = read_whole(&text.as_bytes()[..end]);
        assert!(items.iter().all(Result::is_ok), "{end}");
        assert!(head.unwrap_err().is_fatal(), "{end}");
    }
}

#[test]
fn a_malformed_item_leaves_the_others_readable() {
    let outcome = read_whole(br#"{"items":[{"a":1},{"b" nul,,},12,{"c":3}]}"#);
    assert_eq!(texts(&outcome), [r#"{"a":1}"#, r#"{"b" nul,,}"#, "12", r#"{"c":3}"#]);
    outcome.1.unwrap();
}

#[test]
fn an_oversized_item_is_skipped_without_buffering() {
    let text = format!(r#"{{"items":[{{"a":1}},{{"b":"{}"}},{{"c":3}}]}}"#, "x".repeat(5000));
    let limits = Limits::DEFAULT.object_bytes_max(100);
    for places in [vec![], (0..text.len()).collect(), vec![50, 150, 151], vec![60, 5015, 5025]] {
        let (items, head) = read(split(text.as_bytes(), &places), &limits);
        assert_eq!(items.len(), 3, "{items:?}");
        assert_eq!(items[0].as_deref(), Ok(&br#"{"a":1}"#[..]));
        assert!(matches!(items[1], Err(Error::Limit { allowed: 100, .. })), "{items:?}");
        assert_eq!(items[2].as_deref(), Ok(&br#"{"c":3}"#[..]));
        head.unwrap();
    }
}

#[test]
fn an_oversized_head_ends_the_list() {
    let text = format!(r#"{{"metadata":{{"continue":"{}"}},"items":[]}}"#, "x".repeat(5000));
    let (items, _) = read(split(text.as_bytes(), &[1000]), &Limits::DEFAULT.object_bytes_max(100));
    assert!(items[0].as_ref().unwrap_err().is_fatal(), "{items:?}");
}

#[test]
fn an_item_within_one_chunk_is_a_slice_of_it() {
    let chunk = Bytes::from_static(br#"{"items":[{"a":1},{"b":2}"#);
    let mut body = ListBody::new(&Limits::DEFAULT);
    body.push(chunk.clone());
    for place in [10, 18] {
        let (_, item) = body.next().unwrap().unwrap();
        assert_eq!(item.as_ptr(), chunk[place..].as_ptr());
    }
    assert!(body.next().is_none());
}

#[test]
fn the_head_is_available_as_soon_as_it_arrives() {
    let mut body = ListBody::new(&Limits::DEFAULT);
    body.push(Bytes::from_static(br#"{"kind":"PodList","apiVersion":"v1","items":[{}"#));
    let (head, _) = body.next().unwrap().unwrap();
    assert_eq!((&*head.kind, &*head.resource_version), ("PodList", ""));
    body.push(Bytes::from_static(br#"],"metadata":{"resourceVersion":"9"}"#));
    assert!(body.next().is_none());
    assert_eq!(body.head().resource_version, "9");
}

#[test]
fn captured_responses_match_serde_json() {
    for (name, body) in captures(false) {
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let (items, head) = read_whole(&body);
        let items: Vec<serde_json::Value> =
            items.into_iter().map(|item| serde_json::from_slice(&item.unwrap()).unwrap()).collect();
        let expected = value["items"].as_array().cloned().unwrap_or_default();
        assert_eq!(items, expected, "{name}");
        let head = head.unwrap();
        let text = |pointer| value.pointer(pointer).and_then(|text| text.as_str()).unwrap_or_default();
        assert_eq!(head.kind, text("/kind"), "{name}");
        assert_eq!(head.api_version, text("/apiVersion"), "{name}");
        assert_eq!(head.resource_version, text("/metadata/resourceVersion"), "{name}");
        assert_eq!(head.continue_token, text("/metadata/continue"), "{name}");
        let remaining = value.pointer("/metadata/remainingItemCount").and_then(|count| count.as_i64());
        assert_eq!(head.remaining_item_count, remaining, "{name}");
    }
}

#[test]
fn captured_responses_may_be_split_anywhere() {
    for (name, body) in captures(false) {
        let whole = read_whole(&body);
        for place in (0..body.len()).step_by(1 + body.len() / 600) {
            assert_eq!(read(split(&body, &[place]), &Limits::DEFAULT), whole, "{name} cut at {place}");
        }
        let everywhere: Vec<_> = (0..body.len()).collect();
        assert_eq!(read(split(&body, &everywhere), &Limits::DEFAULT), whole, "{name} cut everywhere");
    }
}

/// A list with any items, with members before and after.
fn any_list() -> impl Strategy<Value = Vec<u8>> {
    let items = prop_oneof![
        vec(any_json(), 0..5).prop_map(|items| serde_json::json!({ "items": items })),
        any_json()
    ];
    (items, any::<u64>()).prop_map(|(list, spaces)| write_spaced(&list, spaces))
}

proptest! {
    #[test]
    fn any_items_are_returned_unchanged(items in vec(any_json(), 0..6), spaces: u64, places: Vec<usize>) {
        let text = write_spaced(&serde_json::json!({"a": items, "items": items, "z": 1}), spaces);
        let (read, head) = read(split(&text, &places), &Limits::DEFAULT);
        head.unwrap();
        let read: Vec<serde_json::Value> =
            read.into_iter().map(|item| serde_json::from_slice(&item.unwrap()).unwrap()).collect();
        let expected: serde_json::Value = serde_json::from_slice(&text).unwrap();
        prop_assert_eq!(&read, expected["items"].as_array().unwrap());
    }

    #[test]
    fn any_text_may_be_split_anywhere(
        text in prop_oneof![any_list(), mutated(), any_bytes()],
        places in vec(any::<usize>(), 0..6),
        max in prop_oneof![Just(8 << 20), 0..40usize],
    ) {
        let limits = Limits::DEFAULT.object_bytes_max(max);
        prop_assert_eq!(read(split(&text, &places), &limits), read(split(&text, &[]), &limits));
    }
}
