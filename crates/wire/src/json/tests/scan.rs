//! Iteration over one level, compared with serde_json.

use proptest::prelude::*;
use serde_json::json;

use super::{any_bytes, any_json, mutated, write_spaced};
use crate::error::{Error, Result};
use crate::json::{Elements, JsonType, Members, Value};

/// Builds the tree that this module exists to avoid.
fn tree(value: Value<'_>) -> Result<serde_json::Value> {
    Ok(match value.kind()? {
        JsonType::Null => serde_json::Value::Null,
        JsonType::Bool => value.as_bool()?.into(),
        JsonType::Number => {
            let text = value.as_number()?.unwrap();
            let number: serde_json::Value =
                serde_json::from_str(text).map_err(|_| Error::Value("beyond a double".into()))?;
            if text != "-0" {
                assert_eq!(value.as_i64()?, number.as_i64());
            }
            number
        }
        JsonType::String => value.as_string()?.into(),
        JsonType::Array => Elements::new(value.bytes()).map(|value| tree(value?)).collect::<Result<_>>()?,
        JsonType::Object => Members::new(value.bytes())
            .map(|member| {
                let (name, value) = member?;
                Ok((name.into_owned(), tree(value)?))
            })
            .collect::<Result<_>>()?,
    })
}

#[test]
fn white_space_is_allowed_everywhere_between_tokens() {
    let text = b" {\n\"a\" :\t[ 1 , {} , [ ] ],\r\n\"b\" : null } ";
    assert_eq!(tree(Value::new(text)).unwrap(), json!({"a": [1, {}, []], "b": null}));
}

#[test]
fn values_of_other_types_have_no_items() {
    for text in [&b""[..], b" ", b"1", b"null", b"\"{\"", b"["] {
        assert_eq!(Members::new(text).count(), 0, "{text:?}");
    }
    for text in [&b""[..], b"1", b"null", b"{", b"{\"a\":[]}"] {
        assert_eq!(Elements::new(text).count(), 0, "{text:?}");
    }
}

#[test]
fn positions_follow_values() {
    let text = b"{ \"a\" : 12 , \"b\":[ ] }";
    let mut members = Members::new(text);
    while let Some(member) = members.next() {
        let (_, value) = member.unwrap();
        let end = members.position();
        assert_eq!(&text[end - value.bytes().len()..end], value.bytes());
    }
}

#[test]
fn a_malformed_level_gives_one_error_and_ends() {
    let members: [&[u8]; 14] = [
        b"{",
        b"{\"a\"",
        b"{\"a\":",
        b"{\"a\":1",
        b"{\"a\":1,",
        b"{\"a\":1,}",
        b"{,}",
        b"{\"a\"}",
        b"{a:1}",
        b"{\"a\":1 \"b\":2}",
        b"{\"a\":[}",
        b"{\"a\":]}",
        b"{\"a\":1} x",
        b"{\"a\":\"x}",
    ];
    for text in members {
        let items: Vec<_> = Members::new(text).collect();
        assert_eq!(items.iter().filter(|item| item.is_err()).count(), 1, "{items:?}");
        assert!(items.last().unwrap().is_err(), "{items:?}");
    }
    let elements: [&[u8]; 8] = [b"[", b"[1", b"[1,", b"[1,]", b"[,]", b"[1 2]", b"[1:2]", b"[[}]"];
    for text in elements {
        let items: Vec<_> = Elements::new(text).collect();
        assert_eq!(items.iter().filter(|item| item.is_err()).count(), 1, "{items:?}");
        assert!(items.last().unwrap().is_err(), "{items:?}");
    }
}

#[test]
fn a_level_is_walked_at_any_depth_of_its_values() {
    let deep = |levels: usize| [&b"[".repeat(levels)[..], &b"]".repeat(levels)].concat();
    assert_eq!(
        Elements::new(&deep(100_000)).map(|item| item.unwrap().bytes().len()).collect::<Vec<_>>(),
        [199_998]
    );
    assert!(Elements::new(&b"[".repeat(1 << 20)).all(|item| item.is_err()));
}

proptest! {
    #[test]
    fn a_full_walk_matches_serde_json(value in any_json(), spaces in any::<u64>()) {
        let text = write_spaced(&value, spaces);
        let expected: serde_json::Value = serde_json::from_slice(&text).unwrap();
        prop_assert_eq!(tree(Value::new(&text)).unwrap(), expected);
    }

    #[test]
    fn arbitrary_bytes_are_walked_without_panic(bytes in any_bytes()) {
        let _ = tree(Value::new(&bytes));
    }

    #[test]
    fn mutated_json_is_an_error_wherever_serde_json_has_one(bytes in mutated()) {
        let ours = tree(Value::new(&bytes)).ok();
        let theirs = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
        prop_assert_eq!(ours, theirs);
    }
}
