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
/// Maximum number of repetitions of a request at the server's request: the same number as kubectl.
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
    serde_json::from_slice(&bytes).map_err(|error| {
        RequestError::Failure(Failure::NoCluster(format!(
            "invalid response of {} ({path}: {error}): is the address that of a Kubernetes API server?",
            cluster.url
        )))
    })
}

/// Like [`get`], with the bytes of the response.
pub(crate) async fn get_bytes(cluster: &Cluster, path: &str, accept: &str) -> Result<Vec<u8>, RequestError> {
    let mut retries = 0;
    loop {
        let answer = within(cluster.request_timeout, path, get_once(cluster, path, accept)).await;
        match answer {
            Err(RequestError::Status(status)) if retries < RETRIES_MAX && can_retry(&status) => {
                retries += 1;
                tokio::time::sleep(status.retry_after.unwrap_or_default()).await;
            }
            answer => return answer,
        }
    }
}

/// Whether the server asks for a retry.
pub(crate) fn can_retry(status: &Status) -> bool {
    status.retry_after.is_some() && matches!(status.code, 429 | 500..=599)
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
    while let Some(frame) = within(Some(IDLE_MAX), path, async { Ok(body.frame().await) }).await? {
        let frame = frame.map_err(|error| other(&format!("{path}: the response ended early"), &error))?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
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
    /// The failure, with the operation that failed.
    pub(crate) fn when(self, asked: &str) -> Failure {
        match self {
            Self::Status(status) => Failure::from_status(asked, &status),
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
