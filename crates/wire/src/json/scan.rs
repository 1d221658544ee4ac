//! Walks over JSON text, one level at a time.

use std::borrow::Cow;

use super::skip::{self, truncated};
use super::value::Value;
use super::{WHAT, string};
use crate::error::{Error, Result};

/// The members of a JSON object, in order. Empty for text that is not an object; an error ends it.
///
/// The object must end where the text does (white space aside).
#[derive(Clone, Debug)]
pub(crate) struct Members<'a>(Level<'a>);

/// The elements of a JSON array, in order. Empty for text that is not an array; an error ends it.
///
/// The array must end where the text does (white space aside).
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a>(Level<'a>);

/// One level of a value: what stands between two brackets and commas.
#[derive(Clone, Debug)]
struct Level<'a> {
    bytes: &'a [u8],
    at: usize,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nothing was read.
    Start,
    /// Behind a value.
    Behind,
    /// The closing bracket or an error was met.
    End,
}

// === impl Members ===

impl<'a> Members<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(Level::new(bytes))
    }

    /// Just past the value that was handed out last.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.0.at
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(Cow<'a, str>, Value<'a>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Self(level) = self;
        match level.advance(b'{', b'}') {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
        Some(level.ended_by_error(|level| {
            let name = level.name()?;
            Ok((name, level.value()?))
        }))
    }
}

// === impl Elements ===

impl<'a> Elements<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(Level::new(bytes))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Value<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Self(level) = self;
        match level.advance(b'[', b']') {
            Ok(true) => Some(level.ended_by_error(Level::value)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

// === impl Level ===

impl<'a> Level<'a> {
    #[inline]
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, place: Place::Start }
    }

    /// Goes to the next item; `false` if there is none.
    #[inline]
    fn advance(&mut self, open: u8, close: u8) -> Result<bool> {
        let place = std::mem::replace(&mut self.place, Place::End);
        self.skip_space();
        match (place, self.byte()) {
            (Place::End, _) => return Ok(false),
            (Place::Start, Some(byte)) if byte == open => {
                self.at += 1;
                self.skip_space();
                if self.byte() == Some(close) {
                    return self.end();
                }
            }
            (Place::Start, _) => return Ok(false),
            (Place::Behind, Some(b',')) => {
                self.at += 1;
                self.skip_space();
            }
            (Place::Behind, Some(byte)) if byte == close => return self.end(),
            (Place::Behind, Some(_)) => return Err(self.malformed("a comma or the end was expected")),
            (Place::Behind, None) => return Err(truncated(self.bytes)),
        }
        self.place = Place::Behind;
        Ok(true)
    }

    #[inline]
    fn name(&mut self) -> Result<Cow<'a, str>> {
        match self.byte() {
            Some(b'"') => self.at += 1,
            Some(_) => return Err(self.malformed("a quoted name was expected")),
            None => return Err(truncated(self.bytes)),
        }
        let start = self.at;
        self.at = skip::string(self.bytes, start).map_err(|_| truncated(self.bytes))?;
        let name = string::text(&self.bytes[start..self.at - 1], start)?;
        self.skip_space();
        match self.byte() {
            Some(b':') => self.at += 1,
            Some(_) => return Err(self.malformed("a colon was expected")),
            None => return Err(truncated(self.bytes)),
        }
        self.skip_space();
        Ok(name)
    }

    #[inline]
    fn value(&mut self) -> Result<Value<'a>> {
        let start = self.at;
        self.at = skip::value(self.bytes, start)?;
        Ok(Value::exactly(&self.bytes[start..self.at]))
    }

    fn end(&mut self) -> Result<bool> {
        self.at += 1;
        self.skip_space();
        if self.byte().is_some() {
            return Err(self.malformed("something follows the value"));
        }
        Ok(false)
    }

    #[inline]
    fn ended_by_error<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let item = read(self);
        if item.is_err() {
            self.place = Place::End;
        }
        item
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        self.at = skip::space(self.bytes, self.at);
    }

    #[cold]
    fn malformed(&self, why: &'static str) -> Error {
        Error::malformed(WHAT, self.at, why)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::json::testing::{any_bytes, any_json, mutated, write_spaced};
    use crate::json::{Kind, value::Value};

    /// Builds the tree that this module exists to avoid.
    fn tree(value: Value<'_>) -> Result<serde_json::Value> {
        Ok(match value.kind()? {
            Kind::Null => serde_json::Value::Null,
            Kind::Bool => value.as_bool()?.into(),
            Kind::Number => {
                let text = value.as_number()?.unwrap();
                let number: serde_json::Value =
                    serde_json::from_str(text).map_err(|_| Error::Value("beyond a double".into()))?;
                if text != "-0" {
                    assert_eq!(value.as_i64()?, number.as_i64());
                }
                number
            }
            Kind::String => value.as_string()?.into(),
            Kind::Array => Elements::new(value.bytes()).map(|value| tree(value?)).collect::<Result<_>>()?,
            Kind::Object => Members::new(value.bytes())
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
    fn what_is_not_of_the_kind_is_empty() {
        for text in [&b""[..], b" ", b"1", b"null", b"\"{\"", b"["] {
            assert_eq!(Members::new(text).count(), 0, "{text:?}");
        }
        for text in [&b""[..], b"1", b"null", b"{", b"{\"a\":[]}"] {
            assert_eq!(Elements::new(text).count(), 0, "{text:?}");
        }
    }

    #[test]
    fn positions_tell_where_values_stand() {
        let text = b"{ \"a\" : 12 , \"b\":[ ] }";
        let mut members = Members::new(text);
        while let Some(member) = members.next() {
            let (_, value) = member.unwrap();
            let end = members.position();
            assert_eq!(&text[end - value.bytes().len()..end], value.bytes());
        }
    }

    #[test]
    fn a_level_with_wrong_grammar_is_one_error_and_then_the_end() {
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
    fn nesting_beyond_the_ceiling_is_an_error_not_a_crash() {
        let deep = |levels: usize| [&b"[".repeat(levels)[..], &b"]".repeat(levels)].concat();
        // The outermost level is walked, the rest skipped.
        assert!(Elements::new(&deep(513)).all(|item| item.is_ok()));
        let error = Elements::new(&deep(514)).next().unwrap().unwrap_err();
        assert!(matches!(error, Error::Limit { limit: crate::Limit::Nesting, .. }), "{error}");
        assert!(Elements::new(&b"[".repeat(1 << 20)).all(|item| item.is_err()));
    }

    proptest! {
        #[test]
        fn a_walk_over_everything_gives_what_serde_json_gives(value in any_json(), spaces in any::<u64>()) {
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
}
