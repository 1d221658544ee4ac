//! One value in wire form.

use super::{Reader, WireType};
use crate::error::{Error, Result};
use crate::schema::Scalar;

/// A field's value in wire form.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WireValue<'a> {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    pub(crate) const NOTHING: Self = Self::Varint(0);

    /// The zero value of a type, which an absent field has.
    #[inline]
    pub(crate) fn zero(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 => Self::Varint(0),
            Scalar::Float => Self::Fixed32(0),
            Scalar::Double => Self::Fixed64(0),
            Scalar::String | Scalar::Bytes | Scalar::Message(_) => Self::Bytes(&[]),
        }
    }

    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>, wire_type: WireType) -> Result<Self> {
        Ok(match wire_type {
            WireType::Len => Self::Bytes(reader.bytes()?),
            WireType::Varint => Self::Varint(reader.varint()?),
            WireType::Fixed64 => Self::Fixed64(reader.fixed64()?),
            WireType::Fixed32 => Self::Fixed32(reader.fixed32()?),
        })
    }

    #[inline]
    pub(crate) fn varint(self) -> Result<u64> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err(mismatch("expected an integer")),
        }
    }

    #[inline]
    pub(crate) fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(mismatch("expected a string or a message")),
        }
    }

    #[inline]
    pub(crate) fn str(self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| mismatch("string is not UTF-8"))
    }

    pub(crate) fn float(self) -> Result<f64> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            // Use the shortest decimal text, which is what Go's JSON would contain.
            Self::Fixed32(bits) => {
                let value = f32::from_bits(bits);
                Ok(value.to_string().parse().unwrap_or(f64::from(value)))
            }
            _ => Err(mismatch("expected a float")),
        }
    }

    /// Whether this is the zero value of a type other than a message.
    #[inline]
    pub(crate) fn is_zero(self) -> bool {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => value == 0,
            Self::Fixed32(value) => value == 0,
            Self::Bytes(bytes) => bytes.is_empty(),
        }
    }
}

/// The wire type of list elements that may be packed: many in one field. Go never packs them, other writers may.
#[inline]
pub(crate) fn packable(scalar: Scalar) -> Option<WireType> {
    match WireValue::zero(scalar) {
        WireValue::Varint(_) => Some(WireType::Varint),
        WireValue::Fixed32(_) => Some(WireType::Fixed32),
        WireValue::Fixed64(_) => Some(WireType::Fixed64),
        WireValue::Bytes(_) => None,
    }
}

#[cold]
fn mismatch(why: &'static str) -> Error {
    Error::malformed("protobuf field", 0, why)
}
