//! Requests whose answers are looked at byte by byte: status, headers and body as the server sent them. The
//! client's own methods read JSON into types and turn refusals into errors, which is what tests of the protocol
//! must not have done for them.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube_client::{Client, client::Body};

use crate::Error;

/// The media type of JSON.
pub const JSON: &str = "application/json";
/// The media type of Kubernetes' protobuf.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// All of the body.
    pub body: Bytes,
}

impl Answer {
    /// The body read as JSON; `null` if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// One header, or an empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Asks for `path` (with its query) in the media types `accept`, and reads the answer to its end.
///
/// # Errors
///
/// Only if there is no answer: a refusal is an [`Answer`].
pub async fn get(client: &Client, path: &str, accept: &str) -> Result<Answer, Error> {
    let Stream { status, headers, body, .. } = watch(client, path, accept).await?;
    let body = body.collect().await?.to_bytes();
    Ok(Answer { status, headers, body })
}

/// Asks for `path` (with its query) in the media types `accept`, and gives the answer while it arrives.
///
/// # Errors
///
/// Only if there is no answer: a refusal is a [`Stream`] too.
pub async fn watch(client: &Client, path: &str, accept: &str) -> Result<Stream, Error> {
    let request = Request::get(path)
        .header(header::ACCEPT, accept)
        .body(Body::empty())
        .map_err(|source| Error::Request { path: path.to_owned(), source })?;
    let (head, body) = client.send(request).await?.into_parts();
    Ok(Stream { status: head.status, headers: head.headers, body, unread: BytesMut::new() })
}

/// An answer that arrives piece by piece.
#[derive(Debug)]
pub struct Stream {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: Body,
    unread: BytesMut,
}

impl Stream {
    /// The next event of a watch in JSON (one a line), or `None` at the stream's end.
    ///
    /// # Errors
    ///
    /// If the connection breaks; a line that is not JSON is `null`.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn line(&mut self) -> Result<Option<serde_json::Value>, Error> {
        loop {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line = self.unread.split_to(end + 1);
                return Ok(Some(serde_json::from_slice(&line).unwrap_or_default()));
            }
            if !self.receive().await? {
                return Ok(None);
            }
        }
    }

    /// The next event of a watch in protobuf (after its length in four bytes), or `None` at the stream's end.
    ///
    /// # Errors
    ///
    /// If the connection breaks.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn frame(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(length) = self.unread.first_chunk().copied().map(u32::from_be_bytes) {
                let length = length as usize;
                if self.unread.len() - 4 >= length {
                    self.unread.advance(4);
                    return Ok(Some(self.unread.split_to(length).freeze()));
                }
            }
            if !self.receive().await? {
                return Ok(None);
            }
        }
    }

    /// Receives something more; false at the end.
    async fn receive(&mut self) -> Result<bool, Error> {
        let Some(frame) = self.body.frame().await else { return Ok(false) };
        if let Ok(data) = frame?.into_data() {
            self.unread.extend_from_slice(&data);
        }
        Ok(true)
    }
}
