//! Single requests whose answer is JSON: discovery, tables, one object.

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

/// Most bytes of an answer: a page of a table, one object, or a discovery document.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Most bytes of an error that are looked at.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// How long the server may send nothing.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(60);
/// How often a request is repeated because the server asks for it: as often as kubectl.
pub(crate) const RETRIES_MAX: u32 = 10;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The server has answered with an error.
    Status(Status),
    /// There was no proper answer.
    Failure(Failure),
}

/// Gets a path and returns the answer's JSON. Waits and tries again where the server asks for that (`Retry-After` with
/// 429 or 5xx), as kubectl does.
pub(crate) async fn get(cluster: &Cluster, path: &str, accept: &str) -> Result<Value, RequestError> {
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

/// Whether the server asks for the same request again, later.
pub(crate) fn can_retry(status: &Status) -> bool {
    status.retry_after.is_some() && matches!(status.code, 429 | 500..=599)
}

async fn get_once(cluster: &Cluster, path: &str, accept: &str) -> Result<Value, RequestError> {
    let request = http::Request::get(path).header(ACCEPT, accept).body(Body::empty());
    let mut request = request.map_err(|error| other("cannot build the request", &error))?;
    // Discovery and tables are as long as lists, and may come compressed as those.
    request.extensions_mut().insert(IsList);
    let answer = within(Some(IDLE_MAX), path, async {
        cluster.client.send(request).await.map_err(|error| unreachable(cluster, &error))
    });
    let (parts, mut body) = answer.await?.into_parts();
    let bytes_max = if parts.status.is_success() { ANSWER_BYTES_MAX } else { ERROR_BYTES_MAX };
    let mut bytes = Vec::new();
    while let Some(frame) = within(Some(IDLE_MAX), path, async { Ok(body.frame().await) }).await? {
        let frame = frame.map_err(|error| other(&format!("{path}: the answer broke off"), &error))?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if bytes.len() > bytes_max {
            if parts.status.is_success() {
                return Err(RequestError::Failure(Failure::Other(format!(
                    "{} answered {path} with more than {} MiB: is it a Kubernetes API server?",
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
    serde_json::from_slice(&bytes).map_err(|error| {
        RequestError::Failure(Failure::NoCluster(format!(
            "{} did not answer as a Kubernetes API server does ({path}: {error}): is the address right?",
            cluster.url
        )))
    })
}

/// Limits how long something may take.
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
    /// With what was asked for, in words.
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
