//! An object as bytes, and the reader that creates it from a frame.

use std::fmt;

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;

use crate::de::Deserializer;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::head::{self, Head, Spans, key};
use crate::json;
use crate::limits::{Limit, Limits};
use crate::projection::{Plan, Projection};
use crate::schema::Schema;
use crate::{Encoding, TypeMeta};

/// A Kubernetes object as received, without the fields that the [`Projection`] drops.
///
/// The bytes contain neither the envelope nor apiVersion and kind: the same object has the same bytes whether it came
/// from a list or from a watch. Cloning shares the bytes.
#[derive(Clone)]
pub struct RawObject {
    bytes: Bytes,
    encoding: Encoding,
    type_meta: TypeMeta,
    spans: Spans,
    /// The bytes share a block of memory with other objects.
    in_block: bool,
}

/// The kept bytes of an object, wherever they are stored, with what is needed to decode them. See [`RawObject::kept`].
#[derive(Clone, Copy)]
pub struct KeptBytes<'a> {
    /// See [`RawObject::bytes`].
    pub bytes: &'a [u8],
    /// Their encoding.
    pub encoding: Encoding,
    /// apiVersion and kind of the object.
    pub type_meta: &'a TypeMeta,
}

/// Omits the content, which may be that of a Secret.
impl fmt::Debug for KeptBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptBytes")
            .field("type_meta", &self.type_meta)
            .field("encoding", &self.encoding)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// Creates [`RawObject`]s: applies a projection, checks limits, finds the head.
///
/// Use one reader per stream: it caches what all objects of the stream share (the compiled projection, a buffer).
pub struct ObjectReader {
    projection: Projection,
    limits: Limits,
    /// The type of objects that do not contain one: items of built-in lists.
    expected: Option<TypeMeta>,
    /// The projection compiled for the most recent type.
    plan: Option<(TypeMeta, Plan)>,
    /// The most recent type, shared by all objects that have it.
    last_type: Option<TypeMeta>,
    scratch: Vec<u8>,
    /// The memory for the next objects, if they are stored in blocks.
    block: Option<BytesMut>,
}

/// Omits the content, which may be that of a Secret.
impl fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectReader")
            .field("projection", &self.projection)
            .field("limits", &self.limits)
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}

/// Size of a block, and the largest object stored in one.
const BLOCK_BYTES: usize = 64 << 10;
const IN_BLOCK_MAX: usize = BLOCK_BYTES / 8;

// === impl RawObject ===

impl RawObject {
    /// The object's metadata, read without decoding the object.
    pub fn head(&self) -> Head<'_> {
        Head { bytes: &self.bytes, encoding: self.encoding, type_meta: &self.type_meta, spans: &self.spans }
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

    /// Restores an object from its kept bytes, as returned by [`bytes`](Self::bytes), if they were stored elsewhere.
    /// Finds its head again.
    ///
    /// # Errors
    /// If the bytes are not the kept bytes of an object.
    pub fn restore(bytes: Bytes, encoding: Encoding, type_meta: TypeMeta) -> Result<Self> {
        let spans = match encoding {
            Encoding::Json if !bytes.starts_with(b"{") || !bytes.ends_with(b"}") => return Err(not_kept()),
            Encoding::Json => head::json::spans(&bytes)?,
            Encoding::Protobuf => head::proto::spans(&bytes)?,
        };
        Ok(Self { bytes, encoding, type_meta, spans, in_block: false })
    }

    /// Copies the object to its own memory if it was read [into a block](ObjectReader::in_blocks). Call this before
    /// storing an object for a long time: otherwise it keeps the whole block alive.
    #[must_use]
    pub fn detached(self) -> Self {
        match self.in_block {
            true => Self { bytes: Bytes::copy_from_slice(&self.bytes), in_block: false, ..self },
            false => self,
        }
    }

    /// Whether the object was read [into a block](ObjectReader::in_blocks).
    pub fn is_in_block(&self) -> bool {
        self.in_block
    }
}

impl RawObject {
    /// Decodes the kept part of the object as `T`. A protobuf field that is not in the schema table is an error,
    /// because the value would be incomplete, and writing it back would erase the field.
    ///
    /// ```
    /// # use kube_wire::{Encoding, Limits, ObjectReader, Projection};
    /// # let mut reader = ObjectReader::new(Projection::default(), Limits::default());
    /// let text = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","managedFields":[]}}"#;
    /// let pod = reader.read(text, Encoding::Json, None)?;
    /// let value: serde_json::Value = pod.decode()?;
    /// assert_eq!(value, serde_json::json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}}));
    /// # Ok::<(), kube_wire::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the object does not match the type. In protobuf, also if the schema table lacks the kind
    /// ([`Error::UnknownKind`]) or a field ([`Error::UnknownField`]).
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        self.kept().decode()
    }

    /// The kept bytes, with what is needed to decode them.
    pub fn kept(&self) -> KeptBytes<'_> {
        KeptBytes { bytes: &self.bytes, encoding: self.encoding, type_meta: &self.type_meta }
    }
}

// === impl KeptBytes ===

impl KeptBytes<'_> {
    /// Like [`RawObject::decode`].
    ///
    /// # Errors
    /// Like [`RawObject::decode`].
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        self.read().map_err(|error| match error {
            Error::Value(why) => {
                let field = self.misfit::<T>().map_or(String::new(), |field| format!("{field}: "));
                Error::Value(format!("{} {}: {field}{why}", self.type_meta.kind(), self.key()))
            }
            other => other,
        })
    }

    /// The field that does not match the type. Checks protobuf as JSON, so that no type is compiled for a third
    /// reader.
    #[cold]
    fn misfit<T: DeserializeOwned>(&self) -> Option<String> {
        let text = match self.encoding {
            Encoding::Json => self.json_with_type().ok()?,
            Encoding::Protobuf => serde_json::to_vec(&self.read::<serde_json::Value>().ok()?).ok()?,
        };
        // The text is one line.
        let error = serde_json::from_slice::<T>(&text).err().filter(|error| error.line() == 1)?;
        json::position::path_at(&text, error.column())
    }

    fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let (api_version, kind) = (self.type_meta.api_version(), self.type_meta.kind());
        match self.encoding {
            Encoding::Json => serde_json::from_slice(&self.json_with_type()?)
                .map_err(|error| Error::Value(error.to_string())),
            Encoding::Protobuf => {
                let message = Schema::builtin().kind(api_version, kind).ok_or_else(|| {
                    Error::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() }
                })?;
                Deserializer::new(self.bytes, message).type_meta(api_version, kind).read()
            }
        }
    }

    /// Namespace and name, for messages.
    fn key(&self) -> String {
        let Some((namespace, name)) = key::of(self.bytes, self.encoding) else {
            return "without a name".to_owned();
        };
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{namespace}{slash}{name}")
    }

    /// The JSON text with apiVersion and kind restored.
    fn json_with_type(&self) -> Result<Vec<u8>> {
        // The kept text is an object without white space: `{}` or `{"…`.
        let Some(members) = self.bytes.strip_prefix(b"{") else { return Err(not_kept()) };
        let (api_version, kind) = (self.type_meta.api_version(), self.type_meta.kind());
        let mut text = Vec::with_capacity(self.bytes.len() + api_version.len() + kind.len() + 32);
        text.extend_from_slice(b"{\"apiVersion\":");
        text.extend_from_slice(serde_json::Value::from(api_version).to_string().as_bytes());
        text.extend_from_slice(b",\"kind\":");
        text.extend_from_slice(serde_json::Value::from(kind).to_string().as_bytes());
        if members != b"}" {
            text.push(b',');
        }
        text.extend_from_slice(members);
        Ok(text)
    }
}

fn not_kept() -> Error {
    Error::malformed("kept object", 0, "not a compact JSON object")
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

// === impl ObjectReader ===

impl ObjectReader {
    /// A reader with this projection and these limits.
    pub fn new(projection: Projection, limits: Limits) -> Self {
        let (expected, plan, last_type, scratch, block) = Default::default();
        Self { projection, limits, expected, plan, last_type, scratch, block }
    }

    /// Reads objects into shared blocks of memory, which are reused when all their objects are dropped. For large
    /// initial states whose objects are soon dropped or [copied](RawObject::detached): one allocation per object,
    /// freed after its copy was allocated, would fragment the heap.
    #[must_use]
    pub fn in_blocks(mut self) -> Self {
        self.block = Some(BytesMut::new());
        self
    }

    /// Gives each further object its own memory.
    pub(crate) fn leave_blocks(&mut self) {
        self.block = None;
    }

    /// Sets the type of objects that do not contain one.
    #[must_use]
    pub fn expect(mut self, type_meta: TypeMeta) -> Self {
        self.expected = Some(type_meta);
        self
    }

    /// The reader's limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Reads an object from its text or message, without an envelope. Protobuf bytes do not contain the type, so
    /// `type_meta` supplies it; the type in JSON text takes precedence over `type_meta` and the expected type.
    ///
    /// # Errors
    /// If the bytes are malformed or exceed a limit, or their type is unknown. [`Error::key`] identifies the object.
    pub fn read(
        &mut self,
        body: &[u8],
        encoding: Encoding,
        type_meta: Option<&TypeMeta>,
    ) -> Result<RawObject> {
        let read = self.check_size(body.len()).and_then(|()| match encoding {
            Encoding::Json => self.read_json(body, type_meta),
            Encoding::Protobuf => self.read_protobuf(body, type_meta),
        });
        read.map_err(|error| error.about(key::of(body, encoding)))
    }

    /// Reads an object in its envelope (`k8s\0`), as in a protobuf watch event or response.
    ///
    /// # Errors
    /// Like [`read`](Self::read).
    pub fn read_envelope(&mut self, bytes: &[u8]) -> Result<RawObject> {
        self.open_envelope(bytes).map_err(|error| error.about(key::in_envelope(bytes)))
    }

    fn open_envelope(&mut self, bytes: &[u8]) -> Result<RawObject> {
        self.check_size(bytes.len())?;
        let envelope = Envelope::open(bytes)?;
        let type_meta = self.intern(envelope.api_version, envelope.kind);
        self.read_protobuf(envelope.raw, Some(&type_meta))
    }

    fn read_json(&mut self, body: &[u8], type_meta: Option<&TypeMeta>) -> Result<RawObject> {
        self.scratch.clear();
        let copied = json::copy::copy(body, self.projection.root(), &self.limits, &mut self.scratch)?;
        let rest = &body[copied.consumed..];
        if let Some(at) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
            return Err(Error::malformed(
                "JSON object",
                copied.consumed + at,
                "unexpected data after the object",
            ));
        }
        let type_meta = match (copied.api_version, copied.kind) {
            (Some(api_version), Some(kind)) => self.intern(&api_version, &kind),
            _ => self.type_or_expected(type_meta)?,
        };
        let spans = head::json::spans(&self.scratch)?;
        Ok(self.finish(Encoding::Json, type_meta, spans))
    }

    fn read_protobuf(&mut self, body: &[u8], type_meta: Option<&TypeMeta>) -> Result<RawObject> {
        let type_meta = self.type_or_expected(type_meta)?;
        if self.plan.as_ref().is_none_or(|(compiled_for, _)| *compiled_for != type_meta) {
            let message = Schema::builtin().kind(type_meta.api_version(), type_meta.kind());
            self.plan = Some((type_meta.clone(), Plan::new(&self.projection, message)));
        }
        self.scratch.clear();
        if let Some((_, plan)) = &self.plan {
            plan.copy(body, &mut self.scratch)?;
        }
        let spans = head::proto::spans(&self.scratch)?;
        Ok(self.finish(Encoding::Protobuf, type_meta, spans))
    }

    /// Uses one allocation of exact size per object (the reused scratch buffer has the size of the largest), or part
    /// of a block.
    fn finish(&mut self, encoding: Encoding, type_meta: TypeMeta, spans: Spans) -> RawObject {
        let (bytes, in_block) = match &mut self.block {
            Some(block) if self.scratch.len() <= IN_BLOCK_MAX => {
                if block.capacity() < self.scratch.len() {
                    // Reuses the same block if no object in it is alive.
                    block.reserve(BLOCK_BYTES);
                }
                block.extend_from_slice(&self.scratch);
                (block.split().freeze(), true)
            }
            _ => (Bytes::copy_from_slice(&self.scratch), false),
        };
        RawObject { bytes, encoding, type_meta, spans, in_block }
    }

    fn type_or_expected(&self, type_meta: Option<&TypeMeta>) -> Result<TypeMeta> {
        type_meta.or(self.expected.as_ref()).cloned().ok_or(Error::malformed(
            "object",
            0,
            "no apiVersion and kind; set the type with `ObjectReader::expect`",
        ))
    }

    pub(crate) fn intern(&mut self, api_version: &str, kind: &str) -> TypeMeta {
        match &self.last_type {
            Some(last) if last.api_version() == api_version && last.kind() == kind => last.clone(),
            _ => self.last_type.insert(TypeMeta::new(api_version, kind)).clone(),
        }
    }

    fn check_size(&self, found: usize) -> Result<()> {
        // Spans are 32 bits wide.
        let allowed = self.limits.object_bytes_max.min(u32::MAX as usize);
        if found > allowed {
            return Err(Error::Limit { limit: Limit::ObjectBytes, found, allowed });
        }
        Ok(())
    }
}
