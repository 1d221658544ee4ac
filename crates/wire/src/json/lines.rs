//! Extracts the events of a watch from its JSON body as it arrives.
//!
//! A server writes one event per line, and the end of a line is found faster than the end of a value, so a line is
//! tried first. If it is not a complete value (the JSON is pretty-printed, or the chunk ends), a
//! [`Finder`](super::finder::Finder) looks for the end of the value. Every byte is read a fixed number of times,
//! however the body is split.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use memchr::memchr;

use super::pieces::{Piece, Pieces};
use super::{JsonType, Members, Value};
use crate::Encoding;
use crate::error::{Error, Result};
use crate::head::key;
use crate::limits::Limits;

const WHAT: &str = "JSON watch event";

/// Maximum size of an event without its object.
const FRAME_BYTES_MAX: usize = 256;

/// The body of a watch.
///
/// An invalid line is an error only for that line, because the next event starts after a line end, which no JSON
/// string can contain. The framing is lost only if an event that spans lines is malformed. An oversized event is
/// skipped.
#[derive(Debug)]
pub(crate) struct Lines {
    pieces: Pieces,
    place: LinesState,
    event_bytes_max: usize,
    /// The last line end found: its offset in the body (or the chunk's end), and whether it is a line end. Cached so
    /// that many values in one line do not search the line repeatedly.
    line_end: (usize, bool),
    /// The error that ended the watch.
    lost: Option<Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinesState {
    /// Between events.
    Between,
    /// In an event that is not, or not yet known to be, a single line.
    Event { spans_lines: bool },
    /// In the rest of an invalid line.
    PassLine,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventText<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR`.
    pub(crate) event_type: Cow<'a, str>,
    /// The text of the object. Its structure is checked, its content is not.
    pub(crate) object: &'a [u8],
}

// === impl Lines ===

impl Lines {
    pub(crate) fn new(limits: &Limits) -> Self {
        let event_bytes_max = limits.object_bytes_max.saturating_add(FRAME_BYTES_MAX);
        Self {
            pieces: Pieces::default(),
            place: LinesState::Between,
            event_bytes_max,
            line_end: (0, false),
            lost: None,
        }
    }

    /// Adds a chunk of the body. Read all available events before adding the next chunk.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.pieces.push(chunk);
    }

    /// The next event; `None` until one is available.
    pub(crate) fn next(&mut self) -> Option<Result<EventText<'_>>> {
        let found = self.advance().transpose()?;
        Some(found.and_then(|(piece, parts)| {
            let text = self.pieces.text(piece);
            let event_type = Value::new(&text[parts.event_type]).as_string()?.unwrap_or_default();
            Ok(EventText { event_type, object: &text[parts.object] })
        }))
    }

    /// Ends the body.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match (&self.lost, self.place) {
            (Some(error), _) => Err(error.clone()),
            (None, LinesState::Between | LinesState::PassLine) if self.pieces.peek().is_none() => Ok(()),
            _ => Err(Error::Truncated { what: WHAT, at: self.pieces.position() }.framing()),
        }
    }

    /// Advances to the next event.
    fn advance(&mut self) -> Result<Option<(Piece, Parts)>> {
        while self.lost.is_none() {
            match self.place {
                LinesState::Between => match self.pieces.peek() {
                    None => return Ok(None),
                    Some(b'{') => {
                        if let Some(found) = self.line() {
                            return Ok(Some(found));
                        }
                        self.place = LinesState::Event { spans_lines: false };
                    }
                    Some(_) => {
                        self.place = LinesState::PassLine;
                        return Err(Error::malformed(WHAT, self.pieces.position(), "expected an object"));
                    }
                },
                LinesState::Event { .. } if self.pieces.rest().is_empty() => return Ok(None),
                LinesState::Event { spans_lines } => match self.event(spans_lines)? {
                    Some(Piece::Passed) | None => {}
                    Some(piece) => return parts(self.pieces.text(piece)).map(|parts| Some((piece, parts))),
                },
                LinesState::PassLine => {
                    let (len, is_line) = self.line_end();
                    self.pieces.advance(len + usize::from(is_line));
                    if is_line {
                        self.place = LinesState::Between;
                    } else if self.pieces.rest().is_empty() {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    /// The length of the rest of the line or chunk, and whether it ends with the line.
    fn line_end(&mut self) -> (usize, bool) {
        let position = self.pieces.position();
        let (end, is_line) = self.line_end;
        if position > end || (position == end && !is_line) {
            let rest = self.pieces.rest();
            self.line_end = match memchr(b'\n', rest) {
                Some(len) => (position + len, true),
                None => (position + rest.len(), false),
            };
        }
        (self.line_end.0 - position, self.line_end.1)
    }

    /// The next line's event, if the line is exactly one event.
    fn line(&mut self) -> Option<(Piece, Parts)> {
        let (len, is_line) = self.line_end();
        if !is_line || len > self.event_bytes_max {
            return None;
        }
        let parts = parts(&self.pieces.rest()[..len]).ok()?;
        Some((self.pieces.take(len), parts))
    }

    /// Follows an event to the end of the line or chunk, or past the end of the line. Returns it if it ends there.
    fn event(&mut self, spans_lines: bool) -> Result<Option<Piece>> {
        let (len, spans_lines) = match self.line_end() {
            (0, true) if self.pieces.is_in_string() => {
                let why = "line ends within a string";
                return Err(self.drop_event(Error::malformed(WHAT, self.pieces.position(), why), spans_lines));
            }
            (0, true) => (1, true),
            (len, _) => (len, spans_lines),
        };
        let outcome = self.pieces.value_within(len, self.event_bytes_max);
        if matches!(outcome, Ok(_) | Err(Error::Limit { .. })) {
            self.place = match self.pieces.is_begun() {
                true => LinesState::Event { spans_lines },
                false => LinesState::Between,
            };
        }
        outcome.map_err(|error| match error {
            Error::Limit { .. } => {
                let event = self.pieces.take_refused();
                let event_type = key::event_type(&event, Encoding::Json);
                error.about(key::in_event(&event, Encoding::Json)).in_event(event_type)
            }
            error => self.drop_event(error, spans_lines),
        })
    }

    /// Drops a malformed event and the rest of its line. If the event spans lines, the framing is lost, because the
    /// next line may be part of it.
    fn drop_event(&mut self, error: Error, spans_lines: bool) -> Error {
        self.pieces.forget();
        self.place = LinesState::PassLine;
        if !spans_lines {
            return error;
        }
        self.lost.insert(error.framing()).clone()
    }
}

/// The positions of an event's parts in its text.
struct Parts {
    event_type: Range<usize>,
    object: Range<usize>,
}

/// Parses the text of an event.
fn parts(text: &[u8]) -> Result<Parts> {
    let (mut event_type, mut object) = (None, None);
    let mut members = Members::new(text);
    while let Some(member) = members.next() {
        let (name, value) = member?;
        let slot = match &*name {
            "type" => &mut event_type,
            "object" => &mut object,
            _ => continue,
        };
        let end = members.position();
        *slot = Some((end - value.bytes().len()..end, value.kind()));
    }
    match (event_type, object) {
        (Some((event_type, Ok(JsonType::String))), Some((object, Ok(_)))) => Ok(Parts { event_type, object }),
        (Some((_, Ok(JsonType::String))), _) => Err(Error::malformed(WHAT, 0, "the event has no object")),
        _ => Err(Error::malformed(WHAT, 0, "the event has no type")),
    }
}
