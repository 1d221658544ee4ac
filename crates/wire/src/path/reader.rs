//! Reading a path from objects: compiled once for a kind, then read from any number of objects, in either encoding.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::compile::{Step, compile};
use super::value::FieldValue;
use super::{FieldPath, Segment, json, proto};
use crate::error::{Error, Result};
use crate::head::Head;
use crate::json::Value;
use crate::proto::WireValue;
use crate::schema::{Message, Schema};
use crate::{Encoding, TypeMeta};

/// A path compiled for one kind. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct CompiledPath {
    path: FieldPath,
    /// `None` if the schema table does not cover the path.
    steps: Option<Arc<[Step]>>,
}

/// Reads one path from objects of either encoding.
///
/// It is compiled for one type; reading from objects of other types works, but is slower.
#[derive(Clone, Debug)]
pub struct PathReader {
    compiled: CompiledPath,
    type_meta: TypeMeta,
}

// === impl FieldPath ===

impl FieldPath {
    /// Compiles the path for the objects of one kind.
    ///
    /// Without a message (`None`: the kind is not in the schema table), it can be read from JSON, and from protobuf if
    /// it leads into `metadata`, which every kind has.
    ///
    /// # Errors
    /// [`Error::Path`] if the kind has no such field, or the field has another type (for example a list used as a
    /// map).
    ///
    /// ```
    /// use kube_wire::FieldPath;
    /// use kube_wire::schema::Schema;
    ///
    /// let pod = Schema::builtin().kind("v1", "Pod");
    /// let error = "spec.containers.image".parse::<FieldPath>()?.compile(pod).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "invalid field path `spec.containers.image`: \
    ///      `spec.containers` is a list: choose elements with `[*]`, `[0]` or `[?name=text]`"
    /// );
    /// # Ok::<(), kube_wire::Error>(())
    /// ```
    pub fn compile(&self, message: Option<&'static Message>) -> Result<CompiledPath> {
        let message = message.or_else(|| match self.segments().first() {
            Some(Segment::Member(name)) if **name == *"metadata" => {
                Schema::builtin().kind("meta.k8s.io/v1", "PartialObjectMetadata")
            }
            _ => None,
        });
        let steps = message.map(|message| compile(self, message)).transpose()?;
        Ok(CompiledPath { path: self.clone(), steps: steps.map(Arc::from) })
    }

    /// The first value at the path in one object. To read from many objects, create a [`PathReader`].
    ///
    /// # Errors
    /// Like [`PathReader::new`] and [`PathReader::first`].
    pub fn first<'a>(&self, head: Head<'a>) -> Result<Option<FieldValue<'a>>> {
        PathReader::new(self, head.type_meta())?.first(head)
    }

    /// All values at the path in one object. To read from many objects, create a [`PathReader`].
    ///
    /// # Errors
    /// Like [`PathReader::new`] and [`PathReader::values`].
    pub fn values<'a>(&self, head: Head<'a>) -> Result<Vec<FieldValue<'a>>> {
        PathReader::new(self, head.type_meta())?.values(head)
    }
}

// === impl CompiledPath ===

impl CompiledPath {
    /// The path.
    pub fn path(&self) -> &FieldPath {
        &self.path
    }

    /// The first value at the path, if any. Does not read the bytes after it.
    ///
    /// # Errors
    /// If the bytes up to there are malformed, or are protobuf of a kind that is not in the schema table.
    pub fn first<'a>(&self, bytes: &'a [u8], encoding: Encoding) -> Result<Option<FieldValue<'a>>> {
        let mut first = None;
        let _ = self.walk(bytes, encoding, &mut |value| {
            first = Some(value);
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// Passes every value at the path to `each`.
    ///
    /// # Errors
    /// Like [`first`](Self::first); `each` may have been called before.
    pub fn for_each<'a>(
        &self,
        bytes: &'a [u8],
        encoding: Encoding,
        mut each: impl FnMut(FieldValue<'a>),
    ) -> Result<()> {
        let _ = self.walk(bytes, encoding, &mut |value| {
            each(value);
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// All values at the path, in order.
    ///
    /// # Errors
    /// Like [`first`](Self::first).
    pub fn values<'a>(&self, bytes: &'a [u8], encoding: Encoding) -> Result<Vec<FieldValue<'a>>> {
        let mut values = Vec::new();
        self.for_each(bytes, encoding, |value| values.push(value))?;
        Ok(values)
    }

    fn walk<'a>(
        &self,
        bytes: &'a [u8],
        encoding: Encoding,
        emit: &mut impl FnMut(FieldValue<'a>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        match (encoding, &self.steps) {
            (Encoding::Json, _) => json::walk(self.path.segments(), Value::new(bytes), emit),
            (Encoding::Protobuf, Some(steps)) => proto::walk(steps, WireValue::Bytes(bytes), emit),
            (Encoding::Protobuf, None) => Err(Error::Path {
                path: self.path.to_string(),
                why: "the kind has no protobuf schema, so only `metadata` can be read from its protobuf bytes; request JSON"
                    .to_owned(),
            }),
        }
    }
}

// === impl PathReader ===

impl PathReader {
    /// Compiles the path for objects of this type.
    ///
    /// # Errors
    /// [`Error::Path`] if the type is built in and has no such field.
    pub fn new(path: &FieldPath, type_meta: &TypeMeta) -> Result<Self> {
        let compiled = match path.type_member("", "") {
            // Read from the head.
            Some(_) => CompiledPath { path: path.clone(), steps: None },
            None => path.compile(Schema::builtin().kind(type_meta.api_version(), type_meta.kind()))?,
        };
        Ok(Self { compiled, type_meta: type_meta.clone() })
    }

    /// The path.
    pub fn path(&self) -> &FieldPath {
        self.compiled.path()
    }

    /// The first value at the path in an object, if any. Does not read the bytes after it.
    ///
    /// # Errors
    /// If the bytes up to there are malformed, or are protobuf and the schema table lacks the kind
    /// ([`Error::UnknownKind`]) or the field.
    pub fn first<'a>(&self, head: Head<'a>) -> Result<Option<FieldValue<'a>>> {
        match self.type_member(head.type_meta) {
            Some(value) => Ok(Some(value)),
            None => self.with(head.encoding, head.type_meta, |path| path.first(head.bytes, head.encoding)),
        }
    }

    /// Passes every value at the path in an object to `each`.
    ///
    /// # Errors
    /// Like [`first`](Self::first); `each` may have been called before.
    pub fn for_each<'a>(&self, head: Head<'a>, each: impl FnMut(FieldValue<'a>)) -> Result<()> {
        self.for_each_in(head.bytes, head.encoding, head.type_meta, each)
    }

    /// Like [`for_each`](Self::for_each), from an object's kept bytes alone, without finding its head first.
    ///
    /// # Errors
    /// Like [`for_each`](Self::for_each).
    pub fn for_each_in<'a>(
        &self,
        bytes: &'a [u8],
        encoding: Encoding,
        type_meta: &'a TypeMeta,
        mut each: impl FnMut(FieldValue<'a>),
    ) -> Result<()> {
        match self.type_member(type_meta) {
            Some(value) => {
                each(value);
                Ok(())
            }
            None => self.with(encoding, type_meta, |path| path.for_each(bytes, encoding, each)),
        }
    }

    /// All values at the path in an object, in order.
    ///
    /// # Errors
    /// Like [`first`](Self::first).
    pub fn values<'a>(&self, head: Head<'a>) -> Result<Vec<FieldValue<'a>>> {
        let mut values = Vec::new();
        self.for_each(head, |value| values.push(value))?;
        Ok(values)
    }

    fn type_member<'a>(&self, type_meta: &'a TypeMeta) -> Option<FieldValue<'a>> {
        self.path().type_member(type_meta.api_version(), type_meta.kind())
    }

    /// Reads with the path compiled for the object's type.
    fn with<T>(
        &self,
        encoding: Encoding,
        type_meta: &TypeMeta,
        read: impl FnOnce(&CompiledPath) -> Result<T>,
    ) -> Result<T> {
        if encoding == Encoding::Protobuf && *type_meta != self.type_meta {
            return Self::new(self.path(), type_meta)?.with(encoding, type_meta, read);
        }
        if encoding == Encoding::Protobuf && self.compiled.steps.is_none() {
            let (api_version, kind) = (type_meta.api_version().to_owned(), type_meta.kind().to_owned());
            return Err(Error::UnknownKind { api_version, kind });
        }
        read(&self.compiled)
    }
}
