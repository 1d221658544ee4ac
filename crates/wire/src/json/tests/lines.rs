//! Watches in JSON: complete, split and damaged.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{any_bytes, any_json, captures, mutated, split, write_spaced};
use crate::error::Result;
use crate::json::Lines;
use crate::limits::Limits;

type LinesOutcome = (Vec<Result<(String, Vec<u8>)>>, Result<()>);

fn read(chunks: Vec<Bytes>, limits: &Limits) -> LinesOutcome {
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

fn read_whole(text: &[u8]) -> LinesOutcome {
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
fn event_members_may_be_in_any_order() {
    let text = "{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n\n\
                {\"object\":{\"b\":\"\\n\"} , \"more\":[{}], \"type\":\"MODIFIED\"} \r\n\
                {\"type\":\"X\\u0041\",\"object\":null}\n";
    assert_eq!(shown(text), [r#"ADDED {"a":1}"#, r#"MODIFIED {"b":"\n"}"#, "XA null"]);
}

#[test]
fn a_pretty_printed_event_is_one_event() {
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
fn many_values_in_one_line_take_linear_time() {
    // This would scan 40 GB if each value searched for the line's end again.
    let event = r#"{"type":"A","object":1}"#;
    let (events, end) = read(vec![Bytes::from(event.repeat(60_000))], &Limits::DEFAULT);
    assert!(events.len() == 60_000 && events.iter().all(Result::is_ok) && end.is_ok());
}

#[test]
fn an_invalid_line_is_one_error() {
    let good = "{\"type\":\"ADDED\",\"object\":{}}\n";
    for (bad, why) in [
        ("Internal error: {}", "expected an object"),
        ("[1]", "expected an object"),
        ("{}", "the event has no type"),
        ("{\"type\":5,\"object\":{}}", "the event has no type"),
        ("{\"type\":\"ADDED\"}", "the event has no object"),
        ("{\"type\":\"ADDED\",\"object\":{]}}", "mismatched brackets"),
        ("{\"type\":\"ADDED\",\"object\":}", "expected a value"),
        ("{\"type\":\"ADDED\" \"object\":{}}", "expected a comma or the end"),
        ("{\"type\":\"ADDED\",\"object\":{\"a\":\"b}}", "line ends within a string"),
        ("{\"type\":\"ADDED\\x\",\"object\":{}}", "unknown escape"),
    ] {
        let shown = shown(&format!("{good}{bad}\n{good}"));
        assert_eq!((shown.len(), &*shown[0], &*shown[2]), (3, "ADDED {}", "ADDED {}"), "{bad}: {shown:?}");
        assert!(shown[1].contains(why) && !shown[1].contains("!!"), "{bad}: {shown:?}");
    }
}

#[test]
fn a_malformed_event_across_lines_loses_the_framing() {
    let shown = shown("{\n\"type\":\"ADDED\",\"object\":{]}}\n{\"type\":\"ADDED\",\"object\":{}}\n");
    assert_eq!(shown.len(), 2);
    assert!(shown[0].starts_with("!!") && shown[1].starts_with("end: "), "{shown:?}");
}

#[test]
fn a_body_truncated_in_an_event_is_an_error_at_its_end() {
    let shown = shown("{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\",\"object\":{}");
    assert_eq!(shown.len(), 2);
    assert!(shown[1].contains("truncated"), "{shown:?}");
}

#[test]
fn an_oversized_event_is_skipped_without_buffering() {
    let event = |text: &str| format!("{{\"type\":\"ADDED\",\"object\":{{\"a\":\"{text}\"}}}}\n");
    let text = [event("b"), event(&"x".repeat(5000)), event("c")].concat();
    let limits = Limits::DEFAULT.object_bytes_max(20);
    for places in [vec![], (0..text.len()).collect(), vec![60, 400, 5000], vec![5075]] {
        let (events, end) = read(split(text.as_bytes(), &places), &limits);
        assert_eq!(events.len(), 3, "{events:?}");
        assert!(events[0].is_ok() && events[2].is_ok());
        let error = events[1].as_ref().unwrap_err();
        assert_eq!((error.event_type(), error.key()), (Some("ADDED"), None));
        assert!(error.to_string().starts_with("limit on object size"), "{error}");
        end.unwrap();
    }
}

#[test]
fn framing_works_at_any_nesting_depth() {
    let deep = [&"[".repeat(100_000)[..], &"]".repeat(100_000)].concat();
    let good = "{\"type\":\"ADDED\",\"object\":{}}\n";
    let shown = shown(&format!("{{\"type\":\"ADDED\",\"object\":{deep}}}\n{good}"));
    assert_eq!(shown, [format!("ADDED {deep}"), "ADDED {}".to_owned()]);
}

#[test]
fn an_event_within_one_chunk_is_a_slice_of_it() {
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
fn captured_watches_match_serde_json_at_any_split() {
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
fn pretty_printed_captured_watches_give_the_same_events() {
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

/// A few lines, some of which are events.
fn any_lines() -> impl Strategy<Value = Vec<u8>> {
    let event = (any_json(), any::<u64>()).prop_map(|(object, spaces)| {
        write_spaced(&serde_json::json!({ "type": "ADDED", "object": object }), spaces)
    });
    let line = prop_oneof![4 => event, 1 => mutated(), 1 => any_bytes()];
    vec(line, 0..5).prop_map(|lines| lines.join(&b'\n'))
}

proptest! {
    #[test]
    fn any_text_may_be_split_anywhere(
        text in any_lines(),
        places in vec(any::<usize>(), 0..8),
        max in prop_oneof![Just(8 << 20), 0..40usize],
    ) {
        let limits = Limits::DEFAULT.object_bytes_max(max);
        prop_assert_eq!(read(split(&text, &places), &limits), read(split(&text, &[]), &limits));
    }

    #[test]
    fn pushing_chunks_ahead_changes_nothing(text in any_lines(), places in vec(any::<usize>(), 0..8)) {
        let mut lines = Lines::new(&Limits::DEFAULT);
        split(&text, &places).into_iter().for_each(|chunk| lines.push(chunk));
        let mut events = Vec::new();
        while let Some(event) = lines.next() {
            events.push(event.map(|event| (event.event_type.into_owned(), event.object.to_vec())));
        }
        prop_assert_eq!((events, lines.finish()), read_whole(&text));
    }
}
