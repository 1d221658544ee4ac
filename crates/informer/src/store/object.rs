//! An object as the store holds it: a handle to its kept bytes, plain or packed.
//!
//! On its way in an object is plain. The store packs it, keeps the packed one, and notes that in the plain one. So listeners
//! read the bytes as received, and both handles are known to be one object.

use std::fmt;
use std::sync::{Arc, OnceLock};

use kube_wire::path::{FieldValue, PathReader};
use kube_wire::{Encoding, Head, KeptBytes, Labels, Owners, RawObject, TypeMeta};
use serde::de::DeserializeOwned;
use triomphe::ThinArc;
use twox_hash::XxHash3_64;

use super::packing::{Dictionary, Packed, PackedRef};
use super::table::Hashed;
use crate::Key;
use crate::scope::Scope;

/// A handle to an object: its bytes, what its head says, and a hash of the bytes. Cloning shares everything.
///
/// Nothing is decoded and no string is copied. What the head says (everything but [`raw`](Self::raw) and
/// [`for_each_field`](Self::for_each_field)) is read as it is, even if the object is [packed](super::Memory).
#[derive(Clone)]
pub struct StoredObject(ThinArc<StoredParts, u8>);

/// 72 bytes with its counter and a length; the bytes of a packed object follow. A million of them are meant to be held.
struct StoredParts {
    /// Of the kept bytes: the same object in the same encoding has the same.
    content_hash: u64,
    /// Of namespace and name.
    key_hash: u64,
    body: StoredBody,
}

enum StoredBody {
    Plain(Box<PlainObject>),
    Packed(Packed),
}

/// The body with its bytes.
enum StoredView<'a> {
    Plain(&'a PlainObject),
    Packed(PackedRef<'a>),
}

struct PlainObject {
    raw: RawObject,
    scope: Scope,
    /// The same object as a store keeps it; `None` in it: it was tried and is kept as it is.
    packed: OnceLock<Option<StoredObject>>,
}

/// The object cannot be stored, because it has no proper key.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "object `{namespace}/{name}` cannot be stored: it needs a name, and neither name nor namespace may hold a slash"
)]
#[non_exhaustive]
pub struct UnnamedObject {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// How an object that came relates to the one that is known under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// It is the same: uid, resourceVersion and bytes.
    Same,
    /// It is the same in another encoding: uid and resourceVersion decide.
    Reencoded,
    /// It is another state of the same object.
    Changed,
    /// It is another object: the known one was deleted meanwhile.
    Recreated,
}

// === impl StoredObject ===

impl StoredObject {
    /// Takes an object into a scope.
    ///
    /// # Errors
    /// If the object has no name.
    pub fn new(scope: Scope, object: RawObject) -> Result<Self, UnnamedObject> {
        let content_hash = content_hash(&object);
        Self::with_hash(scope, object.detached(), content_hash)
    }

    pub(super) fn with_hash(scope: Scope, raw: RawObject, content_hash: u64) -> Result<Self, UnnamedObject> {
        let head = raw.head();
        let (namespace, name) = (head.namespace(), head.name());
        if name.is_empty() || name.contains('/') || namespace.contains('/') {
            return Err(UnnamedObject { namespace: namespace.to_owned(), name: name.to_owned() });
        }
        let key_hash = key_hash(namespace, name);
        Ok(Self::plain(scope, raw, content_hash, key_hash))
    }

    fn plain(scope: Scope, raw: RawObject, content_hash: u64, key_hash: u64) -> Self {
        let body = StoredBody::Plain(Box::new(PlainObject { raw, scope, packed: OnceLock::new() }));
        Self(ThinArc::from_header_and_slice(StoredParts { content_hash, key_hash, body }, &[]))
    }

    fn parts(&self) -> &StoredParts {
        &self.0.header.header
    }

    fn view(&self) -> StoredView<'_> {
        match &self.parts().body {
            StoredBody::Plain(plain) => StoredView::Plain(plain),
            StoredBody::Packed(packed) => StoredView::Packed(packed.with(&self.0.slice)),
        }
    }

    /// The key. Making it costs an allocation; [`namespace`](Self::namespace) and [`name`](Self::name) cost nothing.
    pub fn key(&self) -> Key {
        Key::new(self.namespace(), self.name())
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.head().namespace(),
            StoredView::Packed(packed) => packed.namespace(),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.head().name(),
            StoredView::Packed(packed) => packed.name(),
        }
    }

    /// The uid; empty if the server gave none.
    pub fn uid(&self) -> &str {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.head().uid(),
            StoredView::Packed(packed) => packed.uid(),
        }
    }

    /// The resourceVersion; empty if the server gave none.
    pub fn resource_version(&self) -> &str {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.head().resource_version(),
            StoredView::Packed(packed) => packed.resource_version(),
        }
    }

    /// The generation; 0 if the kind has none.
    pub fn generation(&self) -> i64 {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.head().generation(),
            StoredView::Packed(packed) => packed.generation(),
        }
    }

    /// Whether deletionTimestamp is set.
    pub fn is_deleting(&self) -> bool {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.head().is_deleting(),
            StoredView::Packed(packed) => packed.is_deleting(),
        }
    }

    /// The labels, in the order of the bytes.
    pub fn labels(&self) -> Labels<'_> {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.head().labels(),
            StoredView::Packed(packed) => Labels::new(packed.label_bytes(), packed.dictionary().encoding()),
        }
    }

    /// The owner references.
    pub fn owners(&self) -> Owners<'_> {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.head().owners(),
            StoredView::Packed(packed) => Owners::new(packed.owner_bytes(), packed.dictionary().encoding()),
        }
    }

    /// apiVersion and kind.
    pub fn type_meta(&self) -> &TypeMeta {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.type_meta(),
            StoredView::Packed(packed) => packed.dictionary().type_meta(),
        }
    }

    /// The encoding of the bytes.
    pub fn encoding(&self) -> Encoding {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.encoding(),
            StoredView::Packed(packed) => packed.dictionary().encoding(),
        }
    }

    /// The scope that the object was seen in.
    pub fn scope(&self) -> Scope {
        match self.view() {
            StoredView::Plain(plain) => plain.scope,
            StoredView::Packed(packed) => packed.scope(),
        }
    }

    /// The object with all that was kept of it. Unpacking it takes about a microsecond and a copy of its bytes.
    pub fn raw(&self) -> RawObject {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.clone(),
            StoredView::Packed(packed) => packed.restore(),
        }
    }

    /// A value of any type that the object fits, made anew. (Informers keep those that were made lately.)
    ///
    /// # Errors
    /// As [`RawObject::decode`].
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, kube_wire::Error> {
        self.read(|kept| kept.decode())
    }

    /// Hands every value that a path leads to on to `each`. The object is unpacked into a buffer that is used again, and not
    /// decoded.
    ///
    /// # Errors
    /// As [`PathReader::for_each`].
    pub fn for_each_field(
        &self,
        path: &PathReader,
        each: impl FnMut(FieldValue<'_>),
    ) -> Result<(), kube_wire::Error> {
        match self.view() {
            StoredView::Plain(plain) => path.for_each(plain.raw.head(), each),
            StoredView::Packed(packed) => {
                packed.unpack(|bytes| path.for_each_in(bytes, self.encoding(), self.type_meta(), each))
            }
        }
    }

    /// How many bytes are held for the object's content.
    pub fn stored_bytes(&self) -> usize {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.bytes().len(),
            StoredView::Packed(packed) => packed.len(),
        }
    }

    /// How many bytes the content has, unpacked. For tests.
    #[doc(hidden)]
    pub fn plain_bytes(&self) -> usize {
        match self.view() {
            StoredView::Plain(plain) => plain.raw.bytes().len(),
            StoredView::Packed(packed) => packed.plain_len(),
        }
    }

    /// A hash of the kept bytes, the same in every process and on every machine.
    pub fn content_hash(&self) -> u64 {
        self.parts().content_hash
    }

    /// Whether this handle is of a packed object. (The store may keep a packed one of a plain one.) For tests.
    #[doc(hidden)]
    pub fn is_packed(&self) -> bool {
        self.packed().is_some()
    }

    /// Whether both are handles to the same stored object: the same state, stored once.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        // A handle is itself whatever another store, meanwhile, makes of what is kept of it.
        self.place() == other.place() || self.kept().place() == other.kept().place()
    }

    /// Reads the kept bytes where they are, or from a buffer that is used again.
    pub(crate) fn read<T>(&self, read: impl FnOnce(KeptBytes<'_>) -> T) -> T {
        let (encoding, type_meta) = (self.encoding(), self.type_meta());
        match self.view() {
            StoredView::Plain(plain) => read(plain.raw.kept()),
            StoredView::Packed(packed) => {
                packed.unpack(|bytes| read(KeptBytes { bytes, encoding, type_meta }))
            }
        }
    }

    /// The handle that the store keeps. Who holds an object for long holds this one: it is small.
    pub(crate) fn kept(&self) -> &Self {
        match self.view() {
            StoredView::Plain(plain) => plain.packed.get().and_then(Option::as_ref).unwrap_or(self),
            StoredView::Packed(_) => self,
        }
    }

    /// The handle that is held for long: what is packed of it, or it itself with its bytes in memory of its own.
    pub(super) fn at_rest(&self) -> Self {
        match &self.parts().body {
            StoredBody::Plain(plain) if plain.raw.is_in_block() && !self.kept().is_packed() => {
                let StoredParts { content_hash, key_hash, .. } = *self.parts();
                let own = Self::plain(plain.scope, plain.raw.clone().detached(), content_hash, key_hash);
                if plain.packed.get().is_some() {
                    own.settle(None);
                }
                own
            }
            _ => self.kept().clone(),
        }
    }

    /// Where in memory this handle leads: no two objects that are held at the same time have the same.
    pub(crate) fn place(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// How many handles to it there are.
    pub(crate) fn holders(&self) -> usize {
        ThinArc::strong_count(&self.0)
    }

    /// The packed object, if this handle is of one.
    pub(super) fn packed(&self) -> Option<PackedRef<'_>> {
        match self.view() {
            StoredView::Plain(_) => None,
            StoredView::Packed(packed) => Some(packed),
        }
    }

    /// The dictionary that it is packed with.
    pub(super) fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.packed().map(PackedRef::dictionary)
    }

    /// What is to be packed: nothing, if that was tried already.
    pub(super) fn unpacked(&self) -> Option<(&RawObject, Scope)> {
        match self.view() {
            StoredView::Plain(plain) if plain.packed.get().is_none() => Some((&plain.raw, plain.scope)),
            _ => None,
        }
    }

    /// Notes how the object is kept: packed, or (`None`) as it is.
    pub(super) fn settle(&self, kept: Option<Self>) {
        if let StoredBody::Plain(plain) = &self.parts().body {
            // Somebody else may have been faster, with the same object.
            let _ = plain.packed.set(kept);
        }
    }

    /// The same object, packed like this, in a place of its own.
    pub(super) fn packed_as(&self, packed: Packed, bytes: &[u8]) -> Self {
        let StoredParts { content_hash, key_hash, .. } = *self.parts();
        let parts = StoredParts { content_hash, key_hash, body: StoredBody::Packed(packed) };
        Self(ThinArc::from_header_and_slice(parts, bytes))
    }

    /// The same object, plain, and not yet kept anywhere.
    pub(super) fn to_plain(&self) -> Self {
        Self::plain(self.scope(), self.raw(), self.parts().content_hash, self.parts().key_hash)
    }

    /// The same object, packed as it is, in another place of memory; `None` of a plain one.
    pub(super) fn moved(&self) -> Option<Self> {
        match &self.parts().body {
            StoredBody::Packed(packed) => Some(self.packed_as(packed.clone(), &self.0.slice)),
            StoredBody::Plain(_) => None,
        }
    }

    pub(crate) fn key_hash(&self) -> u64 {
        self.parts().key_hash
    }

    pub(crate) fn has_key(&self, namespace: &str, name: &str) -> bool {
        match self.view() {
            StoredView::Plain(plain) => {
                plain.raw.head().name() == name && plain.raw.head().namespace() == namespace
            }
            StoredView::Packed(packed) => packed.has_key(namespace, name),
        }
    }

    pub(crate) fn has_key_of(&self, other: &Self) -> bool {
        self.parts().key_hash == other.parts().key_hash && self.has_key(other.namespace(), other.name())
    }

    /// How an object that came under this one's key relates to it; `hash` is of its bytes.
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

impl Hashed for StoredObject {
    fn hash(&self) -> u64 {
        self.parts().key_hash
    }
}

impl fmt::Debug for StoredObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key(), self.resource_version())
    }
}

pub(super) fn content_hash(object: &RawObject) -> u64 {
    XxHash3_64::oneshot(object.bytes())
}

/// The hash under which an object is stored: that of its key's text.
pub(crate) fn key_hash(namespace: &str, name: &str) -> u64 {
    if namespace.is_empty() {
        return text_hash(name);
    }
    // Long enough for every name that a server accepts: hashing in one go is several times faster than in pieces.
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

/// The hash of a key, or of a value of an index.
pub(super) fn text_hash(text: &str) -> u64 {
    XxHash3_64::oneshot(text.as_bytes())
}
