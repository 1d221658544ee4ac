//! The value at a path: a scalar, or an encoded part of the object.

use std::borrow::Cow;

use super::wire::{Items, entry, json_value};
use crate::de::{Deserializer, UnknownFields};
use crate::error::{Error, Result};
use crate::json::{JsonType, Value};
use crate::schema::{Message, Scalar};

/// A field's value as in JSON, borrowed from the object's bytes where possible.
#[derive(Clone, Debug)]
pub enum FieldValue<'a> {
    /// `null`: an unset pointer, list or map that Go's JSON shows.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer beyond the range of `i64`.
    Uint(u64),
    /// A number that is not an integer.
    Float(f64),
    /// A string, including timestamps (RFC 3339), quantities, durations, and bytes (base64).
    String(Cow<'a, str>),
    /// An object or a list.
    Fragment(Fragment<'a>),
}

/// An object or a list within an object, still encoded.
#[derive(Clone)]
pub struct Fragment<'a>(pub(super) FragmentSource<'a>);

/// Omits the content, which may be that of a Secret.
impl std::fmt::Debug for Fragment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fragment").finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub(super) enum FragmentSource<'a> {
    Json(&'a [u8]),
    Message {
        message: &'static Message,
        bytes: &'a [u8],
    },
    /// The elements are the fields `number` of the message `bytes`.
    List {
        bytes: &'a [u8],
        number: u32,
        scalar: Scalar,
    },
    /// The entries are the fields `number` of the message `bytes`.
    Map {
        bytes: &'a [u8],
        number: u32,
        scalar: Scalar,
    },
}

// === impl FieldValue ===

impl<'a> FieldValue<'a> {
    /// The value as text, for an index: strings unchanged, numbers and booleans printed; `None` for `null`, objects
    /// and lists.
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::String(text) => Some(text),
            Self::Bool(value) => Some(Cow::Borrowed(if value { "true" } else { "false" })),
            Self::Int(value) => Some(Cow::Owned(value.to_string())),
            Self::Uint(value) => Some(Cow::Owned(value.to_string())),
            // As JSON prints it.
            Self::Float(value) => Some(Cow::Owned(serde_json::Value::from(value).to_string())),
            Self::Null | Self::Fragment(_) => None,
        }
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// Like [`Fragment::to_value`].
    pub fn to_value(&self) -> Result<serde_json::Value> {
        Ok(match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Uint(value) => (*value).into(),
            Self::Float(value) => (*value).into(),
            Self::String(text) => (**text).into(),
            Self::Fragment(fragment) => fragment.to_value()?,
        })
    }

    pub(super) fn from_json(value: Value<'a>) -> Result<Self> {
        Ok(match value.kind()? {
            JsonType::Null => Self::Null,
            JsonType::Bool => Self::Bool(value.as_bool()?.unwrap_or_default()),
            JsonType::String => Self::String(value.as_string()?.unwrap_or_default()),
            JsonType::Array | JsonType::Object => {
                Self::Fragment(Fragment(FragmentSource::Json(value.bytes())))
            }
            JsonType::Number => Self::number(value.as_number()?.unwrap_or_default())?,
        })
    }

    /// Parses a number like serde_json.
    fn number(text: &str) -> Result<Self> {
        if let (Ok(value), false) = (text.parse(), text == "-0") {
            return Ok(Self::Int(value));
        }
        if let Ok(value) = text.parse() {
            return Ok(Self::Uint(value));
        }
        match text.parse() {
            Ok(value) if f64::is_finite(value) => Ok(Self::Float(value)),
            _ => Err(Error::Value(format!("the number {text} is out of range"))),
        }
    }

    /// Go prints a whole number without a fraction.
    pub(super) fn from_float(value: f64) -> Result<Self> {
        const WHOLE: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
        if value.trunc() == value && WHOLE.contains(&value) && (value != 0.0 || value.is_sign_positive()) {
            Ok(Self::Int(value as i64))
        } else if value.is_finite() {
            Ok(Self::Float(value))
        } else {
            Err(Error::Value(format!("{value} cannot be represented in JSON")))
        }
    }

    pub(super) fn from_unsigned(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Uint(value), Self::Int)
    }
}

// === impl Fragment ===

impl Fragment<'_> {
    /// Decodes the fragment: an object or an array.
    ///
    /// # Errors
    /// If its bytes are malformed; in protobuf, also if it contains fields that are not in the schema table.
    pub fn to_value(&self) -> Result<serde_json::Value> {
        match self.0 {
            FragmentSource::Json(text) => {
                serde_json::from_slice(text).map_err(|error| Error::Value(format!("malformed JSON: {error}")))
            }
            FragmentSource::Message { message, bytes } => {
                Deserializer::new(bytes, message).unknown_fields(UnknownFields::Reject).read()
            }
            FragmentSource::List { bytes, number, scalar } => {
                Items::new(bytes, number, scalar).map(|item| json_value(item?, scalar)?.to_value()).collect()
            }
            FragmentSource::Map { bytes, number, scalar } => Items::new(bytes, number, scalar)
                .map(|item| {
                    let (key, value) = entry(item?.bytes()?, scalar)?;
                    Ok((key.to_owned(), json_value(value, scalar)?.to_value()?))
                })
                .collect(),
        }
    }
}

impl<'a> Fragment<'a> {
    pub(super) fn message(message: &'static Message, bytes: &'a [u8]) -> FieldValue<'a> {
        FieldValue::Fragment(Self(FragmentSource::Message { message, bytes }))
    }

    pub(super) fn list(bytes: &'a [u8], number: u32, scalar: Scalar) -> FieldValue<'a> {
        FieldValue::Fragment(Self(FragmentSource::List { bytes, number, scalar }))
    }

    pub(super) fn map(bytes: &'a [u8], number: u32, scalar: Scalar) -> FieldValue<'a> {
        FieldValue::Fragment(Self(FragmentSource::Map { bytes, number, scalar }))
    }
}
