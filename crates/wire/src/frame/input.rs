//! Bytes as they come from the socket, handed on in the pieces that the reader asks for.
//!
//! A piece that lies inside one chunk is a slice of that chunk; only one that crosses a border is copied together, and
//! then exactly that piece. So a body is never held whole, and most of it is never copied here.

use bytes::Bytes;

use crate::error::{Error, Result};

/// Unread input: the rest of the current chunk, and the beginning of a piece that crosses its border.
#[derive(Default)]
pub(crate) struct Input {
    chunk: Bytes,
    at: usize,
    /// Bytes of an unfinished piece; or of a finished one that was just handed out (`carry_done`).
    carry: Vec<u8>,
    carry_done: bool,
    /// A varint that a chunk's end cut: its value so far, and how many bytes of it were read.
    varint: (u64, u32),
}

/// Without the content, which may be that of a Secret.
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
    /// Adds a chunk. Callers read until there is nothing left before they push again, so joining is the exception.
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

    /// Whether no unread byte is left, nor a begun piece.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest() == 0 && (self.carry.is_empty() || self.carry_done) && self.varint.1 == 0
    }

    /// Whether the next `n` bytes are there; if so, `piece(n)` gives them.
    pub(crate) fn has(&mut self, n: usize) -> bool {
        self.let_go_of_carry();
        if self.carry.is_empty() && self.rest() >= n {
            return true;
        }
        let missing = (n - self.carry.len()).min(self.rest());
        self.carry.extend_from_slice(&self.chunk[self.at..self.at + missing]);
        self.at += missing;
        self.carry.len() == n
    }

    /// The next `n` bytes in one piece. Only after `has(n)` was true.
    pub(crate) fn piece(&mut self, n: usize) -> &[u8] {
        if self.carry.is_empty() {
            self.at += n;
            return &self.chunk[self.at - n..self.at];
        }
        self.carry_done = true;
        &self.carry
    }

    /// Passes over up to `n` bytes; gives how many.
    pub(crate) fn skip(&mut self, n: u64) -> u64 {
        self.let_go_of_carry();
        let skipped = (self.rest() as u64).min(n);
        self.at += skipped as usize;
        skipped
    }

    /// A varint, and how many bytes it took; `None` until it is whole.
    pub(crate) fn varint(&mut self) -> Result<Option<(u64, u64)>> {
        self.let_go_of_carry();
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

    fn let_go_of_carry(&mut self) {
        if self.carry_done {
            self.carry.clear();
            // One large object must not hold its room for the rest of a stream's life.
            self.carry.shrink_to(64 << 10);
            self.carry_done = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_inside_a_chunk_is_not_copied() {
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
    fn a_piece_over_a_border_is_joined_and_nothing_more() {
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
    fn a_varint_may_be_cut_anywhere() {
        let mut input = Input::default();
        input.push(Bytes::from_static(&[0x96]));
        assert_eq!(input.varint(), Ok(None));
        assert!(!input.is_empty());
        input.push(Bytes::from_static(&[0x01, 0x05]));
        assert_eq!(input.varint(), Ok(Some((150, 2))));
        assert_eq!(input.varint(), Ok(Some((5, 1))));
    }
}
