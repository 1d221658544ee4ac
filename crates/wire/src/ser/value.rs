//! One value on its way into a field. Serde says what the value is, the table what the field is; where the two do not
//! meet it is an error.

use serde::Serialize;
use serde::ser::{Impossible, Serializer};

use super::encoder::Encoder;
use super::entries::Entries;
use super::list::List;
use super::object::{Members, Object};
use super::scalar;
use crate::error::{Error, Result};
use crate::proto::WireType;
use crate::schema::{Cardinality, Field, Message, Scalar, Schema, Shape};

/// The place that a value is written to.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) target: Target,
    pub(super) place: Place,
}

/// What a place takes.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Scalar(Scalar),
    Message(&'static Message),
    List(Scalar),
    Map(Scalar),
}

/// Where a place is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The message itself, without a tag.
    Root,
    /// A field: `null` leaves it out, or zero.
    Field(u32),
    /// An element of a list or a value of a map: `null` is the zero value.
    Element(u32),
}

/// Writes one value.
pub(super) struct Value<'e, 'o> {
    pub(super) encoder: &'e mut Encoder<'o>,
    pub(super) slot: Slot,
}

/// Writes a value to a place.
pub(super) fn write<T: Serialize + ?Sized>(encoder: &mut Encoder<'_>, slot: Slot, value: &T) -> Result<()> {
    match slot.target {
        Target::Message(message) if message.shape == Shape::RawJson => embed(encoder, slot, value),
        _ => value.serialize(Value { encoder, slot }),
    }
}

/// Writes a value as JSON text: `{raw = 1}`.
fn embed<T: Serialize + ?Sized>(encoder: &mut Encoder<'_>, slot: Slot, value: &T) -> Result<()> {
    let start = encoder.out.len();
    serde_json::to_writer(&mut *encoder.out, value)
        .map_err(|error| Error::Value(format!("embedded JSON: {error}")))?;
    if &encoder.out[start..] == b"null" {
        encoder.out.truncate(start);
        return Value { encoder, slot }.null();
    }
    encoder.wrap(1, start);
    if let Some(number) = slot.place.number() {
        encoder.wrap(number, start);
    }
    Ok(())
}

// === impl Slot ===

impl Slot {
    pub(super) fn root(target: Target) -> Self {
        Self { target, place: Place::Root }
    }

    pub(super) fn field(schema: &'static Schema, field: &Field) -> Self {
        let target = match field.ty.cardinality {
            Cardinality::One => Target::single(schema, field.ty.scalar),
            Cardinality::List => Target::List(field.ty.scalar),
            Cardinality::Map => Target::Map(field.ty.scalar),
        };
        Self { target, place: Place::Field(field.number) }
    }

    pub(super) fn element(schema: &'static Schema, scalar: Scalar, number: u32) -> Self {
        Self { target: Target::single(schema, scalar), place: Place::Element(number) }
    }
}

impl Target {
    fn single(schema: &'static Schema, scalar: Scalar) -> Self {
        match scalar {
            Scalar::Message(at) => Self::Message(schema.message_at(at)),
            scalar => Self::Scalar(scalar),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Scalar(Scalar::Bool) => "a boolean",
            Self::Scalar(Scalar::Int32 | Scalar::Int64) => "an integer",
            Self::Scalar(Scalar::Uint32 | Scalar::Uint64) => "an unsigned integer",
            Self::Scalar(Scalar::Float | Scalar::Double) => "a number",
            Self::Scalar(Scalar::Bytes) => "bytes in base64",
            Self::Scalar(_) => "a string",
            Self::Message(message) => message.name,
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl Place {
    pub(super) fn number(self) -> Option<u32> {
        match self {
            Self::Root => None,
            Self::Field(number) | Self::Element(number) => Some(number),
        }
    }
}

// === impl Value ===

impl<'e, 'o> Value<'e, 'o> {
    /// `null` or nothing.
    pub(super) fn null(self) -> Result<()> {
        let Place::Element(number) = self.slot.place else { return Ok(()) };
        match self.slot.target {
            Target::Scalar(scalar) => self.encoder.zero(number, scalar),
            Target::Message(message) => self.encoder.zero_message(number, message),
            Target::List(_) | Target::Map(_) => {}
        }
        Ok(())
    }

    fn integer(self, value: i128) -> Result<()> {
        match self.slot.target {
            Target::Scalar(Scalar::Float | Scalar::Double) => self.float(value as f64),
            Target::Scalar(scalar) => match scalar::integer(scalar, value) {
                Some(bits) => self.scalar(|encoder, number| encoder.writer().varint_field(number, bits)),
                None => self.mismatch(&format!("number {value}")),
            },
            Target::Message(message) => match message.shape {
                Shape::IntOrString if i32::try_from(value).is_ok() => {
                    self.message(|out| scalar::int_or_string(value as i32 as i64 as u64, None, out))
                }
                Shape::Quantity => {
                    let text = value.to_string();
                    self.text(&text)
                }
                _ => self.mismatch(&format!("number {value}")),
            },
            _ => self.mismatch(&format!("number {value}")),
        }
    }

    fn float(self, value: f64) -> Result<()> {
        match self.slot.target {
            Target::Scalar(Scalar::Double) => self.scalar(|encoder, number| {
                encoder.writer().tag(number, WireType::Fixed64);
                encoder.out.extend_from_slice(&value.to_le_bytes());
            }),
            Target::Scalar(Scalar::Float) => self.scalar(|encoder, number| {
                encoder.writer().tag(number, WireType::Fixed32);
                encoder.out.extend_from_slice(&(value as f32).to_le_bytes());
            }),
            Target::Message(message) if message.shape == Shape::Quantity => {
                let text = value.to_string();
                self.text(&text)
            }
            _ => self.mismatch(&format!("number {value}")),
        }
    }

    fn text(self, text: &str) -> Result<()> {
        match self.slot.target {
            Target::Scalar(Scalar::String) => {
                self.scalar(|encoder, number| encoder.writer().bytes_field(number, text.as_bytes()))
            }
            Target::Scalar(Scalar::Bytes) => match scalar::base64(text) {
                Some(bytes) => self.scalar(|encoder, number| encoder.writer().bytes_field(number, &bytes)),
                None => self.mismatch("a string that is no base64"),
            },
            // What k8s-openapi makes of a quantity that is null; no other empty string is one.
            Target::Message(message) if message.shape == Shape::Quantity && text.is_empty() => self.null(),
            Target::Message(message) => match scalar::text(message.shape, text) {
                Some(written) => self.message(|out| written.put(out)),
                None => self.mismatch(&format!("string {text:?}")),
            },
            _ => self.mismatch(&format!("string {text:?}")),
        }
    }

    fn scalar(self, put: impl FnOnce(&mut Encoder<'o>, u32)) -> Result<()> {
        match self.slot.place.number() {
            Some(number) => {
                put(self.encoder, number);
                Ok(())
            }
            None => self.mismatch("a single value"),
        }
    }

    /// A message whose content is written at once.
    fn message(self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let start = self.encoder.out.len();
        put(self.encoder.out);
        if let Some(number) = self.slot.place.number() {
            self.encoder.wrap(number, start);
        }
        Ok(())
    }

    fn list(self) -> Result<List<'e, 'o>> {
        let Self { encoder, slot } = self;
        let number = slot.place.number();
        match slot.target {
            Target::List(scalar) if let Some(number) = number => List::open(encoder, number, scalar, None),
            Target::Message(message) => {
                let list = match message.shape {
                    Shape::StringList => 1,
                    Shape::SchemaOrArray | Shape::SchemaOrStrings => 2,
                    _ => return Self { encoder, slot }.mismatch("a list"),
                };
                let Some(field) = message.field(list) else {
                    return Self { encoder, slot }.mismatch("a list");
                };
                List::open(encoder, list, field.ty.scalar, number)
            }
            _ => Self { encoder, slot }.mismatch("a list"),
        }
    }

    fn members(self) -> Result<Members<'e, 'o>> {
        let Self { encoder, slot } = self;
        let number = slot.place.number();
        match slot.target {
            Target::Map(scalar) if let Some(number) = number => {
                Ok(Members::Entries(Entries::open(encoder, number, scalar)?))
            }
            Target::Message(message) => match message.shape {
                Shape::Object => Ok(Members::Object(Object::open(encoder, message, number, None)?)),
                Shape::SchemaOrBool => {
                    let wrap = number.map(|number| (number, encoder.out.len()));
                    encoder.writer().varint_field(1, 1);
                    schema(encoder, message, 2, wrap).map(Members::Object)
                }
                Shape::SchemaOrArray | Shape::SchemaOrStrings => {
                    let wrap = number.map(|number| (number, encoder.out.len()));
                    schema(encoder, message, 1, wrap).map(Members::Object)
                }
                _ => Self { encoder, slot }.mismatch("an object"),
            },
            _ => Self { encoder, slot }.mismatch("an object"),
        }
    }

    #[cold]
    fn mismatch<T>(self, found: &str) -> Result<T> {
        Err(Error::Value(format!("{found} where {} belongs", self.slot.target.name())))
    }
}

/// The schema within a `JSONSchemaPropsOr…`.
fn schema<'e, 'o>(
    encoder: &'e mut Encoder<'o>,
    message: &'static Message,
    number: u32,
    wrap: Option<(u32, usize)>,
) -> Result<Object<'e, 'o>> {
    match message.field(number).and_then(|field| field.ty.message(encoder.schema)) {
        Some(schema) => Object::open(encoder, schema, Some(number), wrap),
        None => Err(Error::Value(format!("{} holds no schema", message.name))),
    }
}

impl<'e, 'o> Serializer for Value<'e, 'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'e, 'o>;
    type SerializeTuple = List<'e, 'o>;
    type SerializeTupleStruct = List<'e, 'o>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Members<'e, 'o>;
    type SerializeStruct = Members<'e, 'o>;
    type SerializeStructVariant = Impossible<(), Error>;

    fn serialize_bool(self, value: bool) -> Result<()> {
        match self.slot.target {
            Target::Scalar(Scalar::Bool) => {
                self.scalar(|encoder, number| encoder.writer().varint_field(number, u64::from(value)))
            }
            Target::Message(message) if message.shape == Shape::SchemaOrBool => {
                self.message(|out| crate::proto::Writer::new(out).varint_field(1, u64::from(value)))
            }
            _ => self.mismatch("a boolean"),
        }
    }

    fn serialize_i8(self, value: i8) -> Result<()> {
        self.integer(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<()> {
        self.integer(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<()> {
        self.integer(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<()> {
        self.integer(value.into())
    }

    fn serialize_u8(self, value: u8) -> Result<()> {
        self.integer(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<()> {
        self.integer(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<()> {
        self.integer(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<()> {
        self.integer(value.into())
    }

    fn serialize_f32(self, value: f32) -> Result<()> {
        self.float(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<()> {
        self.float(value)
    }

    fn serialize_char(self, value: char) -> Result<()> {
        self.text(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<()> {
        self.text(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<()> {
        match self.slot.target {
            Target::Scalar(Scalar::Bytes) => {
                self.scalar(|encoder, number| encoder.writer().bytes_field(number, value))
            }
            _ => self.mismatch("bytes"),
        }
    }

    fn serialize_none(self) -> Result<()> {
        self.null()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.null()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        self.null()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<()> {
        self.text(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        let mut members = self.members()?;
        members.member(variant, value)?;
        members.close();
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'e, 'o>> {
        self.list()
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'e, 'o>> {
        self.list()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List<'e, 'o>> {
        self.list()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        self.mismatch(&format!("tuple variant {variant}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'e, 'o>> {
        self.members()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'e, 'o>> {
        self.members()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant> {
        self.mismatch(&format!("struct variant {variant}"))
    }
}
