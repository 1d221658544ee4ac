//! What a server says when it refuses: a `Status` in either encoding, or plain text, or a proxy's HTML page, made into
//! one error that can be asked what it means.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::Encoding;
use crate::envelope::{Envelope, MAGIC};
use crate::error::Result;
use crate::proto::Reader;

/// A server's refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct Status {
    /// HTTP code; 0 if a `Status` inside a stream carried none.
    pub code: u16,
    /// The reason in one word, as the API knows it: `NotFound`, `Expired`, `Forbidden`; empty if the server gave none.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// What exactly was wrong, where the server says.
    pub causes: Vec<StatusCause>,
    /// How long the server asks to be left alone.
    pub retry_after: Option<Duration>,
    /// A fresh continue token that comes with an expired one: the list can go on, but is no longer consistent.
    pub continue_token: String,
    /// uid of the object concerned, where the server says it.
    pub uid: String,
}

/// One cause in a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusCause {
    /// The cause in one word, e.g. `ResourceVersionTooLarge`.
    pub reason: String,
    /// The cause for people.
    pub message: String,
    /// The field it is about.
    pub field: String,
}

/// Longest message taken from a body that is no `Status`.
const TEXT_MAX: usize = 512;

// === impl Status ===

impl Status {
    /// Makes sense of an error answer, whatever it is written in. `retry_after` is the header of that name.
    ///
    /// ```
    /// use kube_wire::Status;
    /// let status = Status::from_response(429, "text/plain", Some("1"), b"too many requests\n");
    /// assert!(status.is_too_many_requests());
    /// assert_eq!(status.retry_after.unwrap().as_secs(), 1);
    /// assert_eq!(status.to_string(), "429 TooManyRequests: too many requests");
    /// ```
    pub fn from_response(code: u16, content_type: &str, retry_after: Option<&str>, body: &[u8]) -> Self {
        let parsed = match Encoding::from_content_type(content_type) {
            Some(encoding) => Self::from_body(body, encoding).ok(),
            // Some servers answer a Status without saying so.
            None if body.starts_with(&MAGIC) => Self::from_body(body, Encoding::Protobuf).ok(),
            None if body.trim_ascii_start().starts_with(b"{") => Self::from_body(body, Encoding::Json).ok(),
            None => None,
        };
        let mut status =
            parsed.unwrap_or_else(|| Self { message: message_of(content_type, body), ..Self::default() });
        if status.code == 0 {
            status.code = code;
        }
        if status.reason.is_empty() {
            status.reason = reason_of(status.code).to_owned();
        }
        let header = retry_after.and_then(|seconds| seconds.trim().parse().ok()).map(Duration::from_secs);
        status.retry_after = status.retry_after.max(header);
        status
    }

    /// What a redirect means to a client that does not follow it: credentials must not go to another server.
    pub fn redirect(code: u16, location: &str) -> Self {
        let mut message = String::from("the server redirects elsewhere");
        if !location.is_empty() {
            let location: String = location.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect();
            message = format!("the server redirects to {location}");
        }
        message.push_str(", which is not followed; use the API server's own address");
        Self { code, reason: "Redirect".to_owned(), message, ..Self::default() }
    }

    /// Reads a `Status` object: JSON text, or a protobuf envelope.
    ///
    /// # Errors
    /// If the body is not an object of kind `Status`.
    pub fn from_body(body: &[u8], encoding: Encoding) -> Result<Self> {
        match encoding {
            Encoding::Json => Self::from_json(body),
            Encoding::Protobuf => {
                let envelope = Envelope::open(body)?;
                if envelope.kind != "Status" {
                    return Err(not_a_status(envelope.kind));
                }
                Self::from_protobuf(envelope.raw)
            }
        }
    }

    fn from_json(text: &[u8]) -> Result<Self> {
        let json: JsonStatus =
            serde_json::from_slice(text).map_err(|error| crate::Error::Value(format!("Status: {error}")))?;
        if json.kind != "Status" {
            return Err(not_a_status(&json.kind));
        }
        let details = json.details.unwrap_or_default();
        Ok(Self {
            code: json.code.unwrap_or_default(),
            reason: json.reason.unwrap_or_default(),
            message: json.message.unwrap_or_default(),
            causes: details.causes.unwrap_or_default().into_iter().map(StatusCause::from).collect(),
            retry_after: retry_after(details.retry_after_seconds.unwrap_or_default()),
            continue_token: json.metadata.unwrap_or_default().continue_token.unwrap_or_default(),
            uid: details.uid.unwrap_or_default(),
        })
    }

    fn from_protobuf(message: &[u8]) -> Result<Self> {
        let mut status = Self::default();
        let mut reader = Reader::new(message);
        while let Some(tag) = reader.tag()? {
            match tag.number {
                1 => {
                    let mut meta = Reader::new(reader.expect_bytes(tag)?);
                    while let Some(tag) = meta.tag()? {
                        match tag.number {
                            3 => meta.expect_string(tag)?.clone_into(&mut status.continue_token),
                            _ => meta.skip(tag.wire_type)?,
                        }
                    }
                }
                3 => reader.expect_string(tag)?.clone_into(&mut status.message),
                4 => reader.expect_string(tag)?.clone_into(&mut status.reason),
                5 => status.details_from_protobuf(reader.expect_bytes(tag)?)?,
                6 => status.code = u16::try_from(reader.expect_varint(tag)?).unwrap_or_default(),
                _ => reader.skip(tag.wire_type)?,
            }
        }
        Ok(status)
    }

    fn details_from_protobuf(&mut self, message: &[u8]) -> Result<()> {
        let mut reader = Reader::new(message);
        while let Some(tag) = reader.tag()? {
            match tag.number {
                4 => {
                    let mut cause = StatusCause::default();
                    let mut inner = Reader::new(reader.expect_bytes(tag)?);
                    while let Some(tag) = inner.tag()? {
                        match tag.number {
                            1 => inner.expect_string(tag)?.clone_into(&mut cause.reason),
                            2 => inner.expect_string(tag)?.clone_into(&mut cause.message),
                            3 => inner.expect_string(tag)?.clone_into(&mut cause.field),
                            _ => inner.skip(tag.wire_type)?,
                        }
                    }
                    self.causes.push(cause);
                }
                5 => self.retry_after = retry_after(reader.expect_varint(tag)?.cast_signed()),
                6 => reader.expect_string(tag)?.clone_into(&mut self.uid),
                _ => reader.skip(tag.wire_type)?,
            }
        }
        Ok(())
    }

    /// The resourceVersion or continue token is gone: 410, reason `Expired` or `Gone`.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason.as_str(), "Expired" | "Gone") || (self.reason.is_empty() && self.code == 410)
    }

    /// The resourceVersion asked for is newer than the server's.
    pub fn is_too_large_resource_version(&self) -> bool {
        const TEXT: &str = "Too large resource version";
        self.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
            || (self.reason == "Timeout"
                && (self.message.contains(TEXT)
                    || self.causes.iter().any(|cause| cause.message.contains(TEXT))))
    }

    /// 429: the server is overloaded.
    pub fn is_too_many_requests(&self) -> bool {
        self.reason == "TooManyRequests" || self.code == 429
    }

    /// 500 with reason `InternalError`.
    pub fn is_internal_error(&self) -> bool {
        self.reason == "InternalError"
    }

    /// 401, 403 or 404: trying again will not help until somebody changes something.
    pub fn is_refusal(&self) -> bool {
        matches!(self.code, 401 | 403 | 404)
    }

    /// A refusal of a list that repeating the request cannot change: one of [`is_refusal`](Self::is_refusal), or 400, 405, 406
    /// or 422.
    pub fn is_list_refusal(&self) -> bool {
        self.is_refusal() || matches!(self.code, 400 | 405 | 406 | 422)
    }

    /// 422: the request itself is wrong, e.g. watch-list on a server that does not know it.
    pub fn is_invalid(&self) -> bool {
        self.reason == "Invalid" || self.code == 422
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.reason.as_str()) {
            (0, "") => f.write_str("refused")?,
            (0, reason) => f.write_str(reason)?,
            (code, "") => write!(f, "{code}")?,
            (code, reason) => write!(f, "{code} {reason}")?,
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

// === JSON form ===

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonStatus {
    #[serde(default)]
    kind: String,
    metadata: Option<JsonMeta>,
    message: Option<String>,
    reason: Option<String>,
    details: Option<JsonDetails>,
    code: Option<u16>,
}

#[derive(Default, Deserialize)]
struct JsonMeta {
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonDetails {
    uid: Option<String>,
    causes: Option<Vec<JsonCause>>,
    retry_after_seconds: Option<i64>,
}

#[derive(Deserialize)]
struct JsonCause {
    reason: Option<String>,
    message: Option<String>,
    field: Option<String>,
}

impl From<JsonCause> for StatusCause {
    fn from(cause: JsonCause) -> Self {
        Self {
            reason: cause.reason.unwrap_or_default(),
            message: cause.message.unwrap_or_default(),
            field: cause.field.unwrap_or_default(),
        }
    }
}

// === helpers ===

fn not_a_status(kind: &str) -> crate::Error {
    crate::Error::Value(format!("an object of kind Status was expected, not `{kind}`"))
}

fn retry_after(seconds: i64) -> Option<Duration> {
    u64::try_from(seconds).ok().filter(|&seconds| seconds > 0).map(Duration::from_secs)
}

/// The reason that goes with an HTTP code where the server gave none.
fn reason_of(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}

/// The message of a body that is not a `Status`. An API server never writes HTML: a proxy, a load balancer or a login page
/// answered in its place, and the message says so.
fn message_of(content_type: &str, body: &[u8]) -> String {
    let start = body.trim_ascii_start();
    let is_html = content_type.to_ascii_lowercase().contains("html")
        || ["<!doctype html", "<html"].iter().any(|tag| {
            start.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
        });
    match (is_html, text(body)) {
        (false, text) => text,
        (true, text) if text.is_empty() => "an empty HTML page, not from a Kubernetes API server".to_owned(),
        (true, text) => {
            format!("{text} (an HTML page, not from a Kubernetes API server: a proxy or login page?)")
        }
    }
}

/// The readable part of a text or HTML body, on one line and not too long.
fn text(body: &[u8]) -> String {
    // Four times the message is enough to find it behind tags, whatever the size of the page.
    let body = String::from_utf8_lossy(&body[..body.len().min(16 * TEXT_MAX)]);
    let mut plain = String::new();
    let mut rest = &*body;
    while let Some(open) = rest.find('<') {
        plain.push_str(&rest[..open]);
        plain.push(' ');
        let tag = &rest[open..];
        // What stands in these is no message.
        let end = ["style", "script", "head"]
            .iter()
            .find(|name| tag.get(1..=name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))
            .and_then(|name| tag.to_ascii_lowercase().find(&format!("</{name}")));
        let tag = &tag[end.unwrap_or_default()..];
        rest = tag.find('>').map_or("", |close| &tag[close + 1..]);
    }
    plain.push_str(rest);
    let mut line = String::new();
    for word in plain.split_whitespace() {
        if line.len() + word.len() >= TEXT_MAX {
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_and_html_become_a_message() {
        for (content_type, body, message) in [
            ("text/plain; charset=utf-8", "404 page not found\n", "404 page not found"),
            (
                "text/html",
                "<html><head><title>502</title><style>b{}</style></head>\n<body><h1>Bad  Gateway</h1><hr>nginx</body></html>",
                "Bad Gateway nginx (an HTML page, not from a Kubernetes API server: a proxy or login page?)",
            ),
            ("application/json", "not json at all", "not json at all"),
            ("", "", ""),
            ("text/html", "<html", "an empty HTML page, not from a Kubernetes API server"),
            (
                "",
                " <!DOCTYPE html><p>Log in",
                "Log in (an HTML page, not from a Kubernetes API server: a proxy or login page?)",
            ),
        ] {
            assert_eq!(Status::from_response(502, content_type, None, body.as_bytes()).message, message);
        }
        let long = Status::from_response(500, "text/plain", None, "word ".repeat(100_000).as_bytes());
        assert!(long.message.len() < TEXT_MAX + 4);
        assert!(long.is_internal_error());
    }

    #[test]
    fn the_longer_of_the_two_waits_counts() {
        let body = br#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":3}}"#;
        let status = Status::from_response(429, "application/json", Some("1"), body);
        assert_eq!(status.retry_after, Some(Duration::from_secs(3)));
        let status = Status::from_response(429, "application/json", Some("7"), body);
        assert_eq!(status.retry_after, Some(Duration::from_secs(7)));
        let status = Status::from_response(429, "application/json", Some("Wed, 21 Oct"), body);
        assert_eq!(status.retry_after, Some(Duration::from_secs(3)));
    }
}
