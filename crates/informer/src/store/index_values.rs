//! Index values read while an object is unpacked, so that a packed object need not be unpacked again for indexing.

use std::sync::Arc;

use triomphe::ThinArc;

use super::StoredObject;
use super::index::CompiledIndex;

/// The values of an object in the first indexes of its store, of those that read more than the head. (Indexes are never
/// removed, so their numbers are stable.) Cloning shares the values.
#[derive(Clone)]
pub(super) struct ReadValues {
    /// The number of indexes; then per value: the number of its index, its length in four bytes, its text.
    text: ThinArc<usize, u8>,
}

/// Omits the content, which may be that of a Secret.
impl std::fmt::Debug for ReadValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadValues").field("bytes", &self.text.slice.len()).finish_non_exhaustive()
    }
}

impl ReadValues {
    /// Reads an object for all of these indexes that need it; `None` if one of them fails. The failure is reported when the
    /// object is stored.
    pub(super) fn read(
        indexes: &[Arc<CompiledIndex>],
        object: &StoredObject,
        buffer: &mut Vec<u8>,
    ) -> Option<Self> {
        buffer.clear();
        for (number, index) in indexes.iter().enumerate().filter(|(_, index)| index.reads_body()) {
            let number = u8::try_from(number).ok()?;
            let each = |value: &str| {
                buffer.push(number);
                // An object is smaller than 4 GiB.
                buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
                buffer.extend_from_slice(value.as_bytes());
            };
            index.values(object, each).ok()?;
        }
        Some(Self { text: ThinArc::from_header_and_slice(indexes.len(), buffer) })
    }

    /// The values in one index; `None` if it was not read.
    pub(super) fn of(&self, index: usize) -> Option<impl Iterator<Item = &str>> {
        let mut rest = &self.text.slice;
        let next = move || {
            let (head, tail) = rest.split_first_chunk::<5>()?;
            let [number, len @ ..] = *head;
            let (value, tail) = tail.split_at_checked(u32::from_le_bytes(len) as usize)?;
            rest = tail;
            // It was valid UTF-8 when it was read.
            Some((usize::from(number), std::str::from_utf8(value).unwrap_or_default()))
        };
        let values = std::iter::from_fn(next).filter(move |(number, _)| *number == index);
        (index < self.text.header.header).then(|| values.map(|(_, value)| value))
    }
}
