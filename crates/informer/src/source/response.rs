//! Reads responses: a body becomes a stream of items or events, an error response becomes an error.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use kube_client::client::Body;
use kube_wire::{Encoding, ListDecoder, ObjectReader, Status, TypeMeta, WatchDecoder};
use tokio::time::Instant;

use super::pace::Pace;
use super::server_memory::KnownBroken;
use super::unpack::TooLarge;
use super::{ListPart, ListStream, SourceError, WatchStream, list_type};

/// How to read a body.
pub(super) struct Reading {
    pub(super) reader: ObjectReader,
    /// How long it may pause.
    pub(super) idle_max: Duration,
}

/// How much of an error response is read.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Returns the response if it was successful; its status as an error otherwise.
pub(super) async fn accepted(
    answer: Result<Response<Body>, kube_client::Error>,
    idle_max: Duration,
) -> Result<Response<Body>, SourceError> {
    let answer = answer.map_err(SourceError::from)?;
    if answer.status() == StatusCode::OK {
        return Ok(answer);
    }
    let code = answer.status().as_u16();
    let (head, mut body) = answer.into_parts();
    let mut text = Vec::new();
    // A read error must not hide the error response.
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            let Some(data) = frame.data_ref() else { continue };
            text.extend_from_slice(&data[..data.len().min(ERROR_BYTES_MAX - text.len())]);
            if text.len() == ERROR_BYTES_MAX {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(idle_max, read).await;
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    let content_type = header(CONTENT_TYPE).unwrap_or_default();
    if head.status.is_redirection() {
        return Err(Status::redirect(code, header(LOCATION).unwrap_or_default()).into());
    }
    Err(Status::from_response(code, content_type, header(RETRY_AFTER), &text).into())
}

/// The items of a list of objects of this type.
pub(super) fn list(
    answer: Response<Body>,
    reading: Reading,
    expected: TypeMeta,
) -> Result<ListStream, SourceError> {
    let decoder = ListDecoder::new(encoding(&answer)?, reading.reader);
    let pace = Pace::new(reading.idle_max);
    let state = Some((decoder, Pieces::new(answer, reading.idle_max, Some(pace)), expected));
    let parts = stream::unfold(state, |state| async {
        let (mut decoder, mut pieces, expected) = state?;
        loop {
            if let Some(item) = decoder.next_item() {
                let fatal = matches!(&item, Err(error) if error.is_fatal());
                let state = (!fatal).then_some((decoder, pieces, expected));
                return Some((item.map(ListPart::Item).map_err(SourceError::from), state));
            }
            match pieces.next().await {
                Ok(Some(piece)) => decoder.push(piece),
                Ok(None) => {
                    let head = decoder.finish().map_err(SourceError::from);
                    let end = head.and_then(|head| {
                        list_type::check(&head, Some(&expected))?;
                        Ok(ListPart::End(head))
                    });
                    return Some((end, None));
                }
                Err(error) => return Some((Err(error), None)),
            }
        }
    });
    Ok(parts.boxed())
}

/// The events of a watch.
pub(super) fn watch(answer: Response<Body>, reading: Reading) -> Result<WatchStream, SourceError> {
    let decoder = WatchDecoder::new(encoding(&answer)?, reading.reader);
    let state = Some((decoder, Pieces::new(answer, reading.idle_max, None)));
    let events = stream::unfold(state, |state| async {
        let (mut decoder, mut pieces) = state?;
        loop {
            if let Some(event) = decoder.next_event() {
                let fatal = matches!(&event, Err(error) if error.is_fatal());
                let state = (!fatal).then_some((decoder, pieces));
                return Some((event.map_err(SourceError::from), state));
            }
            match pieces.next().await {
                Ok(Some(piece)) => decoder.push(piece),
                // Cut in the middle of an event: it may be cut there the next time as well.
                Ok(None) => return Some((Err(decoder.finish().err()?.into()), None)),
                Err(error) => return Some((Err(error), None)),
            }
        }
    });
    Ok(events.boxed())
}

fn encoding(answer: &Response<Body>) -> Result<Encoding, SourceError> {
    let content_type =
        answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Encoding::from_content_type(content_type).ok_or_else(|| SourceError::UnexpectedKind {
        expected: "JSON or Kubernetes protobuf".to_owned(),
        found: format!("content of type `{content_type}`; is there a proxy in between?"),
    })
}

/// The pieces of a body.
struct Pieces {
    body: Body,
    idle_max: Duration,
    /// `None` for a watch, which may be silent.
    pace: Option<Pace>,
}

impl Pieces {
    fn new(answer: Response<Body>, idle_max: Duration, pace: Option<Pace>) -> Self {
        Self { body: answer.into_body(), idle_max, pace }
    }

    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Result<Option<bytes::Bytes>, SourceError> {
        loop {
            let began = Instant::now();
            let frame = tokio::time::timeout(self.idle_max, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| SourceError::Idle(self.idle_max))? else { return Ok(None) };
            let data = frame?.into_data().ok();
            if let Some(pace) = &mut self.pace {
                // Only the time that the server takes: the reader may be slow, too.
                pace.received(data.as_ref().map_or(0, bytes::Bytes::len), began.elapsed())?;
            }
            if let Some(data) = data {
                return Ok(Some(data));
            }
        }
    }
}

// === mapping of transport errors ===

impl From<kube_client::Error> for SourceError {
    fn from(error: kube_client::Error) -> Self {
        if let kube_client::Error::Auth(_) = error {
            return Self::Auth(Arc::new(error));
        }
        let mut refused = false;
        let mut connecting = false;
        let mut unsound = false;
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(inner) = cause {
            if inner.is::<KnownBroken>() {
                return Self::NoWatchList;
            }
            if let Some(io) = inner.downcast_ref::<std::io::Error>() {
                refused |= io.kind() == std::io::ErrorKind::ConnectionRefused;
            }
            if let Some(client) = inner.downcast_ref::<hyper_util::client::legacy::Error>() {
                connecting |= client.is_connect();
            }
            if let Some(hyper) = inner.downcast_ref::<hyper::Error>() {
                unsound |= hyper.is_timeout(); // an unanswered ping
            }
            if inner.is::<TooLarge>() {
                return Self::Other(Arc::new(error));
            }
            if let Some(h2) = inner.downcast_ref::<h2::Error>() {
                unsound |= h2.is_reset();
            }
            cause = inner.source();
        }
        let error = Arc::new(error);
        match (refused, connecting, unsound) {
            (true, ..) => Self::ConnectionRefused(error),
            (_, true, _) => Self::Connect(error),
            (.., true) => Self::Unsound(error),
            _ => Self::Interrupted(error),
        }
    }
}
