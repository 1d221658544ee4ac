//! An object as bytes, and the reader that makes it from a frame.

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
    /// The bytes share a block of memory with others.
    in_block: bool,
}

/// The kept bytes of an object, wherever they are at the moment, with what is needed to decode them. See
/// [`RawObject::kept`].
#[derive(Clone, Copy)]
pub struct KeptBytes<'a> {
    /// As [`RawObject::bytes`].
    pub bytes: &'a [u8],
    /// Their encoding.
    pub encoding: Encoding,
    /// apiVersion and kind of the object.
    pub type_meta: &'a TypeMeta,
}

/// Without the content, which may be that of a Secret.
impl fmt::Debug for KeptBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptBytes")
            .field("type_meta", &self.type_meta)
            .field("encoding", &self.encoding)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// Makes [`RawObject`]s: applies a projection, checks limits, finds the head.
///
/// One reader serves one stream; it keeps what is the same for all of its objects (the compiled projection, a buffer).
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
    /// Where the next objects go, if they go into blocks.
    block: Option<BytesMut>,
}

/// Without the content, which may be that of a Secret.
impl fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectReader")
            .field("projection", &self.projection)
            .field("limits", &self.limits)
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}

/// How large blocks are, and the largest object that goes into one.
const BLOCK_BYTES: usize = 64 << 10;
const IN_BLOCK_MAX: usize = BLOCK_BYTES / 8;

// === impl RawObject ===

impl RawObject {
    /// What is known of the object without decoding it.
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

    /// An object from its kept bytes, as [`bytes`](Self::bytes) gave them: for who kept them elsewhere meanwhile. Its head
    /// is found anew.
    ///
    /// # Errors
    /// If the bytes are none that an object has kept.
    pub fn restore(bytes: Bytes, encoding: Encoding, type_meta: TypeMeta) -> Result<Self> {
        let spans = match encoding {
            Encoding::Json if !bytes.starts_with(b"{") || !bytes.ends_with(b"}") => return Err(not_kept()),
            Encoding::Json => head::json::spans(&bytes)?,
            Encoding::Protobuf => head::proto::spans(&bytes)?,
        };
        Ok(Self { bytes, encoding, type_meta, spans, in_block: false })
    }

    /// The same object in memory of its own, if it was read [into a block](ObjectReader::in_blocks). Who holds an object for
    /// longer than a moment holds this one.
    #[must_use]
    pub fn detached(self) -> Self {
        match self.in_block {
            true => Self { bytes: Bytes::copy_from_slice(&self.bytes), in_block: false, ..self },
            false => self,
        }
    }

    /// Whether it was read [into a block](ObjectReader::in_blocks).
    pub fn is_in_block(&self) -> bool {
        self.in_block
    }
}

impl RawObject {
    /// The value: everything that was kept of the object and that `T` has a place for. A protobuf field that the schema
    /// table does not know is an error, because the value would be incomplete, and writing it back would erase the field.
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
    /// If the object does not fit the type. In protobuf also if the schema table lacks the kind
    /// ([`Error::UnknownKind`]) or one of the fields ([`Error::UnknownField`]).
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
    /// As [`RawObject::decode`].
    ///
    /// # Errors
    /// As [`RawObject::decode`].
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        self.read().map_err(|error| match error {
            Error::Value(why) => {
                let field = self.misfit::<T>().map_or(String::new(), |field| format!("{field}: "));
                Error::Value(format!("{} {}: {field}{why}", self.type_meta.kind(), self.key()))
            }
            other => other,
        })
    }

    /// The field that does not fit the type. Protobuf is looked at as JSON, so that no type is compiled for a third reader.
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

    /// Namespace and name, for a message.
    fn key(&self) -> String {
        let Some((namespace, name)) = key::of(self.bytes, self.encoding) else {
            return "without a name".to_owned();
        };
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{namespace}{slash}{name}")
    }

    /// The JSON text with apiVersion and kind put back.
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
    Error::malformed("kept object", 0, "its JSON is no object in compact text")
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

    /// Reads objects into blocks of memory that many of them share, which are used again when all of those are gone: for
    /// large states, whose objects are let go soon, or [copied](RawObject::detached). An allocation for each, freed after
    /// what was made of it was allocated, would leave the heap full of holes.
    #[must_use]
    pub fn in_blocks(mut self) -> Self {
        self.block = Some(BytesMut::new());
        self
    }

    /// From now on every object has memory of its own.
    pub(crate) fn leave_blocks(&mut self) {
        self.block = None;
    }

    /// With the type that objects have which carry none.
    #[must_use]
    pub fn expect(mut self, type_meta: TypeMeta) -> Self {
        self.expected = Some(type_meta);
        self
    }

    /// The limits the reader checks.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Reads an object from its text or message, without an envelope. Protobuf bytes carry no type, so `type_meta` says
    /// it; JSON text carries its own, which goes before `type_meta` and the expected one.
    ///
    /// # Errors
    /// If the bytes are malformed, exceed a limit, or nobody knows their type. [`Error::key`] says which object it is.
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

    /// Reads an object in its envelope (`k8s\0`), as it stands in a protobuf watch event or answer.
    ///
    /// # Errors
    /// As [`read`](Self::read).
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
            return Err(Error::malformed("JSON object", copied.consumed + at, "more text after its end"));
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

    /// One exactly sized allocation an object (the scratch buffer has grown to the largest and is used again), or a place in
    /// a block.
    fn finish(&mut self, encoding: Encoding, type_meta: TypeMeta, spans: Spans) -> RawObject {
        let (bytes, in_block) = match &mut self.block {
            Some(block) if self.scratch.len() <= IN_BLOCK_MAX => {
                if block.capacity() < self.scratch.len() {
                    // The same one again, if nobody holds anything in it.
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
            "it carries no apiVersion and kind, and none was expected",
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
