//! A handle to one state of one object, typed.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::DecodeError;
use super::decoder::Decoder;
use crate::store::StoredObject;

/// One state of one object. Cheap to clone and to hold.
///
/// It derefs to the [`StoredObject`]: names, labels, owners and everything else of the head are read from its bytes. Only
/// [`decode`](Self::decode) makes the typed value.
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
}

impl<K> Deref for Object<K> {
    type Target = StoredObject;

    fn deref(&self) -> &StoredObject {
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
