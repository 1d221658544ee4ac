//! A member's name, which can take several serde forms but must be a string.

use serde::Serialize;
use serde::ser::{Impossible, Serializer};

use crate::error::{Error, Result};

/// Passes a name on without storing it.
pub(super) struct Name<F>(pub(super) F);

/// The value as a string, if it is one.
pub(super) fn named<T: Serialize + ?Sized>(value: &T) -> Result<Option<String>> {
    let mut text = None;
    value.serialize(Name(|name: &str| {
        text = Some(name.to_owned());
        Ok(())
    }))?;
    Ok(text)
}

impl<F: FnOnce(&str) -> Result<()>> Name<F> {
    fn no<T>(self) -> Result<T> {
        Err(Error::Value("expected a string".to_owned()))
    }
}

impl<F: FnOnce(&str) -> Result<()>> Serializer for Name<F> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Impossible<(), Error>;
    type SerializeTuple = Impossible<(), Error>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Impossible<(), Error>;
    type SerializeStruct = Impossible<(), Error>;
    type SerializeStructVariant = Impossible<(), Error>;

    fn serialize_str(self, value: &str) -> Result<()> {
        self.0(value)
    }

    fn serialize_char(self, value: char) -> Result<()> {
        self.0(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<()> {
        self.0(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    /// No name; only where it may be missing.
    fn serialize_none(self) -> Result<()> {
        Ok(())
    }

    fn serialize_unit(self) -> Result<()> {
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<()> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<()> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<()> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<()> {
        self.0(&value.to_string())
    }

    fn serialize_u8(self, value: u8) -> Result<()> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<()> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<()> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<()> {
        self.0(&value.to_string())
    }

    fn serialize_bool(self, value: bool) -> Result<()> {
        self.0(if value { "true" } else { "false" })
    }

    fn serialize_f32(self, _: f32) -> Result<()> {
        self.no()
    }

    fn serialize_f64(self, _: f64) -> Result<()> {
        self.no()
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<()> {
        self.no()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        self.no()
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<()> {
        self.no()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq> {
        self.no()
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple> {
        self.no()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct> {
        self.no()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        self.no()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap> {
        self.no()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct> {
        self.no()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant> {
        self.no()
    }
}
