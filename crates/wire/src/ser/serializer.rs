//! The serde serializer of a value: reduces serde's data model to JSON's.

use serde::Serialize;
use serde::ser::{Impossible, Serializer};

use super::list::List;
use super::object::ObjectSerializer;
use super::slot::Target;
use super::value::ValueSerializer;
use crate::error::{Error, Result};
use crate::proto::Writer;
use crate::schema::{Scalar, Shape};

impl<'e, 'o> Serializer for ValueSerializer<'e, 'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'e, 'o>;
    type SerializeTuple = List<'e, 'o>;
    type SerializeTupleStruct = List<'e, 'o>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = ObjectSerializer<'e, 'o>;
    type SerializeStruct = ObjectSerializer<'e, 'o>;
    type SerializeStructVariant = Impossible<(), Error>;

    fn serialize_bool(self, value: bool) -> Result<()> {
        match self.slot.target {
            Target::Scalar(Scalar::Bool) => {
                self.scalar(|encoder, number| encoder.writer().varint_field(number, u64::from(value)))
            }
            Target::Message(message) if message.shape == Shape::SchemaOrBool => {
                self.message(|out| Writer::new(out).varint_field(1, u64::from(value)))
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

    fn serialize_map(self, _: Option<usize>) -> Result<ObjectSerializer<'e, 'o>> {
        self.members()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<ObjectSerializer<'e, 'o>> {
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
