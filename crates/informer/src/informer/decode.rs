//! Decodes an object's bytes to a value, without losing fields.
//!
//! Readers, value indexes and transforms all go through a [`Decode`]. A protobuf field that the schema table does not know
//! makes decoding fail, and switches the informer's sources to JSON, which names every field.

use std::sync::Arc;

use kube_wire::{Error, KeptBytes};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::source::JsonSwitch;

/// Decodes values of one type.
pub(super) struct Decode<K> {
    read: fn(KeptBytes<'_>) -> Result<K, Error>,
    fallback: JsonFallback,
}

/// Switches the sources of an informer to JSON. It is created before the sources, so it records a request that comes earlier.
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
    /// The value of an object. Fails rather than omit a field that `K` has.
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
    /// Sets the informer's sources.
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
