//! The elements of a list: one field per element. Kubernetes packs nothing.

use serde::Serialize;
use serde::ser::{SerializeSeq, SerializeTuple, SerializeTupleStruct};

use super::encoder::Encoder;
use super::slot::Slot;
use super::value::write;
use crate::error::{Error, Result};
use crate::schema::Scalar;

/// A list being written.
pub(super) struct List<'e, 'o> {
    encoder: &'e mut Encoder<'o>,
    slot: Slot,
    /// The message around it: its field, and where it starts.
    wrap: Option<(u32, usize)>,
}

impl<'e, 'o> List<'e, 'o> {
    pub(super) fn open(
        encoder: &'e mut Encoder<'o>,
        number: u32,
        scalar: Scalar,
        wrap: Option<u32>,
    ) -> Result<Self> {
        encoder.enter()?;
        let slot = Slot::element(encoder.schema, scalar, number);
        let wrap = wrap.map(|number| (number, encoder.out.len()));
        Ok(Self { encoder, slot, wrap })
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        write(self.encoder, self.slot, value)
    }

    fn close(self) {
        self.encoder.depth -= 1;
        if let Some((number, start)) = self.wrap {
            self.encoder.wrap(number, start);
        }
    }
}

impl SerializeSeq for List<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.element(value)
    }

    fn end(self) -> Result<()> {
        self.close();
        Ok(())
    }
}

impl SerializeTuple for List<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.element(value)
    }

    fn end(self) -> Result<()> {
        self.close();
        Ok(())
    }
}

impl SerializeTupleStruct for List<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.element(value)
    }

    fn end(self) -> Result<()> {
        self.close();
        Ok(())
    }
}
