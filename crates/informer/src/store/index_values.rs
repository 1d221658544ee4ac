//! Values of indexes, read while an object was at hand: so that what is packed on its way in need not be unpacked again to
//! be indexed.

use std::sync::Arc;

use triomphe::ThinArc;

use super::StoredObject;
use super::index::CompiledIndex;

/// What an object has in the first so many indexes of its store, of those that read more than its head. (Indexes are added and never taken away, so their number
/// stays theirs.) Cloning shares it.
#[derive(Clone)]
pub(super) struct ReadValues {
    /// How many indexes; then for each value: the number of its index, its length in four bytes, its text.
    text: ThinArc<usize, u8>,
}

/// Without the content, which may be that of a Secret.
impl std::fmt::Debug for ReadValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadValues").field("bytes", &self.text.slice.len()).finish_non_exhaustive()
    }
}

impl ReadValues {
    /// Reads an object for all of these indexes that need it; `None` if one of them cannot: it will say why when the object is
    /// stored.
    pub(super) fn read(
        indexes: &[Arc<CompiledIndex>],
        object: &StoredObject,
        room: &mut Vec<u8>,
    ) -> Option<Self> {
        room.clear();
        for (number, index) in indexes.iter().enumerate().filter(|(_, index)| index.reads_body()) {
            let number = u8::try_from(number).ok()?;
            let each = |value: &str| {
                room.push(number);
                // An object is smaller than 4 GiB.
                room.extend_from_slice(&(value.len() as u32).to_le_bytes());
                room.extend_from_slice(value.as_bytes());
            };
            index.values(object, each).ok()?;
        }
        Some(Self { text: ThinArc::from_header_and_slice(indexes.len(), room) })
    }

    /// The values in one index; `None` if it was not read.
    pub(super) fn of(&self, index: usize) -> Option<impl Iterator<Item = &str>> {
        let mut rest = &self.text.slice;
        let next = move || {
            let (head, tail) = rest.split_first_chunk::<5>()?;
            let [number, len @ ..] = *head;
            let (value, tail) = tail.split_at_checked(u32::from_le_bytes(len) as usize)?;
            rest = tail;
            // It was text when it was read.
            Some((usize::from(number), std::str::from_utf8(value).unwrap_or_default()))
        };
        let values = std::iter::from_fn(next).filter(move |(number, _)| *number == index);
        (index < self.text.header.header).then(|| values.map(|(_, value)| value))
    }
}
