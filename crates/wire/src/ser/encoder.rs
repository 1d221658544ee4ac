//! The buffers of the serializer, and how it sorts a message.
//!
//! Members arrive in the order of the value (usually by name) but are written in the order of their numbers, with the
//! zero values that Go writes in between, and after the message's length. Therefore each member is appended as it
//! arrives, as a piece; when the message is complete, its pieces are assembled in order and copied back. Every byte is
//! copied twice per level of nesting, which is cheap compared to interpreting it.

use super::UnknownFields;
use crate::error::{Error, Result};
use crate::limits::Limit;
use crate::proto::{WireType, Writer, varint_len};
use crate::schema::{Cardinality, Field, Message, Scalar, Schema, Shape};

/// Maximum number of messages inlined into one another, including the outermost.
const LEVELS: usize = 4;

/// The output and the state of the encoding.
pub(super) struct Encoder<'o> {
    pub(super) schema: &'static Schema,
    pub(super) unknown: UnknownFields,
    pub(super) nesting_max: usize,
    pub(super) out: &'o mut Vec<u8>,
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) depth: usize,
    /// Pieces of all incomplete messages, innermost last.
    pieces: Vec<MemberSpan>,
    /// Entries of all incomplete maps, innermost last.
    entries: Vec<EntrySpan>,
    scratch: Vec<u8>,
}

/// The position of a member in the output, and its field path.
#[derive(Clone, Copy, Debug)]
struct MemberSpan {
    path: Path,
    start: usize,
    end: usize,
}

/// Indexes of the fields that lead to a member (several if it is inlined), plus one, so that 0 marks the end.
pub(super) type Path = [u16; LEVELS];

/// The position of a map entry in the output, and its key.
#[derive(Clone, Copy, Debug)]
struct EntrySpan {
    start: usize,
    end: usize,
    key_start: usize,
    key_end: usize,
}

/// A message or map being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// The start of its content.
    start: usize,
    /// How many pieces or entries belong to others.
    others: usize,
}

// === impl Encoder ===

impl<'o> Encoder<'o> {
    pub(super) fn new(unknown: UnknownFields, nesting_max: usize, out: &'o mut Vec<u8>) -> Self {
        Self {
            schema: Schema::builtin(),
            unknown,
            nesting_max,
            out,
            api_version: None,
            kind: None,
            depth: 0,
            pieces: Vec::new(),
            entries: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub(super) fn writer(&mut self) -> Writer<'_> {
        Writer::new(self.out)
    }

    pub(super) fn open_message(&mut self) -> Result<Open> {
        self.enter()?;
        Ok(Open { start: self.out.len(), others: self.pieces.len() })
    }

    /// Records a member written from `start` on.
    pub(super) fn piece(&mut self, path: Path, start: usize) {
        let end = self.out.len();
        if end > start {
            self.pieces.push(MemberSpan { path, start, end });
        }
    }

    /// Sorts the message's fields; with a number, writes it as that field.
    pub(super) fn close_message(&mut self, open: Open, message: &Message, number: Option<u32>) {
        self.depth -= 1;
        let pieces = &mut self.pieces[open.others..];
        // Stable, although no name occurs twice: when read, the later one would win.
        pieces.sort_by_key(|piece| piece.path);
        self.scratch.clear();
        assemble(self.schema, message, pieces, 0, self.out, &mut self.scratch);
        self.pieces.truncate(open.others);
        self.replace(open.start, number);
    }

    pub(super) fn open_map(&mut self) -> Result<Open> {
        self.enter()?;
        Ok(Open { start: self.out.len(), others: self.entries.len() })
    }

    /// Records an entry written from `start` on: its key, which ends at `key_end`, and its value.
    pub(super) fn entry(&mut self, number: u32, start: usize, key_end: usize) {
        let content = self.out.len() - start;
        let key_len = key_end - start;
        self.wrap(number, start);
        let end = self.out.len();
        let key_start = end - content;
        self.entries.push(EntrySpan { start, end, key_start, key_end: key_start + key_len });
    }

    /// Sorts the entries.
    pub(super) fn close_map(&mut self, open: Open) {
        self.depth -= 1;
        let out = &*self.out;
        let key = |entry: &EntrySpan| &out[entry.key_start..entry.key_end];
        let entries = &mut self.entries[open.others..];
        // Encoded keys start with their length, so compare them without it.
        let key = |entry: &EntrySpan| strip_len(key(entry));
        if !entries.is_sorted_by_key(key) {
            entries.sort_by(|a, b| key(a).cmp(key(b)));
            self.scratch.clear();
            for entry in entries.iter() {
                self.scratch.extend_from_slice(&out[entry.start..entry.end]);
            }
            self.out.truncate(open.start);
            self.out.extend_from_slice(&self.scratch);
        }
        self.entries.truncate(open.others);
    }

    /// Wraps the output from `start` on as the content of a field.
    pub(super) fn wrap(&mut self, number: u32, start: usize) {
        let len = self.out.len() - start;
        self.scratch.clear();
        let mut prefix = Writer::new(&mut self.scratch);
        prefix.tag(number, WireType::Len);
        prefix.varint(len as u64);
        let prefix_len = self.scratch.len();
        self.out.extend_from_slice(&self.scratch);
        self.out.copy_within(start..start + len, start + prefix_len);
        self.out[start..start + prefix_len].copy_from_slice(&self.scratch);
    }

    /// The zero value of a type, as Go writes it.
    pub(super) fn zero(&mut self, number: u32, scalar: Scalar) {
        zero(self.schema, number, scalar, self.out);
    }

    /// A message with the zero value of its type, as Go writes it.
    pub(super) fn zero_message(&mut self, number: u32, message: &Message) {
        let start = self.out.len();
        zero_content(self.schema, message, self.out);
        wrap_tail(number, start, self.out);
    }

    pub(super) fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > self.nesting_max {
            return Err(Error::Limit { limit: Limit::Nesting, found: self.depth, allowed: self.nesting_max });
        }
        Ok(())
    }

    /// Replaces the output from `start` on with the scratch buffer.
    fn replace(&mut self, start: usize, number: Option<u32>) {
        self.out.truncate(start);
        if let Some(number) = number {
            let len = self.scratch.len();
            let mut writer = self.writer();
            writer.tag(number, WireType::Len);
            writer.varint(len as u64);
        }
        self.out.extend_from_slice(&self.scratch);
    }
}

/// Writes a message's fields in order: the pieces, and the zero values that Go writes for absent fields.
fn assemble(
    schema: &'static Schema,
    message: &Message,
    mut pieces: &[MemberSpan],
    level: usize,
    from: &[u8],
    to: &mut Vec<u8>,
) {
    for (at, field) in message.fields.iter().enumerate() {
        let mine = pieces.iter().take_while(|piece| usize::from(piece.path[level]) == at + 1).count();
        let (own, rest) = pieces.split_at(mine);
        pieces = rest;
        if field.inline {
            let Some(inner) = field.ty.message(schema) else { continue };
            let start = to.len();
            assemble(schema, inner, own, level + 1, from, to);
            wrap_tail(field.number, start, to);
        } else if own.is_empty() {
            if is_written_when_zero(field) {
                zero(schema, field.number, field.ty.scalar, to);
            }
        } else {
            for piece in own {
                to.extend_from_slice(&from[piece.start..piece.end]);
            }
        }
    }
}

/// Go writes everything except nil pointers, lists, maps and bytes.
fn is_written_when_zero(field: &Field) -> bool {
    !field.pointer && field.ty.cardinality == Cardinality::One && field.ty.scalar != Scalar::Bytes
}

fn zero(schema: &'static Schema, number: u32, scalar: Scalar, to: &mut Vec<u8>) {
    let mut writer = Writer::new(to);
    match scalar {
        Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 => {
            writer.varint_field(number, 0);
        }
        Scalar::Float => {
            writer.tag(number, WireType::Fixed32);
            to.extend_from_slice(&[0; 4]);
        }
        Scalar::Double => {
            writer.tag(number, WireType::Fixed64);
            to.extend_from_slice(&[0; 8]);
        }
        Scalar::String | Scalar::Bytes => writer.bytes_field(number, &[]),
        Scalar::Message(at) => {
            let message = schema.message_at(at);
            let start = to.len();
            zero_content(schema, message, to);
            wrap_tail(number, start, to);
        }
    }
}

fn zero_content(schema: &'static Schema, message: &Message, to: &mut Vec<u8>) {
    match message.shape {
        // Unset: write nothing.
        Shape::Time | Shape::MicroTime | Shape::RawJson | Shape::StringList => {}
        Shape::Quantity => Writer::new(to).bytes_field(1, b"0"),
        _ => {
            for field in message.fields.iter().filter(|field| is_written_when_zero(field)) {
                zero(schema, field.number, field.ty.scalar, to);
            }
        }
    }
}

/// Wraps the end of a buffer, from `start` on, as the content of a field.
fn wrap_tail(number: u32, start: usize, to: &mut Vec<u8>) {
    let len = to.len() - start;
    let prefix = varint_len(u64::from(number) << 3) + varint_len(len as u64);
    let mut writer = Writer::new(to);
    writer.tag(number, WireType::Len);
    writer.varint(len as u64);
    to[start..].rotate_right(prefix);
}

/// A key without its tag and length.
fn strip_len(key: &[u8]) -> &[u8] {
    let len_end = key.iter().skip(1).position(|byte| *byte < 0x80).map_or(key.len(), |at| at + 2);
    &key[len_end..]
}
