//! The text of one JSON value, and what it says if it is a scalar.

use std::borrow::Cow;

use super::WHAT;
use super::skip::{Class, class};
use super::string;
use crate::error::{Error, Result};

/// The text of one JSON value, without surrounding white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'a>(&'a [u8]);

/// What a value is, by its first byte (`null` apart): whether the rest of it fits is seen when it is read.
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
    /// The value that `bytes` hold, white space around it left out.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let space = |byte: &u8| class(*byte) == Class::Space;
        let start = bytes.iter().position(|byte| !space(byte)).unwrap_or(bytes.len());
        let end = bytes.iter().rposition(|byte| !space(byte)).map_or(start, |last| last + 1);
        Self(&bytes[start..end])
    }

    /// The value that `bytes` are, without white space around them.
    #[inline]
    pub(super) fn exactly(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The text.
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// What the value is.
    ///
    /// # Errors
    /// If no value begins like this.
    pub(crate) fn kind(self) -> Result<JsonType> {
        match self.0.first() {
            Some(b'{') => Ok(JsonType::Object),
            Some(b'[') => Ok(JsonType::Array),
            Some(b'"') => Ok(JsonType::String),
            Some(b'-' | b'0'..=b'9') => Ok(JsonType::Number),
            Some(b't' | b'f') => Ok(JsonType::Bool),
            Some(b'n') if self.is_null() => Ok(JsonType::Null),
            _ => Err(Error::malformed(WHAT, 0, "a value was expected")),
        }
    }

    /// Whether it is `null`.
    #[inline]
    pub(crate) fn is_null(self) -> bool {
        self.0 == b"null"
    }

    /// The content if it is a string (unescaped, borrowed where nothing was escaped), `None` if it is something else.
    ///
    /// # Errors
    /// If it is a string and not UTF-8, or with a wrong escape or a raw control character.
    #[inline]
    pub(crate) fn as_string(self) -> Result<Option<Cow<'a, str>>> {
        self.string_content()?.map(|content| string::text(content, 1)).transpose()
    }

    /// `true` or `false`, `None` if it is something else.
    ///
    /// # Errors
    /// If it begins like one of them and is not.
    pub(crate) fn as_bool(self) -> Result<Option<bool>> {
        match self.0 {
            b"true" => Ok(Some(true)),
            b"false" => Ok(Some(false)),
            [b't' | b'f', ..] => Err(Error::malformed(WHAT, 0, "an unknown literal")),
            _ => Ok(None),
        }
    }

    /// The text of a number, `None` if it is something else.
    ///
    /// # Errors
    /// If it begins like a number and is none.
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

    /// The value of an integer, `None` if it is something else: a fraction, an exponent, beyond 64 bits, no number.
    ///
    /// # Errors
    /// As [`as_number`](Self::as_number).
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
