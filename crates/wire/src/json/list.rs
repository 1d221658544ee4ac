//! Takes the items of a list out of its JSON body as the body arrives.
//!
//! `items` may stand before or after `metadata` (Go writes the members of unstructured lists in alphabetical order), so
//! the list's head is complete only at the end. Members that are neither, like the `rows` of a Table, are passed over and
//! never held.

use bytes::Bytes;

use super::pieces::{Piece, Pieces};
use super::value::Value;
use super::{Kind, Members};
use crate::error::{Error, Result};
use crate::frame::ListHead;
use crate::limits::Limits;

const WHAT: &str = "JSON list";

/// The body of a list.
///
/// What is checked: the list's own members and the row of items by their grammar; what is passed over, and each item, by
/// structure only, so that an item that is wrong inside is an error when it is read, for that item alone. An item that is
/// too large is passed over as well. Any other error here ends the list ([`Error::is_fatal`]).
#[derive(Debug)]
pub(crate) struct ListBody {
    pieces: Pieces,
    place: Place,
    object_bytes_max: usize,
    head: ListHead,
    /// The error that ended the list.
    lost: Option<Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In front of the list.
    Start,
    /// In front of a member's name; behind the opening brace the list may end instead.
    Name { or_end: bool },
    /// In front of a member's colon.
    Colon(Member),
    /// In front of a member's value.
    Value(Member),
    /// Behind a member.
    Behind,
    /// In front of an item; behind the opening bracket the row may end instead.
    Item { or_end: bool },
    /// In the rest of an item that is too large.
    PassItem,
    /// Behind an item.
    BehindItem,
    /// Behind the list.
    End,
}

/// The members of a list that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    ApiVersion,
    Kind,
    Metadata,
    Items,
    Other,
}

// === impl ListBody ===

impl ListBody {
    pub(crate) fn new(limits: &Limits) -> Self {
        let object_bytes_max = limits.object_bytes_max;
        let (pieces, head) = (Pieces::default(), ListHead::default());
        Self { pieces, place: Place::Start, object_bytes_max, head, lost: None }
    }

    /// Adds a chunk of the body. Take all items that are there before adding the next.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.pieces.push(chunk);
    }

    /// The text of the next item, with what is known of the list so far; `None` until there is one.
    pub(crate) fn next(&mut self) -> Option<Result<(&ListHead, &[u8])>> {
        if self.lost.is_some() {
            return None;
        }
        match self.advance() {
            Ok(Some(piece)) => Some(Ok((&self.head, self.pieces.text(piece)))),
            Ok(None) => None,
            // Only an item that is too large leaves a place to go on from.
            Err(error @ Error::Limit { .. }) if matches!(self.place, Place::PassItem | Place::BehindItem) => {
                Some(Err(error))
            }
            Err(error) => {
                let error = error.framing();
                self.lost = Some(error.clone());
                Some(Err(error))
            }
        }
    }

    /// What is known of the list so far.
    pub(crate) fn head(&self) -> &ListHead {
        &self.head
    }

    /// The body has ended: the list's head.
    pub(crate) fn finish(self) -> Result<ListHead> {
        match (self.lost, self.place) {
            (Some(error), _) => Err(error),
            (None, Place::End) => Ok(self.head),
            _ => Err(Error::Truncated { what: WHAT, at: self.pieces.position() }.framing()),
        }
    }

    /// Goes on to the next item.
    fn advance(&mut self) -> Result<Option<Piece>> {
        loop {
            let byte = if self.pieces.is_begun() { None } else { self.pieces.peek() };
            if byte.is_none() && !self.pieces.is_begun() {
                return Ok(None);
            }
            match (self.place, byte) {
                (Place::Start, Some(b'{')) => self.over(Place::Name { or_end: true }),
                (Place::Name { or_end: true } | Place::Behind, Some(b'}')) => self.over(Place::End),
                (Place::Name { .. }, _) => match self.name(byte)? {
                    Some(member) => self.place = Place::Colon(member),
                    None => return Ok(None),
                },
                (Place::Colon(member), Some(b':')) => self.over(Place::Value(member)),
                (Place::Value(Member::Items), Some(b'[')) => self.over(Place::Item { or_end: true }),
                (Place::Value(member), _) => match self.member(member)? {
                    true => self.place = Place::Behind,
                    false => return Ok(None),
                },
                (Place::Behind, Some(b',')) => self.over(Place::Name { or_end: false }),
                (Place::Item { or_end: true } | Place::BehindItem, Some(b']')) => self.over(Place::Behind),
                (Place::Item { .. }, _) => return self.item(),
                (Place::PassItem, _) => match self.pieces.pass()? {
                    true => self.place = Place::BehindItem,
                    false => return Ok(None),
                },
                (Place::BehindItem, Some(b',')) => self.over(Place::Item { or_end: false }),
                (Place::Start, _) => return Err(self.malformed("a list was expected")),
                (Place::Colon(_), _) => return Err(self.malformed("a colon was expected")),
                (Place::Behind, _) => {
                    return Err(self.malformed("a comma or the end of the list was expected"));
                }
                (Place::BehindItem, _) => {
                    return Err(self.malformed("a comma or the end of the items was expected"));
                }
                (Place::End, _) => return Err(self.malformed("something follows the list")),
            }
        }
    }

    /// Passes over the byte that leads to `place`.
    fn over(&mut self, place: Place) {
        self.pieces.advance(1);
        self.place = place;
    }

    /// The item that goes on (or begins) here; `None` until it is whole.
    fn item(&mut self) -> Result<Option<Piece>> {
        let item = self.pieces.value(self.object_bytes_max);
        match &item {
            Ok(Some(_)) => self.place = Place::BehindItem,
            Err(Error::Limit { .. }) if self.pieces.is_begun() => self.place = Place::PassItem,
            Err(Error::Limit { .. }) => self.place = Place::BehindItem,
            Ok(None) | Err(_) => {}
        }
        item
    }

    /// The name of a member; `None` until it is whole.
    fn name(&mut self, byte: Option<u8>) -> Result<Option<Member>> {
        if byte.is_some_and(|byte| byte != b'"') {
            return Err(self.malformed("a quoted name was expected"));
        }
        let Some(piece) = self.pieces.value(self.object_bytes_max)? else { return Ok(None) };
        let name = Value::new(self.pieces.text(piece)).as_string()?;
        Ok(Some(match name.as_deref() {
            Some("apiVersion") => Member::ApiVersion,
            Some("kind") => Member::Kind,
            Some("metadata") => Member::Metadata,
            Some("items") => Member::Items,
            _ => Member::Other,
        }))
    }

    /// Reads a member of the list's head, or passes over another. Whether it was whole.
    fn member(&mut self, member: Member) -> Result<bool> {
        if member == Member::Other {
            return self.pieces.pass();
        }
        let Some(piece) = self.pieces.value(self.object_bytes_max)? else { return Ok(false) };
        let value = Value::new(self.pieces.text(piece));
        match member {
            Member::ApiVersion => self.head.api_version = text(value, "apiVersion must be a string")?,
            Member::Kind => self.head.kind = text(value, "kind must be a string")?,
            Member::Metadata => list_meta(value, &mut self.head)?,
            // An array is entered; Go writes null for a list that was never filled.
            Member::Items if !value.is_null() => {
                return Err(Error::malformed(WHAT, self.pieces.position(), "items must be an array"));
            }
            Member::Items | Member::Other => {}
        }
        Ok(true)
    }

    fn malformed(&self, why: &'static str) -> Error {
        Error::malformed(WHAT, self.pieces.position(), why)
    }
}

fn list_meta(meta: Value<'_>, head: &mut ListHead) -> Result<()> {
    match meta.kind()? {
        Kind::Null => return Ok(()),
        Kind::Object => {}
        _ => return Err(Error::malformed(WHAT, 0, "metadata must be an object")),
    }
    for member in Members::new(meta.bytes()) {
        let (name, value) = member?;
        match &*name {
            "resourceVersion" => {
                head.resource_version = text(value, "metadata.resourceVersion must be a string")?;
            }
            "continue" => head.continue_token = text(value, "metadata.continue must be a string")?,
            "remainingItemCount" => {
                head.remaining_item_count = match value.as_i64()? {
                    None if !value.is_null() => {
                        let why = "metadata.remainingItemCount must be a whole number";
                        return Err(Error::malformed(WHAT, 0, why));
                    }
                    count => count,
                };
            }
            _ => {}
        }
    }
    Ok(())
}

/// A string of the head; empty for null, as Go reads it.
fn text(value: Value<'_>, why: &'static str) -> Result<String> {
    match value.as_string()? {
        Some(text) => Ok(text.into_owned()),
        None if value.is_null() => Ok(String::new()),
        None => Err(Error::malformed(WHAT, 0, why)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::json::testing::{any_bytes, any_json, captures, mutated, split, write_spaced};

    type Outcome = (Vec<Result<Vec<u8>>>, Result<ListHead>);

    fn read(chunks: Vec<Bytes>, limits: &Limits) -> Outcome {
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

    fn read_whole(text: &[u8]) -> Outcome {
        read(split(text, &[]), &Limits::DEFAULT)
    }

    fn texts(outcome: &Outcome) -> Vec<String> {
        outcome.0.iter().map(|item| String::from_utf8(item.clone().unwrap()).unwrap()).collect()
    }

    #[test]
    fn members_may_come_in_any_order() {
        let metadata =
            r#""metadata":{"resourceVersion":"7","continue":"next","remainingItemCount":3,"selfLink":""}"#;
        let members =
            [r#""kind":"PodList""#, r#""apiVersion":"v1""#, metadata, r#""items":[{"a":1},{"b":[2]}]"#];
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
    fn empty_lists_and_other_answers_have_no_items() {
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
    fn a_body_that_is_no_list_is_a_fatal_error() {
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
    fn a_body_that_breaks_off_is_an_error_at_its_end() {
        let text = r#"{"metadata":{},"items":[{"a":"\""},{}],"rest":tru}"#;
        for end in 0..text.len() {
            let (items, head) = read_whole(&text.as_bytes()[..end]);
            assert!(items.iter().all(Result::is_ok), "{end}");
            assert!(head.unwrap_err().is_fatal(), "{end}");
        }
    }

    #[test]
    fn an_item_wrong_inside_leaves_the_others_alone() {
        let outcome = read_whole(br#"{"items":[{"a":1},{"b" nul,,},12,{"c":3}]}"#);
        assert_eq!(texts(&outcome), [r#"{"a":1}"#, r#"{"b" nul,,}"#, "12", r#"{"c":3}"#]);
        outcome.1.unwrap();
    }

    #[test]
    fn an_item_too_large_is_passed_over_without_being_held() {
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
    fn a_head_too_large_ends_the_list() {
        let text = format!(r#"{{"metadata":{{"continue":"{}"}},"items":[]}}"#, "x".repeat(5000));
        let (items, _) = read(split(text.as_bytes(), &[1000]), &Limits::DEFAULT.object_bytes_max(100));
        assert!(items[0].as_ref().unwrap_err().is_fatal(), "{items:?}");
    }

    #[test]
    fn an_item_inside_one_chunk_is_a_slice_of_it() {
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
    fn the_head_is_known_as_soon_as_it_has_come() {
        let mut body = ListBody::new(&Limits::DEFAULT);
        body.push(Bytes::from_static(br#"{"kind":"PodList","apiVersion":"v1","items":[{}"#));
        let (head, _) = body.next().unwrap().unwrap();
        assert_eq!((&*head.kind, &*head.resource_version), ("PodList", ""));
        body.push(Bytes::from_static(br#"],"metadata":{"resourceVersion":"9"}"#));
        assert!(body.next().is_none());
        assert_eq!(body.head().resource_version, "9");
    }

    #[test]
    fn captured_answers_give_what_serde_json_gives() {
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
    fn captured_answers_may_be_cut_anywhere() {
        for (name, body) in captures(false) {
            let whole = read_whole(&body);
            for place in (0..body.len()).step_by(1 + body.len() / 600) {
                assert_eq!(read(split(&body, &[place]), &Limits::DEFAULT), whole, "{name} cut at {place}");
            }
            let everywhere: Vec<_> = (0..body.len()).collect();
            assert_eq!(read(split(&body, &everywhere), &Limits::DEFAULT), whole, "{name} cut everywhere");
        }
    }

    /// A list with any items, members before and after.
    fn any_list() -> impl Strategy<Value = Vec<u8>> {
        let items = prop_oneof![
            vec(any_json(), 0..5).prop_map(|items| serde_json::json!({ "items": items })),
            any_json()
        ];
        (items, any::<u64>()).prop_map(|(list, spaces)| write_spaced(&list, spaces))
    }

    proptest! {
        #[test]
        fn any_items_come_out_as_they_are(items in vec(any_json(), 0..6), spaces: u64, places: Vec<usize>) {
            let text = write_spaced(&serde_json::json!({"a": items, "items": items, "z": 1}), spaces);
            let (read, head) = read(split(&text, &places), &Limits::DEFAULT);
            head.unwrap();
            let read: Vec<serde_json::Value> =
                read.into_iter().map(|item| serde_json::from_slice(&item.unwrap()).unwrap()).collect();
            let expected: serde_json::Value = serde_json::from_slice(&text).unwrap();
            prop_assert_eq!(&read, expected["items"].as_array().unwrap());
        }

        #[test]
        fn any_text_may_be_cut_anywhere(
            text in prop_oneof![any_list(), mutated(), any_bytes()],
            places in vec(any::<usize>(), 0..6),
            max in prop_oneof![Just(8 << 20), 0..40usize],
        ) {
            let limits = Limits::DEFAULT.object_bytes_max(max);
            prop_assert_eq!(read(split(&text, &places), &limits), read(split(&text, &[]), &limits));
        }
    }
}
