//! An object as bytes, and the reader that makes it from a frame.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::head::{self, Head, Spans};
use crate::json;
use crate::limits::{Limit, Limits};
use crate::projection::{Plan, Projection};
use crate::schema::Schema;
use crate::{Encoding, TypeMeta};

/// A Kubernetes object as it came, less what the [`Projection`] dropped.
///
/// The bytes hold neither envelope nor apiVersion and kind: two deliveries of the same object have the same bytes,
/// whether they came in a list or in a watch. Cloning shares the bytes.
#[derive(Clone)]
pub struct RawObject {
    bytes: Bytes,
    encoding: Encoding,
    type_meta: TypeMeta,
    spans: Spans,
}

/// Makes [`RawObject`]s: applies a projection, checks limits, finds the head.
///
/// One reader serves one stream; it keeps what is the same for all of its objects (the compiled projection, a buffer).
#[derive(Debug)]
pub struct ObjectReader {
    projection: Projection,
    limits: Limits,
    /// The type of objects that don't carry one: items of built-in lists.
    expected: Option<TypeMeta>,
    /// The projection compiled for the type met last.
    plan: Option<(TypeMeta, Plan)>,
    /// The type met last, shared by all objects that have it.
    last_type: Option<TypeMeta>,
    scratch: Vec<u8>,
}

// === impl RawObject ===

impl RawObject {
    /// What is known of the object without decoding it.
    pub fn head(&self) -> Head<'_> {
        Head {
            bytes: &self.bytes,
            encoding: self.encoding,
            type_meta: &self.type_meta,
            spans: &self.spans,
        }
    }

    /// The kept bytes: no envelope, no apiVersion, no kind.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The encoding of the bytes.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// apiVersion and kind.
    pub fn type_meta(&self) -> &TypeMeta {
        &self.type_meta
    }
}

impl fmt::Debug for RawObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawObject")
            .field("head", &self.head())
            .field("encoding", &self.encoding)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}
