//! Responses without a socket, which arrive as slowly as a test wants. With paused time, nothing sleeps.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Client;
use kube_client::client::Body;
use kube_informer::EncodingPreference;
use kube_informer::building_blocks::{ListWatch, Resource};
use serde_json::json;

/// The text in pieces of this size, each after a pause.
pub fn pieces(
    text: &str,
    bytes: usize,
    pause: Duration,
) -> impl Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send + 'static + use<> {
    let pieces = text.as_bytes().chunks(bytes).map(Bytes::copy_from_slice).collect::<Vec<_>>();
    stream::iter(pieces).then(move |piece| async move {
        tokio::time::sleep(pause).await; // paused time: nothing sleeps
        Ok(Frame::data(piece))
    })
}

pub type Trickle = UnsyncBoxBody<Bytes, std::io::Error>;

pub fn trickle(text: &str, bytes: usize, pause: Duration) -> Trickle {
    StreamBody::new(pieces(text, bytes, pause)).boxed_unsync()
}

/// The text in one piece.
pub fn whole(text: &str) -> Trickle {
    trickle(text, text.len(), Duration::ZERO)
}

/// A list of one pod with an annotation of this many bytes.
pub fn list_of(bytes: usize) -> String {
    let pod = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "5",
        "annotations": {"text": "x".repeat(bytes)}}});
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [pod]})
        .to_string()
}

/// A source whose requests this function answers.
pub fn answering(
    answer: impl Fn(&http::Request<Body>) -> http::Response<Trickle> + Clone + Send + Sync + 'static,
) -> ListWatch {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let mut answer = answer(&request);
        let json = http::HeaderValue::from_static("application/json");
        answer.headers_mut().insert(http::header::CONTENT_TYPE, json);
        async { Ok::<_, std::io::Error>(answer) }
    });
    let client = Client::new(service, "default");
    ListWatch::new(client, Resource::of::<Pod>()).encoding(EncodingPreference::Json)
}
