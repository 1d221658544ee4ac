//! Replays recorded requests against the server and compares its responses with the recorded ones.
//!
//! Values that cannot be equal are learned: when a response has a different resourceVersion, uid or token than the
//! recording, the recorded value is replaced with the server's from then on, in requests as well. Times are not
//! compared.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use embedded_apiserver::Server;
use kube_wire::internals::envelope::Envelope;
use kube_wire::schema::Schema;
use serde_json::Value;

use crate::support::{Answer, Session};

/// A session that replays captures.
pub struct Replay {
    session: Session,
    /// The server's values by the recording's resourceVersions, uids and tokens.
    known: HashMap<String, String>,
    pub failures: Vec<String>,
    pub checked: Vec<String>,
}

/// A recorded request and its response.
pub struct Capture {
    pub name: String,
    pub method: String,
    pub path: String,
    pub request_headers: Vec<(String, String)>,
    pub sent: Vec<u8>,
    pub code: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

const COMPARED_HEADERS: &[&str] = &["cache-control", "content-type", "retry-after", "warning", "vary"];
const TIMES: &[&str] = &["creationTimestamp", "time", "deletionTimestamp", "lastTransitionTime"];

impl Capture {
    pub fn read(name: &str) -> Self {
        let file = |ending: &str| {
            std::fs::read(
                Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("../wire/tests/captures")
                    .join(format!("{name}.{ending}")),
            )
        };
        let head = String::from_utf8(file("http").unwrap()).unwrap();
        let mut lines = head.lines();
        let (method, path) = lines.next().unwrap().split_once(' ').unwrap();
        let (mut request_headers, mut headers, mut code) = (Vec::new(), Vec::new(), 0);
        for line in lines {
            let (side, line) = line.split_at(2);
            match (side, line.split_once(": ")) {
                ("> ", Some((key, value))) => request_headers.push((key.to_owned(), value.to_owned())),
                ("< ", Some((key, value))) => headers.push((key.to_lowercase(), value.to_owned())),
                _ => code = line.split(' ').next().unwrap().parse().unwrap(),
            }
        }
        Self {
            name: name.to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            request_headers,
            sent: file("sent").unwrap_or_default(),
            code,
            headers,
            body: file("body").unwrap(),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Deref for Replay {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Replay {
    pub fn new(server: Server) -> Self {
        let session = Session::new(server);
        Self { session, known: HashMap::new(), failures: Vec::new(), checked: Vec::new() }
    }

    /// Replays captures one after the other and compares the responses.
    pub async fn check(&mut self, names: &[&str]) {
        for name in names {
            let capture = Capture::read(name);
            let answer = self.send(&capture).await;
            self.compare(&capture, &answer);
        }
    }

    /// Sends the recorded request, with known values replaced.
    pub async fn send(&self, capture: &Capture) -> Answer {
        let path = self.translate_path(&capture.path);
        let headers: Vec<(&str, &str)> =
            capture.request_headers.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        self.session.request(&capture.method, &path, &headers, capture.sent.clone()).await
    }

    fn translate_path(&self, path: &str) -> String {
        let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((key @ "resourceVersion", value)) => {
                format!("{key}={}", self.known.get(value).map_or(value, String::as_str))
            }
            Some((key @ "continue", value)) => format!("{key}={}", self.translate_token(value)),
            _ => pair.to_owned(),
        });
        format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
    }

    /// An unknown token may still contain a known revision.
    fn translate_token(&self, token: &str) -> String {
        if let Some(known) = self.known.get(token) {
            return known.clone();
        }
        let Some(mut parsed) =
            URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
        else {
            return token.to_owned();
        };
        let revision = parsed["rv"].to_string();
        let known = self.known.get(&revision).unwrap_or(&revision);
        parsed["rv"] = known.parse::<u64>().unwrap().into();
        URL_SAFE_NO_PAD.encode(parsed.to_string())
    }

    pub fn compare(&mut self, capture: &Capture, answer: &Answer) {
        self.checked.push(capture.name.clone());
        let mut differences = Vec::new();
        if answer.code != capture.code {
            differences.push(format!("code: {} instead of {}", answer.code, capture.code));
        }
        for name in COMPARED_HEADERS {
            let ours = answer.headers.get(*name).and_then(|value| value.to_str().ok());
            if ours != capture.header(name) {
                differences.push(format!("header {name}: {ours:?} instead of {:?}", capture.header(name)));
            }
        }
        let (theirs, ours) = (documents(capture, &capture.body), documents(capture, &answer.body));
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => {
                if theirs.len() != ours.len() {
                    differences.push(format!("{} documents instead of {}", ours.len(), theirs.len()));
                }
                for (theirs, ours) in theirs.iter().zip(&ours) {
                    self.compare_values("", theirs, ours, &mut differences);
                }
            }
            (Err(theirs), Err(ours)) if theirs == ours => {}
            (theirs, ours) => differences.push(format!("{ours:?}\ninstead of\n{theirs:?}")),
        }
        if !differences.is_empty() {
            self.failures.push(format!("{}:\n  {}", capture.name, differences.join("\n  ")));
        }
    }

    fn compare_values(&mut self, path: &str, theirs: &Value, ours: &Value, differences: &mut Vec<String>) {
        let name = path.rsplit('.').next().unwrap_or_default();
        if TIMES.contains(&name) && theirs.is_string() && ours.is_string() {
            return;
        }
        match (theirs, ours) {
            (Value::Object(a), Value::Object(b)) => {
                for (key, value) in a {
                    match b.get(key) {
                        Some(other) => {
                            self.compare_values(&format!("{path}.{key}"), value, other, differences);
                        }
                        None => differences.push(format!("{path}.{key}: missing, should be {value}")),
                    }
                }
                for key in b.keys().filter(|key| !a.contains_key(*key)) {
                    differences.push(format!("{path}.{key}: {} should not be there", b[key]));
                }
            }
            (Value::Array(a), Value::Array(b)) => {
                if a.len() != b.len() {
                    differences.push(format!("{path}: {} elements instead of {}", b.len(), a.len()));
                }
                for (at, (theirs, ours)) in a.iter().zip(b).enumerate() {
                    self.compare_values(&format!("{path}[{at}]"), theirs, ours, differences);
                }
            }
            (Value::String(a), Value::String(b)) => {
                if !self.same_text(name, a, b) {
                    differences.push(format!("{path}: {b:?} instead of {a:?}"));
                }
            }
            (a, b) if a == b => {}
            (a, b) => differences.push(format!("{path}: {b} instead of {a}")),
        }
    }

    fn same_text(&mut self, name: &str, theirs: &str, ours: &str) -> bool {
        if theirs == ours {
            return true;
        }
        match name {
            "resourceVersion" | "uid" | "continue" if !theirs.is_empty() && !ours.is_empty() => {
                self.known.insert(theirs.to_owned(), ours.to_owned());
                true
            }
            "name" if theirs.starts_with("gen-") && ours.starts_with("gen-") => theirs.len() == ours.len(),
            "message" => self.translate_text(theirs) == self.translate_text(ours),
            _ => false,
        }
    }

    /// A message with known values replaced and current revisions removed.
    fn translate_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (theirs, ours) in self.known.iter().filter(|(theirs, _)| theirs.len() > 20) {
            text = text.replace(theirs, ours);
        }
        for mark in ["current: ", "resource version: 1 ("] {
            if let Some((before, after)) = text.split_once(mark) {
                let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
                text = format!("{before}{mark}N{rest}");
            }
        }
        text
    }
}

/// The documents in a body, JSON (a single one, or one per line) or protobuf, as values.
fn documents(capture: &Capture, body: &[u8]) -> Result<Vec<Value>, String> {
    let content_type = capture.header("content-type").unwrap_or_default();
    let documents = if content_type.starts_with("application/vnd.kubernetes.protobuf;stream") {
        frames(body)
    } else if content_type.starts_with("application/vnd.kubernetes.protobuf") {
        vec![opened(body)]
    } else {
        let texts = serde_json::Deserializer::from_slice(body).into_iter();
        let texts: Result<Vec<Value>, _> = texts.collect();
        texts.map_err(|_| String::from_utf8_lossy(body).into_owned())?
    };
    // A kube-apiserver may send two equal bookmarks within the last second of a watch; compare them as one.
    let mut documents = documents;
    documents.dedup_by(|b, a| a == b && a["type"] == "BOOKMARK");
    Ok(documents)
}

fn opened(bytes: &[u8]) -> Value {
    let envelope = Envelope::open(bytes).unwrap();
    let message = Schema::builtin().kind(envelope.api_version, envelope.kind).unwrap_or_else(|| {
        panic!("no schema for {} {}", envelope.api_version, envelope.kind);
    });
    let mut value: Value = kube_wire::internals::de::from_slice(envelope.raw, message).unwrap();
    value["apiVersion"] = envelope.api_version.into();
    value["kind"] = envelope.kind.into();
    value
}

fn frames(mut bytes: &[u8]) -> Vec<Value> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        bytes = rest;
        let mut reader = kube_wire::internals::proto::Reader::new(frame);
        let (mut kind, mut object) = (String::new(), Value::Null);
        while let Some(tag) = reader.tag().unwrap() {
            let part = reader.expect_bytes(tag).unwrap();
            match tag.number {
                1 => kind = String::from_utf8(part.to_vec()).unwrap(),
                _ => {
                    let mut inner = kube_wire::internals::proto::Reader::new(part);
                    let tag = inner.tag().unwrap().unwrap();
                    object = opened(inner.expect_bytes(tag).unwrap());
                }
            }
        }
        frames.push(serde_json::json!({"type": kind, "object": object}));
    }
    frames
}
