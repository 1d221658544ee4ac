//! A handle to one state of one object, typed.

use std::fmt;
use std::sync::Arc;

use kube_wire::{Labels, Owners};

use super::DecodeError;
use super::decoder::Decoder;
use crate::Key;
use crate::store::StoredObject;

/// One state of one object. Cheap to clone and to hold: what the methods give is read from the bytes.
///
/// Only [`decode`](Self::decode) makes the typed value.
pub struct Object<K> {
    stored: StoredObject,
    decoder: Arc<Decoder<K>>,
}

impl<K> Object<K> {
    pub(crate) fn new(stored: StoredObject, decoder: &Arc<Decoder<K>>) -> Self {
        Self { stored, decoder: decoder.clone() }
    }

    /// The typed value: the same for all who hold it at the same time, however many ask.
    ///
    /// # Errors
    /// If the object does not fit the type. That is an error of this object alone; everything else goes on.
    pub fn decode(&self) -> Result<Arc<K>, DecodeError> {
        self.decoder.value(&self.stored)
    }

    /// The key.
    pub fn key(&self) -> Key {
        self.stored.key()
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        self.stored.namespace()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.stored.name()
    }

    /// The uid; empty if the server gave none.
    pub fn uid(&self) -> &str {
        self.stored.uid()
    }

    /// The resourceVersion; empty if the server gave none.
    pub fn resource_version(&self) -> &str {
        self.stored.resource_version()
    }

    /// The generation; 0 if the kind has none.
    pub fn generation(&self) -> i64 {
        self.stored.generation()
    }

    /// Whether deletionTimestamp is set.
    pub fn is_deleting(&self) -> bool {
        self.stored.is_deleting()
    }

    /// The labels, in the order of the bytes.
    pub fn labels(&self) -> Labels<'_> {
        self.stored.labels()
    }

    /// The owner references.
    pub fn owners(&self) -> Owners<'_> {
        self.stored.owners()
    }

    /// The object as it is stored: its bytes, and more.
    pub fn stored(&self) -> &StoredObject {
        &self.stored
    }
}

impl<K> Clone for Object<K> {
    fn clone(&self) -> Self {
        Self { stored: self.stored.clone(), decoder: self.decoder.clone() }
    }
}

/// `namespace/name@resourceVersion`.
impl<K> fmt::Debug for Object<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stored.fmt(f)
    }
}
