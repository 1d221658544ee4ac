//! Extracts the items of a list from its JSON body as it arrives.
//!
//! `items` may precede or follow `metadata` (Go writes the members of unstructured lists in alphabetical order), so
//! the list's head is complete only at the end. Other members, like the `rows` of a Table, are skipped and never held.

use bytes::Bytes;

use super::pieces::{Piece, Pieces};
use super::value::Value;
use super::{JsonType, Members};
use crate::Encoding;
use crate::error::{Error, Result};
use crate::frame::ListHead;
use crate::head::key;
use crate::limits::Limits;

const WHAT: &str = "JSON list";

/// The body of a list.
///
/// Checks the grammar of the list's own members and of the array of items. Skipped values and items are only checked
/// for structure, so a malformed item is an error only for that item when it is read. An oversized item is skipped.
/// Any other error ends the list ([`Error::is_fatal`]).
#[derive(Debug)]
pub(crate) struct ListBody {
    pieces: Pieces,
    place: ListBodyState,
    object_bytes_max: usize,
    head: ListHead,
    /// The error that ended the list.
    lost: Option<Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListBodyState {
    /// Before the list.
    Start,
    /// Before a member's name; after the opening brace the list may end instead.
    Name { or_end: bool },
    /// Before a member's colon.
    Colon(Member),
    /// Before a member's value.
    Value(Member),
    /// After a member.
    Behind,
    /// Before an item; after the opening bracket the array may end instead.
    Item { or_end: bool },
    /// In the rest of an oversized item.
    PassItem,
    /// After an item.
    BehindItem,
    /// After the list.
    End,
}

/// The relevant members of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    ApiVersion,
    Kind,
    Metadata,
    Items,
    Other,
}

// === impl ListBody ===

impl ListBody {
    pub(crate) fn new(limits: &Limits) -> Self {
        let object_bytes_max = limits.object_bytes_max;
        let (pieces, head) = (Pieces::default(), ListHead::default());
        Self { pieces, place: ListBodyState::Start, object_bytes_max, head, lost: None }
    }

    /// Adds a chunk of the body. Read all available items before adding the next chunk.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.pieces.push(chunk);
    }

    /// The text of the next item, with the list's head so far; `None` until one is available.
    pub(crate) fn next(&mut self) -> Option<Result<(&ListHead, &[u8])>> {
        if self.lost.is_some() {
            return None;
        }
        match self.advance() {
            Ok(Some(piece)) => Some(Ok((&self.head, self.pieces.text(piece)))),
            Ok(None) => None,
            // Reading can continue only after an item that exceeds the size limit.
            Err(error @ (Error::Limit { .. } | Error::Object { .. }))
                if matches!(self.place, ListBodyState::PassItem | ListBodyState::BehindItem) =>
            {
                Some(Err(error))
            }
            Err(error) => {
                let error = error.framing();
                self.lost = Some(error.clone());
                Some(Err(error))
            }
        }
    }

    /// The list's head so far.
    pub(crate) fn head(&self) -> &ListHead {
        &self.head
    }

    /// Ends the body and returns the list's head.
    pub(crate) fn finish(self) -> Result<ListHead> {
        match (self.lost, self.place) {
            (Some(error), _) => Err(error),
            (None, ListBodyState::End) => Ok(self.head),
            _ => Err(Error::Truncated { what: WHAT, at: self.pieces.position() }.framing()),
        }
    }

    /// Advances to the next item.
    fn advance(&mut self) -> Result<Option<Piece>> {
        loop {
            let byte = if self.pieces.is_begun() { None } else { self.pieces.peek() };
            if byte.is_none() && !self.pieces.is_begun() {
                return Ok(None);
            }
            match (self.place, byte) {
                (ListBodyState::Start, Some(b'{')) => self.over(ListBodyState::Name { or_end: true }),
                (ListBodyState::Name { or_end: true } | ListBodyState::Behind, Some(b'}')) => {
                    self.over(ListBodyState::End);
                }
                (ListBodyState::Name { .. }, _) => match self.name(byte)? {
                    Some(member) => self.place = ListBodyState::Colon(member),
                    None => return Ok(None),
                },
                (ListBodyState::Colon(member), Some(b':')) => self.over(ListBodyState::Value(member)),
                (ListBodyState::Value(Member::Items), Some(b'[')) => {
                    self.over(ListBodyState::Item { or_end: true });
                }
                (ListBodyState::Value(member), _) => match self.member(member)? {
                    true => self.place = ListBodyState::Behind,
                    false => return Ok(None),
                },
                (ListBodyState::Behind, Some(b',')) => self.over(ListBodyState::Name { or_end: false }),
                (ListBodyState::Item { or_end: true } | ListBodyState::BehindItem, Some(b']')) => {
                    self.over(ListBodyState::Behind);
                }
                (ListBodyState::Item { .. }, _) => return self.item(),
                (ListBodyState::PassItem, _) => match self.pieces.pass()? {
                    true => self.place = ListBodyState::BehindItem,
                    false => return Ok(None),
                },
                (ListBodyState::BehindItem, Some(b',')) => self.over(ListBodyState::Item { or_end: false }),
                (ListBodyState::Start, _) => return Err(self.malformed("expected a list")),
                (ListBodyState::Colon(_), _) => return Err(self.malformed("expected a colon")),
                (ListBodyState::Behind, _) => {
                    return Err(self.malformed("expected a comma or the end of the list"));
                }
                (ListBodyState::BehindItem, _) => {
                    return Err(self.malformed("expected a comma or the end of the items"));
                }
                (ListBodyState::End, _) => return Err(self.malformed("unexpected data after the list")),
            }
        }
    }

    /// Skips the byte that leads to `place`.
    fn over(&mut self, place: ListBodyState) {
        self.pieces.advance(1);
        self.place = place;
    }

    /// The item that continues (or starts) here; `None` until it is complete.
    fn item(&mut self) -> Result<Option<Piece>> {
        let item = self.pieces.value(self.object_bytes_max);
        match item {
            Ok(Some(_)) => self.place = ListBodyState::BehindItem,
            Err(error @ Error::Limit { .. }) => {
                self.place =
                    if self.pieces.is_begun() { ListBodyState::PassItem } else { ListBodyState::BehindItem };
                return Err(error.about(key::of(&self.pieces.take_refused(), Encoding::Json)));
            }
            Ok(None) | Err(_) => {}
        }
        item
    }

    /// The name of a member; `None` until it is complete.
    fn name(&mut self, byte: Option<u8>) -> Result<Option<Member>> {
        if byte.is_some_and(|byte| byte != b'"') {
            return Err(self.malformed("expected a quoted name"));
        }
        let Some(piece) = self.pieces.value(self.object_bytes_max)? else { return Ok(None) };
        let name = Value::new(self.pieces.text(piece)).as_string()?;
        Ok(Some(match name.as_deref() {
            Some("apiVersion") => Member::ApiVersion,
            Some("kind") => Member::Kind,
            Some("metadata") => Member::Metadata,
            Some("items") => Member::Items,
            name => {
                self.head.add_other_member(name.unwrap_or_default());
                Member::Other
            }
        }))
    }

    /// Reads a member of the list's head, or skips any other. Returns whether it was complete.
    fn member(&mut self, member: Member) -> Result<bool> {
        if member == Member::Other {
            return self.pieces.pass();
        }
        let Some(piece) = self.pieces.value(self.object_bytes_max)? else { return Ok(false) };
        let value = Value::new(self.pieces.text(piece));
        match member {
            Member::ApiVersion => self.head.api_version = text(value, "apiVersion must be a string")?,
            Member::Kind => self.head.kind = text(value, "kind must be a string")?,
            Member::Metadata => list_meta(value, &mut self.head)?,
            // Enter an array; Go writes null for a nil list.
            Member::Items if !value.is_null() => {
                return Err(Error::malformed(WHAT, self.pieces.position(), "items must be an array"));
            }
            Member::Items | Member::Other => {}
        }
        Ok(true)
    }

    fn malformed(&self, why: &'static str) -> Error {
        Error::malformed(WHAT, self.pieces.position(), why)
    }
}

fn list_meta(meta: Value<'_>, head: &mut ListHead) -> Result<()> {
    match meta.kind()? {
        JsonType::Null => return Ok(()),
        JsonType::Object => {}
        _ => return Err(Error::malformed(WHAT, 0, "metadata must be an object")),
    }
    for member in Members::new(meta.bytes()) {
        let (name, value) = member?;
        match &*name {
            "resourceVersion" => {
                head.resource_version = text(value, "metadata.resourceVersion must be a string")?;
            }
            "continue" => head.continue_token = text(value, "metadata.continue must be a string")?,
            "remainingItemCount" => {
                head.remaining_item_count = match value.as_i64()? {
                    None if !value.is_null() => {
                        let why = "metadata.remainingItemCount must be an integer";
                        return Err(Error::malformed(WHAT, 0, why));
                    }
                    count => count,
                };
            }
            _ => {}
        }
    }
    Ok(())
}

/// A string of the head; empty for null, as Go reads it.
fn text(value: Value<'_>, why: &'static str) -> Result<String> {
    match value.as_string()? {
        Some(text) => Ok(text.into_owned()),
        None if value.is_null() => Ok(String::new()),
        None => Err(Error::malformed(WHAT, 0, why)),
    }
}
