//! An object as the store holds it: a handle to its bytes, uncompressed or packed.
//!
//! An object arrives uncompressed. The store packs it, keeps the packed one, and links it from the uncompressed one. So
//! listeners read the bytes as received, and both handles are known to be the same object.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use kube_wire::path::{FieldValue, PathReader};
use kube_wire::{Encoding, FieldPath, Head, KeptBytes, Labels, Owners, RawObject, TypeMeta};
use serde::de::DeserializeOwned;
use serde_json::Value;
use triomphe::ThinArc;
use twox_hash::XxHash3_64;

use crate::key::{InvalidKey, Key};
use crate::packing::{Dictionary, Packed, PackedRef};
use crate::scope::Scope;

/// A handle to an object: its bytes, its head, and a hash of the bytes. Cloning shares everything.
///
/// Nothing is decoded and no string is copied. Everything but [`raw`](Self::raw) and
/// [`for_each_field`](Self::for_each_field) is read from the head, without unpacking a [packed](crate::Memory) object.
#[derive(Clone, derive_more::Debug)]
#[debug("{}@{}", self.key(), self.resource_version())]
pub struct StoredObject(ThinArc<StoredParts, u8>);

/// 72 bytes including its counter and a length; the bytes of a packed object follow. Sized for millions of objects.
struct StoredParts {
    /// The hash of the stored bytes: equal for the same object in the same encoding.
    content_hash: u64,
    /// The hash of namespace and name.
    key_hash: u64,
    body: StoredBody,
}

enum StoredBody {
    Uncompressed(Box<UncompressedObject>),
    Packed(Packed),
}

/// The body with its bytes.
enum StoredView<'a> {
    Uncompressed(&'a UncompressedObject),
    Packed(PackedRef<'a>),
}

struct UncompressedObject {
    raw: RawObject,
    scope: Scope,
    /// The same object as a store keeps it; `Some(None)` if packing was tried and it is kept uncompressed.
    packed: OnceLock<Option<StoredObject>>,
}

/// How a received object relates to the stored one with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// The same: uid, resourceVersion and bytes.
    Same,
    /// The same in another encoding: uid and resourceVersion are equal.
    Reencoded,
    /// Another state of the same object.
    Changed,
    /// Another object: the stored one was deleted meanwhile.
    Recreated,
}

// === impl StoredObject ===

impl StoredObject {
    /// Creates a handle to an object in a scope.
    ///
    /// # Errors
    /// If the object has no name, or its name or namespace contains a slash.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn new(scope: Scope, object: RawObject) -> Result<Self, InvalidKey> {
        let content_hash = content_hash(&object);
        Self::with_hash(scope, object.detached(), content_hash)
    }

    pub(crate) fn with_hash(scope: Scope, raw: RawObject, content_hash: u64) -> Result<Self, InvalidKey> {
        let head = raw.head();
        let (namespace, name) = (head.namespace(), head.name());
        if name.is_empty() || name.contains('/') || namespace.contains('/') {
            return Err(InvalidKey(format!("{namespace}/{name}")));
        }
        let key_hash = key_hash(namespace, name);
        Ok(Self::uncompressed(scope, raw, content_hash, key_hash))
    }

    fn uncompressed(scope: Scope, raw: RawObject, content_hash: u64, key_hash: u64) -> Self {
        let body =
            StoredBody::Uncompressed(Box::new(UncompressedObject { raw, scope, packed: OnceLock::new() }));
        Self(ThinArc::from_header_and_slice(StoredParts { content_hash, key_hash, body }, &[]))
    }

    fn parts(&self) -> &StoredParts {
        &self.0.header.header
    }

    fn view(&self) -> StoredView<'_> {
        match &self.parts().body {
            StoredBody::Uncompressed(uncompressed) => StoredView::Uncompressed(uncompressed),
            StoredBody::Packed(packed) => StoredView::Packed(packed.with(&self.0.slice)),
        }
    }

    /// The key. It costs an allocation; [`namespace`](Self::namespace) and [`name`](Self::name) are free.
    pub fn key(&self) -> Key {
        Key::new(self.namespace(), self.name())
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.head().namespace(),
            StoredView::Packed(packed) => packed.namespace(),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.head().name(),
            StoredView::Packed(packed) => packed.name(),
        }
    }

    /// The uid; empty if absent.
    pub fn uid(&self) -> &str {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.head().uid(),
            StoredView::Packed(packed) => packed.uid(),
        }
    }

    /// The resourceVersion; empty if absent.
    pub fn resource_version(&self) -> &str {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.head().resource_version(),
            StoredView::Packed(packed) => packed.resource_version(),
        }
    }

    /// The generation; 0 for kinds without one.
    pub fn generation(&self) -> i64 {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.head().generation(),
            StoredView::Packed(packed) => packed.generation(),
        }
    }

    /// Whether deletionTimestamp is set.
    pub fn is_deleting(&self) -> bool {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.head().is_deleting(),
            StoredView::Packed(packed) => packed.is_deleting(),
        }
    }

    /// The labels, in the order of the bytes.
    pub fn labels(&self) -> Labels<'_> {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.head().labels(),
            StoredView::Packed(packed) => Labels::new(packed.label_bytes(), packed.dictionary().encoding()),
        }
    }

    /// The owner references.
    pub fn owners(&self) -> Owners<'_> {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.head().owners(),
            StoredView::Packed(packed) => Owners::new(packed.owner_bytes(), packed.dictionary().encoding()),
        }
    }

    /// apiVersion and kind.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn type_meta(&self) -> &TypeMeta {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.type_meta(),
            StoredView::Packed(packed) => packed.dictionary().type_meta(),
        }
    }

    /// The encoding of the bytes.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn encoding(&self) -> Encoding {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.encoding(),
            StoredView::Packed(packed) => packed.dictionary().encoding(),
        }
    }

    /// The scope that the object belongs to.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn scope(&self) -> Scope {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.scope,
            StoredView::Packed(packed) => packed.scope(),
        }
    }

    /// The object with all its stored bytes. Unpacking takes about a microsecond and a copy of the bytes.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn raw(&self) -> RawObject {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.clone(),
            StoredView::Packed(packed) => packed.restore(),
        }
    }

    /// Decodes a new value of any type that fits. (Informers cache recent values.)
    ///
    /// # Errors
    /// As [`RawObject::decode`].
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, kube_wire::Error> {
        self.read(|kept| kept.decode())
    }

    /// Calls `each` with every value at a path. The object is unpacked into a reused buffer, and not decoded.
    ///
    /// # Errors
    /// As [`PathReader::for_each`].
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn for_each_field(
        &self,
        path: &PathReader,
        each: impl FnMut(FieldValue<'_>),
    ) -> Result<(), kube_wire::Error> {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => path.for_each(uncompressed.raw.head(), each),
            StoredView::Packed(packed) => {
                packed.unpack(|bytes| path.for_each_in(bytes, self.encoding(), self.type_meta(), each))
            }
        }
    }

    /// The annotations. Empty if the informer does not keep them.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let mut annotations = BTreeMap::new();
        // Malformed annotations end the reading, as malformed labels do.
        let _ = self.read_path("metadata.annotations", |field| {
            if let Ok(Value::Object(entries)) = field.to_value() {
                let text = |value: Value| value.as_str().map(str::to_owned);
                annotations
                    .extend(entries.into_iter().filter_map(|(name, value)| Some((name, text(value)?))));
            }
        });
        annotations
    }

    /// The finalizers. Empty if the informer does not keep them.
    pub fn finalizers(&self) -> Vec<String> {
        let mut finalizers = Vec::new();
        // As for annotations.
        let _ = self.read_path("metadata.finalizers[*]", |field| {
            finalizers.extend(field.text().map(|text| text.into_owned()));
        });
        finalizers
    }

    /// The first value that a field path leads to: `spec.nodeName`, or `status.conditions[?type=Ready].status`. `None` if the object
    /// has no such field. The object is not decoded.
    ///
    /// # Errors
    /// Returns an error if the path is invalid, if the kind is built in and has no such field, or if the bytes are malformed.
    pub fn field(&self, path: &str) -> Result<Option<Value>, kube_wire::Error> {
        let mut found = None;
        self.read_path(path, |field| {
            if found.is_none() {
                found = Some(field.to_value());
            }
        })?;
        found.transpose()
    }

    fn read_path(&self, path: &str, each: impl FnMut(FieldValue<'_>)) -> Result<(), kube_wire::Error> {
        let path = path.parse::<FieldPath>()?;
        self.for_each_field(&PathReader::new(&path, self.type_meta())?, each)
    }

    /// How many bytes the store holds for the object's content.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn stored_bytes(&self) -> usize {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.bytes().len(),
            StoredView::Packed(packed) => packed.len(),
        }
    }

    /// The size of the content, unpacked. For tests.
    #[doc(hidden)]
    pub fn uncompressed_bytes(&self) -> usize {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => uncompressed.raw.bytes().len(),
            StoredView::Packed(packed) => packed.uncompressed_len(),
        }
    }

    /// A hash of the stored bytes, equal in every process and on every machine.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn content_hash(&self) -> u64 {
        self.parts().content_hash
    }

    /// Whether this handle is of a packed object. (The store may keep a packed version of an uncompressed one.) For tests.
    #[doc(hidden)]
    pub fn is_packed(&self) -> bool {
        self.packed().is_some()
    }

    /// Whether both are handles to the same stored object: the same state, stored once.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        // Compare the handles first: another store may pack the object meanwhile.
        self.place() == other.place() || self.kept().place() == other.kept().place()
    }

    /// Reads the stored bytes in place, or from a reused buffer.
    pub(crate) fn read<T>(&self, read: impl FnOnce(KeptBytes<'_>) -> T) -> T {
        let (encoding, type_meta) = (self.encoding(), self.type_meta());
        match self.view() {
            StoredView::Uncompressed(uncompressed) => read(uncompressed.raw.kept()),
            StoredView::Packed(packed) => {
                packed.unpack(|bytes| read(KeptBytes { bytes, encoding, type_meta }))
            }
        }
    }

    /// The handle that the store keeps. Use it to hold an object for a long time: it is small.
    pub(crate) fn kept(&self) -> &Self {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => {
                uncompressed.packed.get().and_then(Option::as_ref).unwrap_or(self)
            }
            StoredView::Packed(_) => self,
        }
    }

    /// The handle for long-term storage: the packed one, or this one with bytes in its own allocation.
    pub(crate) fn as_stored(&self) -> Self {
        match &self.parts().body {
            StoredBody::Uncompressed(uncompressed)
                if uncompressed.raw.is_in_block() && !self.kept().is_packed() =>
            {
                let StoredParts { content_hash, key_hash, .. } = *self.parts();
                let own = Self::uncompressed(
                    uncompressed.scope,
                    uncompressed.raw.clone().detached(),
                    content_hash,
                    key_hash,
                );
                if uncompressed.packed.get().is_some() {
                    own.settle(None);
                }
                own
            }
            _ => self.kept().clone(),
        }
    }

    /// The address of the object: unique among all live objects.
    pub(crate) fn place(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// The number of handles to it.
    pub(crate) fn holders(&self) -> usize {
        ThinArc::strong_count(&self.0)
    }

    /// The packed object, if this is one.
    pub(crate) fn packed(&self) -> Option<PackedRef<'_>> {
        match self.view() {
            StoredView::Uncompressed(_) => None,
            StoredView::Packed(packed) => Some(packed),
        }
    }

    /// The dictionary that it is packed with.
    pub(crate) fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.packed().map(PackedRef::dictionary)
    }

    /// The object to pack; `None` if packing was already tried.
    pub(crate) fn unpacked(&self) -> Option<(&RawObject, Scope)> {
        match self.view() {
            StoredView::Uncompressed(uncompressed) if uncompressed.packed.get().is_none() => {
                Some((&uncompressed.raw, uncompressed.scope))
            }
            _ => None,
        }
    }

    /// Records how the object is kept: packed, or `None` for uncompressed.
    pub(crate) fn settle(&self, kept: Option<Self>) {
        if let StoredBody::Uncompressed(uncompressed) = &self.parts().body {
            // Another thread may already have set it, for the same object.
            let _ = uncompressed.packed.set(kept);
        }
    }

    /// The same object, packed like this, in its own allocation.
    pub(crate) fn packed_as(&self, packed: Packed, bytes: &[u8]) -> Self {
        let StoredParts { content_hash, key_hash, .. } = *self.parts();
        let parts = StoredParts { content_hash, key_hash, body: StoredBody::Packed(packed) };
        Self(ThinArc::from_header_and_slice(parts, bytes))
    }

    /// The same object, uncompressed, and not stored anywhere yet.
    pub(crate) fn to_plain(&self) -> Self {
        Self::uncompressed(self.scope(), self.raw(), self.parts().content_hash, self.parts().key_hash)
    }

    /// The same packed object in a new allocation; `None` for an uncompressed one.
    pub(crate) fn moved(&self) -> Option<Self> {
        match &self.parts().body {
            StoredBody::Packed(packed) => Some(self.packed_as(packed.clone(), &self.0.slice)),
            StoredBody::Uncompressed(_) => None,
        }
    }

    pub(crate) fn key_hash(&self) -> u64 {
        self.parts().key_hash
    }

    pub(crate) fn has_key(&self, namespace: &str, name: &str) -> bool {
        self.key_bytes() == (namespace.as_bytes(), name.as_bytes())
    }

    /// Whether this is its key as text. Faster than splitting the text first.
    pub(crate) fn has_key_text(&self, key: &str) -> bool {
        let (namespace, name) = self.key_bytes();
        key.as_bytes().strip_suffix(name).is_some_and(|before| match namespace {
            [] => before.is_empty(),
            namespace => before.strip_suffix(b"/") == Some(namespace),
        })
    }

    fn key_bytes(&self) -> (&[u8], &[u8]) {
        match self.view() {
            StoredView::Uncompressed(uncompressed) => {
                let head = uncompressed.raw.head();
                (head.namespace().as_bytes(), head.name().as_bytes())
            }
            StoredView::Packed(packed) => packed.key_bytes(),
        }
    }

    pub(crate) fn has_key_of(&self, other: &Self) -> bool {
        self.parts().key_hash == other.parts().key_hash && self.has_key(other.namespace(), other.name())
    }

    /// How an object received under this key relates to this one; `hash` is that of its bytes.
    pub(crate) fn likeness(&self, head: Head<'_>, encoding: Encoding, hash: u64) -> Likeness {
        self.likeness_to(head.uid(), head.resource_version(), encoding, hash)
    }

    pub(crate) fn likeness_of(&self, other: &Self) -> Likeness {
        let (uid, version) = (other.uid(), other.resource_version());
        self.likeness_to(uid, version, other.encoding(), other.content_hash())
    }

    fn likeness_to(&self, uid: &str, version: &str, encoding: Encoding, hash: u64) -> Likeness {
        if uid != self.uid() {
            Likeness::Recreated
        } else if version.is_empty() || version != self.resource_version() {
            Likeness::Changed
        } else if encoding != self.encoding() {
            Likeness::Reencoded
        } else if hash == self.content_hash() {
            Likeness::Same
        } else {
            Likeness::Changed
        }
    }
}

pub(crate) fn content_hash(object: &RawObject) -> u64 {
    XxHash3_64::oneshot(object.bytes())
}

/// The hash under which an object is stored: that of its key's text.
pub(crate) fn key_hash(namespace: &str, name: &str) -> u64 {
    if namespace.is_empty() {
        return text_hash(name);
    }
    // Long enough for every valid name: one-shot hashing is several times faster than streaming.
    let mut text = [0; 384];
    let (slash, len) = (namespace.len(), namespace.len() + 1 + name.len());
    match text.get_mut(..len) {
        Some(text) => {
            text[..slash].copy_from_slice(namespace.as_bytes());
            text[slash] = b'/';
            text[slash + 1..].copy_from_slice(name.as_bytes());
            XxHash3_64::oneshot(text)
        }
        None => text_hash(&format!("{namespace}/{name}")),
    }
}

/// The hash of a key, or of an index value.
pub(crate) fn text_hash(text: &str) -> u64 {
    XxHash3_64::oneshot(text.as_bytes())
}
