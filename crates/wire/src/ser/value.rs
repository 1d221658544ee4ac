//! Writes one value to a field. Serde supplies the value's type, the table the field's; a mismatch is an error.

use serde::Serialize;

use super::encoder::Encoder;
use super::entries::Entries;
use super::list::List;
use super::object::{Object, ObjectSerializer};
use super::scalar;
use super::slot::{Place, Slot, Target};
use crate::error::{Error, Result};
use crate::proto::WireType;
use crate::schema::{Message, Scalar, Shape};

/// Writes one value.
pub(super) struct ValueSerializer<'e, 'o> {
    pub(super) encoder: &'e mut Encoder<'o>,
    pub(super) slot: Slot,
}

/// Writes a value to a target.
pub(super) fn write<T: Serialize + ?Sized>(encoder: &mut Encoder<'_>, slot: Slot, value: &T) -> Result<()> {
    match slot.target {
        Target::Message(message) if message.shape == Shape::RawJson => embed(encoder, slot, value),
        _ => value.serialize(ValueSerializer { encoder, slot }),
    }
}

/// Writes a value as JSON text: `{raw = 1}`.
fn embed<T: Serialize + ?Sized>(encoder: &mut Encoder<'_>, slot: Slot, value: &T) -> Result<()> {
    let start = encoder.out.len();
    serde_json::to_writer(&mut *encoder.out, value)
        .map_err(|error| Error::Value(format!("embedded JSON: {error}")))?;
    if &encoder.out[start..] == b"null" {
        encoder.out.truncate(start);
        return ValueSerializer { encoder, slot }.null();
    }
    encoder.wrap(1, start);
    if let Some(number) = slot.place.number() {
        encoder.wrap(number, start);
    }
    Ok(())
}

// === impl ValueSerializer ===

impl<'e, 'o> ValueSerializer<'e, 'o> {
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

    pub(super) fn integer(self, value: i128) -> Result<()> {
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

    pub(super) fn float(self, value: f64) -> Result<()> {
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

    pub(super) fn text(self, text: &str) -> Result<()> {
        match self.slot.target {
            Target::Scalar(Scalar::String) => {
                self.scalar(|encoder, number| encoder.writer().bytes_field(number, text.as_bytes()))
            }
            Target::Scalar(Scalar::Bytes) => match scalar::base64(text) {
                Some(bytes) => self.scalar(|encoder, number| encoder.writer().bytes_field(number, &bytes)),
                None => self.mismatch("a string that is not base64"),
            },
            // k8s-openapi serializes a null quantity as an empty string; any other empty string is invalid.
            Target::Message(message) if message.shape == Shape::Quantity && text.is_empty() => self.null(),
            Target::Message(message) => match scalar::text(message.shape, text) {
                Some(written) => self.message(|out| written.put(out)),
                None => self.mismatch(&format!("string {text:?}")),
            },
            _ => self.mismatch(&format!("string {text:?}")),
        }
    }

    pub(super) fn scalar(self, put: impl FnOnce(&mut Encoder<'o>, u32)) -> Result<()> {
        match self.slot.place.number() {
            Some(number) => {
                put(self.encoder, number);
                Ok(())
            }
            None => self.mismatch("a single value"),
        }
    }

    /// A message whose content is written immediately.
    pub(super) fn message(self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let start = self.encoder.out.len();
        put(self.encoder.out);
        if let Some(number) = self.slot.place.number() {
            self.encoder.wrap(number, start);
        }
        Ok(())
    }

    pub(super) fn list(self) -> Result<List<'e, 'o>> {
        let Self { encoder, slot } = self;
        let number = slot.place.number();
        match (slot.target, number) {
            (Target::List(scalar), Some(number)) => List::open(encoder, number, scalar, None),
            (Target::Message(message), _) => {
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

    pub(super) fn members(self) -> Result<ObjectSerializer<'e, 'o>> {
        let Self { encoder, slot } = self;
        let number = slot.place.number();
        match (slot.target, number) {
            (Target::Map(scalar), Some(number)) => {
                Ok(ObjectSerializer::Entries(Entries::open(encoder, number, scalar)?))
            }
            (Target::Message(message), _) => match message.shape {
                Shape::Object => Ok(ObjectSerializer::Object(Object::open(encoder, message, number, None)?)),
                Shape::SchemaOrBool => {
                    let wrap = number.map(|number| (number, encoder.out.len()));
                    encoder.writer().varint_field(1, 1);
                    schema(encoder, message, 2, wrap).map(ObjectSerializer::Object)
                }
                Shape::SchemaOrArray | Shape::SchemaOrStrings => {
                    let wrap = number.map(|number| (number, encoder.out.len()));
                    schema(encoder, message, 1, wrap).map(ObjectSerializer::Object)
                }
                _ => Self { encoder, slot }.mismatch("an object"),
            },
            _ => Self { encoder, slot }.mismatch("an object"),
        }
    }

    #[cold]
    pub(super) fn mismatch<T>(self, found: &str) -> Result<T> {
        Err(Error::Value(format!("expected {}, found {found}", self.slot.target.name())))
    }
}

/// The schema in a `JSONSchemaPropsOr…`.
fn schema<'e, 'o>(
    encoder: &'e mut Encoder<'o>,
    message: &'static Message,
    number: u32,
    wrap: Option<(u32, usize)>,
) -> Result<Object<'e, 'o>> {
    match message.field(number).and_then(|field| field.ty.message(encoder.schema)) {
        Some(schema) => Object::open(encoder, schema, Some(number), wrap),
        None => Err(Error::Value(format!("{} contains no schema", message.name))),
    }
}
