//! A handle to one state of one object, typed.

use std::ops::Deref;
use std::sync::Arc;

use educe::Educe;
use serde_json::Value;

use super::DecodeError;
use super::decoder::Decoder;
use crate::object::StoredObject;

/// One state of one object. Cheap to clone and to hold.
///
/// It derefs to the [`StoredObject`]: names, labels, owners and everything else of the head are read from its bytes. Only
/// [`decode`](Self::decode) makes the typed value.
#[derive(Educe, derive_more::Debug)]
#[educe(Clone)]
#[debug("{stored:?}")]
pub struct Object<K> {
    stored: StoredObject,
    decoder: Arc<Decoder<K>>,
}

impl<K> Object<K> {
    pub(crate) fn new(stored: StoredObject, decoder: &Arc<Decoder<K>>) -> Self {
        Self { stored, decoder: decoder.clone() }
    }

    /// The typed value, shared by all callers that hold it at the same time.
    ///
    /// # Errors
    /// Returns an error if the object cannot be decoded to the type. Other objects are not affected.
    pub fn decode(&self) -> Result<Arc<K>, DecodeError> {
        self.decoder.value(&self.stored)
    }

    /// As [`StoredObject::field`]. For a custom resource whose informer has its
    /// [definition](crate::InformerBuilder::definition), a field that the definition does not have is an error, too.
    ///
    /// # Errors
    /// Returns an error if the path is invalid, if the kind has no such field, or if the bytes are malformed.
    pub fn field(&self, path: &str) -> Result<Option<Value>, kube_wire::Error> {
        if let Some(schema) = self.decoder.definition() {
            schema.check(&path.parse()?)?;
        }
        self.stored.field(path)
    }
}

impl<K> Deref for Object<K> {
    type Target = StoredObject;

    fn deref(&self) -> &StoredObject {
        &self.stored
    }
}
