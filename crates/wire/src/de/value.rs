//! One value as a serde deserializer. The table has every type, so the deserializer is self-describing: a visitor's
//! request is only a hint, and `serde_json::Value` or a flattened struct works as well as a typed one.
//!
//! Everything below the top uses one deserializer type, so each target type is compiled once.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::cursor::Cursor;
use super::level::{Level, TypeMember, What, enter};
use super::list::ElementAccess;
use super::members::{EntryAccess, MemberAccess};
use super::shape::{self, Special};
use crate::error::{Error, Result};
use crate::proto::{Reader, WireValue};
use crate::schema::{Message, Scalar, Shape};

/// The next value of a level.
pub(super) struct ValueDeserializer<'a, 'c, 'de>(pub(super) &'a mut Level<'c, 'de>);

/// The name by which serde_json requests raw JSON text.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

// === impl ValueDeserializer ===

impl<'a, 'c, 'de> ValueDeserializer<'a, 'c, 'de> {
    #[inline]
    fn is_null(&self) -> bool {
        match self.0.what {
            What::Null => true,
            What::Message(message) => {
                message.shape != Shape::Object && shape::is_null(self.0.context, message, self.0.raw)
            }
            _ => false,
        }
    }

    #[inline(always)]
    fn fields<V: Visitor<'de>>(
        self,
        message: &'static Message,
        type_meta: TypeMember,
        visitor: V,
    ) -> Result<V::Value> {
        let level = self.0;
        let depth = enter(level.context, level.value_depth)?;
        let cursor = Cursor(level.raw.bytes()?);
        visitor.visit_map(MemberAccess::Fields(Level::open(level.context, depth, message, cursor, type_meta)))
    }

    fn entries(self, number: u32, scalar: Scalar) -> Result<MemberAccess<'a, 'c, 'de>> {
        let depth = enter(self.0.context, self.0.value_depth)?;
        Ok(MemberAccess::Entries(EntryAccess { level: self.0, depth, number, scalar, started: false }))
    }

    fn elements(self, number: u32, scalar: Scalar) -> Result<ElementAccess<'a, 'c, 'de>> {
        let depth = enter(self.0.context, self.0.value_depth)?;
        let what = What::single(self.0.context, scalar);
        let (started, packed) = (false, Reader::new(&[]));
        Ok(ElementAccess { level: self.0, depth, number, scalar, what, started, packed })
    }

    fn special<V: Visitor<'de>>(self, message: &'static Message, visitor: V) -> Result<V::Value> {
        let level = self.0;
        let context = level.context;
        match shape::resolve(context, message, level.raw)? {
            Special::Null => visitor.visit_unit(),
            Special::Bool(value) => visitor.visit_bool(value),
            Special::Int(value) => visitor.visit_i64(value),
            Special::Text(text) => visitor.visit_borrowed_str(text),
            Special::Time(text) => visitor.visit_str(text.as_str()),
            Special::Duration(text) => visitor.visit_str(text.as_str()),
            Special::Json(json) => embedded(json, |deserializer| deserializer.deserialize_any(visitor)),
            Special::Message(message, raw) => {
                level.what = What::Message(message);
                level.raw = raw;
                ValueDeserializer(level).deserialize_any(visitor)
            }
            Special::Root { message, raw, api_version, kind } => {
                let within = context.within(api_version, kind);
                let mut inner = Level::of(&within, message, What::Root(message), raw);
                inner.value_depth = level.value_depth;
                let value = ValueDeserializer(&mut inner).deserialize_any(visitor);
                match within.defect.get() {
                    Some(defect) => Err(context.found(defect)),
                    None => value,
                }
            }
            Special::List { number, scalar } => {
                let cursor = Cursor::over(level.raw, message, context)?;
                let mut inner = Level::open(context, level.value_depth, message, cursor, TypeMember::Done);
                inner.seek(number);
                let mut elements = ValueDeserializer(&mut inner).elements(number, scalar)?;
                elements.started = true;
                visitor.visit_seq(elements)
            }
        }
    }
}

impl<'de> Deserializer<'de> for ValueDeserializer<'_, '_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0.what {
            What::Scalar(scalar) => visit_scalar(scalar, self.0.raw, visitor),
            What::Message(message) if message.shape == Shape::Object => {
                self.fields(message, TypeMember::Done, visitor)
            }
            What::Message(message) => self.special(message, visitor),
            What::List(number, scalar) => visitor.visit_seq(self.elements(number, scalar)?),
            What::Map(number, scalar) => visitor.visit_map(self.entries(number, scalar)?),
            What::Root(message) => self.fields(message, TypeMember::ApiVersion, visitor),
            What::Null => visitor.visit_unit(),
        }
    }

    // Hints only improve speed: the likely case is inlined, the others are not.

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.0.what {
            What::Message(message) if message.shape == Shape::Object => {
                self.fields(message, TypeMember::Done, visitor)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0.what {
            What::Map(number, scalar) => visitor.visit_map(self.entries(number, scalar)?),
            _ => self.deserialize_any(visitor),
        }
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0.what {
            What::List(number, scalar) => visitor.visit_seq(self.elements(number, scalar)?),
            _ => self.deserialize_any(visitor),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0.what {
            What::Scalar(Scalar::String) => visitor.visit_borrowed_str(self.0.raw.str()?),
            _ => self.deserialize_any(visitor),
        }
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        if name == RAW_VALUE
            && let What::Message(message) = self.0.what
            && let Special::Json(json) = shape::resolve(self.0.context, message, self.0.raw)?
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
        match self.0.what {
            What::Scalar(Scalar::String) => {
                visitor.visit_enum(BorrowedStrDeserializer::<Error>::new(self.0.raw.str()?))
            }
            What::Message(message) if message.shape == Shape::Object => {
                let level = self.0;
                let depth = enter(level.context, level.value_depth)?;
                let cursor = Cursor(level.raw.bytes()?);
                let fields = Level::open(level.context, depth, message, cursor, TypeMember::Done);
                visitor.visit_enum(MapAccessDeserializer::new(MemberAccess::Fields(fields)))
            }
            What::Message(message) => match shape::resolve(self.0.context, message, self.0.raw)? {
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
        match self.0.what {
            What::Scalar(Scalar::Bytes) => visitor.visit_borrowed_bytes(self.0.raw.bytes()?),
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
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char unit unit_struct tuple tuple_struct identifier
    }
}

#[inline]
fn visit_scalar<'de, V: Visitor<'de>>(scalar: Scalar, raw: WireValue<'de>, visitor: V) -> Result<V::Value> {
    match scalar {
        Scalar::String => visitor.visit_borrowed_str(raw.str()?),
        Scalar::Bool => visitor.visit_bool(raw.varint()? != 0),
        Scalar::Int32 => visitor.visit_i64(i64::from(raw.varint()? as i32)),
        Scalar::Int64 => visitor.visit_i64(raw.varint()? as i64),
        Scalar::Uint32 => visitor.visit_u64(u64::from(raw.varint()? as u32)),
        Scalar::Uint64 => visitor.visit_u64(raw.varint()?),
        Scalar::Float | Scalar::Double => visit_float(raw.float()?, visitor),
        Scalar::Bytes => visitor.visit_string(STANDARD.encode(raw.bytes()?)),
        Scalar::Message(_) => Err(Error::Value("unexpected message".to_owned())),
    }
}

/// Go's JSON writes whole floats without a decimal point, so readers see integers.
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

/// Passes JSON text to serde_json.
fn embedded<'de, T>(
    json: &'de [u8],
    read: impl FnOnce(&mut serde_json::Deserializer<serde_json::de::SliceRead<'de>>) -> serde_json::Result<T>,
) -> Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    read(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| Error::Value(format!("embedded JSON: {error}")))
}
