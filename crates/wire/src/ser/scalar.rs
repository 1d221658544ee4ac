//! Single values in their protobuf form.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::proto::Writer;
use crate::schema::{Scalar, Shape};
use crate::text::time::Timestamp;
use crate::text::{duration, quantity};

/// The content of a message that is a string in JSON.
pub(super) enum Written<'a> {
    Nothing,
    Time { seconds: i64, nanos: u32 },
    Duration(i64),
    Quantity(Cow<'a, str>),
    Text(&'a str),
}

/// The varint of an integer, if it is in the type's range.
pub(super) fn integer(scalar: Scalar, value: i128) -> Option<u64> {
    match scalar {
        Scalar::Int32 => i32::try_from(value).ok().map(|value| i64::from(value) as u64),
        Scalar::Int64 => i64::try_from(value).ok().map(|value| value as u64),
        Scalar::Uint32 => u32::try_from(value).ok().map(u64::from),
        Scalar::Uint64 => u64::try_from(value).ok(),
        _ => None,
    }
}

pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Parses a string as a message of this shape.
pub(super) fn text(shape: Shape, text: &str) -> Option<Written<'_>> {
    let time = |precision: u32| {
        let instant = Timestamp::parse(text)?;
        let nanos = instant.nanos / precision * precision;
        let is_zero = instant.seconds == Timestamp::ZERO.seconds && instant.nanos == 0;
        Some(if is_zero { Written::Nothing } else { Written::Time { seconds: instant.seconds, nanos } })
    };
    match shape {
        Shape::Time => time(1_000_000_000),
        Shape::MicroTime => time(1_000),
        Shape::Duration => duration::parse(text).map(Written::Duration),
        Shape::Quantity => quantity::canonical(text).map(Written::Quantity),
        Shape::IntOrString => Some(Written::Text(text)),
        _ => None,
    }
}

/// `{type = 1, intVal = 2, strVal = 3}`; Go writes all three.
pub(super) fn int_or_string(int: u64, text: Option<&str>, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.varint_field(1, u64::from(text.is_some()));
    writer.varint_field(2, int);
    writer.bytes_field(3, text.unwrap_or_default().as_bytes());
}

// === impl Written ===

impl Written<'_> {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        match self {
            Self::Nothing => {}
            Self::Time { seconds, nanos } => {
                writer.varint_field(1, seconds as u64);
                writer.varint_field(2, u64::from(nanos));
            }
            Self::Duration(nanos) => writer.varint_field(1, nanos as u64),
            Self::Quantity(text) => writer.bytes_field(1, text.as_bytes()),
            Self::Text(text) => int_or_string(0, Some(text), out),
        }
    }
}
