//! Writes the members of an object to the fields of a message, by name.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct};

use super::UnknownFields;
use super::encoder::{Encoder, Open, Path};
use super::entries::Entries;
use super::key::{Name, named};
use super::slot::Slot;
use super::value::write;
use crate::error::{Error, Result};
use crate::schema::{Field, Message};

/// Members of an object that becomes a message or a map.
pub(super) enum ObjectSerializer<'e, 'o> {
    Object(Object<'e, 'o>),
    Entries(Entries<'e, 'o>),
}

/// A message being written.
pub(super) struct Object<'e, 'o> {
    encoder: &'e mut Encoder<'o>,
    message: &'static Message,
    /// The message's field number, if it is not the outermost.
    number: Option<u32>,
    /// The message around it: its field, and where it starts.
    wrap: Option<(u32, usize)>,
    open: Open,
    /// Where the last search for a name ended.
    names: usize,
    /// The place for the value of the most recent key.
    place: MemberPlace,
}

/// Where a member goes.
#[derive(Clone, Copy)]
enum MemberPlace {
    Field(&'static Field, Path),
    ApiVersion,
    Kind,
    Nowhere,
}

// === impl ObjectSerializer ===

impl ObjectSerializer<'_, '_> {
    pub(super) fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        match self {
            Self::Object(object) => {
                let place = object.place(name)?;
                object.value(place, value)
            }
            Self::Entries(entries) => {
                entries.key(name);
                entries.value(value)
            }
        }
    }

    pub(super) fn close(self) {
        match self {
            Self::Object(object) => object.close(),
            Self::Entries(entries) => entries.close(),
        }
    }
}

impl SerializeStruct for ObjectSerializer<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
        self.member(name, value)
    }

    fn end(self) -> Result<()> {
        self.close();
        Ok(())
    }
}

impl SerializeMap for ObjectSerializer<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        key.serialize(Name(|name: &str| match self {
            Self::Object(object) => {
                object.place = object.place(name)?;
                Ok(())
            }
            Self::Entries(entries) => {
                entries.key(name);
                Ok(())
            }
        }))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        match self {
            Self::Object(object) => {
                let place = object.place;
                object.value(place, value)
            }
            Self::Entries(entries) => entries.value(value),
        }
    }

    fn end(self) -> Result<()> {
        self.close();
        Ok(())
    }
}

// === impl Object ===

impl<'e, 'o> Object<'e, 'o> {
    pub(super) fn open(
        encoder: &'e mut Encoder<'o>,
        message: &'static Message,
        number: Option<u32>,
        wrap: Option<(u32, usize)>,
    ) -> Result<Self> {
        let open = encoder.open_message()?;
        Ok(Self { encoder, message, number, wrap, open, names: 0, place: MemberPlace::Nowhere })
    }

    /// Finds the place of a member, through inlined messages if necessary.
    fn place(&mut self, name: &str) -> Result<MemberPlace> {
        let mut path = Path::default();
        let (mut message, mut found) = (self.message, self.message.index_towards(name, &mut self.names));
        for step in &mut path {
            let Some(at) = found else { break };
            let field = &message.fields[at];
            *step = at as u16 + 1;
            if !field.inline {
                return Ok(MemberPlace::Field(field, path));
            }
            let Some(inner) = field.ty.message(self.encoder.schema) else { break };
            (message, found) = (inner, inner.index_towards(name, &mut 0));
        }
        match name {
            "apiVersion" if self.message.type_meta => Ok(MemberPlace::ApiVersion),
            "kind" if self.message.type_meta => Ok(MemberPlace::Kind),
            _ if self.encoder.unknown == UnknownFields::Skip => Ok(MemberPlace::Nowhere),
            _ => Err(Error::Value(format!("{} has no field `{name}`", self.message.name))),
        }
    }

    fn value<T: Serialize + ?Sized>(&mut self, place: MemberPlace, value: &T) -> Result<()> {
        let outermost = self.number.is_none();
        match place {
            MemberPlace::Field(field, path) => {
                let start = self.encoder.out.len();
                write(self.encoder, Slot::field(self.encoder.schema, field), value)
                    .map_err(|error| within(error, field))?;
                self.encoder.piece(path, start);
            }
            MemberPlace::ApiVersion if outermost => self.encoder.api_version = named(value)?,
            MemberPlace::Kind if outermost => self.encoder.kind = named(value)?,
            MemberPlace::ApiVersion | MemberPlace::Kind | MemberPlace::Nowhere => {}
        }
        Ok(())
    }

    fn close(self) {
        self.encoder.close_message(self.open, self.message, self.number);
        if let Some((number, start)) = self.wrap {
            self.encoder.wrap(number, start);
        }
    }
}

/// Adds the path of the value to the error: `spec.containers: …`.
fn within(error: Error, field: &Field) -> Error {
    match error {
        Error::Value(why) => Error::Value(match why.split_once(": ") {
            Some((path, why)) if path.starts_with('`') => format!("`{}.{}: {why}", field.name, &path[1..]),
            _ => format!("`{}`: {why}", field.name),
        }),
        error => error,
    }
}
