//! Streaming of protobuf bodies: the frames of a watch and the items of a list.

use bytes::Bytes;

use super::ListHead;
use super::input::Input;
use crate::Encoding;
use crate::envelope::{self, MAGIC};
use crate::error::{Error, Result};
use crate::head::key;
use crate::limits::{Limit, Limits};
use crate::proto::{Reader, Tag, WireType};

const LIST: &str = "protobuf list";

/// How much of an oversized object is read to identify it: its name is near the beginning.
const REFUSED_BYTES: usize = 4 << 10;

/// No server sends a watch event of this length (512 MiB) or more, and in text the first four bytes, read as a length, are larger.
const IMPLAUSIBLE_BYTES: usize = 0x2000_0000;

/// The frames of a protobuf watch: each a big-endian length of four bytes and a `WatchEvent { type = 1, object = 2 }`.
#[derive(Debug)]
pub(super) struct WatchFrames {
    input: Input,
    state: FrameState,
    object_bytes_max: usize,
}

#[derive(Clone, Copy, Debug)]
enum FrameState {
    Length,
    Body(usize),
    /// An oversized frame, with its length.
    Refuse(usize),
    /// The rest of an oversized frame.
    Skip(u64),
}

/// The event type of a frame, and the object in its envelope.
pub(super) struct WatchFrame<'a> {
    pub(super) event_type: &'a str,
    pub(super) object: &'a [u8],
}

/// The items of a protobuf list: `k8s\0`, `Unknown { typeMeta = 1, raw = 2 }`, and in `raw` the list `{ metadata = 1,
/// items = 2… }`, which is streamed, not held.
#[derive(Debug)]
pub(super) struct ListItems {
    input: Input,
    state: ListState,
    /// Remaining length of `raw` while inside it.
    inside: Option<u64>,
    /// The envelope contains a list. Go always writes a list's metadata, so even an empty list has bytes.
    has_payload: bool,
    object_bytes_max: usize,
    pub(super) head: ListHead,
    /// The error that ended the list.
    lost: Option<Error>,
}

#[derive(Clone, Copy, Debug)]
enum ListState {
    Magic,
    Tag,
    Length(u32),
    Body(u32, usize),
    /// An oversized item, with its length.
    Refuse(u64),
    Skip(u64),
    SkipVarint,
}

// === impl WatchFrames ===

impl WatchFrames {
    pub(super) fn new(limits: &Limits) -> Self {
        let object_bytes_max = limits.object_bytes_max;
        Self { input: Input::default(), state: FrameState::Length, object_bytes_max }
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        self.input.push(chunk);
    }

    /// The next frame; `None` until one is available.
    pub(super) fn next(&mut self) -> Option<Result<WatchFrame<'_>>> {
        match self.advance() {
            Ok(Some(length)) => Some(watch_event(self.input.piece(length))),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Advances until a complete frame is available, and returns its length.
    fn advance(&mut self) -> Result<Option<usize>> {
        loop {
            match self.state {
                FrameState::Length => {
                    if !self.input.has(4) {
                        return Ok(None);
                    }
                    let length =
                        self.input.piece(4).iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
                    self.state = match length > self.object_bytes_max {
                        true if length >= IMPLAUSIBLE_BYTES => {
                            // The next frame is not where this length says, and waiting for it would take forever.
                            return Err(Error::malformed(
                                "protobuf watch frame",
                                0,
                                "the length is implausible; is it another encoding?",
                            )
                            .framing());
                        }
                        true => FrameState::Refuse(length),
                        false => FrameState::Body(length),
                    };
                }
                FrameState::Refuse(length) => {
                    let begun = length.min(REFUSED_BYTES);
                    if !self.input.has(begun) {
                        return Ok(None);
                    }
                    let error = too_large(length as u64, self.object_bytes_max);
                    let event = self.input.piece(begun);
                    let event_type = key::event_type(event, Encoding::Protobuf);
                    let error = error.about(key::in_event(event, Encoding::Protobuf)).in_event(event_type);
                    self.state = FrameState::Skip((length - begun) as u64);
                    return Err(error);
                }
                FrameState::Skip(0) => self.state = FrameState::Length,
                FrameState::Skip(left) => match self.input.skip(left) {
                    0 => return Ok(None),
                    skipped => self.state = FrameState::Skip(left - skipped),
                },
                FrameState::Body(length) => {
                    if !self.input.has(length) {
                        return Ok(None);
                    }
                    self.state = FrameState::Length;
                    return Ok(Some(length));
                }
            }
        }
    }

    pub(super) fn finish(&self) -> Result<()> {
        match self.state {
            FrameState::Length if self.input.is_empty() => Ok(()),
            _ => Err(Error::Truncated { what: "protobuf watch frame", at: 0 }.framing()),
        }
    }
}

/// Parses a `WatchEvent { type = 1, object = 2 { raw = 1 } }`.
fn watch_event(frame: &[u8]) -> Result<WatchFrame<'_>> {
    let mut event = WatchFrame { event_type: "", object: &[] };
    let mut reader = Reader::new(frame);
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => event.event_type = reader.expect_string(tag)?,
            2 => {
                let mut extension = Reader::new(reader.expect_bytes(tag)?);
                while let Some(tag) = extension.tag()? {
                    match tag.number {
                        1 => event.object = extension.expect_bytes(tag)?,
                        _ => extension.skip(tag.wire_type)?,
                    }
                }
            }
            _ => reader.skip(tag.wire_type)?,
        }
    }
    Ok(event)
}

// === impl ListItems ===

impl ListItems {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            input: Input::default(),
            state: ListState::Magic,
            inside: None,
            has_payload: false,
            object_bytes_max: limits.object_bytes_max,
            head: ListHead::default(),
            lost: None,
        }
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        self.input.push(chunk);
    }

    /// The next item's message, with the list's head so far; `None` until one is available.
    pub(super) fn next(&mut self) -> Option<Result<(&ListHead, &[u8])>> {
        if self.lost.is_some() {
            return None;
        }
        match self.advance() {
            Ok(Some(length)) => Some(Ok((&self.head, self.input.piece(length)))),
            Ok(None) => None,
            Err(error) => {
                self.lost = error.is_fatal().then(|| error.clone());
                Some(Err(error))
            }
        }
    }

    /// Advances until a complete item is available, and returns its length.
    fn advance(&mut self) -> Result<Option<usize>> {
        loop {
            match self.state {
                ListState::Magic => {
                    if !self.input.has(MAGIC.len()) {
                        return Ok(None);
                    }
                    if self.input.piece(MAGIC.len()) != MAGIC {
                        return Err(Error::malformed(LIST, 0, "missing `k8s\\0` prefix").framing());
                    }
                    self.state = ListState::Tag;
                }
                ListState::Tag => {
                    if self.inside == Some(0) {
                        self.inside = None;
                    }
                    let Some(key) = self.varint()? else { return Ok(None) };
                    let tag = Tag::from_key(key).map_err(|why| Error::malformed(LIST, 0, why).framing())?;
                    self.state = match tag.wire_type {
                        WireType::Len => ListState::Length(tag.number),
                        WireType::Varint => ListState::SkipVarint,
                        WireType::Fixed32 => ListState::Skip(4),
                        WireType::Fixed64 => ListState::Skip(8),
                    };
                }
                ListState::SkipVarint => {
                    if self.varint()?.is_none() {
                        return Ok(None);
                    }
                    self.state = ListState::Tag;
                }
                ListState::Skip(0) => self.state = ListState::Tag,
                ListState::Skip(left) => match self.input.skip(left) {
                    0 => return Ok(None),
                    skipped => {
                        self.spend(skipped)?;
                        self.state = ListState::Skip(left - skipped);
                    }
                },
                ListState::Refuse(length) => {
                    let begun = length.min(REFUSED_BYTES as u64);
                    if !self.input.has(begun as usize) {
                        return Ok(None);
                    }
                    let key = key::of(self.input.piece(begun as usize), Encoding::Protobuf);
                    self.spend(begun)?;
                    self.state = ListState::Skip(length - begun);
                    return Err(too_large(length, self.object_bytes_max).about(key));
                }
                ListState::Length(number) => {
                    let Some(length) = self.varint()? else { return Ok(None) };
                    self.enter(number, length)?;
                }
                ListState::Body(number, length) => {
                    if !self.input.has(length) {
                        return Ok(None);
                    }
                    self.state = ListState::Tag;
                    let inside = self.inside.is_some();
                    self.spend(length as u64)?;
                    if inside && number == ITEMS {
                        return Ok(Some(length));
                    }
                    self.head_part(inside, length).map_err(Error::framing)?;
                }
            }
        }
    }

    /// Reads the list's `ListMeta` (inside) or the envelope's `TypeMeta`.
    fn head_part(&mut self, inside: bool, length: usize) -> Result<()> {
        let bytes = self.input.piece(length);
        if inside {
            return self.head.read_protobuf(bytes);
        }
        let (api_version, kind) = envelope::type_meta(bytes)?;
        api_version.clone_into(&mut self.head.api_version);
        kind.clone_into(&mut self.head.kind);
        Ok(())
    }

    /// Decides how to handle a length-delimited field.
    fn enter(&mut self, number: u32, length: u64) -> Result<()> {
        if self.inside.is_some_and(|left| length > left) {
            return Err(Error::malformed(LIST, 0, "field exceeds the list").framing());
        }
        match (self.inside, number) {
            (None, envelope::RAW) => {
                self.inside = Some(length);
                self.has_payload |= length > 0;
                self.state = ListState::Tag;
            }
            (None, envelope::CONTENT_ENCODING) if length > 0 => {
                return Err(Error::malformed(LIST, 0, "unsupported content encoding").framing());
            }
            (None, envelope::TYPE_META) | (Some(_), METADATA | ITEMS) => {
                if length > self.object_bytes_max as u64 {
                    // Without its head, a list would appear to have no resourceVersion and no next page.
                    if number != ITEMS {
                        return Err(too_large(length, self.object_bytes_max).framing());
                    }
                    self.state = ListState::Refuse(length);
                } else {
                    self.state = ListState::Body(number, length as usize);
                }
            }
            _ => self.state = ListState::Skip(length),
        }
        Ok(())
    }

    /// The varint of a tag or length, counted against the remaining length of the list.
    fn varint(&mut self) -> Result<Option<u64>> {
        let Some((value, length)) = self.input.varint().map_err(Error::framing)? else { return Ok(None) };
        self.spend(length)?;
        Ok(Some(value))
    }

    fn spend(&mut self, length: u64) -> Result<()> {
        if let Some(left) = &mut self.inside {
            *left = left
                .checked_sub(length)
                .ok_or(Error::malformed(LIST, 0, "field exceeds the list").framing())?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<ListHead> {
        if let Some(error) = self.lost {
            return Err(error);
        }
        match self.state {
            ListState::Tag if self.input.is_empty() && self.inside.is_none_or(|left| left == 0) => {
                match self.has_payload {
                    true => Ok(self.head),
                    false => Err(Error::malformed(LIST, 0, "empty envelope").framing()),
                }
            }
            _ => Err(Error::Truncated { what: LIST, at: 0 }.framing()),
        }
    }
}

const METADATA: u32 = 1;
const ITEMS: u32 = 2;

fn too_large(found: u64, allowed: usize) -> Error {
    let found = usize::try_from(found).unwrap_or(usize::MAX);
    Error::Limit { limit: Limit::ObjectBytes, found, allowed }
}
