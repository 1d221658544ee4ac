//! Finds the end of one JSON value in text that arrives in pieces.
//!
//! The state between two pieces is small: the open brackets, and whether the text stopped in a string or after a
//! backslash. All skipping in this crate uses this loop, so the definition of a value is the same everywhere.

use super::WHAT;
use super::skip::{self, Class, Unended, class};
use crate::error::{Error, Result};

/// Depth up to which brackets are checked to match by kind. Deeper brackets are only counted, so no memory is needed
/// per level and any depth works.
const PAIRED_MAX: usize = 512;

/// Finds the end of one value.
#[derive(Clone, Debug)]
pub(crate) struct Finder {
    place: FinderState,
    /// Number of open brackets.
    depth: usize,
    /// One bit per open bracket, up to the maximum: set for `{`.
    braces: [u64; PAIRED_MAX / 64],
    /// Total length of earlier pieces.
    seen: usize,
}

/// Where the last piece stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinderState {
    /// Before the value.
    Before,
    /// Between tokens within brackets, or in a scalar there.
    Inside,
    /// In a string.
    String,
    /// In a string, after a backslash.
    Escape,
    /// In a number or literal that is the whole value.
    Scalar,
}

// === impl Finder ===

impl Finder {
    /// Finds the end of a value at any nesting depth.
    #[inline]
    pub(crate) fn new() -> Self {
        Self { place: FinderState::Before, depth: 0, braces: [0; PAIRED_MAX / 64], seen: 0 }
    }

    /// Processes the next piece. Returns the offset in it just past the value, once the value ends. A number or
    /// literal that is the whole value ends before the first byte that cannot belong to it, so that byte is needed.
    ///
    /// # Errors
    /// If brackets do not match. The finder is unusable afterwards.
    #[inline]
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Option<usize>> {
        self.scan(piece, |_, _| Ok(()))
    }

    /// Like [`push`](Self::push), but calls `on_space(start, end)` for each run of white space between the value's
    /// tokens (twice for a run that is split between pieces).
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
                Class::Separator => return Err(self.malformed(at, "expected a value")),
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

    /// Whether the text so far stops in a string.
    pub(super) fn is_in_string(&self) -> bool {
        matches!(self.place, FinderState::String | FinderState::Escape)
    }

    /// The end of the string whose content continues at `at`; `None` if it does not end in this piece.
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
            return Err(self.malformed(at, "expected a value"));
        }
        let depth = self.depth - 1;
        let is_brace = |word: &u64| word >> (depth % 64) & 1 == 1;
        if self.braces.get(depth / 64).map(is_brace).is_some_and(|brace| brace != (byte == b'}')) {
            return Err(self.malformed(at, "mismatched brackets"));
        }
        self.depth = depth;
        Ok(())
    }

    #[cold]
    fn malformed(&self, at: usize, why: &'static str) -> Error {
        Error::malformed(WHAT, self.seen + at, why)
    }
}
