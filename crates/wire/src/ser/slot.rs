//! The targets that values are written to, as described by the table.

use crate::schema::{Cardinality, Field, Message, Scalar, Schema};

/// The target that a value is written to.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) target: Target,
    pub(super) place: Place,
}

/// The type of a target.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Scalar(Scalar),
    Message(&'static Message),
    List(Scalar),
    Map(Scalar),
}

/// The position of a target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The message itself, without a tag.
    Root,
    /// A field: `null` omits it, or writes zero.
    Field(u32),
    /// An element of a list or a value of a map: `null` is the zero value.
    Element(u32),
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
    pub(super) fn single(schema: &'static Schema, scalar: Scalar) -> Self {
        match scalar {
            Scalar::Message(at) => Self::Message(schema.message_at(at)),
            scalar => Self::Scalar(scalar),
        }
    }

    pub(super) fn name(self) -> &'static str {
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
