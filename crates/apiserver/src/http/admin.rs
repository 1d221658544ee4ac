//! Faults over HTTP, for a standalone server: GET lists them, POST arms one (JSON), DELETE disarms all.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response};
use http_body::Body;
use kube_wire::Encoding;
use serde_json::{Value, json};

use super::body::ApiBody;
use super::service::RequestHead;
use super::status::Status;
use super::{BoxError, read, respond};
use crate::api::Api;
use crate::faults::Fault;

const PATH: &str = "/faults";

const FAULT_BYTES_MAX: usize = 64 << 10;

/// Whether a request is for the fault endpoint, and the endpoint is enabled.
pub(super) fn is_asked(api: &Api, head: &RequestHead) -> bool {
    api.options.admin && head.path == PATH
}

pub(super) async fn serve<B>(api: &Arc<Api>, head: &RequestHead, body: B) -> Response<ApiBody>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let answer = match head.method {
        Method::GET => Ok(listed(api)),
        Method::POST => armed(api, body).await,
        Method::DELETE => {
            api.faults.clear();
            Ok(listed(api))
        }
        _ => Err(Status::method_not_allowed()),
    };
    match answer {
        Ok(value) => respond::json(200, value.to_string()),
        Err(status) => respond::status(&status, Encoding::Json),
    }
}

async fn armed<B>(api: &Arc<Api>, body: B) -> Result<Value, Status>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let bytes = read::body(body, FAULT_BYTES_MAX).await?;
    let fault: Fault = serde_json::from_slice(&bytes)
        .map_err(|error| Status::bad_request(format!("invalid fault: {error}")))?;
    api.faults.arm(fault);
    Ok(listed(api))
}

fn listed(api: &Api) -> Value {
    let faults = api.faults.armed();
    faults.iter().map(|armed| json!({"fault": armed.fault, "fired": armed.fired})).collect()
}
