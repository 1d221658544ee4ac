//! Finds the end of one JSON value in text that comes in pieces.
//!
//! The state between two pieces is small: which brackets are open, and whether the text broke off in a string or behind a
//! backslash. Every skip in this crate is this one loop, so that what counts as a value is the same everywhere.

use super::WHAT;
use super::skip::{self, Class, Unended, class};
use crate::error::{Error, Result};

/// How deep brackets are checked to pair up by kind. Deeper ones are counted only: so nothing is kept for a level, and any
/// depth will do.
const PAIRED_MAX: usize = 512;

/// Looks for the end of one value.
#[derive(Clone, Debug)]
pub(crate) struct Finder {
    place: FinderState,
    /// Open brackets.
    depth: usize,
    /// A bit for each open bracket, up to the ceiling: set for `{`.
    braces: [u64; PAIRED_MAX / 64],
    /// Bytes of earlier pieces.
    seen: usize,
}

/// Where the last piece broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinderState {
    /// In front of the value.
    Before,
    /// Between tokens, brackets being open; or in a scalar there.
    Inside,
    /// In a string.
    String,
    /// In a string, right behind a backslash.
    Escape,
    /// In a number or literal that is the value itself.
    Scalar,
}

// === impl Finder ===

impl Finder {
    /// Looks for the end of a value, however deep it is nested.
    #[inline]
    pub(crate) fn new() -> Self {
        Self { place: FinderState::Before, depth: 0, braces: [0; PAIRED_MAX / 64], seen: 0 }
    }

    /// Takes the next piece. Gives the offset in it just past the value, once that ends. A number or literal that is the
    /// whole value ends with the first byte that cannot belong to it, so it needs that byte.
    ///
    /// # Errors
    /// If brackets don't pair up. The finder is of no use afterwards.
    #[inline]
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Option<usize>> {
        self.scan(piece, |_, _| Ok(()))
    }

    /// As [`push`](Self::push), calling `on_space(start, end)` for each run of white space between the value's tokens
    /// (twice in a row for one that is split between pieces).
    #[inline]
    pub(super) fn scan(
        &mut self,
        piece: &[u8],
        mut on_space: impl FnMut(usize, usize) -> Result<()>,
    ) -> Result<Option<usize>> {
        let mut at = match self.place {
            FinderState::Escape if piece.is_empty() => return Ok(None),
            FinderState::Escape => 1,
            _ => 0,
        };
        if matches!(self.place, FinderState::String | FinderState::Escape) {
            match self.string(piece, at)? {
                Some(end) if self.depth == 0 => return Ok(Some(end)),
                Some(end) => at = end,
                None => return Ok(None),
            }
        }
        if self.place == FinderState::Before {
            at = skip::space(piece, at);
            if piece.get(at).is_some_and(|&byte| class(byte) == Class::Scalar) {
                self.place = FinderState::Scalar;
            }
        }
        if self.place == FinderState::Scalar {
            let end = skip::scalar(piece, at);
            if end < piece.len() {
                return Ok(Some(end));
            }
            self.seen += piece.len();
            return Ok(None);
        }
        while let Some(&byte) = piece.get(at) {
            match class(byte) {
                Class::Scalar => at += 1,
                Class::Separator if self.depth > 0 => at += 1,
                Class::Separator => return Err(self.malformed(at, "a value was expected")),
                Class::Quote => match self.string(piece, at + 1)? {
                    Some(end) if self.depth == 0 => return Ok(Some(end)),
                    Some(end) => at = end,
                    None => return Ok(None),
                },
                Class::Open => {
                    self.open(byte);
                    at += 1;
                }
                Class::Close => {
                    self.close(byte, at)?;
                    at += 1;
                    if self.depth == 0 {
                        return Ok(Some(at));
                    }
                }
                Class::Space => {
                    let end = skip::space(piece, at);
                    on_space(at, end)?;
                    at = end;
                }
            }
        }
        self.seen += piece.len();
        Ok(None)
    }

    /// Whether the text so far breaks off in a string.
    pub(super) fn is_in_string(&self) -> bool {
        matches!(self.place, FinderState::String | FinderState::Escape)
    }

    /// The end of the string whose content goes on at `at`, or `None` if it doesn't end in this piece.
    #[inline]
    fn string(&mut self, piece: &[u8], at: usize) -> Result<Option<usize>> {
        match skip::string(piece, at) {
            Ok(end) => {
                self.place = FinderState::Inside;
                Ok(Some(end))
            }
            Err(unended) => {
                self.place = match unended {
                    Unended::String => FinderState::String,
                    Unended::Escape => FinderState::Escape,
                };
                self.seen += piece.len();
                Ok(None)
            }
        }
    }

    #[inline]
    fn open(&mut self, byte: u8) {
        if let Some(word) = self.braces.get_mut(self.depth / 64) {
            let bit = 1 << (self.depth % 64);
            *word = if byte == b'{' { *word | bit } else { *word & !bit };
        }
        self.depth += 1;
        self.place = FinderState::Inside;
    }

    #[inline]
    fn close(&mut self, byte: u8, at: usize) -> Result<()> {
        if self.depth == 0 {
            return Err(self.malformed(at, "a value was expected"));
        }
        let depth = self.depth - 1;
        let is_brace = |word: &u64| word >> (depth % 64) & 1 == 1;
        if self.braces.get(depth / 64).map(is_brace).is_some_and(|brace| brace != (byte == b'}')) {
            return Err(self.malformed(at, "brackets don't pair up"));
        }
        self.depth = depth;
        Ok(())
    }

    #[cold]
    fn malformed(&self, at: usize, why: &'static str) -> Error {
        Error::malformed(WHAT, self.seen + at, why)
    }
}
