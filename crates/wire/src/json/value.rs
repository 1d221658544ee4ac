//! The text of one JSON value, and its content if it is a scalar.

use std::borrow::Cow;

use super::WHAT;
use super::skip::{Class, class};
use super::string;
use crate::error::{Error, Result};

/// The text of one JSON value, without surrounding white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'a>(&'a [u8]);

/// The type of a value, determined by its first byte (except `null`); reading the value checks the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonType {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

// === impl Value ===

impl<'a> Value<'a> {
    /// The value in `bytes`, without surrounding white space.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let space = |byte: &u8| class(*byte) == Class::Space;
        let start = bytes.iter().position(|byte| !space(byte)).unwrap_or(bytes.len());
        let end = bytes.iter().rposition(|byte| !space(byte)).map_or(start, |last| last + 1);
        Self(&bytes[start..end])
    }

    /// The value in `bytes`, which have no surrounding white space.
    #[inline]
    pub(super) fn exactly(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The text.
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The type of the value.
    ///
    /// # Errors
    /// If no value starts with this byte.
    pub(crate) fn kind(self) -> Result<JsonType> {
        match self.0.first() {
            Some(b'{') => Ok(JsonType::Object),
            Some(b'[') => Ok(JsonType::Array),
            Some(b'"') => Ok(JsonType::String),
            Some(b'-' | b'0'..=b'9') => Ok(JsonType::Number),
            Some(b't' | b'f') => Ok(JsonType::Bool),
            Some(b'n') if self.is_null() => Ok(JsonType::Null),
            _ => Err(Error::malformed(WHAT, 0, "expected a value")),
        }
    }

    /// Whether it is `null`.
    #[inline]
    pub(crate) fn is_null(self) -> bool {
        self.0 == b"null"
    }

    /// The content of a string (unescaped; borrowed without escapes); `None` for other types.
    ///
    /// # Errors
    /// If the string is not UTF-8, or contains an invalid escape or a raw control character.
    #[inline]
    pub(crate) fn as_string(self) -> Result<Option<Cow<'a, str>>> {
        self.string_content()?.map(|content| string::text(content, 1)).transpose()
    }

    /// `true` or `false`; `None` for other types.
    ///
    /// # Errors
    /// If it starts like one of them but is not.
    pub(crate) fn as_bool(self) -> Result<Option<bool>> {
        match self.0 {
            b"true" => Ok(Some(true)),
            b"false" => Ok(Some(false)),
            [b't' | b'f', ..] => Err(Error::malformed(WHAT, 0, "unknown literal")),
            _ => Ok(None),
        }
    }

    /// The text of a number; `None` for other types.
    ///
    /// # Errors
    /// If it starts like a number but is not a valid one.
    pub(crate) fn as_number(self) -> Result<Option<&'a str>> {
        if !matches!(self.0.first(), Some(b'-' | b'0'..=b'9')) {
            return Ok(None);
        }
        let malformed = || Error::malformed(WHAT, 0, "not a number");
        if !is_number(self.0) {
            return Err(malformed());
        }
        std::str::from_utf8(self.0).map(Some).map_err(|_| malformed())
    }

    /// The value of an integer; `None` for fractions, exponents, numbers beyond 64 bits, and other types.
    ///
    /// # Errors
    /// Like [`as_number`](Self::as_number).
    pub(crate) fn as_i64(self) -> Result<Option<i64>> {
        Ok(self.as_number()?.and_then(|text| text.parse().ok()))
    }

    fn string_content(self) -> Result<Option<&'a [u8]>> {
        match self.0 {
            [b'"', content @ .., b'"'] => Ok(Some(content)),
            [b'"', ..] => Err(Error::Truncated { what: WHAT, at: self.0.len() }),
            _ => Ok(None),
        }
    }
}

/// Whether the text is a number by the grammar: no leading zeros, no bare point.
fn is_number(text: &[u8]) -> bool {
    fn digits(text: &[u8]) -> Option<&[u8]> {
        let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (len > 0).then(|| &text[len..])
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let rest = match text {
        [b'0', rest @ ..] => Some(rest),
        _ => digits(text),
    };
    let rest = rest.and_then(|rest| match rest {
        [b'.', fraction @ ..] => digits(fraction),
        _ => Some(rest),
    });
    let rest = rest.and_then(|rest| match rest {
        [b'e' | b'E', b'+' | b'-', exponent @ ..] | [b'e' | b'E', exponent @ ..] => digits(exponent),
        _ => Some(rest),
    });
    rest == Some(&[])
}
