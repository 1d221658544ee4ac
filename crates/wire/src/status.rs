//! Error responses: a `Status` in either encoding, plain text, or a proxy's HTML page, converted to one error type.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::Encoding;
use crate::envelope::{Envelope, MAGIC};
use crate::error::Result;
use crate::proto::Reader;

/// An error response of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct Status {
    /// HTTP status code; 0 if a `Status` in a stream has none.
    pub code: u16,
    /// The API's one-word reason: `NotFound`, `Expired`, `Forbidden`; empty if absent.
    pub reason: String,
    /// The human-readable message.
    pub message: String,
    /// The individual causes, if the server lists them.
    pub causes: Vec<StatusCause>,
    /// How long the server asks clients to wait before retrying.
    pub retry_after: Option<Duration>,
    /// A fresh continue token that replaces an expired one: the list can continue, but is no longer consistent.
    pub continue_token: String,
    /// uid of the object concerned, if the server includes it.
    pub uid: String,
}

/// One cause in a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusCause {
    /// The cause in one word, e.g. `ResourceVersionTooLarge`.
    pub reason: String,
    /// The human-readable message.
    pub message: String,
    /// The field concerned.
    pub field: String,
}

/// Maximum length of a message taken from a body that is not a `Status`.
const TEXT_MAX: usize = 512;

// === impl Status ===

impl Status {
    /// Interprets an error response in any format. `retry_after` is the header of that name.
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
            // Some servers send a Status without declaring its type.
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

    /// A redirect, as an error: clients must not send credentials to another server.
    pub fn redirect(code: u16, location: &str) -> Self {
        let mut message = String::from("the server redirects to an unknown location");
        if !location.is_empty() {
            let location: String = location.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect();
            message = format!("the server redirects to {location}");
        }
        message.push_str(", but redirects are not followed; use the API server's own address");
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

    /// The resourceVersion or continue token has expired: 410, reason `Expired` or `Gone`.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason.as_str(), "Expired" | "Gone") || (self.reason.is_empty() && self.code == 410)
    }

    /// The requested resourceVersion is newer than the server's.
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

    /// 500 with this message: the server does not accept the shard selector. Retrying does not help, unlike with other 500s.
    pub fn is_invalid_shard_selector(&self) -> bool {
        self.code == 500 && self.message.starts_with("invalid shard selector")
    }

    /// 401, 403, 404 or [an invalid shard selector](Self::is_invalid_shard_selector): retrying does not help until the
    /// configuration changes.
    pub fn is_refusal(&self) -> bool {
        matches!(self.code, 401 | 403 | 404) || self.is_invalid_shard_selector()
    }

    /// An error that retrying a list cannot fix: one of [`is_refusal`](Self::is_refusal), or 400, 405, 406 or 422.
    pub fn is_list_refusal(&self) -> bool {
        self.is_refusal() || matches!(self.code, 400 | 405 | 406 | 422)
    }

    /// 422: the request itself is invalid, e.g. watch-list on a server without it.
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
    crate::Error::Value(format!("expected an object of kind Status, found `{kind}`"))
}

fn retry_after(seconds: i64) -> Option<Duration> {
    u64::try_from(seconds).ok().filter(|&seconds| seconds > 0).map(Duration::from_secs)
}

/// The reason for an HTTP code if the server did not send one.
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

/// The message of a body that is not a `Status`. An API server never sends HTML: a proxy, a load balancer or a login
/// page responded instead, and the message states that.
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

/// The readable part of a text or HTML body, on one line and truncated.
fn text(body: &[u8]) -> String {
    // A multiple of the message length is enough to find it behind tags, whatever the size of the page.
    let body = String::from_utf8_lossy(&body[..body.len().min(16 * TEXT_MAX)]);
    let mut plain = String::new();
    let mut rest = &*body;
    while let Some(open) = rest.find('<') {
        plain.push_str(&rest[..open]);
        plain.push(' ');
        let tag = &rest[open..];
        // These elements contain no message.
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
    fn the_longer_retry_after_wins() {
        let body = br#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":3}}"#;
        let status = Status::from_response(429, "application/json", Some("1"), body);
        assert_eq!(status.retry_after, Some(Duration::from_secs(3)));
        let status = Status::from_response(429, "application/json", Some("7"), body);
        assert_eq!(status.retry_after, Some(Duration::from_secs(7)));
        let status = Status::from_response(429, "application/json", Some("Wed, 21 Oct"), body);
        assert_eq!(status.retry_after, Some(Duration::from_secs(3)));
    }
}
