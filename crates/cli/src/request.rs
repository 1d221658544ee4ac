//! Single requests with a JSON response: discovery, tables, one object.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http_body_util::BodyExt;
use kube_client::client::Body;
use kube_informer::building_blocks::IsList;
use kube_wire::Status;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::failure::{Failure, root_cause};
use crate::unreachable;

/// Maximum number of bytes of a response: a page of a table, one object, or a discovery document.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Maximum number of bytes of an error response that are read.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// How long the server may be silent.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(60);
/// The lowest rate of a response, and how long it may be slower. A limit on silence alone does not end a response of one byte a
/// minute.
const BYTES_PER_SECOND_MIN: u64 = 1 << 10;
const SLOW_MAX: Duration = Duration::from_secs(300);
/// A server that asks for a longer wait gets no retry: its refusal is the result.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// Maximum number of bytes that a parsed response may take, and an estimate of what its parts take at most: a response of 64 MiB
/// can contain ten million objects.
const PARSED_BYTES_MAX: usize = 512 << 20;
const PARSED_OBJECT_BYTES: usize = 700;
const PARSED_VALUE_BYTES: usize = 64;
/// Maximum number of retries that a server can ask for; the same as kubectl's.
pub(crate) const RETRIES_MAX: u32 = 10;

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The server responded with an error.
    Status(Status),
    /// There was no valid response.
    Failure(Failure),
}

/// Gets a path and returns the JSON of the response. Retries if the server asks for it (`Retry-After` with 429 or 5xx), as
/// kubectl does.
pub(crate) async fn get(cluster: &Cluster, path: &str, accept: &str) -> Result<Value, RequestError> {
    let bytes = get_bytes(cluster, path, accept).await?;
    if parsed_bytes(&bytes) > PARSED_BYTES_MAX {
        return Err(RequestError::Failure(Failure::Other(format!(
            "the response of {} to {path} would take more than {} MiB: is it a Kubernetes API server?",
            cluster.url,
            PARSED_BYTES_MAX >> 20
        ))));
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        RequestError::Failure(Failure::NoCluster(format!(
            "invalid response of {} ({path}: {error}): is the address that of a Kubernetes API server?",
            cluster.url
        )))
    })
}

/// The memory that a JSON text takes as a [`Value`], at most.
fn parsed_bytes(text: &[u8]) -> usize {
    let (mut bytes, mut in_string, mut escaped) = (text.len(), false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => bytes += PARSED_OBJECT_BYTES,
            b'[' | b',' if !in_string => bytes += PARSED_VALUE_BYTES,
            _ => {}
        }
    }
    bytes
}

/// Like [`get`], with the bytes of the response. The time limit of a request includes its retries and the waits for them.
pub(crate) async fn get_bytes(cluster: &Cluster, path: &str, accept: &str) -> Result<Vec<u8>, RequestError> {
    within(cluster.request_timeout, path, async {
        let mut retries = 0;
        loop {
            match get_once(cluster, path, accept).await {
                Err(RequestError::Status(status)) if retries < RETRIES_MAX && can_retry(&status) => {
                    retries += 1;
                    tokio::time::sleep(status.retry_after.unwrap_or_default()).await;
                }
                answer => return answer,
            }
        }
    })
    .await
}

/// Whether the server asks for a retry, within a reasonable time.
pub(crate) fn can_retry(status: &Status) -> bool {
    status.retry_after.is_some_and(|wait| wait <= RETRY_AFTER_MAX) && matches!(status.code, 429 | 500..=599)
}

async fn get_once(cluster: &Cluster, path: &str, accept: &str) -> Result<Vec<u8>, RequestError> {
    let request = http::Request::get(path).header(ACCEPT, accept).body(Body::empty());
    let mut request = request.map_err(|error| other("cannot create the request", &error))?;
    // Discovery and tables are as long as lists, and can be compressed like lists.
    request.extensions_mut().insert(IsList);
    let answer = within(Some(IDLE_MAX), path, async {
        cluster.client.send(request).await.map_err(|error| unreachable(cluster, &error))
    });
    let (parts, mut body) = answer.await?.into_parts();
    let bytes_max = if parts.status.is_success() { ANSWER_BYTES_MAX } else { ERROR_BYTES_MAX };
    let mut bytes = Vec::new();
    let began = tokio::time::Instant::now();
    while let Some(frame) = within(Some(IDLE_MAX), path, async { Ok(body.frame().await) }).await? {
        let frame = frame.map_err(|error| other(&format!("{path}: the response ended early"), &error))?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if began.elapsed() > SLOW_MAX + Duration::from_secs(bytes.len() as u64 / BYTES_PER_SECOND_MIN) {
            return Err(RequestError::Failure(Failure::NoCluster(format!(
                "the response of {} to {path} is too slow: {} B received in {:.0?}",
                cluster.url,
                bytes.len(),
                began.elapsed()
            ))));
        }
        if bytes.len() > bytes_max {
            if parts.status.is_success() {
                return Err(RequestError::Failure(Failure::Other(format!(
                    "the response of {} to {path} has more than {} MiB: is it a Kubernetes API server?",
                    cluster.url,
                    ANSWER_BYTES_MAX >> 20
                ))));
            }
            break;
        }
    }
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    if parts.status.is_redirection() {
        let status = Status::redirect(parts.status.as_u16(), header(LOCATION).unwrap_or_default());
        return Err(RequestError::Status(status));
    }
    if !parts.status.is_success() {
        let content_type = header(CONTENT_TYPE).unwrap_or_default();
        let status = Status::from_response(parts.status.as_u16(), content_type, header(RETRY_AFTER), &bytes);
        return Err(RequestError::Status(status));
    }
    Ok(bytes)
}

/// Limits the time of a step.
async fn within<T>(
    limit: Option<Duration>,
    path: &str,
    work: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let Some(limit) = limit else { return work.await };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        Err(RequestError::Failure(Failure::NoCluster(format!(
            "timed out after {limit:?} waiting for {path}: is it the right server, and is it overloaded?"
        ))))
    })
}

impl RequestError {
    /// The failure. `cannot` is the operation that failed, such as `cannot read pods in namespace web`.
    pub(crate) fn failure(self, cannot: &str) -> Failure {
        match self {
            Self::Status(status) => Failure::from_status(cannot, &status),
            Self::Failure(failure) => failure,
        }
    }
}

fn other(what: &str, error: &dyn std::error::Error) -> RequestError {
    RequestError::Failure(Failure::Other(format!("{what}: {}", root_cause(error))))
}

fn unreachable(cluster: &Cluster, error: &kube_client::Error) -> RequestError {
    RequestError::Failure(unreachable::failure(&cluster.url, error))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::{StreamExt, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use kube_client::Client;
    use tokio::time::Instant;

    use super::*;
    use crate::list_limit::ListLimit;

    /// A cluster whose responses have this status and `Retry-After`, and a byte every `pause`.
    fn cluster(code: u16, retry_after: &'static str, pause: Duration) -> Cluster {
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let bytes = stream::iter(std::iter::repeat_n((), 10_000)).then(move |()| async move {
                tokio::time::sleep(pause).await; // paused time: nothing sleeps
                Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"[")))
            });
            let answer = http::Response::builder().status(code).header(RETRY_AFTER, retry_after);
            let answer = answer.body(StreamBody::new(bytes.boxed())).map_err(std::io::Error::other);
            std::future::ready(answer)
        });
        Cluster {
            client: Client::new(service, "default"),
            url: "http://server".to_owned(),
            default_namespace: "default".to_owned(),
            compress: false,
            request_timeout: None,
            list_limit: ListLimit::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_of_one_byte_a_minute_ends_with_an_error() {
        let began = Instant::now();
        let cluster = cluster(200, "0", Duration::from_secs(59));
        let Err(RequestError::Failure(failure)) = get(&cluster, "/api", "application/json").await else {
            panic!("it is too slow")
        };
        let says = "the response of http://server to /api is too slow: 6 B received in 354s";
        assert_eq!(failure.to_string(), says);
        assert!(began.elapsed() < Duration::from_secs(400), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_after_is_part_of_the_time_limit_and_an_absurd_one_is_not_obeyed() {
        let began = Instant::now();
        let mut cluster = cluster(503, "50", Duration::ZERO);
        cluster.request_timeout = Some(Duration::from_secs(120));
        let error = get(&cluster, "/api", "application/json").await;
        assert!(matches!(error, Err(RequestError::Failure(_))), "{error:?}");
        assert_eq!(began.elapsed(), Duration::from_secs(120));
        for absurd in ["61", "10000000000000000000"] {
            let cluster = self::cluster(429, absurd, Duration::ZERO);
            let began = Instant::now();
            let error = get(&cluster, "/api", "application/json").await;
            assert!(matches!(error, Err(RequestError::Status(status)) if status.code == 429));
            assert_eq!(began.elapsed(), Duration::ZERO, "{absurd}");
        }
    }

    #[test]
    fn a_response_of_many_tiny_members_is_too_large_to_parse() {
        let tiny = format!("[{}0]", r#"{"":0},"#.repeat((64 << 20) / 7));
        assert!(parsed_bytes(tiny.as_bytes()) > PARSED_BYTES_MAX);
        let table = r#"{"cells":["name","{,\"{,[\\"],"object":{"metadata":{"name":"x"}}},"#;
        assert_eq!(
            parsed_bytes(table.as_bytes()),
            table.len() + 3 * PARSED_OBJECT_BYTES + 4 * PARSED_VALUE_BYTES
        );
        assert!(parsed_bytes(table.repeat(100_000).as_bytes()) < PARSED_BYTES_MAX);
    }
}
