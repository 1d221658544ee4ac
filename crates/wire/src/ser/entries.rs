//! The entries of a map: messages `{key = 1, value = 2}`, sorted by key.

use serde::Serialize;

use super::encoder::{Encoder, Open};
use super::slot::Slot;
use super::value::write;
use crate::error::Result;
use crate::schema::Scalar;

/// A map being written.
pub(super) struct Entries<'e, 'o> {
    encoder: &'e mut Encoder<'o>,
    number: u32,
    scalar: Scalar,
    open: Open,
    /// The start of the current entry, and the end of its key.
    entry: (usize, usize),
}

impl<'e, 'o> Entries<'e, 'o> {
    pub(super) fn open(encoder: &'e mut Encoder<'o>, number: u32, scalar: Scalar) -> Result<Self> {
        let open = encoder.open_map()?;
        Ok(Self { encoder, number, scalar, open, entry: (0, 0) })
    }

    pub(super) fn key(&mut self, key: &str) {
        let start = self.encoder.out.len();
        self.encoder.writer().bytes_field(1, key.as_bytes());
        self.entry = (start, self.encoder.out.len());
    }

    pub(super) fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        write(self.encoder, Slot::element(self.encoder.schema, self.scalar, 2), value)?;
        let (start, key_end) = self.entry;
        self.encoder.entry(self.number, start, key_end);
        Ok(())
    }

    pub(super) fn close(self) {
        self.encoder.close_map(self.open);
    }
}
