//! Iterates over JSON text, one level at a time.

use std::borrow::Cow;

use super::skip::{self, truncated};
use super::value::Value;
use super::{WHAT, string};
use crate::error::{Error, Result};

/// The members of a JSON object, in order. Empty for text that is not an object; ends after an error.
///
/// The object must end where the text does (white space aside).
#[derive(Clone, Debug)]
pub(crate) struct Members<'a>(LevelScan<'a>);

/// The elements of a JSON array, in order. Empty for text that is not an array; ends after an error.
///
/// The array must end where the text does (white space aside).
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a>(LevelScan<'a>);

/// One level of a value: the items between its brackets.
#[derive(Clone, Debug)]
struct LevelScan<'a> {
    bytes: &'a [u8],
    at: usize,
    place: ScanState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanState {
    /// Nothing was read.
    Start,
    /// After a value.
    Behind,
    /// After the closing bracket or an error.
    End,
}

/// The first member of an object with this name, or its available part if the text is truncated within it.
pub(crate) fn member<'a>(text: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    let mut level = LevelScan::new(text);
    while level.advance(b'{', b'}').ok()? {
        let (name, start) = (level.name().ok()?, level.at);
        let value = level.value();
        if name == wanted {
            return Some(value.map_or(&text[start..], Value::bytes));
        }
        value.ok()?;
    }
    None
}

// === impl Members ===

impl<'a> Members<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(LevelScan::new(bytes))
    }

    /// The position after the value returned last.
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
        Self(LevelScan::new(bytes))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Value<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Self(level) = self;
        match level.advance(b'[', b']') {
            Ok(true) => Some(level.ended_by_error(LevelScan::value)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

// === impl LevelScan ===

impl<'a> LevelScan<'a> {
    #[inline]
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, place: ScanState::Start }
    }

    /// Advances to the next item; `false` at the end.
    #[inline]
    fn advance(&mut self, open: u8, close: u8) -> Result<bool> {
        let place = std::mem::replace(&mut self.place, ScanState::End);
        self.skip_space();
        match (place, self.byte()) {
            (ScanState::End, _) => return Ok(false),
            (ScanState::Start, Some(byte)) if byte == open => {
                self.at += 1;
                self.skip_space();
                if self.byte() == Some(close) {
                    return self.end();
                }
            }
            (ScanState::Start, _) => return Ok(false),
            (ScanState::Behind, Some(b',')) => {
                self.at += 1;
                self.skip_space();
            }
            (ScanState::Behind, Some(byte)) if byte == close => return self.end(),
            (ScanState::Behind, Some(_)) => return Err(self.malformed("expected a comma or the end")),
            (ScanState::Behind, None) => return Err(truncated(self.bytes)),
        }
        self.place = ScanState::Behind;
        Ok(true)
    }

    #[inline]
    fn name(&mut self) -> Result<Cow<'a, str>> {
        match self.byte() {
            Some(b'"') => self.at += 1,
            Some(_) => return Err(self.malformed("expected a quoted name")),
            None => return Err(truncated(self.bytes)),
        }
        let start = self.at;
        self.at = skip::string(self.bytes, start).map_err(|_| truncated(self.bytes))?;
        let name = string::text(&self.bytes[start..self.at - 1], start)?;
        self.skip_space();
        match self.byte() {
            Some(b':') => self.at += 1,
            Some(_) => return Err(self.malformed("expected a colon")),
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
            return Err(self.malformed("unexpected data after the value"));
        }
        Ok(false)
    }

    #[inline]
    fn ended_by_error<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let item = read(self);
        if item.is_err() {
            self.place = ScanState::End;
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
