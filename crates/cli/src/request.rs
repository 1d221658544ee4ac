//! Single requests whose answer is JSON: discovery, tables, one object.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http_body_util::{BodyExt, Limited};
use kube_client::client::Body;
use kube_informer::source::IsList;
use kube_wire::Status;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::failure::{Failure, root_cause};

/// Most bytes that an answer may have: more than any list that a server gives in one piece.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The server has answered with an error.
    Status(Status),
    /// There was no proper answer.
    Failure(Failure),
}

/// Asks for a path; gives the answer's JSON.
pub(crate) async fn get(cluster: &Cluster, path: &str, accept: &str) -> Result<Value, RequestError> {
    let request = http::Request::get(path).header(ACCEPT, accept).body(Body::empty());
    let mut request = request.map_err(|error| other("the request cannot be made", &error))?;
    // Discovery and tables are as long as lists, and may come compressed as those.
    request.extensions_mut().insert(IsList);
    let answer = cluster.client.send(request).await.map_err(|error| unreachable(cluster, &error))?;
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body: Bytes = body.map_err(|error| other("the answer broke off", &*error))?.to_bytes();
    if !parts.status.is_success() {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let content_type = header(CONTENT_TYPE).unwrap_or_default();
        let status = Status::from_response(parts.status.as_u16(), content_type, header(RETRY_AFTER), &body);
        return Err(RequestError::Status(status));
    }
    serde_json::from_slice(&body).map_err(|error| {
        RequestError::Failure(Failure::NoCluster(format!(
            "{} did not answer as a Kubernetes API server does ({path}: {error}): is the address right?",
            cluster.url
        )))
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
    RequestError::Failure(match error {
        kube_client::Error::Auth(error) => Failure::Refused(format!(
            "no credentials for {}: {}\nlog in again, or choose another --user or --context",
            cluster.url,
            root_cause(error)
        )),
        error => Failure::NoCluster(format!(
            "no connection to {}: {}\nis the server running, and is it the right --context?",
            cluster.url,
            root_cause(error)
        )),
    })
}
