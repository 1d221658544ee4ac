//! Requests that return the status, headers and body as the server sent them. The client's own methods decode JSON into
//! types and turn error responses into errors, which tests of the protocol must see unchanged.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube_client::{Client, client::Body};

use crate::Error;

/// The media type of JSON.
pub const JSON: &str = "application/json";
/// The media type of Kubernetes' protobuf.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A complete response.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The complete body.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON; `null` if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// One header, or an empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Gets `path` (with its query) in the media types `accept` and reads the complete response.
///
/// # Errors
///
/// Returns an error only if there is no response. An error response is an [`Answer`].
pub async fn get(client: &Client, path: &str, accept: &str) -> Result<Answer, Error> {
    let Stream { status, headers, body, .. } = watch(client, path, accept).await?;
    let body = body.collect().await?.to_bytes();
    Ok(Answer { status, headers, body })
}

/// Gets `path` (with its query) in the media types `accept` and returns the response as a stream.
///
/// # Errors
///
/// Returns an error only if there is no response. An error response is a [`Stream`] too.
pub async fn watch(client: &Client, path: &str, accept: &str) -> Result<Stream, Error> {
    let request = Request::get(path)
        .header(header::ACCEPT, accept)
        .body(Body::empty())
        .map_err(|source| Error::Request { path: path.to_owned(), source })?;
    let (head, body) = client.send(request).await?.into_parts();
    Ok(Stream { status: head.status, headers: head.headers, body, unread: BytesMut::new() })
}

/// A streamed response.
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
    /// Returns the next event of a watch in JSON (one per line), or `None` at the end of the stream.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection breaks. A line that is not JSON is `null`.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: dropping the future loses no data.
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

    /// Returns the next event of a watch in protobuf (after its length in four bytes), or `None` at the end of the
    /// stream.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection breaks.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: dropping the future loses no data.
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

    /// Receives more data. Returns false at the end.
    async fn receive(&mut self) -> Result<bool, Error> {
        let Some(frame) = self.body.frame().await else { return Ok(false) };
        if let Ok(data) = frame?.into_data() {
            self.unread.extend_from_slice(&data);
        }
        Ok(true)
    }
}
