//! The members of a JSON object: the fields of a message, or the entries of a map.
//!
//! One [`MapAccess`] for both, because every visitor is compiled once for each; k8s-openapi has some seven hundred.
//! This is where Go's rules of what JSON shows are kept: fields that are empty though present are passed over, fields
//! that are absent though JSON shows them are put in.

use serde::de::{DeserializeSeed, MapAccess};

use super::cursor::{Cursor, Raw};
use super::key::Key;
use super::shape;
use super::value::{Content, Value};
use super::{Context, TypeMeta, UnknownFields};
use crate::error::{Error, Result};
use crate::schema::{Cardinality, Field, Message, Scalar, Shape};

/// Most messages inlined into one another. The table's deepest is `NamedRuleWithOperations`, with two.
const INLINE_MAX: usize = 3;

/// Members of a JSON object.
pub(super) enum Members<'a, 'de> {
    Fields(Fields<'a, 'de>),
    Entries(Entries<'a, 'de>),
}

/// The fields of a message.
pub(super) struct Fields<'a, 'de> {
    context: &'a Context,
    depth: usize,
    type_meta: Option<TypeMeta<'de>>,
    frame: Frame<'de>,
    /// Messages that `frame` is inlined into, outermost first.
    outer: [Option<Frame<'de>>; INLINE_MAX],
    pending: Pending<'de>,
}

/// How far a message has been read.
struct Frame<'de> {
    message: &'static Message,
    cursor: Cursor<'de>,
    /// Index of the first field of the message that was not dealt with yet.
    next: usize,
    /// The field read last: its index and value, while fields before it are missing.
    ahead: Option<(usize, Raw<'de>)>,
    /// Whether the cursor may have more.
    open: bool,
}

/// The value whose key was given last.
enum Pending<'de> {
    Nothing,
    Null,
    Text(&'de str),
    Field(&'static Field, Raw<'de>),
}

/// The entries of a map: messages `{key = 1, value = 2}`.
pub(super) struct Entries<'a, 'de> {
    pub(super) context: &'a Context,
    pub(super) depth: usize,
    pub(super) cursor: &'a mut Cursor<'de>,
    pub(super) number: u32,
    pub(super) scalar: Scalar,
    /// The first entry, read already.
    pub(super) first: Option<Raw<'de>>,
    /// The value of the entry whose key was given last.
    pub(super) value: Option<Raw<'de>>,
}

// === impl Members ===

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let key = match self {
            Self::Fields(fields) => fields.next_key()?,
            Self::Entries(entries) => entries.next_key()?,
        };
        key.map(|key| seed.deserialize(Key(key))).transpose()
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        seed.deserialize(match self {
            Self::Fields(fields) => fields.value()?,
            Self::Entries(entries) => entries.value()?,
        })
    }

    fn size_hint(&self) -> Option<usize> {
        match self {
            // How many fields will be shown is not known before they are read.
            Self::Fields(_) => None,
            Self::Entries(entries) => {
                Some(usize::from(entries.first.is_some()) + entries.cursor.count(entries.number))
            }
        }
    }
}

// === impl Fields ===

impl<'a, 'de> Fields<'a, 'de> {
    pub(super) fn open(
        context: &'a Context,
        depth: usize,
        message: &'static Message,
        raw: &Raw<'de>,
        type_meta: Option<TypeMeta<'de>>,
    ) -> Result<Self> {
        let frame = Frame::open(message, raw)?;
        Ok(Self { context, depth, type_meta, frame, outer: [const { None }; 3], pending: Pending::Nothing })
    }

    fn next_key(&mut self) -> Result<Option<&'de str>> {
        if let Some(type_meta) = &mut self.type_meta {
            if let Some((name, text)) = type_meta.next() {
                self.pending = Pending::Text(text);
                return Ok(Some(name));
            }
            self.type_meta = None;
        }
        loop {
            self.frame.read_ahead(self.context)?;
            let fields = &self.frame.message.fields;
            let next = self.frame.next;
            let found = self.frame.ahead.as_ref().map_or(fields.len(), |(at, _)| *at);
            if next < found {
                self.frame.next += 1;
                let field = &fields[next];
                if field.inline {
                    self.enter(field, &Raw::Bytes(&[]))?;
                } else if !omitted_when_absent(field, self.context) {
                    self.pending = absent(field);
                    return Ok(Some(field.name));
                }
            } else if let Some((at, raw)) = self.frame.ahead.take() {
                self.frame.next = at + 1;
                let field = &fields[at];
                if field.inline {
                    self.enter(field, &raw)?;
                } else if !omitted_when_present(field, &raw, self.context)? {
                    self.pending = Pending::Field(field, raw);
                    return Ok(Some(field.name));
                }
            } else if !self.leave() {
                return Ok(None);
            }
        }
    }

    #[inline]
    fn value(&mut self) -> Result<Value<'_, 'de>> {
        let content = match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Null => Content::Null,
            Pending::Text(text) => Content::Text(text),
            Pending::Field(field, raw) => {
                let scalar = field.ty.scalar;
                let (cursor, number) = (&mut self.frame.cursor, field.number);
                match field.ty.cardinality {
                    Cardinality::One => Content::of(self.context, scalar, raw),
                    Cardinality::List => Content::List { cursor, number, scalar, first: raw },
                    Cardinality::Map => Content::Map { cursor, number, scalar, first: raw },
                }
            }
            Pending::Nothing => return Err(Error::Value("a value was asked for before its key".to_owned())),
        };
        Ok(Value { context: self.context, depth: self.depth, content })
    }

    /// Goes on with the fields of an inlined message.
    fn enter(&mut self, field: &'static Field, raw: &Raw<'de>) -> Result<()> {
        let message = field.ty.message(self.context.schema);
        let slot = self.outer.iter_mut().find(|slot| slot.is_none());
        let (Some(message), Some(slot)) = (message, slot) else {
            return Err(Error::Value(format!("field {} of {} cannot be inlined", field.number, self.frame.message.name)));
        };
        *slot = Some(std::mem::replace(&mut self.frame, Frame::open(message, raw)?));
        Ok(())
    }

    /// Goes back to the message that the present one is inlined into.
    fn leave(&mut self) -> bool {
        match self.outer.iter_mut().rev().find_map(Option::take) {
            Some(frame) => {
                self.frame = frame;
                true
            }
            None => false,
        }
    }
}

// === impl Frame ===

impl<'de> Frame<'de> {
    fn open(message: &'static Message, raw: &Raw<'de>) -> Result<Self> {
        Ok(Self { message, cursor: Cursor::open(raw, message)?, next: 0, ahead: None, open: true })
    }

    /// Sees to it that `ahead` holds the next known field, if there is one.
    #[inline]
    fn read_ahead(&mut self, context: &Context) -> Result<()> {
        while self.ahead.is_none() && self.open {
            match self.cursor.next()? {
                None => self.open = false,
                Some((number, raw)) => match index(self.message, number) {
                    // What is left of a list that nobody wanted to read to its end is passed over.
                    Some(at) if at < self.next => {}
                    Some(at) => self.ahead = Some((at, raw)),
                    None => unknown(self.message, number, context)?,
                },
            }
        }
        Ok(())
    }
}

// === impl Entries ===

impl<'de> Entries<'_, 'de> {
    fn next_key(&mut self) -> Result<Option<&'de str>> {
        let entry = match self.first.take() {
            Some(first) => first,
            None => match self.cursor.next_of(self.number)? {
                Some(entry) => entry,
                None => return Ok(None),
            },
        };
        let (mut key, mut value) = ("", None);
        let mut reader = crate::proto::Reader::new(entry.bytes()?);
        while let Some(tag) = reader.tag()? {
            match tag.number {
                1 => key = reader.expect_string(tag)?,
                2 => value = Some(Raw::read(&mut reader, tag.wire_type)?),
                _ => reader.skip(tag.wire_type)?,
            }
        }
        self.value = Some(value.unwrap_or_else(|| Raw::zero(self.scalar)));
        Ok(Some(key))
    }

    fn value(&mut self) -> Result<Value<'_, 'de>> {
        let raw = self.value.take().unwrap_or_else(|| Raw::zero(self.scalar));
        let content = Content::of(self.context, self.scalar, raw);
        Ok(Value { context: self.context, depth: self.depth, content })
    }
}

#[inline]
fn index(message: &Message, number: u32) -> Option<usize> {
    let guess = (number as usize).wrapping_sub(1);
    match message.fields.get(guess) {
        Some(field) if field.number == number => Some(guess),
        _ => message.fields.binary_search_by_key(&number, |field| field.number).ok(),
    }
}

fn unknown(message: &'static Message, number: u32, context: &Context) -> Result<()> {
    match context.unknown {
        UnknownFields::Skip => Ok(()),
        UnknownFields::Reject => Err(Error::UnknownField {
            message: message.name,
            number,
            table: context.schema.kubernetes_version(),
        }),
    }
}

/// Go leaves out what is nil or zero and marked so. A struct is never empty.
#[inline]
fn omitted_when_absent(field: &Field, context: &Context) -> bool {
    field.omit_zero || (field.omit_empty && !is_struct(field, context))
}

fn is_struct(field: &Field, context: &Context) -> bool {
    !field.pointer
        && field.ty.cardinality == Cardinality::One
        && field.ty.message(context.schema).is_some_and(|message| message.shape != Shape::StringList)
}

fn absent<'de>(field: &'static Field) -> Pending<'de> {
    match field.ty.cardinality {
        Cardinality::One if !field.pointer && field.ty.scalar != Scalar::Bytes => {
            Pending::Field(field, Raw::zero(field.ty.scalar))
        }
        _ => Pending::Null,
    }
}

/// Go writes what is no pointer even when it is empty or zero; JSON leaves it out if marked so.
#[inline]
fn omitted_when_present(field: &'static Field, raw: &Raw<'_>, context: &Context) -> Result<bool> {
    if !(field.omit_empty || field.omit_zero) || field.ty.cardinality != Cardinality::One {
        return Ok(false);
    }
    match field.ty.scalar {
        Scalar::Message(at) => {
            let message = context.schema.message_at(at);
            match message.shape {
                Shape::StringList => Ok(field.omit_empty && shape::is_null(message, raw)),
                _ => Ok(field.omit_zero && !field.pointer && shape::is_zero(context, message, raw)?),
            }
        }
        _ => Ok(!field.pointer && raw.is_zero()),
    }
}
