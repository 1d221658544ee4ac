//! One value as serde takes it. The table knows every type, so the deserializer is self-describing: what a visitor asks
//! for is only a hint, and `serde_json::Value` or a flattened struct is served as well as a typed one.
//!
//! There is one deserializer type for everything below the top, so that each target type is compiled once.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::cursor::{Cursor, Raw};
use super::list::Elements;
use super::object::{Entries, Fields, Members};
use super::shape::{self, Special};
use super::{Context, TypeMeta};
use crate::error::{Error, Result};
use crate::proto::Reader;
use crate::schema::{Message, Scalar, Shape};

/// One value and where it stands.
pub(super) struct Value<'a, 'de> {
    pub(super) context: &'a Context,
    /// How many objects and lists it stands in.
    pub(super) depth: usize,
    pub(super) content: Content<'a, 'de>,
}

/// What a value is made of.
pub(super) enum Content<'a, 'de> {
    Null,
    Text(&'de str),
    Scalar(Scalar, Raw<'de>),
    Message(&'static Message, Raw<'de>),
    /// A message that is an object of its own, with the type that its envelope named.
    Root(&'static Message, Raw<'de>, TypeMeta<'de>),
    List {
        cursor: &'a mut Cursor<'de>,
        number: u32,
        scalar: Scalar,
        first: Raw<'de>,
    },
    Map {
        cursor: &'a mut Cursor<'de>,
        number: u32,
        scalar: Scalar,
        first: Raw<'de>,
    },
}

/// The name by which serde_json asks for JSON text as it is.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

// === impl Content ===

impl<'de> Content<'_, 'de> {
    /// A single value of a type.
    #[inline]
    pub(super) fn of(context: &Context, scalar: Scalar, raw: Raw<'de>) -> Self {
        match scalar {
            Scalar::Message(at) => Self::Message(context.schema.message_at(at), raw),
            scalar => Self::Scalar(scalar, raw),
        }
    }

    #[inline]
    fn is_null(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Message(message, raw) => message.shape != Shape::Object && shape::is_null(message, raw),
            _ => false,
        }
    }
}

// === impl Value ===

impl<'de> Value<'_, 'de> {
    fn special<V: Visitor<'de>>(self, message: &'static Message, raw: &Raw<'de>, visitor: V) -> Result<V::Value> {
        let Self { context, depth, .. } = self;
        match shape::resolve(context, message, raw)? {
            Special::Null => visitor.visit_unit(),
            Special::Bool(value) => visitor.visit_bool(value),
            Special::Int(value) => visitor.visit_i64(value),
            Special::Text(text) => visitor.visit_borrowed_str(text),
            Special::Time(text) => visitor.visit_str(text.as_str()),
            Special::Duration(text) => visitor.visit_str(text.as_str()),
            Special::Json(json) => {
                embedded(json, |deserializer| deserializer.deserialize_any(visitor))
            }
            Special::Message(message, raw) => {
                Value { context, depth, content: Content::Message(message, raw) }.deserialize_any(visitor)
            }
            Special::Root(message, raw, type_meta) => {
                Value { context, depth, content: Content::Root(message, raw, type_meta) }.deserialize_any(visitor)
            }
            Special::List { mut cursor, number, scalar, first } => {
                let content = Content::List { cursor: &mut cursor, number, scalar, first };
                Value { context, depth, content }.deserialize_any(visitor)
            }
        }
    }
}

impl<'de> Deserializer<'de> for Value<'_, 'de> {
    type Error = Error;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let Self { context, depth, content } = self;
        match content {
            Content::Scalar(scalar, raw) => visit_scalar(scalar, &raw, visitor),
            Content::Message(message, raw) if message.shape == Shape::Object => {
                let depth = context.enter(depth)?;
                visitor.visit_map(Members::Fields(Fields::open(context, depth, message, &raw, None)?))
            }
            Content::Message(message, raw) => {
                Value { context, depth, content: Content::Null }.special(message, &raw, visitor)
            }
            Content::Root(message, raw, type_meta) => {
                let depth = context.enter(depth)?;
                visitor.visit_map(Members::Fields(Fields::open(context, depth, message, &raw, Some(type_meta))?))
            }
            Content::List { cursor, number, scalar, first } => {
                let (depth, first, packed) = (context.enter(depth)?, Some(first), Reader::new(&[]));
                visitor.visit_seq(Elements { context, depth, cursor, number, scalar, first, packed })
            }
            Content::Map { cursor, number, scalar, first } => {
                let (depth, first, value) = (context.enter(depth)?, Some(first), None);
                visitor.visit_map(Members::Entries(Entries {
                    context,
                    depth,
                    cursor,
                    number,
                    scalar,
                    first,
                    value,
                }))
            }
            Content::Text(text) => visitor.visit_borrowed_str(text),
            Content::Null => visitor.visit_unit(),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.content.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        if name == RAW_VALUE
            && let Content::Message(message, raw) = &self.content
            && let Special::Json(json) = shape::resolve(self.context, message, raw)?
        {
            return embedded(json, |deserializer| deserializer.deserialize_newtype_struct(name, visitor));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let Self { context, depth, content } = self;
        match content {
            Content::Text(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
            Content::Scalar(Scalar::String, raw) => {
                visitor.visit_enum(BorrowedStrDeserializer::<Error>::new(raw.str()?))
            }
            Content::Message(message, raw) if message.shape == Shape::Object => {
                let depth = context.enter(depth)?;
                let fields = Fields::open(context, depth, message, &raw, None)?;
                visitor.visit_enum(MapAccessDeserializer::new(Members::Fields(fields)))
            }
            Content::Message(message, raw) => match shape::resolve(context, message, &raw)? {
                Special::Text(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
                Special::Json(json) => {
                    embedded(json, |deserializer| deserializer.deserialize_enum(name, variants, visitor))
                }
                _ => Err(Error::Value(format!("{} cannot be read as enum {name}", message.name))),
            },
            _ => Err(Error::Value(format!("this field cannot be read as enum {name}"))),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match &self.content {
            Content::Scalar(Scalar::Bytes, raw) => visitor.visit_borrowed_bytes(raw.bytes()?),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string unit unit_struct seq tuple tuple_struct map
        struct identifier
    }
}

#[inline]
fn visit_scalar<'de, V: Visitor<'de>>(scalar: Scalar, raw: &Raw<'de>, visitor: V) -> Result<V::Value> {
    match scalar {
        Scalar::String => visitor.visit_borrowed_str(raw.str()?),
        Scalar::Bool => visitor.visit_bool(raw.varint()? != 0),
        Scalar::Int32 => visitor.visit_i64(i64::from(raw.varint()? as i32)),
        Scalar::Int64 => visitor.visit_i64(raw.varint()? as i64),
        Scalar::Uint32 => visitor.visit_u64(u64::from(raw.varint()? as u32)),
        Scalar::Uint64 => visitor.visit_u64(raw.varint()?),
        Scalar::Float | Scalar::Double => visit_float(float(raw)?, visitor),
        Scalar::Bytes => visitor.visit_string(STANDARD.encode(raw.bytes()?)),
        Scalar::Message(_) => Err(Error::Value("a message where none was expected".to_owned())),
    }
}

fn float(raw: &Raw<'_>) -> Result<f64> {
    match *raw {
        Raw::Fixed64(bits) => Ok(f64::from_bits(bits)),
        // Go prints a float with the digits it needs; the shortest decimal text is what JSON would have carried.
        Raw::Fixed32(bits) => {
            let value = f32::from_bits(bits);
            Ok(value.to_string().parse().unwrap_or(f64::from(value)))
        }
        _ => Err(Error::malformed("protobuf field", 0, "a float was expected")),
    }
}

/// JSON as Go writes it has no point in whole numbers, so they are integers to whoever reads it.
fn visit_float<'de, V: Visitor<'de>>(value: f64, visitor: V) -> Result<V::Value> {
    const WHOLE: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    let negative_zero = value == 0.0 && value.is_sign_negative();
    if value.trunc() == value && WHOLE.contains(&value) && !negative_zero {
        match value {
            0.0.. => visitor.visit_u64(value as u64),
            _ => visitor.visit_i64(value as i64),
        }
    } else {
        visitor.visit_f64(value)
    }
}

/// Hands JSON text over to serde_json.
fn embedded<'de, T>(
    json: &'de [u8],
    read: impl FnOnce(&mut serde_json::Deserializer<serde_json::de::SliceRead<'de>>) -> serde_json::Result<T>,
) -> Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    read(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| Error::Value(format!("embedded JSON: {error}")))
}
