//! A packed object: its head stays readable, the rest is compressed.
//!
//! It is one allocation: the fixed part, then the packed bytes, then its four names as text (which the packed bytes omit).
//! Labels and owners are shared between all objects that have the same. So frequent reads (the key, the resourceVersion,
//! whether a selector matches) need no unpacking.

use std::sync::Arc;

use kube_wire::RawObject;

use super::dictionary::{Dictionary, Parts};
use super::sets::SharedBytes;
use super::skeleton::Cuts;
use crate::scope::Scope;

/// The fixed part before the bytes of a packed object: 40 bytes.
#[derive(Clone)]
pub(crate) struct Packed {
    dictionary: Arc<Dictionary>,
    labels: Option<SharedBytes>,
    owners: Option<SharedBytes>,
    generation: u32,
    lens: [u8; 4],
    cuts: Cuts,
    scope: Scope,
    deleting: bool,
}

/// A packed object with its bytes: the packed ones, then namespace, name, uid and resourceVersion.
#[derive(Clone, Copy)]
pub(crate) struct PackedRef<'a> {
    head: &'a Packed,
    bytes: &'a [u8],
}

impl Packed {
    /// Packs an object and passes it on; `None` if it does not become shorter than `len_max`, or its head has an unusual
    /// form.
    pub(super) fn make<T>(
        object: &RawObject,
        scope: Scope,
        dictionary: &Arc<Dictionary>,
        len_max: usize,
        share: impl FnOnce(&[u8], &[u8]) -> (Option<SharedBytes>, Option<SharedBytes>),
        keep: impl FnOnce(Self, &[u8]) -> T,
    ) -> Option<T> {
        let head = object.head();
        let texts = [head.namespace(), head.name(), head.uid(), head.resource_version()];
        let mut lens = [0; 4];
        for (len, text) in lens.iter_mut().zip(texts) {
            *len = u8::try_from(text.len()).ok()?;
        }
        let generation = u32::try_from(head.generation()).ok()?;
        dictionary.pack(object, |bytes, cuts| {
            texts.iter().for_each(|text| bytes.extend_from_slice(text.as_bytes()));
            if bytes.len() >= len_max {
                return None;
            }
            let (labels, owners) = share(head.label_bytes(), head.owner_bytes());
            let (dictionary, deleting) = (dictionary.clone(), head.is_deleting());
            Some(keep(Self { dictionary, labels, owners, generation, lens, cuts, scope, deleting }, bytes))
        })?
    }

    pub(crate) fn with<'a>(&'a self, bytes: &'a [u8]) -> PackedRef<'a> {
        PackedRef { head: self, bytes }
    }
}

impl<'a> PackedRef<'a> {
    pub(crate) fn dictionary(self) -> &'a Arc<Dictionary> {
        &self.head.dictionary
    }

    pub(crate) fn namespace(self) -> &'a str {
        self.text(0)
    }

    pub(crate) fn name(self) -> &'a str {
        self.text(1)
    }

    /// [`namespace`](Self::namespace) and [`name`](Self::name), without the UTF-8 check.
    pub(crate) fn key_bytes(self) -> (&'a [u8], &'a [u8]) {
        (self.text_bytes(0), self.text_bytes(1))
    }

    pub(crate) fn uid(self) -> &'a str {
        self.text(2)
    }

    pub(crate) fn resource_version(self) -> &'a str {
        self.text(3)
    }

    pub(crate) fn generation(self) -> i64 {
        self.head.generation.into()
    }

    pub(crate) fn is_deleting(self) -> bool {
        self.head.deleting
    }

    pub(crate) fn scope(self) -> Scope {
        self.head.scope
    }

    pub(crate) fn label_bytes(self) -> &'a [u8] {
        self.head.labels.as_ref().map_or(&[], |shared| &shared.slice)
    }

    pub(crate) fn owner_bytes(self) -> &'a [u8] {
        self.head.owners.as_ref().map_or(&[], |shared| &shared.slice)
    }

    /// How many bytes are held for this object alone.
    pub(crate) fn len(self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn uncompressed_len(self) -> usize {
        self.parts().uncompressed_len()
    }

    pub(crate) fn restore(self) -> RawObject {
        self.head.dictionary.restore(&self.parts())
    }

    pub(crate) fn unpack<T>(self, read: impl FnOnce(&[u8]) -> T) -> T {
        self.head.dictionary.unpack(&self.parts(), read)
    }

    fn text(self, at: usize) -> &'a str {
        // It was valid UTF-8 when it was packed.
        std::str::from_utf8(self.text_bytes(at)).unwrap_or_default()
    }

    fn text_bytes(self, at: usize) -> &'a [u8] {
        let end = self.bytes.len() - sum(&self.head.lens[at + 1..]);
        &self.bytes[end - usize::from(self.head.lens[at])..end]
    }

    fn parts(self) -> Parts<'a> {
        let bytes = &self.bytes[..self.bytes.len() - sum(&self.head.lens)];
        Parts { bytes, names: [0, 1, 2, 3].map(|at| self.text_bytes(at)), cuts: self.head.cuts }
    }
}

fn sum(lens: &[u8]) -> usize {
    lens.iter().map(|len| usize::from(*len)).sum()
}
