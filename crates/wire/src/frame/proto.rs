//! Protobuf bodies, piece by piece: the frames of a watch and the items of a list.

use bytes::Bytes;

use super::ListHead;
use super::input::Input;
use crate::envelope::{self, MAGIC};
use crate::error::{Error, Result};
use crate::limits::{Limit, Limits};
use crate::proto::{Reader, Tag, WireType};

const LIST: &str = "protobuf list";

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
    /// The rest of a frame that was too large.
    Skip(u64),
}

/// A frame's event type and the object in its envelope.
pub(super) struct WatchFrame<'a> {
    pub(super) event_type: &'a str,
    pub(super) object: &'a [u8],
}

/// The items of a protobuf list: `k8s\0`, `Unknown { typeMeta = 1, raw = 2 }`, and in `raw` the list
/// `{ metadata = 1, items = 2… }`, which is entered without being held.
#[derive(Debug)]
pub(super) struct ListItems {
    input: Input,
    state: ListState,
    /// What is left of `raw` while inside it.
    inside: Option<u64>,
    object_bytes_max: usize,
    pub(super) head: ListHead,
}

#[derive(Clone, Copy, Debug)]
enum ListState {
    Magic,
    Tag,
    Length(u32),
    Body(u32, usize),
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

    /// The next frame; `None` until there is one.
    pub(super) fn next(&mut self) -> Option<Result<WatchFrame<'_>>> {
        loop {
            match self.state {
                FrameState::Length => {
                    // `take` gives four bytes when it is asked for four.
                    let length = u32::from_be_bytes(self.input.take(4)?.try_into().ok()?);
                    if length as usize > self.object_bytes_max {
                        self.state = FrameState::Skip(u64::from(length));
                        return Some(Err(too_large(u64::from(length), self.object_bytes_max)));
                    }
                    self.state = FrameState::Body(length as usize);
                }
                FrameState::Skip(0) => self.state = FrameState::Length,
                FrameState::Skip(left) => match self.input.skip(left) {
                    0 => return None,
                    skipped => self.state = FrameState::Skip(left - skipped),
                },
                FrameState::Body(length) => {
                    let frame = self.input.take(length)?;
                    self.state = FrameState::Length;
                    return Some(watch_event(frame));
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

/// Takes a `WatchEvent { type = 1, object = 2 { raw = 1 } }` apart.
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
            object_bytes_max: limits.object_bytes_max,
            head: ListHead::default(),
        }
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        self.input.push(chunk);
    }

    /// The next item's message; `None` until there is one.
    pub(super) fn next(&mut self) -> Option<Result<&[u8]>> {
        loop {
            match self.state {
                ListState::Magic => {
                    if self.input.take(MAGIC.len())? != MAGIC {
                        let error = Error::malformed(LIST, 0, "it does not begin with `k8s\\0`");
                        return Some(Err(error.framing()));
                    }
                    self.state = ListState::Tag;
                }
                ListState::Tag => {
                    if self.inside == Some(0) {
                        self.inside = None;
                    }
                    match self.header()? {
                        Ok(key) => match Tag::from_key(key) {
                            Ok(Tag { number, wire_type: WireType::Len }) => {
                                self.state = ListState::Length(number);
                            }
                            Ok(Tag { wire_type: WireType::Varint, .. }) => self.state = ListState::SkipVarint,
                            Ok(Tag { wire_type: WireType::Fixed32, .. }) => self.state = ListState::Skip(4),
                            Ok(Tag { wire_type: WireType::Fixed64, .. }) => self.state = ListState::Skip(8),
                            Err(why) => return Some(Err(Error::malformed(LIST, 0, why).framing())),
                        },
                        Err(error) => return Some(Err(error)),
                    }
                }
                ListState::SkipVarint => match self.header()? {
                    Ok(_) => self.state = ListState::Tag,
                    Err(error) => return Some(Err(error)),
                },
                ListState::Skip(0) => self.state = ListState::Tag,
                ListState::Skip(left) => match self.input.skip(left) {
                    0 => return None,
                    skipped => {
                        if let Err(error) = self.spend(skipped) {
                            return Some(Err(error));
                        }
                        self.state = ListState::Skip(left - skipped);
                    }
                },
                ListState::Length(number) => match self.header()? {
                    Ok(length) => {
                        if let Err(error) = self.enter(number, length) {
                            return Some(Err(error));
                        }
                    }
                    Err(error) => return Some(Err(error)),
                },
                ListState::Body(number, length) => {
                    // The borrow of `input` has to end before `head` is written, hence the two looks.
                    let inside = self.inside.is_some();
                    let body = self.input.take(length)?;
                    let read = match (inside, number) {
                        (true, ITEMS) => None,
                        (true, _) => Some(self.head.read_protobuf(body)),
                        (false, _) => Some(envelope::type_meta(body).map(|(api_version, kind)| {
                            self.head.api_version = api_version.to_owned();
                            self.head.kind = kind.to_owned();
                        })),
                    };
                    self.state = ListState::Tag;
                    match read {
                        Some(Ok(())) => {
                            if let Err(error) = spend(&mut self.inside, length as u64) {
                                return Some(Err(error));
                            }
                        }
                        Some(Err(error)) => return Some(Err(error.framing())),
                        None => {
                            if let Err(error) = spend(&mut self.inside, length as u64) {
                                return Some(Err(error));
                            }
                            return Some(Ok(body));
                        }
                    }
                }
            }
        }
    }

    /// Decides what is done with a length-delimited field.
    fn enter(&mut self, number: u32, length: u64) -> Result<()> {
        if self.inside.is_some_and(|left| length > left) {
            return Err(Error::malformed(LIST, 0, "a field goes beyond the list").framing());
        }
        match (self.inside, number) {
            (None, envelope::RAW) => {
                self.inside = Some(length);
                self.state = ListState::Tag;
            }
            (None, envelope::TYPE_META) | (Some(_), METADATA | ITEMS) => {
                if length > self.object_bytes_max as u64 {
                    self.state = ListState::Skip(length);
                    return Err(too_large(length, self.object_bytes_max));
                }
                self.state = ListState::Body(number, length as usize);
            }
            _ => self.state = ListState::Skip(length),
        }
        Ok(())
    }

    /// A tag's or length's varint, counted against what is left of the list.
    fn header(&mut self) -> Option<Result<u64>> {
        match self.input.varint()? {
            Ok((value, length)) => Some(self.spend(length).map(|()| value)),
            Err(error) => Some(Err(error.framing())),
        }
    }

    fn spend(&mut self, length: u64) -> Result<()> {
        spend(&mut self.inside, length)
    }

    pub(super) fn finish(self) -> Result<ListHead> {
        match self.state {
            ListState::Tag if self.input.is_empty() && self.inside.is_none_or(|left| left == 0) => Ok(self.head),
            _ => Err(Error::Truncated { what: LIST, at: 0 }.framing()),
        }
    }
}

const METADATA: u32 = 1;
const ITEMS: u32 = 2;

fn spend(inside: &mut Option<u64>, length: u64) -> Result<()> {
    if let Some(left) = inside {
        *left = left
            .checked_sub(length)
            .ok_or(Error::malformed(LIST, 0, "a field goes beyond the list").framing())?;
    }
    Ok(())
}

fn too_large(found: u64, allowed: usize) -> Error {
    let found = usize::try_from(found).unwrap_or(usize::MAX);
    Error::Limit { limit: Limit::ObjectBytes, found, allowed }
}
