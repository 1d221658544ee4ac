//! From the bytes of an object to a value, without losing anything of it.
//!
//! Everything in an informer that makes values (readers, indexes over values, transforms) goes through a [`Decode`], so
//! that no way of building an informer is without this: a protobuf field that the schema table does not know makes
//! decoding an error, and makes the informer's sources go over to JSON, which names every field.

use std::sync::Arc;

use kube_wire::{Error, KeptBytes};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::source::JsonSwitch;

/// Makes values of one type.
pub(super) struct Decode<K> {
    read: fn(KeptBytes<'_>) -> Result<K, Error>,
    fallback: JsonFallback,
}

/// Makes the sources of an informer go over to JSON. It exists before they do, so a request may come before the sources.
#[derive(Clone, Debug, Default)]
pub(super) struct JsonFallback(Arc<Mutex<Fallback>>);

#[derive(Debug, Default)]
struct Fallback {
    requested: bool,
    sources: Vec<JsonSwitch>,
}

// === impl Decode ===

impl<K: DeserializeOwned> Decode<K> {
    pub(super) fn new(fallback: &JsonFallback) -> Self {
        Self { read: |kept| kept.decode(), fallback: fallback.clone() }
    }
}

impl<K> Decode<K> {
    /// The value of an object, complete as far as `K` has a place for its fields.
    pub(super) fn value(&self, kept: KeptBytes<'_>) -> Result<K, Error> {
        (self.read)(kept).inspect_err(|error| {
            if let Error::UnknownField { .. } = error {
                self.fallback.request();
            }
        })
    }
}

impl<K> Clone for Decode<K> {
    fn clone(&self) -> Self {
        Self { read: self.read, fallback: self.fallback.clone() }
    }
}

// === impl JsonFallback ===

impl JsonFallback {
    /// The informer's sources are these.
    pub(super) fn connect(&self, sources: &[JsonSwitch]) {
        let mut fallback = self.0.lock();
        fallback.sources = sources.to_vec();
        if fallback.requested {
            fallback.sources.iter().for_each(JsonSwitch::turn);
        }
    }

    fn request(&self) {
        let mut fallback = self.0.lock();
        fallback.requested = true;
        fallback.sources.iter().for_each(JsonSwitch::turn);
    }
}
