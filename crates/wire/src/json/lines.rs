//! Takes the events of a watch out of its JSON body as the body arrives.
//!
//! A server writes one event a line, and a line's end is found faster than a value's: so a line is tried first. What is no
//! whole value goes on in the next line (somebody printed it prettily), or in the next chunk, and its end is looked for
//! with a [`Finder`](super::Finder). Every byte is looked at a fixed number of times, however it is broken up.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use memchr::memchr;

use super::pieces::{Piece, Pieces};
use super::{Kind, Members, Value};
use crate::error::{Error, Result};
use crate::limits::Limits;

const WHAT: &str = "JSON watch event";

/// What an event may hold beside its object.
const FRAME_BYTES_MAX: usize = 256;

/// The body of a watch.
///
/// A line that is no event is an error for itself alone, since the next one begins behind a line's end, which no JSON
/// string can hold. The framing is lost only when an event that spans lines is not sound. An event that is too large is
/// passed over.
#[derive(Debug)]
pub(crate) struct Lines {
    pieces: Pieces,
    place: Place,
    event_bytes_max: usize,
    /// The error that ended the watch.
    lost: Option<Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Between events.
    Between,
    /// In an event that is no line, or not yet.
    Event { spans_lines: bool },
    /// In the rest of a line that is no event.
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
        Self { pieces: Pieces::default(), place: Place::Between, event_bytes_max, lost: None }
    }

    /// Adds a chunk of the body. Take all events that are there before adding the next.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.pieces.push(chunk);
    }

    /// The next event; `None` until there is one.
    pub(crate) fn next(&mut self) -> Option<Result<EventText<'_>>> {
        let found = self.advance().transpose()?;
        Some(found.and_then(|(piece, parts)| {
            let text = self.pieces.text(piece);
            let event_type = Value::new(&text[parts.event_type]).as_string()?.unwrap_or_default();
            Ok(EventText { event_type, object: &text[parts.object] })
        }))
    }

    /// The body has ended.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match (&self.lost, self.place) {
            (Some(error), _) => Err(error.clone()),
            (None, Place::Between | Place::PassLine) if self.pieces.peek().is_none() => Ok(()),
            _ => Err(Error::Truncated { what: WHAT, at: self.pieces.position() }.framing()),
        }
    }

    /// Goes on to the next event.
    fn advance(&mut self) -> Result<Option<(Piece, Parts)>> {
        while self.lost.is_none() {
            match self.place {
                Place::Between => match self.pieces.peek() {
                    None => return Ok(None),
                    Some(b'{') => {
                        if let Some(found) = self.line() {
                            return Ok(Some(found));
                        }
                        self.place = Place::Event { spans_lines: false };
                    }
                    Some(_) => {
                        self.place = Place::PassLine;
                        return Err(Error::malformed(WHAT, self.pieces.position(), "an object was expected"));
                    }
                },
                Place::Event { .. } if self.pieces.rest().is_empty() => return Ok(None),
                Place::Event { spans_lines } => match self.event(spans_lines)? {
                    Some(Piece::Passed) | None => {}
                    Some(piece) => return parts(self.pieces.text(piece)).map(|parts| Some((piece, parts))),
                },
                Place::PassLine => {
                    let rest = self.pieces.rest();
                    let (end, len) = (memchr(b'\n', rest), rest.len());
                    self.pieces.advance(end.map_or(len, |newline| newline + 1));
                    if end.is_none() {
                        return Ok(None);
                    }
                    self.place = Place::Between;
                }
            }
        }
        Ok(None)
    }

    /// The event that is exactly the next line, if there is such a one.
    fn line(&mut self) -> Option<(Piece, Parts)> {
        let rest = self.pieces.rest();
        let len = memchr(b'\n', rest).filter(|&len| len <= self.event_bytes_max)?;
        let parts = parts(&rest[..len]).ok()?;
        Some((self.pieces.take(len), parts))
    }

    /// Follows an event to the end of the line or chunk. Gives it if it ends there.
    fn event(&mut self, spans_lines: bool) -> Result<Option<Piece>> {
        let rest = self.pieces.rest();
        let newline = memchr(b'\n', rest);
        let len = newline.map_or(rest.len(), |newline| newline + 1);
        let outcome = self.pieces.value_within(len, self.event_bytes_max);
        let in_string = newline.is_some() && self.pieces.is_in_string();
        if in_string || !matches!(outcome, Ok(_) | Err(Error::Limit { .. })) {
            return Err(self.unsound(outcome.err(), spans_lines, in_string));
        }
        self.place = match self.pieces.is_begun() {
            true => Place::Event { spans_lines: spans_lines || newline.is_some() },
            false => Place::Between,
        };
        outcome
    }

    /// Lets go of an event that is not sound, and of the rest of its line; beyond that line it is not known what is what.
    fn unsound(&mut self, error: Option<Error>, spans_lines: bool, at_line_end: bool) -> Error {
        let why = "a line ends within a string";
        let error = error.unwrap_or(Error::malformed(WHAT, self.pieces.position(), why));
        self.pieces.forget();
        self.place = if at_line_end { Place::Between } else { Place::PassLine };
        if !spans_lines {
            return error;
        }
        self.lost.insert(error.framing()).clone()
    }
}

/// Where the parts of an event stand in its text.
struct Parts {
    event_type: Range<usize>,
    object: Range<usize>,
}

/// Takes the text of an event apart.
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
        (Some((event_type, Ok(Kind::String))), Some((object, Ok(_)))) => Ok(Parts { event_type, object }),
        (Some((_, Ok(Kind::String))), _) => Err(Error::malformed(WHAT, 0, "the event has no object")),
        _ => Err(Error::malformed(WHAT, 0, "the event has no type")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::json::testing::{any_bytes, any_json, captures, mutated, split, write_spaced};

    type Outcome = (Vec<Result<(String, Vec<u8>)>>, Result<()>);

    fn read(chunks: Vec<Bytes>, limits: &Limits) -> Outcome {
        let mut lines = Lines::new(limits);
        let mut events = Vec::new();
        for chunk in chunks {
            lines.push(chunk);
            while let Some(event) = lines.next() {
                events.push(event.map(|event| (event.event_type.into_owned(), event.object.to_vec())));
            }
        }
        (events, lines.finish())
    }

    fn read_whole(text: &[u8]) -> Outcome {
        read(split(text, &[]), &Limits::DEFAULT)
    }

    /// Events as `TYPE object`, errors as `!why` (`!!` for fatal ones).
    fn shown(text: &str) -> Vec<String> {
        let (events, end) = read_whole(text.as_bytes());
        let mut shown: Vec<_> = events
            .into_iter()
            .map(|event| match event {
                Ok((event_type, object)) => format!("{event_type} {}", String::from_utf8(object).unwrap()),
                Err(error) => format!("!{}{error}", if error.is_fatal() { "!" } else { "" }),
            })
            .collect();
        if let Err(error) = end {
            shown.push(format!("end: {error}"));
        }
        shown
    }

    #[test]
    fn one_event_a_line_in_any_order_of_members() {
        let text = "{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n\n\
                    {\"object\":{\"b\":\"\\n\"} , \"more\":[{}], \"type\":\"MODIFIED\"} \r\n\
                    {\"type\":\"X\\u0041\",\"object\":null}\n";
        assert_eq!(shown(text), [r#"ADDED {"a":1}"#, r#"MODIFIED {"b":"\n"}"#, "XA null"]);
    }

    #[test]
    fn an_event_printed_over_several_lines_is_one_event() {
        let text = "{\n  \"type\": \"ADDED\",\n  \"object\": {\n    \"a\": [\n 1\n]\n  }\n}\n\
                    {\"type\":\"DELETED\",\"object\":{}}\n\
                    {\"type\":\"ADDED\",\"object\":{\"a\":{}}\n}\n";
        assert_eq!(shown(text), ["ADDED {\n    \"a\": [\n 1\n]\n  }", "DELETED {}", r#"ADDED {"a":{}}"#]);
    }

    #[test]
    fn an_event_needs_no_line_end() {
        assert_eq!(
            shown(r#"{"type":"ADDED","object":1}{"type":"ADDED","object":2} {"type":"ADDED","object":3}"#),
            ["ADDED 1", "ADDED 2", "ADDED 3"]
        );
    }

    #[test]
    fn a_line_that_is_no_event_is_an_error_for_itself_alone() {
        let good = "{\"type\":\"ADDED\",\"object\":{}}\n";
        for (bad, why) in [
            ("Internal error: {}", "an object was expected"),
            ("[1]", "an object was expected"),
            ("{}", "the event has no type"),
            ("{\"type\":5,\"object\":{}}", "the event has no type"),
            ("{\"type\":\"ADDED\"}", "the event has no object"),
            ("{\"type\":\"ADDED\",\"object\":{]}}", "brackets don't pair up"),
            ("{\"type\":\"ADDED\",\"object\":}", "a value was expected"),
            ("{\"type\":\"ADDED\" \"object\":{}}", "a comma or the end was expected"),
            ("{\"type\":\"ADDED\",\"object\":{\"a\":\"b}}", "a line ends within a string"),
            ("{\"type\":\"ADDED\\x\",\"object\":{}}", "an unknown escape"),
        ] {
            let shown = shown(&format!("{good}{bad}\n{good}"));
            assert_eq!(
                (shown.len(), &*shown[0], &*shown[2]),
                (3, "ADDED {}", "ADDED {}"),
                "{bad}: {shown:?}"
            );
            assert!(shown[1].contains(why) && !shown[1].contains("!!"), "{bad}: {shown:?}");
        }
    }

    #[test]
    fn an_unsound_event_over_several_lines_loses_the_framing() {
        let shown = shown("{\n\"type\":\"ADDED\",\"object\":{]}}\n{\"type\":\"ADDED\",\"object\":{}}\n");
        assert_eq!(shown.len(), 2);
        assert!(shown[0].starts_with("!!") && shown[1].starts_with("end: "), "{shown:?}");
    }

    #[test]
    fn a_body_that_breaks_off_in_an_event_is_an_error_at_its_end() {
        let shown = shown("{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\",\"object\":{}");
        assert_eq!(shown.len(), 2);
        assert!(shown[1].contains("ends too early"), "{shown:?}");
    }

    #[test]
    fn an_event_too_large_is_passed_over_without_being_held() {
        let event = |text: &str| format!("{{\"type\":\"ADDED\",\"object\":{{\"a\":\"{text}\"}}}}\n");
        let text = [event("b"), event(&"x".repeat(5000)), event("c")].concat();
        let limits = Limits::DEFAULT.object_bytes_max(20);
        for places in [vec![], (0..text.len()).collect(), vec![60, 400, 5000], vec![5075]] {
            let (events, end) = read(split(text.as_bytes(), &places), &limits);
            assert_eq!(events.len(), 3, "{events:?}");
            assert!(events[0].is_ok() && events[2].is_ok());
            assert!(matches!(events[1], Err(Error::Limit { .. })), "{events:?}");
            end.unwrap();
        }
    }

    #[test]
    fn nesting_is_no_matter_of_framing() {
        let deep = |levels: usize| [&"[".repeat(levels)[..], &"]".repeat(levels)].concat();
        let good = "{\"type\":\"ADDED\",\"object\":{}}\n";
        let shown = shown(&format!("{{\"type\":\"ADDED\",\"object\":{}}}\n{good}", deep(100_000)));
        assert_eq!(shown.len(), 2);
        assert!(shown[0].contains("nesting"), "{}", shown[0]);
        assert_eq!(shown[1], "ADDED {}");
    }

    #[test]
    fn an_event_inside_one_chunk_is_a_slice_of_it() {
        let chunk =
            Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\",\n\"object\":{}}");
        let mut lines = Lines::new(&Limits::DEFAULT);
        lines.push(chunk.clone());
        for place in [25, 55] {
            let event = lines.next().unwrap().unwrap();
            assert_eq!((event.object, event.object.as_ptr()), (&b"{}"[..], chunk[place..].as_ptr()));
        }
    }

    #[test]
    fn captured_watches_give_what_serde_json_gives_however_they_are_cut() {
        for (name, body) in captures(true) {
            let whole = read_whole(&body);
            assert_eq!(whole.1, Ok(()), "{name}");
            let expected = serde_json::Deserializer::from_slice(&body).into_iter::<serde_json::Value>();
            let mut count = 0;
            for (event, expected) in whole.0.iter().zip(expected) {
                let ((event_type, object), expected) = (event.as_ref().unwrap(), expected.unwrap());
                assert_eq!(*event_type, expected["type"].as_str().unwrap(), "{name}");
                let object: serde_json::Value = serde_json::from_slice(object).unwrap();
                assert_eq!(object, expected["object"], "{name}");
                count += 1;
            }
            assert_eq!(count, body.iter().filter(|&&byte| byte == b'\n').count(), "{name}");
            for place in (0..body.len()).step_by(1 + body.len() / 600) {
                assert_eq!(read(split(&body, &[place]), &Limits::DEFAULT), whole, "{name} cut at {place}");
            }
            let everywhere: Vec<_> = (0..body.len()).collect();
            assert_eq!(read(split(&body, &everywhere), &Limits::DEFAULT), whole, "{name} cut everywhere");
        }
    }

    #[test]
    fn captured_watches_printed_prettily_give_the_same_events() {
        for (name, body) in captures(true) {
            let values: Vec<serde_json::Value> =
                serde_json::Deserializer::from_slice(&body).into_iter().collect::<Result<_, _>>().unwrap();
            let pretty: Vec<_> =
                values.iter().map(|value| serde_json::to_string_pretty(value).unwrap()).collect();
            let pretty = pretty.join("\n");
            let (events, end) = read(split(pretty.as_bytes(), &[100, 101, 700]), &Limits::DEFAULT);
            end.unwrap();
            assert_eq!(events.len(), values.len(), "{name}");
            for (event, value) in events.into_iter().zip(values) {
                let (event_type, object) = event.unwrap();
                assert_eq!(event_type, value["type"].as_str().unwrap(), "{name}");
                let object: serde_json::Value = serde_json::from_slice(&object).unwrap();
                assert_eq!(object, value["object"], "{name}");
            }
        }
    }

    /// A few lines, of which some are events.
    fn any_lines() -> impl Strategy<Value = Vec<u8>> {
        let event = (any_json(), any::<u64>()).prop_map(|(object, spaces)| {
            write_spaced(&serde_json::json!({ "type": "ADDED", "object": object }), spaces)
        });
        let line = prop_oneof![4 => event, 1 => mutated(), 1 => any_bytes()];
        vec(line, 0..5).prop_map(|lines| lines.join(&b'\n'))
    }

    proptest! {
        #[test]
        fn any_text_may_be_cut_anywhere(
            text in any_lines(),
            places in vec(any::<usize>(), 0..8),
            max in prop_oneof![Just(8 << 20), 0..40usize],
        ) {
            let limits = Limits::DEFAULT.object_bytes_max(max);
            prop_assert_eq!(read(split(&text, &places), &limits), read(split(&text, &[]), &limits));
        }
    }
}
