//! A projection compiled for one protobuf message: names become field numbers.
//!
//! Copying makes one pass over each level. Kept fields are copied in maximal runs. A message that loses fields is
//! written after a placeholder for its length, which is filled in afterwards (it can only have become shorter).

use super::Projection;
use super::tree::{Fate, Leaf, Node};
use crate::error::Result;
use crate::proto::{Reader, varint_len};
use crate::schema::{Cardinality, Message, Schema, Shape, Type};

/// Copies the protobuf bytes of one kind without dropped fields.
#[derive(Debug)]
pub(crate) struct Plan {
    root: MessagePlan,
}

/// The actions for the fields of one message.
#[derive(Debug)]
struct MessagePlan {
    /// Fields with another action than the rest.
    fields: Vec<(u32, Action)>,
    others: Leaf,
}

#[derive(Debug)]
enum Action {
    Leaf(Leaf),
    /// The field's messages are copied by their own plan.
    Message(MessagePlan),
    /// Map entries are handled by key; `Message` plans here cover the whole entry.
    Map {
        keys: Vec<(Box<str>, Action)>,
        others: Leaf,
    },
}

/// Field 1 of every Kubernetes object is its `ObjectMeta`.
const METADATA: u32 = 1;
const OBJECT_META: &str = "k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Field numbers of the entries of every map.
const KEY: u32 = 1;
const VALUE: u32 = 2;

// === impl Plan ===

impl Plan {
    /// Compiles the projection for a message. Without a schema (`None`), only fields of `metadata` can be dropped:
    /// field 1 of every object is an `ObjectMeta`.
    pub(crate) fn new(projection: &Projection, message: Option<&'static Message>) -> Self {
        let root = match message {
            Some(message) => MessagePlan::new(projection.root(), message),
            None => {
                let mut root = MessagePlan { fields: Vec::new(), others: Leaf::Keep };
                if let (Fate::Descend(metadata), Some(object_meta)) =
                    (projection.root().member("metadata"), Schema::builtin().message(OBJECT_META))
                {
                    root.add(METADATA, Action::Message(MessagePlan::new(metadata, object_meta)));
                }
                root
            }
        };
        Self { root }
    }

    /// Appends the kept part of `body` to `out`. After an error, `out` is unchanged.
    pub(crate) fn copy(&self, body: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let before = out.len();
        out.reserve(body.len());
        self.root.copy(body, out).inspect_err(|_| out.truncate(before))
    }
}

// === impl MessagePlan ===

impl MessagePlan {
    fn new(node: &Node, message: &'static Message) -> Self {
        let mut level = Self { fields: Vec::new(), others: node.others() };
        for field in &message.fields {
            let action = match (field.inline, field.ty.message(Schema::builtin())) {
                // JSON shows its fields among those of this message, so the same node decides.
                (true, Some(inlined)) => match Self::new(node, inlined) {
                    nothing if nothing.fields.is_empty() => Action::Leaf(nothing.others),
                    level => Action::Message(level),
                },
                _ => Action::of_field(node.member(field.name), field.ty),
            };
            level.add(field.number, action);
        }
        level
    }

    fn add(&mut self, number: u32, action: Action) {
        match action {
            Action::Leaf(leaf) if leaf == self.others => {}
            // Copying field by field would not change it.
            Action::Message(MessagePlan { fields, others }) if fields.is_empty() && others == Leaf::Keep => {
                self.add(number, Action::Leaf(Leaf::Keep));
            }
            action => self.fields.push((number, action)),
        }
    }

    fn copy(&self, body: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut reader = Reader::new(body);
        // The start of the bytes that are kept but not copied yet.
        let mut run = 0;
        loop {
            let start = reader.position();
            let Some(tag) = reader.tag()? else { break };
            let action =
                self.fields.iter().find(|(number, _)| *number == tag.number).map(|(_, action)| action);
            let behind_tag = reader.position();
            match action {
                None if self.others == Leaf::Keep => reader.skip(tag.wire_type)?,
                Some(Action::Leaf(Leaf::Keep)) => reader.skip(tag.wire_type)?,
                None | Some(Action::Leaf(Leaf::Drop)) => {
                    reader.skip(tag.wire_type)?;
                    out.extend_from_slice(&body[run..start]);
                    run = reader.position();
                }
                Some(Action::Message(level)) => {
                    let message = reader.expect_bytes(tag)?;
                    out.extend_from_slice(&body[run..behind_tag]);
                    level.copy_with_length(message, out)?;
                    run = reader.position();
                }
                Some(Action::Map { keys, others }) => {
                    let entry = reader.expect_bytes(tag)?;
                    let key = entry_key(entry)?;
                    match keys
                        .binary_search_by(|(name, _)| (**name).as_bytes().cmp(key))
                        .map(|at| &keys[at].1)
                    {
                        Err(_) if *others == Leaf::Keep => continue,
                        Ok(Action::Leaf(Leaf::Keep)) => continue,
                        Ok(Action::Message(level)) => {
                            out.extend_from_slice(&body[run..behind_tag]);
                            level.copy_with_length(entry, out)?;
                        }
                        _ => out.extend_from_slice(&body[run..start]),
                    }
                    run = reader.position();
                }
            }
        }
        out.extend_from_slice(&body[run..]);
        Ok(())
    }

    /// Copies a message and writes its new length before it.
    fn copy_with_length(&self, message: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let place = out.len();
        let reserved = varint_len(message.len() as u64);
        out.resize(place + reserved, 0);
        self.copy(message, out)?;
        let len = out.len() - place - reserved;
        let needed = varint_len(len as u64);
        if needed < reserved {
            out.copy_within(place + reserved.., place + needed);
            out.truncate(place + needed + len);
        }
        let mut rest = len;
        for byte in &mut out[place..place + needed - 1] {
            *byte = rest as u8 | 0x80;
            rest >>= 7;
        }
        out[place + needed - 1] = rest as u8;
        Ok(())
    }
}

// === impl Action ===

impl Action {
    fn of_field(fate: Fate<'_>, ty: Type) -> Self {
        match (fate, ty.cardinality) {
            (Fate::Keep, _) => Self::Leaf(Leaf::Keep),
            (Fate::Drop, _) => Self::Leaf(Leaf::Drop),
            (Fate::Descend(node), Cardinality::One) => Self::of_value(Fate::Descend(node), ty),
            (Fate::Descend(node), Cardinality::List) => Self::of_value(node.element(), ty),
            (Fate::Descend(node), Cardinality::Map) => Self::Map {
                keys: node.named().map(|(key, fate)| (key.into(), Self::of_entry(fate, ty))).collect(),
                others: node.others(),
            },
        }
    }

    fn of_value(fate: Fate<'_>, ty: Type) -> Self {
        match (fate, ty.message(Schema::builtin())) {
            (Fate::Drop, _) => Self::Leaf(Leaf::Drop),
            (Fate::Descend(node), Some(message)) if message.shape == Shape::Object => {
                Self::Message(MessagePlan::new(node, message))
            }
            _ => Self::Leaf(Leaf::Keep),
        }
    }

    fn of_entry(fate: Fate<'_>, ty: Type) -> Self {
        match Self::of_value(fate, ty) {
            Self::Message(value) => {
                Self::Message(MessagePlan { fields: vec![(VALUE, Self::Message(value))], others: Leaf::Keep })
            }
            leaf => leaf,
        }
    }
}

fn entry_key(entry: &[u8]) -> Result<&[u8]> {
    let mut reader = Reader::new(entry);
    let mut key: &[u8] = &[];
    while let Some(tag) = reader.tag()? {
        if tag.number == KEY {
            key = reader.expect_bytes(tag)?;
        } else {
            reader.skip(tag.wire_type)?;
        }
    }
    Ok(key)
}
