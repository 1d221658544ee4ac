//! The head of an object: what a cache needs to know about it, read without decoding the rest.
//!
//! A head is a view. Reading an object records the positions of the name, the uid, the labels and so on in its bytes
//! ([`Spans`]), and [`Head`] reads them from there on demand. No string is copied, and an unused head costs a few
//! integers.

pub(crate) mod json;
pub(crate) mod key;
mod labels;
mod owners;
pub(crate) mod proto;

pub use labels::Labels;
pub use owners::{OwnerReference, Owners};

use std::borrow::Cow;

use crate::{Encoding, TypeMeta};

/// Annotation of the bookmark that ends a watch-list's initial events.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A part of an object's kept bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// The positions of a head's parts in the kept bytes. An empty span means absent (Kubernetes does not distinguish).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    /// Content of the strings, without quotes; in `unescaped` if set.
    pub(crate) namespace: Span,
    pub(crate) name: Span,
    pub(crate) uid: Span,
    pub(crate) resource_version: Span,
    /// JSON: the object `{…}`. Protobuf: from the first entry (tag included) to the end of the last one.
    pub(crate) labels: Span,
    /// JSON: the array `[…]`. Protobuf: from the first entry (tag included) to the end of the last one.
    pub(crate) owners: Span,
    /// The four strings unescaped, if one of them contains escapes in JSON. Only a few kinds allow such names, for
    /// example roles.
    pub(crate) unescaped: Option<Box<str>>,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    pub(crate) initial_events_end: bool,
}

/// The metadata of an object, read without decoding it. See [`RawObject::head`](crate::RawObject::head).
#[derive(Clone, Copy)]
pub struct Head<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) encoding: Encoding,
    pub(crate) type_meta: &'a TypeMeta,
    pub(crate) spans: &'a Spans,
}

// === impl Span ===

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        // Kept bytes are at most `Limits::object_bytes_max`; a limit above 4 GiB is clamped when objects are read.
        Self { start: start as u32, end: end as u32 }
    }

    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

// === impl Head ===

impl<'a> Head<'a> {
    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &'a str {
        self.text(self.spans.namespace)
    }

    /// The name.
    pub fn name(&self) -> &'a str {
        self.text(self.spans.name)
    }

    /// The uid; empty if absent.
    pub fn uid(&self) -> &'a str {
        self.text(self.spans.uid)
    }

    /// The resourceVersion; empty if absent.
    pub fn resource_version(&self) -> &'a str {
        self.text(self.spans.resource_version)
    }

    /// The generation; 0 if absent.
    pub fn generation(&self) -> i64 {
        self.spans.generation
    }

    /// apiVersion and kind.
    pub fn type_meta(&self) -> &'a TypeMeta {
        self.type_meta
    }

    /// Whether deletionTimestamp is set.
    pub fn is_deleting(&self) -> bool {
        self.spans.deleting
    }

    /// Whether the object is the bookmark that ends a watch-list's initial events.
    pub fn is_initial_events_end(&self) -> bool {
        self.spans.initial_events_end
    }

    /// The labels, in the order of the bytes.
    pub fn labels(&self) -> Labels<'a> {
        Labels::new(self.label_bytes(), self.encoding)
    }

    /// The owner references.
    pub fn owners(&self) -> Owners<'a> {
        Owners::new(self.owner_bytes(), self.encoding)
    }

    /// The part of the kept bytes with the labels, for [`Labels::new`]; empty without labels.
    pub fn label_bytes(&self) -> &'a [u8] {
        self.spans.labels.of(self.bytes)
    }

    /// The part of the kept bytes with the owner references, for [`Owners::new`]; empty without owners.
    pub fn owner_bytes(&self) -> &'a [u8] {
        self.spans.owners.of(self.bytes)
    }

    fn text(&self, span: Span) -> &'a str {
        match &self.spans.unescaped {
            // The spans were validated as UTF-8 when the object was read.
            None => std::str::from_utf8(span.of(self.bytes)).unwrap_or_default(),
            Some(names) => names.get(span.start as usize..span.end as usize).unwrap_or_default(),
        }
    }
}

/// Text that may be invalid UTF-8; see [`Labels`].
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

impl std::fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Head")
            .field("type", self.type_meta)
            .field("namespace", &self.namespace())
            .field("name", &self.name())
            .field("uid", &self.uid())
            .field("resource_version", &self.resource_version())
            .field("generation", &self.generation())
            .field("deleting", &self.is_deleting())
            .field("labels", &self.labels().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
