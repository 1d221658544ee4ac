//! Reads responses: a body becomes a stream of items or events, an error response becomes an error.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use kube_client::client::Body;
use kube_wire::{Encoding, ListDecoder, ObjectReader, Status, TypeMeta, WatchDecoder};
use tokio::time::Instant;

use super::pace::Pace;
use super::server_memory::KnownBroken;
use super::unpack::TooLarge;
use super::{ListPart, ListStream, SourceError, WatchStream, list_type};

/// When a watch must have ended.
#[derive(Clone, Copy)]
pub(super) struct WatchDeadline {
    /// How long it was requested to last.
    pub(super) asked: Duration,
    /// `None` for never.
    pub(super) at: Option<Instant>,
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
    reader: ObjectReader,
    idle_max: Duration,
    expected: TypeMeta,
) -> Result<ListStream, SourceError> {
    let decoder = ListDecoder::new(encoding(&answer)?, reader);
    let state = Some((decoder, Pieces::new(answer, idle_max), expected));
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
pub(super) fn watch(
    answer: Response<Body>,
    reader: ObjectReader,
    ends_by: WatchDeadline,
) -> Result<WatchStream, SourceError> {
    let decoder = WatchDecoder::new(encoding(&answer)?, reader);
    let state = Some((decoder, answer.into_body()));
    let events = stream::unfold(state, move |state| async move {
        let (mut decoder, mut body) = state?;
        loop {
            if let Some(event) = decoder.next_event() {
                let fatal = matches!(&event, Err(error) if error.is_fatal());
                let state = (!fatal).then_some((decoder, body));
                return Some((event.map_err(SourceError::from), state));
            }
            match ends_by.frame(&mut body).await {
                Some(Some(Ok(frame))) => decoder.push(frame.into_data().unwrap_or_default()),
                Some(Some(Err(error))) => return Some((Err(error.into()), None)),
                // A body that ends inside an event is an error, not a normal end: the next watch may be cut at the same event.
                Some(None) => return Some((Err(decoder.finish().err()?.into()), None)),
                None => {
                    let within_event = decoder.finish().is_err();
                    return Some((Err(SourceError::Overdue { asked: ends_by.asked, within_event }), None));
                }
            }
        }
    });
    Ok(events.boxed())
}

fn encoding(answer: &Response<Body>) -> Result<Encoding, SourceError> {
    let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = header(CONTENT_TYPE);
    let packed = header(CONTENT_ENCODING);
    if !matches!(packed, "" | "identity") {
        return Err(SourceError::UnexpectedKind {
            expected: "an uncompressed response".to_owned(),
            found: format!("content with the encoding `{packed}`; is there a proxy in between?"),
        });
    }
    Encoding::from_content_type(content_type).ok_or_else(|| SourceError::UnexpectedKind {
        expected: "JSON or Kubernetes protobuf".to_owned(),
        found: format!("content of type `{content_type}`; is there a proxy in between?"),
    })
}

// === impl WatchDeadline ===

impl WatchDeadline {
    /// The next frame of the watch's body, which is `None` at its end; `None` if the deadline has passed, even if there is
    /// always another frame.
    async fn frame(
        self,
        body: &mut Body,
    ) -> Option<Option<Result<http_body::Frame<bytes::Bytes>, kube_client::Error>>> {
        match self.at {
            Some(at) if Instant::now() >= at => None,
            Some(at) => tokio::time::timeout_at(at, body.frame()).await.ok(),
            None => Some(body.frame().await),
        }
    }
}

/// The pieces of a list's body.
struct Pieces {
    body: Body,
    idle_max: Duration,
    pace: Pace,
}

impl Pieces {
    fn new(answer: Response<Body>, idle_max: Duration) -> Self {
        Self { body: answer.into_body(), idle_max, pace: Pace::new(idle_max) }
    }

    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Result<Option<bytes::Bytes>, SourceError> {
        loop {
            let began = Instant::now();
            let frame = tokio::time::timeout(self.idle_max, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| SourceError::Idle(self.idle_max))? else { return Ok(None) };
            let data = frame?.into_data().ok();
            // Only the time that the server takes: the reader may be slow, too.
            self.pace.received(data.as_ref().map_or(0, bytes::Bytes::len), began.elapsed())?;
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
        let mut stream_broken = false;
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
                stream_broken |= hyper.is_timeout(); // an unanswered ping
            }
            if inner.is::<TooLarge>() {
                return Self::Other(Arc::new(error));
            }
            if let Some(h2) = inner.downcast_ref::<h2::Error>() {
                stream_broken |= h2.is_reset();
            }
            cause = inner.source();
        }
        let error = Arc::new(error);
        match (refused, connecting, stream_broken) {
            (true, ..) => Self::ConnectionRefused(error),
            (_, true, _) => Self::Connect(error),
            (.., true) => Self::StreamBroken(error),
            _ => Self::Interrupted(error),
        }
    }
}
