//! An object at rest: what its head says, readable as it is, and the rest packed.
//!
//! The four names of an object stand as text before its packed bytes, in one piece of memory; labels and owners are shared
//! with all objects that have the same. So whatever is asked of an object all the time (its key, its resourceVersion,
//! whether a selector matches) is answered without unpacking, and everything else waits until somebody looks.

use std::sync::Arc;

use kube_wire::RawObject;

use super::dictionary::{Dictionary, plain_len};
use super::sets::{Sets, Shared};
use crate::queue::Scope;

/// 56 bytes, and one allocation beside the handle's.
pub(in crate::store) struct Packed {
    pub(in crate::store) dictionary: Arc<Dictionary>,
    labels: Option<Shared>,
    owners: Option<Shared>,
    /// Namespace, name, uid and resourceVersion, then the packed object.
    bytes: Box<[u8]>,
    generation: u32,
    lens: [u8; 4],
    pub(in crate::store) scope: Scope,
    pub(in crate::store) deleting: bool,
}

impl Packed {
    /// Packs an object; `None` if it does not become shorter than `len_max`, or its head is not what heads are like.
    pub(super) fn new(
        object: &RawObject,
        scope: Scope,
        dictionary: &Arc<Dictionary>,
        len_max: usize,
        share: impl FnOnce(&[u8], &[u8]) -> (Option<Shared>, Option<Shared>),
    ) -> Option<Self> {
        let head = object.head();
        let texts = [head.namespace(), head.name(), head.uid(), head.resource_version()];
        let mut lens = [0; 4];
        for (len, text) in lens.iter_mut().zip(texts) {
            *len = u8::try_from(text.len()).ok()?;
        }
        let generation = u32::try_from(head.generation()).ok()?;
        let text_len = texts.iter().map(|text| text.len()).sum::<usize>();
        let bytes = dictionary.pack(object.bytes(), |packed| {
            let len = text_len + packed.len();
            (len < len_max).then(|| {
                let mut bytes = Vec::with_capacity(len);
                texts.iter().for_each(|text| bytes.extend_from_slice(text.as_bytes()));
                bytes.extend_from_slice(packed);
                bytes.into_boxed_slice()
            })
        })??;
        let (labels, owners) = share(head.label_bytes(), head.owner_bytes());
        let (dictionary, deleting) = (dictionary.clone(), head.is_deleting());
        Some(Self { dictionary, labels, owners, bytes, generation, lens, scope, deleting })
    }

    pub(in crate::store) fn namespace(&self) -> &str {
        self.text(0)
    }

    pub(in crate::store) fn name(&self) -> &str {
        self.text(1)
    }

    pub(in crate::store) fn uid(&self) -> &str {
        self.text(2)
    }

    pub(in crate::store) fn resource_version(&self) -> &str {
        self.text(3)
    }

    pub(in crate::store) fn generation(&self) -> i64 {
        self.generation.into()
    }

    pub(in crate::store) fn label_bytes(&self) -> &[u8] {
        self.labels.as_deref().map_or(&[], |bytes| bytes)
    }

    pub(in crate::store) fn owner_bytes(&self) -> &[u8] {
        self.owners.as_deref().map_or(&[], |bytes| bytes)
    }

    /// How many bytes are held for this object alone.
    pub(in crate::store) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(in crate::store) fn plain_len(&self) -> usize {
        plain_len(self.packed())
    }

    pub(in crate::store) fn restore(&self) -> RawObject {
        self.dictionary.restore(self.packed())
    }

    pub(in crate::store) fn unpack<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        self.dictionary.unpack(self.packed(), read)
    }

    fn text(&self, at: usize) -> &str {
        let start = self.lens[..at].iter().map(|len| usize::from(*len)).sum::<usize>();
        // It was text when it was packed.
        std::str::from_utf8(&self.bytes[start..start + usize::from(self.lens[at])]).unwrap_or_default()
    }

    fn packed(&self) -> &[u8] {
        &self.bytes[self.lens.iter().map(|len| usize::from(*len)).sum()..]
    }
}

/// Labels and owners, shared.
pub(super) fn share_both(sets: &mut Sets, labels: &[u8], owners: &[u8]) -> (Option<Shared>, Option<Shared>) {
    (sets.share(labels), sets.share(owners))
}
