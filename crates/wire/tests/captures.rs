//! Responses of a real kube-apiserver (`tests/captures`), read by the public decoders: every list, every watch and
//! every error, in both encodings and with any chunk sizes. The results are compared, line by line, with
//! `tests/captures.expected`; `UPDATE_EXPECT=1 cargo test` rewrites that file, for review as a diff.

#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use bytes::Bytes;
use kube_wire::{
    Encoding, Head, Limits, ListDecoder, ObjectReader, Projection, Status, WatchDecoder, WatchEvent,
};
use proptest::prelude::*;

/// One request and its response.
struct Capture {
    name: String,
    request: String,
    code: u16,
    headers: BTreeMap<String, String>,
    body: Bytes,
}

enum What {
    List(Encoding),
    Watch(Encoding),
    Error,
}

#[test]
fn every_capture_is_read_as_expected() {
    let mut lines = String::new();
    for capture in captures() {
        if let Some(what) = capture.what() {
            writeln!(lines, "{}", capture.name).unwrap();
            for line in capture.read(&what, std::slice::from_ref(&capture.body)) {
                writeln!(lines, "    {line}").unwrap();
            }
        }
    }
    let expected = folder().with_file_name("captures.expected");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&expected, &lines).unwrap();
    }
    assert_eq!(lines, std::fs::read_to_string(&expected).unwrap_or_default());
}

#[test]
fn a_body_may_be_split_in_two_anywhere() {
    for capture in captures().iter().filter(|capture| capture.body.len() < 3_000) {
        let Some(what @ (What::List(_) | What::Watch(_))) = capture.what() else { continue };
        let whole = capture.read(&what, std::slice::from_ref(&capture.body));
        for at in 0..=capture.body.len() {
            let halves = [capture.body.slice(..at), capture.body.slice(at..)];
            assert_eq!(capture.read(&what, &halves), whole, "{} cut at {at}", capture.name);
        }
    }
}

#[test]
fn json_and_protobuf_of_the_same_response_are_equal() {
    let captures =
        captures().iter().map(|capture| (capture.name.as_str(), capture)).collect::<BTreeMap<_, _>>();
    for (json, protobuf) in [
        ("list-json", "list-protobuf"),
        ("list-limit2-page1", "list-limit2-protobuf-page1"),
        ("list-partialmeta-json", "list-partialmeta-protobuf"),
        ("list-rv-toolarge-json", "list-rv-toolarge-protobuf"),
        ("list-continue-expired", "list-continue-expired-protobuf"),
        ("get-missing", "get-missing-protobuf"),
        ("watch-rv-old", "watch-rv-old-protobuf"),
        ("watch-expired-json", "watch-expired-protobuf"),
        ("watchlist-json", "watchlist-protobuf"),
    ] {
        // Events during a watch-list differ between recordings; its initial events do not.
        let compared = if json == "watchlist-json" { 5 } else { usize::MAX };
        let [json, protobuf] = [json, protobuf].map(|name| {
            let capture = captures[name];
            let what = capture.what().unwrap();
            capture.read(&what, std::slice::from_ref(&capture.body))
        });
        assert!(!json.is_empty());
        // Two requests happen at two times: the server's revision advances, and bookmarks depend on the clock.
        let timeless = |lines: Vec<String>| {
            let periodic =
                |line: &String| line.starts_with("bookmark") && !line.ends_with("initial-events-end");
            let cut = |line: String| line.split(", current: ").next().unwrap_or_default().to_owned();
            lines.into_iter().filter(|line| !periodic(line)).map(cut).take(compared).collect::<Vec<_>>()
        };
        assert_eq!(timeless(json), timeless(protobuf));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_body_may_be_split_into_any_chunks(sizes in prop::collection::vec(1usize..200, 1..40), pick in any::<prop::sample::Index>()) {
        let captures = captures();
        let readable = captures
            .iter()
            .filter(|capture| capture.body.len() < 50_000 && matches!(capture.what(), Some(What::List(_) | What::Watch(_))))
            .collect::<Vec<_>>();
        let capture = readable[pick.index(readable.len())];
        let what = capture.what().unwrap();
        let mut chunks = Vec::new();
        let mut rest = capture.body.clone();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            chunks.push(rest.split_to((*size).min(rest.len())));
        }
        prop_assert_eq!(capture.read(&what, &chunks), capture.read(&what, std::slice::from_ref(&capture.body)));
    }

    #[test]
    fn a_damaged_body_never_panics(
        pick in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        chunk in 1usize..4096,
    ) {
        let captures = captures();
        let readable = captures.iter().filter(|capture| capture.what().is_some()).collect::<Vec<_>>();
        let capture = readable[pick.index(readable.len())];
        prop_assume!(!capture.body.is_empty() && capture.body.len() < 50_000);
        let mut body = capture.body.to_vec();
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let chunks = body.chunks(chunk).map(Bytes::copy_from_slice).collect::<Vec<_>>();
        capture.read(&capture.what().unwrap(), &chunks);
    }
}

// === reading ===

impl Capture {
    /// The kind of test vector; `None` for single objects, discovery and similar responses.
    fn what(&self) -> Option<What> {
        let content_type = self.headers.get("content-type").map_or("", String::as_str);
        if self.code >= 400 {
            return Some(What::Error);
        }
        if self.headers.contains_key("content-encoding") {
            return None; // the client unpacks it before it comes here
        }
        let encoding = Encoding::from_content_type(content_type)?;
        if self.request.contains("watch=1") || self.request.contains("watch=true") {
            return Some(What::Watch(encoding));
        }
        let is_list = match encoding {
            Encoding::Json => {
                let body: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
                let kind = body["kind"].as_str()?;
                body["items"].is_array() && kind.ends_with("List") || kind == "Table"
            }
            Encoding::Protobuf => kube_wire::internals::envelope::Envelope::open(&self.body)
                .is_ok_and(|envelope| envelope.kind.ends_with("List")),
        };
        is_list.then_some(What::List(encoding))
    }

    /// Reads the body in chunks; returns one line per result.
    fn read(&self, what: &What, chunks: &[Bytes]) -> Vec<String> {
        match what {
            What::List(encoding) => read_list(*encoding, chunks),
            What::Watch(encoding) => read_watch(*encoding, chunks),
            What::Error => {
                let header = |name: &str| self.headers.get(name).map(String::as_str);
                let status = Status::from_response(
                    self.code,
                    header("content-type").unwrap_or_default(),
                    header("retry-after"),
                    &chunks.concat(),
                );
                print_status(&status)
            }
        }
    }
}

fn reader() -> ObjectReader {
    ObjectReader::new(Projection::default(), Limits::default())
}

fn read_list(encoding: Encoding, chunks: &[Bytes]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut list = ListDecoder::new(encoding, reader());
    for chunk in chunks {
        list.push(chunk.clone());
        while let Some(item) = list.next_item() {
            match item {
                Ok(item) => lines.push(format!("item {}", print(item.head()))),
                Err(error) if error.is_fatal() => return [lines, vec![format!("lost: {error}")]].concat(),
                Err(error) => lines.push(format!("bad item: {error}")),
            }
        }
    }
    lines.push(match list.finish() {
        Ok(head) => format!(
            "{} {} rv={} continue={} remaining={:?}",
            head.api_version,
            head.kind,
            head.resource_version,
            !head.continue_token.is_empty(),
            head.remaining_item_count
        ),
        Err(error) => format!("lost: {error}"),
    });
    lines
}

fn read_watch(encoding: Encoding, chunks: &[Bytes]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut watch = WatchDecoder::new(encoding, reader());
    for chunk in chunks {
        watch.push(chunk.clone());
        while let Some(event) = watch.next_event() {
            match event {
                Ok(WatchEvent::Added(object)) => lines.push(format!("added {}", print(object.head()))),
                Ok(WatchEvent::Modified(object)) => lines.push(format!("modified {}", print(object.head()))),
                Ok(WatchEvent::Deleted(object)) => lines.push(format!("deleted {}", print(object.head()))),
                Ok(WatchEvent::Bookmark(object)) => lines.push(format!("bookmark {}", print(object.head()))),
                Ok(WatchEvent::Error(status)) => {
                    lines.extend(print_status(&status).into_iter().map(|line| format!("error {line}")));
                }
                Ok(other) => lines.push(format!("{other:?}")),
                Err(error) if error.is_fatal() => return [lines, vec![format!("lost: {error}")]].concat(),
                Err(error) => lines.push(format!("bad event: {error}")),
            }
        }
    }
    if let Err(error) = watch.finish() {
        lines.push(format!("lost: {error}"));
    }
    lines
}

fn print(head: Head<'_>) -> String {
    let mut line = format!(
        "{} {}/{} uid={} rv={} generation={}",
        head.type_meta(),
        head.namespace(),
        head.name(),
        head.uid(),
        head.resource_version(),
        head.generation()
    );
    for (key, value) in head.labels() {
        write!(line, " {key}={value}").unwrap();
    }
    for owner in head.owners() {
        write!(line, " owner={}/{}/{}", owner.api_version, owner.kind, owner.name).unwrap();
    }
    if head.is_deleting() {
        line += " deleting";
    }
    if head.is_initial_events_end() {
        line += " initial-events-end";
    }
    line
}

fn print_status(status: &Status) -> Vec<String> {
    let mut lines = vec![format!("{status}")];
    for cause in &status.causes {
        lines.push(format!("cause {} {} {}", cause.reason, cause.field, cause.message));
    }
    if let Some(wait) = status.retry_after {
        lines.push(format!("retry after {wait:?}"));
    }
    if !status.continue_token.is_empty() {
        lines.push("with a fresh continue token".to_owned());
    }
    lines
}

// === captures on disk ===

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

fn captures() -> &'static [Capture] {
    static CAPTURES: LazyLock<Vec<Capture>> = LazyLock::new(read_captures);
    &CAPTURES
}

fn read_captures() -> Vec<Capture> {
    let mut names = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".http")?.to_owned()))
        .collect::<Vec<_>>();
    names.sort();
    assert!(names.len() > 100, "captures are missing");
    names.into_iter().map(capture).collect()
}

/// `NAME.http` contains the request line, the request's headers after `>` and the response's after `<`.
fn capture(name: String) -> Capture {
    let http = std::fs::read_to_string(folder().join(format!("{name}.http"))).unwrap();
    let mut lines = http.lines();
    let request = lines.next().unwrap().to_owned();
    let mut answer = lines.filter_map(|line| line.strip_prefix("< "));
    let code = answer.next().unwrap().split(' ').next().unwrap().parse().unwrap();
    let headers = answer
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let body = std::fs::read(folder().join(format!("{name}.body"))).unwrap_or_default().into();
    Capture { name, request, code, headers, body }
}
