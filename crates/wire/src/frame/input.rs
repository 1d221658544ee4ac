//! Input from the socket, split into the pieces that a reader requests.
//!
//! A piece within one chunk is a slice of that chunk; only a piece that crosses a chunk boundary is copied. The body
//! is never held as a whole, and most of it is never copied here.

use bytes::Bytes;

use crate::error::{Error, Result};

/// Unread input: the rest of the current chunk, and the start of a piece that crosses its boundary.
#[derive(Default)]
pub(crate) struct Input {
    chunk: Bytes,
    at: usize,
    /// Bytes of an unfinished piece, or of a finished one that was just returned (`carry_done`).
    carry: Vec<u8>,
    carry_done: bool,
    /// A varint split by a chunk boundary: its value so far, and the number of bytes read.
    varint: (u64, u32),
}

/// Omits the content, which may be that of a Secret.
impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("chunk", &self.chunk.len())
            .field("at", &self.at)
            .field("carry", &self.carry.len())
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Adds a chunk. Callers consume all input before they push again, so joining chunks is the exception.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.chunk = if self.rest() == 0 {
            chunk
        } else {
            let mut joined = Vec::with_capacity(self.rest() + chunk.len());
            joined.extend_from_slice(&self.chunk[self.at..]);
            joined.extend_from_slice(&chunk);
            joined.into()
        };
        self.at = 0;
    }

    /// Whether there are no unread bytes and no unfinished piece.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest() == 0 && (self.carry.is_empty() || self.carry_done) && self.varint.1 == 0
    }

    /// Whether the next `n` bytes are available; if so, `piece(n)` returns them.
    pub(crate) fn has(&mut self, n: usize) -> bool {
        self.release_carry();
        if self.carry.is_empty() && self.rest() >= n {
            return true;
        }
        let missing = (n - self.carry.len()).min(self.rest());
        self.carry.extend_from_slice(&self.chunk[self.at..self.at + missing]);
        self.at += missing;
        self.carry.len() == n
    }

    /// The next `n` bytes in one piece. Call only after `has(n)` returned true.
    pub(crate) fn piece(&mut self, n: usize) -> &[u8] {
        if self.carry.is_empty() {
            self.at += n;
            return &self.chunk[self.at - n..self.at];
        }
        self.carry_done = true;
        &self.carry
    }

    /// Skips up to `n` bytes; returns how many.
    pub(crate) fn skip(&mut self, n: u64) -> u64 {
        self.release_carry();
        let skipped = (self.rest() as u64).min(n);
        self.at += skipped as usize;
        skipped
    }

    /// A varint and its length in bytes; `None` until it is complete.
    pub(crate) fn varint(&mut self) -> Result<Option<(u64, u64)>> {
        self.release_carry();
        while self.rest() > 0 {
            let byte = self.chunk[self.at];
            self.at += 1;
            let (value, count) = &mut self.varint;
            if *count == 9 && byte > 1 {
                return Err(Error::malformed("protobuf message", self.at, "varint longer than 64 bits"));
            }
            *value |= u64::from(byte & 0x7f) << (7 * *count);
            *count += 1;
            if byte < 0x80 {
                let (value, count) = std::mem::take(&mut self.varint);
                return Ok(Some((value, u64::from(count))));
            }
        }
        Ok(None)
    }

    fn rest(&self) -> usize {
        self.chunk.len() - self.at
    }

    fn release_carry(&mut self) {
        if self.carry_done {
            self.carry.clear();
            // One large object must not keep its memory for the rest of the stream.
            self.carry.shrink_to(64 << 10);
            self.carry_done = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_within_a_chunk_is_not_copied() {
        let chunk = Bytes::from_static(b"abcdef");
        let mut input = Input::default();
        input.push(chunk.clone());
        assert!(input.has(3));
        assert_eq!(input.piece(3).as_ptr(), chunk.as_ptr());
        assert!(input.has(3));
        assert_eq!(input.piece(3), b"def");
        assert!(input.is_empty());
    }

    #[test]
    fn only_a_piece_across_chunks_is_joined() {
        let mut input = Input::default();
        input.push(Bytes::from_static(b"ab"));
        assert!(!input.has(3));
        let second = Bytes::from_static(b"cdefg");
        input.push(second.clone());
        assert!(input.has(3));
        assert_eq!(input.piece(3), b"abc");
        assert!(input.has(2));
        assert_eq!(input.piece(2).as_ptr(), second[1..].as_ptr());
        assert_eq!(input.skip(9), 2);
    }

    #[test]
    fn a_varint_may_be_split_anywhere() {
        let mut input = Input::default();
        input.push(Bytes::from_static(&[0x96]));
        assert_eq!(input.varint(), Ok(None));
        assert!(!input.is_empty());
        input.push(Bytes::from_static(&[0x01, 0x05]));
        assert_eq!(input.varint(), Ok(Some((150, 2))));
        assert_eq!(input.varint(), Ok(Some((5, 1))));
    }
}
