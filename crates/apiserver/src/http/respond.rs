//! HTTP responses.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderValue, Response, StatusCode};
use kube_wire::Encoding;

use super::accept::Representation;
use super::body::ApiBody;
use super::status::Status;
use crate::codec;
use crate::objects::{Outcome, Shown};
use crate::resources::Resource;

const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// A response with a body and a content type.
pub(crate) fn answer(code: u16, content_type: &str, body: ApiBody) -> Response<ApiBody> {
    let mut response = Response::new(body);
    // All codes and content types come from this crate and are valid.
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, NO_CACHE);
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        headers.insert(CONTENT_TYPE, content_type);
    }
    response
}

pub(crate) fn json(code: u16, body: impl Into<Bytes>) -> Response<ApiBody> {
    answer(code, Encoding::Json.media_type(), ApiBody::whole(body))
}

pub(crate) fn text(code: u16, body: impl Into<Bytes>) -> Response<ApiBody> {
    answer(code, PLAIN_TEXT, ApiBody::whole(body))
}

/// The path does not exist.
pub(crate) fn no_such_path() -> Response<ApiBody> {
    text(404, "404 page not found\n")
}

/// A status in the requested encoding.
pub(crate) fn status(status: &Status, encoding: Encoding) -> Response<ApiBody> {
    let body = ApiBody::whole(codec::status(status, encoding));
    let mut response = answer(status.http_code(), encoding.media_type(), body);
    if status.retry_after_seconds() > 0 {
        response.headers_mut().insert(RETRY_AFTER, status.retry_after_seconds().into());
    }
    response
}

/// The client's `Accept` has no known clause: indented JSON, for lack of a better choice.
pub(crate) fn media_type_unknown() -> Response<ApiBody> {
    let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf, application/json;stream=watch, \
                   application/vnd.kubernetes.protobuf;stream=watch";
    let mut status = Status::of(406, "NotAcceptable", message, 0);
    status.details = Some(Default::default());
    json(406, status.to_indented_json())
}

pub(crate) fn outcome(
    resource: &Arc<Resource>,
    outcome: Outcome,
    representation: Representation,
) -> Response<ApiBody> {
    let Outcome { code, shown, warnings } = outcome;
    let mut response = match shown {
        Shown::Stored(stored) => object(code, resource, &stored.bytes, representation),
        Shown::Draft(draft) => object(code, resource, &draft.bytes, representation),
        Shown::Other(value) => {
            let body = ApiBody::whole(codec::other(&value, representation.encoding));
            answer(code, representation.encoding.media_type(), body)
        }
        Shown::Status(shown) => status(&shown, representation.encoding),
    };
    for warning in warnings {
        warn(&mut response, &warning);
    }
    response
}

/// Adds a warning to a response.
pub(crate) fn warn(response: &mut Response<ApiBody>, warning: &str) {
    let text = format!("299 - \"{}\"", warning.replace('\\', "\\\\").replace('"', "\\\""));
    if let Ok(text) = HeaderValue::from_str(&text) {
        response.headers_mut().append(WARNING, text);
    }
}

pub(crate) fn object(
    code: u16,
    resource: &Resource,
    bytes: &[u8],
    representation: Representation,
) -> Response<ApiBody> {
    let body = ApiBody::whole(codec::object(resource, bytes, representation));
    answer(code, representation.encoding.media_type(), body)
}
