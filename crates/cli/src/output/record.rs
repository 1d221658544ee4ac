//! One object as output sees it: names, labels and single fields come from the bytes, the complete value is decoded only on
//! request.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering};

use kube_informer::StoredObject;
use serde_json::{Value, json};

use crate::masks;

/// Counts objects that were decoded.
#[derive(Debug, Default)]
pub(crate) struct Decodes(AtomicU64);

impl Decodes {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// An object that is about to be printed.
pub(crate) struct Record<'o> {
    object: &'o StoredObject,
    /// The values of the object are masked, so no field is read from its bytes.
    masked: bool,
    value: OnceCell<Value>,
    decodes: &'o Decodes,
}

impl<'o> Record<'o> {
    pub(crate) fn new(object: &'o StoredObject, masked: bool, decodes: &'o Decodes) -> Self {
        Self { object, masked, value: OnceCell::new(), decodes }
    }

    pub(crate) fn object(&self) -> &'o StoredObject {
        self.object
    }

    pub(crate) fn is_masked(&self) -> bool {
        self.masked
    }

    /// The decoded object, with masked values. If it cannot be decoded, the value has the name and the error.
    pub(crate) fn value(&self) -> &Value {
        self.value.get_or_init(|| {
            self.decodes.add();
            let mut value = self.object.decode::<Value>().unwrap_or_else(|error| {
                json!({
                    "metadata": {"name": self.object.name(), "namespace": self.object.namespace()},
                    "error": error.to_string(),
                })
            });
            if self.masked {
                masks::mask_secret(&mut value);
            }
            value
        })
    }
}
