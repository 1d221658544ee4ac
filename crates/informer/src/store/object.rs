//! An object as the store holds it: a handle to its kept bytes.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use kube_wire::{Encoding, Head, Labels, Owners, RawObject, TypeMeta};
use twox_hash::XxHash3_64;

use super::table::Hashed;
use crate::Key;
use crate::queue::{Scope, SinkError};

/// A handle to an object: its bytes, what its head says, and a hash of the bytes. Cloning shares everything.
///
/// Nothing is decoded and no string is copied: what the methods give is read from the bytes.
#[derive(Clone)]
pub struct StoredObject(Arc<Inner>);

/// One allocation an object, beside its bytes.
struct Inner {
    body: RawObject,
    /// Of the kept bytes: the same object in the same encoding has the same.
    content_hash: u64,
    /// Of namespace and name.
    key_hash: u64,
    scope: Scope,
}

/// The object cannot be stored, because it has no proper key.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "object `{namespace}/{name}` cannot be stored: it needs a name, and neither name nor namespace may hold a slash"
)]
pub struct UnnamedObject {
    namespace: String,
    name: String,
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
        Self::with_hash(scope, object, content_hash)
    }

    pub(super) fn with_hash(scope: Scope, body: RawObject, content_hash: u64) -> Result<Self, UnnamedObject> {
        let head = body.head();
        let (namespace, name) = (head.namespace(), head.name());
        if name.is_empty() || name.contains('/') || namespace.contains('/') {
            return Err(UnnamedObject { namespace: namespace.to_owned(), name: name.to_owned() });
        }
        let key_hash = key_hash(namespace, name);
        Ok(Self(Arc::new(Inner { body, content_hash, key_hash, scope })))
    }

    /// The key. Making it costs an allocation; [`namespace`](Self::namespace) and [`name`](Self::name) cost nothing.
    pub fn key(&self) -> Key {
        Key::new(self.namespace(), self.name())
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        self.head().namespace()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.head().name()
    }

    /// The uid; empty if the server gave none.
    pub fn uid(&self) -> &str {
        self.head().uid()
    }

    /// The resourceVersion; empty if the server gave none.
    pub fn resource_version(&self) -> &str {
        self.head().resource_version()
    }

    /// The generation; 0 if the kind has none.
    pub fn generation(&self) -> i64 {
        self.head().generation()
    }

    /// Whether deletionTimestamp is set.
    pub fn is_deleting(&self) -> bool {
        self.head().is_deleting()
    }

    /// The labels, in the order of the bytes.
    pub fn labels(&self) -> Labels<'_> {
        self.head().labels()
    }

    /// The owner references.
    pub fn owners(&self) -> Owners<'_> {
        self.head().owners()
    }

    /// apiVersion and kind.
    pub fn type_meta(&self) -> &TypeMeta {
        self.0.body.type_meta()
    }

    /// The encoding of the bytes.
    pub fn encoding(&self) -> Encoding {
        self.0.body.encoding()
    }

    /// The scope that the object was seen in.
    pub fn scope(&self) -> Scope {
        self.0.scope
    }

    /// The object with all that was kept of it.
    pub fn raw(&self) -> RawObject {
        self.body().into_owned()
    }

    /// How many bytes are held for the object's content.
    pub fn stored_bytes(&self) -> usize {
        self.0.body.bytes().len()
    }

    /// A hash of the kept bytes, the same in every process and on every machine.
    pub fn content_hash(&self) -> u64 {
        self.0.content_hash
    }

    /// Whether both are handles to the same stored object.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The object, borrowed as long as it is held as it came.
    pub(crate) fn body(&self) -> Cow<'_, RawObject> {
        Cow::Borrowed(&self.0.body)
    }

    /// Where the object is held: no two that are held at the same time have the same.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(crate) fn key_hash(&self) -> u64 {
        self.0.key_hash
    }

    pub(crate) fn has_key(&self, namespace: &str, name: &str) -> bool {
        self.name() == name && self.namespace() == namespace
    }

    pub(crate) fn has_key_of(&self, other: &Self) -> bool {
        self.0.key_hash == other.0.key_hash && self.has_key(other.namespace(), other.name())
    }

    /// How an object that came under this one's key relates to it; `hash` is of its bytes.
    pub(crate) fn likeness(&self, head: Head<'_>, encoding: Encoding, hash: u64) -> Likeness {
        if head.uid() != self.uid() {
            Likeness::Recreated
        } else if head.resource_version().is_empty() || head.resource_version() != self.resource_version() {
            Likeness::Changed
        } else if encoding != self.encoding() {
            Likeness::Reencoded
        } else if hash == self.content_hash() {
            Likeness::Same
        } else {
            Likeness::Changed
        }
    }

    pub(crate) fn likeness_of(&self, other: &Self) -> Likeness {
        self.likeness(other.head(), other.encoding(), other.content_hash())
    }

    fn head(&self) -> Head<'_> {
        self.0.body.head()
    }
}

impl Hashed for StoredObject {
    fn hash(&self) -> u64 {
        self.0.key_hash
    }
}

impl fmt::Debug for StoredObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key(), self.resource_version())
    }
}

impl From<UnnamedObject> for SinkError {
    fn from(error: UnnamedObject) -> Self {
        Self::Rejected {
            key: format!("{}/{}", error.namespace, error.name),
            why: "it needs a name, and neither name nor namespace may hold a slash".to_owned(),
        }
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
