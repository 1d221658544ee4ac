//! The read position in one message, and the next value.
//!
//! Implements Go's rules for JSON: skips empty fields that JSON omits, and adds absent fields that JSON shows. The
//! next value is stored in place and deserializers point to it, because serde passes a deserializer through three or
//! four functions per value, and copying it would cost more than reading.

use super::cursor::{Cursor, FieldTag, is_singular};
use super::{Context, shape};
use crate::error::{Error, Result};
use crate::limits::Limit;
use crate::proto::WireValue;
use crate::schema::{Cardinality, Field, Message, Scalar, Shape};

/// Maximum number of messages around an inlined one. The table's deepest is `NamedRuleWithOperations`.
const OUTER_MAX: usize = 2;

/// A message being read.
pub(super) struct Level<'c, 'de> {
    pub(super) context: &'c Context<'de>,
    frame: Frame<'de>,
    /// Messages that `frame` is inlined into, outermost first.
    outer: [Option<Frame<'de>>; OUTER_MAX],
    /// Nesting depth of this message's members.
    depth: u32,
    /// Nesting depth of the next value, which may be an element of a member.
    pub(super) value_depth: u32,
    type_meta: TypeMember,
    /// The kind of the next value.
    pub(super) what: What,
    /// The next value; for a list or map, its first element.
    pub(super) raw: WireValue<'de>,
}

/// The kind of a value.
#[derive(Clone, Copy)]
pub(super) enum What {
    Null,
    Scalar(Scalar),
    Message(&'static Message),
    /// The outermost message, or one in its own envelope: it shows apiVersion and kind.
    Root(&'static Message),
    /// A repeated field: its number and element type.
    List(u32, Scalar),
    /// A repeated field of map entries: its number and value type.
    Map(u32, Scalar),
}

/// The next member of the type metadata.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeMember {
    ApiVersion,
    Kind,
    Done,
}

/// The read position in the fields of a message.
#[derive(Clone, Copy)]
struct Frame<'de> {
    message: &'static Message,
    cursor: Cursor<'de>,
    /// Number of the last field read.
    last: u32,
    /// Index of the first field not handled yet.
    next: u16,
    /// How many of the fields shown when absent have been handled.
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
    /// A single value without a surrounding message.
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

    /// Enters a message whose members are at `depth`.
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

    /// The name of the next member; the next value becomes that member's.
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

    /// Reads the field with this tag. `false` if it belongs to a list that was not read to its end.
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

    /// Advances to the next element of the current list or map; it becomes the next value.
    #[inline]
    pub(super) fn next_of(&mut self, number: u32) -> bool {
        self.frame.cursor.next_of(number, &mut self.raw)
    }

    /// The number of consecutive elements.
    pub(super) fn count(&self, number: u32) -> usize {
        self.frame.cursor.count(number)
    }

    /// Skips fields before those with this number.
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

    /// Sets the kind of the next value; `false` if JSON omits it.
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

    /// Makes an absent field that JSON shows the next value: `null` if Go has nil, otherwise zero.
    fn absent(&mut self, field: &'static Field) {
        let is_nil =
            field.pointer || field.ty.scalar == Scalar::Bytes || field.ty.cardinality != Cardinality::One;
        self.what = if is_nil { What::Null } else { What::single(self.context, field.ty.scalar) };
        self.raw = WireValue::zero(field.ty.scalar);
        self.value_depth = self.depth;
    }

    /// Continues with the fields of an inlined message.
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

    /// Returns to the message that the current one is inlined into.
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

    /// The next field that is shown when absent and precedes the field found.
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

/// Go's protobuf writes non-pointers even if empty or zero; JSON omits them if so marked.
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
