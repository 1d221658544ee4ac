//! Walks over JSON text, one level at a time.

use std::borrow::Cow;

use crate::error::Result;

/// The text of one JSON value, without surrounding white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'a>(&'a [u8]);

/// The members of a JSON object, in order. Empty for text that is not an object; an error ends it.
#[derive(Clone, Debug)]
pub(crate) struct Members<'a> {
    bytes: &'a [u8],
}

/// The elements of a JSON array, in order. Empty for text that is not an array; an error ends it.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a> {
    bytes: &'a [u8],
}

// === impl Value ===

impl<'a> Value<'a> {
    /// The text.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The content if it is a string (unescaped, borrowed where nothing was escaped), `None` if it is something else.
    pub(crate) fn as_string(self) -> Result<Option<Cow<'a, str>>> {
        todo!()
    }
}

// === impl Members ===

impl<'a> Members<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(Cow<'a, str>, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let _ = self.bytes;
        todo!()
    }
}

// === impl Elements ===

impl<'a> Elements<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Value<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let _ = self.bytes;
        todo!()
    }
}
