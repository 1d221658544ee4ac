//! How far one message has been read, and the value that is to be read next.
//!
//! This is where Go's rules of what JSON shows are kept: fields that are empty though present are passed over, fields
//! that are absent though JSON shows them are put in. The next value is kept in place and deserializers are a pointer to
//! it, since serde hands a deserializer through three or four functions for each value, and copies cost more than reading.

use super::cursor::{Cursor, FieldTag, is_singular};
use super::{Context, shape};
use crate::error::{Error, Result};
use crate::limits::Limit;
use crate::proto::WireValue;
use crate::schema::{Cardinality, Field, Message, Scalar, Shape};

/// Most messages around one that is inlined. The table's deepest is `NamedRuleWithOperations`.
const OUTER_MAX: usize = 2;

/// A message that is being read.
pub(super) struct Level<'c, 'de> {
    pub(super) context: &'c Context<'de>,
    frame: Frame<'de>,
    /// Messages that `frame` is inlined into, outermost first.
    outer: [Option<Frame<'de>>; OUTER_MAX],
    /// How many objects and lists the members of this message stand in.
    depth: u32,
    /// The same for the next value, which may be an element of a member.
    pub(super) value_depth: u32,
    type_meta: TypeMember,
    /// What the next value is.
    pub(super) what: What,
    /// The next value; of a list or map the first element.
    pub(super) raw: WireValue<'de>,
}

/// What a value is.
#[derive(Clone, Copy)]
pub(super) enum What {
    Null,
    Scalar(Scalar),
    Message(&'static Message),
    /// The outermost message, or one in an envelope of its own: it shows apiVersion and kind.
    Root(&'static Message),
    /// A repeated field: its number, and the type of its elements.
    List(u32, Scalar),
    /// A repeated field of entries: its number, and the type of the values.
    Map(u32, Scalar),
}

/// Which member of the type comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeMember {
    ApiVersion,
    Kind,
    Done,
}

/// How far the fields of a message have been read.
#[derive(Clone, Copy)]
struct Frame<'de> {
    message: &'static Message,
    cursor: Cursor<'de>,
    /// Number of the last field that was read.
    last: u32,
    /// Index of the first field of the message that was not dealt with yet.
    next: u16,
    /// How many of the fields that are shown when absent were dealt with.
    shown: u16,
}

// === impl What ===

impl What {
    /// A single value of a type.
    #[inline]
    pub(super) fn single(context: &Context<'_>, scalar: Scalar) -> Self {
        match scalar {
            Scalar::Message(at) => Self::Message(context.schema.message_at(at)),
            scalar => Self::Scalar(scalar),
        }
    }
}

// === impl Level ===

impl<'c, 'de> Level<'c, 'de> {
    /// Holds one value and no message around it.
    pub(super) fn of(
        context: &'c Context<'de>,
        message: &'static Message,
        what: What,
        raw: WireValue<'de>,
    ) -> Self {
        let frame = Frame::new(message, Cursor(&[]));
        let (outer, type_meta) = ([None; OUTER_MAX], TypeMember::Done);
        Self { context, frame, outer, depth: 0, value_depth: 0, type_meta, what, raw }
    }

    /// Goes into a message whose members stand at `depth`.
    #[inline(always)] // built where it is needed: it is large enough for a copy to be felt
    pub(super) fn open(
        context: &'c Context<'de>,
        depth: u32,
        message: &'static Message,
        cursor: Cursor<'de>,
        type_meta: TypeMember,
    ) -> Self {
        Self {
            context,
            frame: Frame::new(message, cursor),
            outer: [None; OUTER_MAX],
            depth,
            value_depth: depth,
            type_meta,
            what: What::Null,
            raw: WireValue::NOTHING,
        }
    }

    /// The name of the next member; its value is then the next one.
    pub(super) fn next_name(&mut self) -> Result<Option<&'de str>> {
        if self.type_meta != TypeMember::Done
            && let Some((name, text)) = self.next_of_type()
        {
            self.what = What::Scalar(Scalar::String);
            self.raw = WireValue::Bytes(text.as_bytes());
            return Ok(Some(name));
        }
        loop {
            let message = self.frame.message;
            let tag = self.frame.cursor.tag();
            let found = match tag.number() {
                0 if !self.frame.cursor.0.is_empty() => return Err(self.frame.cursor.defect()),
                0 => usize::MAX,
                number => match message.index_of(number) {
                    Some(at) => at,
                    None => {
                        self.context.unknown(message, number)?;
                        self.step(tag)?;
                        continue;
                    }
                },
            };
            if let Some(field) = self.frame.absent_before(found) {
                if field.inline {
                    self.enter(field, &[])?;
                } else {
                    self.absent(field);
                    return Ok(Some(field.name));
                }
            } else if found == usize::MAX {
                if !self.leave() {
                    return Ok(None);
                }
            } else if self.step(tag)? {
                self.frame.next = found as u16 + 1;
                let field = &message.fields[found];
                if field.inline {
                    self.enter(field, self.raw.bytes()?)?;
                } else if self.present(field)? {
                    return Ok(Some(field.name));
                }
            }
        }
    }

    /// Reads the next field, whose tag this is. `false` if it is what is left of a list that nobody wanted to read to its
    /// end.
    #[inline(always)]
    fn step(&mut self, tag: FieldTag<'de>) -> Result<bool> {
        if !self.frame.cursor.next(tag, &mut self.raw) {
            return Err(self.frame.cursor.defect());
        }
        let number = tag.number();
        let last = std::mem::replace(&mut self.frame.last, number);
        if number > last {
            return Ok(true);
        }
        if number < last || is_singular(self.frame.message, number) {
            return Err(self.context.unordered());
        }
        Ok(false)
    }

    /// The next element of the list or map that is being read; its value is then the next one.
    #[inline]
    pub(super) fn next_of(&mut self, number: u32) -> bool {
        self.frame.cursor.next_of(number, &mut self.raw)
    }

    /// How many elements come next.
    pub(super) fn count(&self, number: u32) -> usize {
        self.frame.cursor.count(number)
    }

    /// Passes over what comes before the fields with this number.
    pub(super) fn seek(&mut self, number: u32) {
        loop {
            let tag = self.frame.cursor.tag();
            if !(1..number).contains(&tag.number()) || !self.frame.cursor.next(tag, &mut self.raw) {
                break;
            }
        }
    }

    #[cold]
    fn next_of_type(&mut self) -> Option<(&'static str, &'de str)> {
        if self.type_meta == TypeMember::ApiVersion {
            self.type_meta = TypeMember::Kind;
            if !self.context.api_version.is_empty() {
                return Some(("apiVersion", self.context.api_version));
            }
        }
        self.type_meta = TypeMember::Done;
        (!self.context.kind.is_empty()).then_some(("kind", self.context.kind))
    }

    /// Says what the next value is, unless JSON does not show it.
    #[inline]
    fn present(&mut self, field: &'static Field) -> Result<bool> {
        let scalar = field.ty.scalar;
        self.what = match field.ty.cardinality {
            Cardinality::One => {
                let what = What::single(self.context, scalar);
                if (field.omit_empty || field.omit_zero) && is_omitted(field, what, self.raw, self.context)? {
                    return Ok(false);
                }
                what
            }
            Cardinality::List => What::List(field.number, scalar),
            Cardinality::Map => What::Map(field.number, scalar),
        };
        self.value_depth = self.depth;
        Ok(true)
    }

    /// Makes a field that JSON shows though it is absent the next value: `null` where Go has nil, else zero.
    fn absent(&mut self, field: &'static Field) {
        let is_nil =
            field.pointer || field.ty.scalar == Scalar::Bytes || field.ty.cardinality != Cardinality::One;
        self.what = if is_nil { What::Null } else { What::single(self.context, field.ty.scalar) };
        self.raw = WireValue::zero(field.ty.scalar);
        self.value_depth = self.depth;
    }

    /// Goes on with the fields of an inlined message.
    fn enter(&mut self, field: &'static Field, bytes: &'de [u8]) -> Result<()> {
        let message = field.ty.message(self.context.schema);
        let slot = self.outer.iter_mut().find(|slot| slot.is_none());
        let (Some(message), Some(slot)) = (message, slot) else {
            let name = self.frame.message.name;
            return Err(Error::Value(format!("field {} of {name} cannot be inlined", field.number)));
        };
        *slot = Some(std::mem::replace(&mut self.frame, Frame::new(message, Cursor(bytes))));
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
    #[inline]
    fn new(message: &'static Message, cursor: Cursor<'de>) -> Self {
        Self { message, cursor, last: 0, next: 0, shown: 0 }
    }

    /// The next field that is shown though absent, if it stands before the one that was found.
    #[inline]
    fn absent_before(&mut self, found: usize) -> Option<&'static Field> {
        while let Some(&at) = self.message.shown_when_absent.get(usize::from(self.shown)) {
            if usize::from(at) > found {
                return None;
            }
            self.shown += 1;
            if usize::from(at) < found && at >= self.next {
                self.next = at + 1;
                return self.message.fields.get(usize::from(at));
            }
        }
        None
    }
}

/// One level deeper.
#[inline]
pub(super) fn enter(context: &Context<'_>, depth: u32) -> Result<u32> {
    if depth >= context.nesting_max {
        let (found, allowed) = (depth as usize + 1, context.nesting_max as usize);
        return Err(Error::Limit { limit: Limit::Nesting, found, allowed });
    }
    Ok(depth + 1)
}

/// Go's protobuf writes what is no pointer even when it is empty or zero; JSON leaves it out if marked so.
#[inline]
fn is_omitted(field: &Field, what: What, raw: WireValue<'_>, context: &Context<'_>) -> Result<bool> {
    match what {
        What::Message(message) if message.shape == Shape::StringList => {
            Ok(field.omit_empty && shape::is_empty_list(context, message, raw))
        }
        What::Message(message) => {
            Ok(field.omit_zero && !field.pointer && shape::is_zero(context, message, raw)?)
        }
        _ => Ok(!field.pointer && raw.is_zero()),
    }
}
