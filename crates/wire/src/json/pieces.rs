//! Values extracted from a body that arrives in chunks.
//!
//! A value within one chunk is a slice of that chunk. Only a value that crosses a chunk boundary is copied, and no
//! more than the value, so the body is never held as a whole.

use bytes::Bytes;

use super::finder::Finder;
use super::skip;
use crate::error::{Error, Result};
use crate::limits::Limit;

/// The unread rest of a chunk, and a value that was started.
#[derive(Default)]
pub(super) struct Pieces {
    chunk: Bytes,
    at: usize,
    begun: Option<Begun>,
    /// The start of an unfinished value from earlier chunks, the value returned last, or the start of an oversized
    /// one.
    carry: Vec<u8>,
    /// Total length of earlier chunks.
    seen: usize,
}

/// Omits the content, which may be that of a Secret.
impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces")
            .field("seen", &self.seen)
            .field("chunk", &self.chunk.len())
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// The location of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A range of the chunk.
    Chunk(usize, usize),
    /// In the carry.
    Carry,
    /// Nowhere: the value was oversized, an error reported it, and it was skipped.
    Passed,
}

#[derive(Debug)]
struct Begun {
    finder: Finder,
    /// Its start in the chunk; 0 if it started in an earlier one.
    start: usize,
    /// Its offset in the body, for errors.
    offset: usize,
    /// Whether to skip it.
    pass: bool,
}

/// Capacity kept after a large value, which must not keep its memory for the rest of the stream.
const CARRY_KEPT: usize = 64 << 10;

impl Pieces {
    /// Adds a chunk. Callers consume all input before they push again, so joining chunks is the exception.
    pub(super) fn push(&mut self, chunk: Bytes) {
        let held = match &mut self.begun {
            Some(begun) if !begun.pass => std::mem::take(&mut begun.start),
            _ => self.at,
        };
        self.seen += held;
        self.at -= held;
        let rest = &self.chunk[held..];
        self.chunk = if rest.is_empty() { chunk } else { Bytes::from([rest, &chunk].concat()) };
    }

    /// The unread rest of the chunk.
    pub(super) fn rest(&self) -> &[u8] {
        &self.chunk[self.at..]
    }

    /// Skips `n` bytes of the rest.
    pub(super) fn advance(&mut self, n: usize) {
        self.at += n;
    }

    /// The next `len` bytes of the rest, as a piece.
    pub(super) fn take(&mut self, len: usize) -> Piece {
        self.at += len;
        Piece::Chunk(self.at - len, self.at)
    }

    /// The next byte that is not white space, if the chunk has one. It stays unread.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.at = skip::space(&self.chunk, self.at);
        self.chunk.get(self.at).copied()
    }

    /// Whether a value was started and has not ended.
    pub(super) fn is_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Whether the text read so far stops in a string.
    pub(super) fn is_in_string(&self) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.finder.is_in_string())
    }

    /// The offset in the body of the next unread byte.
    pub(super) fn position(&self) -> usize {
        self.seen + self.at
    }

    /// The value that continues (or starts) here, once it has ended.
    ///
    /// # Errors
    /// [`Error::Limit`] if it is longer than `bytes_max`; later calls then skip it. Any other error loses the framing.
    pub(super) fn value(&mut self, bytes_max: usize) -> Result<Option<Piece>> {
        let len = self.rest().len();
        self.value_within(len, bytes_max)
    }

    /// Skips the value that continues (or starts) here. Returns whether it has ended.
    pub(super) fn pass(&mut self) -> Result<bool> {
        self.begin().pass = true;
        Ok(self.value(usize::MAX)?.is_some())
    }

    /// Like [`value`](Self::value), but looks only at the next `len` bytes.
    pub(super) fn value_within(&mut self, len: usize, bytes_max: usize) -> Result<Option<Piece>> {
        self.begin();
        let Self { chunk, at, begun, carry, .. } = self;
        // `begin` has just set it.
        let Some(value) = begun else { return Ok(None) };
        // Exactly one byte past the limit, so that the first error does not depend on the chunk sizes.
        let len = match value.pass {
            true => len,
            false => len.min(bytes_max.saturating_sub(carry.len() + *at - value.start).saturating_add(1)),
        };
        let end = match value.finder.push(&chunk[*at..*at + len]) {
            Ok(end) => end,
            Err(error) => {
                let offset = value.offset;
                self.forget();
                return Err(skip::offset(error, offset));
            }
        };
        *at += end.unwrap_or(len);
        let too_large = !value.pass && carry.len() + *at - value.start > bytes_max;
        if too_large {
            value.pass = true;
            carry.extend_from_slice(&chunk[value.start..*at]);
        }
        let piece = match end {
            Some(_) if value.pass => Piece::Passed,
            Some(_) if carry.is_empty() => Piece::Chunk(value.start, *at),
            Some(_) => {
                carry.extend_from_slice(&chunk[value.start..*at]);
                Piece::Carry
            }
            None => {
                if !value.pass && *at == chunk.len() {
                    carry.extend_from_slice(&chunk[value.start..]);
                    value.start = *at;
                }
                return if too_large { Err(limit(bytes_max)) } else { Ok(None) };
            }
        };
        *begun = None;
        if too_large { Err(limit(bytes_max)) } else { Ok(Some(piece)) }
    }

    /// The start of the value that has just been found to be oversized.
    pub(super) fn take_refused(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.carry)
    }

    /// Drops the unfinished value.
    pub(super) fn forget(&mut self) {
        self.begun = None;
        self.carry.clear();
    }

    /// The text of a piece.
    pub(super) fn text(&self, piece: Piece) -> &[u8] {
        match piece {
            Piece::Chunk(start, end) => &self.chunk[start..end],
            Piece::Carry => &self.carry,
            Piece::Passed => &[],
        }
    }

    fn begin(&mut self) -> &mut Begun {
        let Self { at, begun, carry, seen, .. } = self;
        begun.get_or_insert_with(|| {
            carry.clear();
            carry.shrink_to(CARRY_KEPT);
            Begun { finder: Finder::new(), start: *at, offset: *seen + *at, pass: false }
        })
    }
}

/// The error for an oversized value. Omits the size so far, which depends on the chunk sizes.
fn limit(allowed: usize) -> Error {
    Error::Limit { limit: Limit::ObjectBytes, found: allowed.saturating_add(1), allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_bytes_never_exceed_the_limit() {
        let mut pieces = Pieces::default();
        let mut errors = 0;
        for chunk in
            std::iter::once(Bytes::from_static(b"\"")).chain(vec![Bytes::from(vec![b'x'; 100]); 1000])
        {
            pieces.push(chunk);
            match pieces.value(1000) {
                Ok(piece) => assert_eq!(piece, None),
                Err(error) => {
                    assert!(matches!(error, Error::Limit { .. }), "{error}");
                    errors += 1;
                }
            }
            assert!(pieces.carry.capacity() <= 2000, "{}", pieces.carry.capacity());
        }
        assert_eq!(errors, 1);
        pieces.push(Bytes::from_static(b"\"1,"));
        assert_eq!(pieces.value(1000), Ok(Some(Piece::Passed)));
        assert_eq!(pieces.value(1000), Ok(Some(Piece::Chunk(1, 2))));
    }

    #[test]
    fn memory_of_a_large_value_is_released() {
        let mut pieces = Pieces::default();
        for chunk in [&b"\""[..], &[b'x'; 1 << 20], b"\""] {
            pieces.push(Bytes::copy_from_slice(chunk));
            let _ = pieces.value(usize::MAX).unwrap();
        }
        assert_eq!(pieces.carry.len(), (1 << 20) + 2);
        pieces.push(Bytes::from_static(b"1,"));
        assert_eq!(pieces.value(usize::MAX), Ok(Some(Piece::Chunk(0, 1))));
        assert!(pieces.carry.capacity() <= CARRY_KEPT);
    }

    #[test]
    fn unread_chunks_are_joined() {
        let mut pieces = Pieces::default();
        for chunk in ["[1", ",2", "]", " [3]"] {
            pieces.push(Bytes::from_static(chunk.as_bytes()));
        }
        for expected in ["[1,2]", " [3]"] {
            let piece = pieces.value(100).unwrap().unwrap();
            assert_eq!(pieces.text(piece), expected.as_bytes());
        }
    }
}
