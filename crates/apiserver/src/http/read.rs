//! Request bodies: their size, their encoding, and the object in them.

use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube_wire::Encoding;
use kube_wire::internals::de::{Deserializer, UnknownFields};
use kube_wire::internals::envelope::Envelope;
use kube_wire::schema::Schema;
use serde_json::Value;

use super::BoxError;
use super::service::RequestHead;
use super::status::Status;
use crate::crd::FieldError;
use crate::objects::{DeleteOptions, Patch};
use crate::resources::Resource;

/// How long a client may take to send a body.
const READ_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Reads a body of at most `bytes_max` bytes.
pub(super) async fn body<B>(body: B, bytes_max: usize) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let read = Box::pin(Limited::new(body, bytes_max).collect());
    match tokio::time::timeout(READ_TIMEOUT, read).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Status::too_large(bytes_max)),
        Ok(Err(error)) => Err(Status::bad_request(format!("cannot read request body: {error}"))),
        Err(_) => Err(Status::of(408, "Timeout", "timed out reading the request body", 0)),
    }
}

/// The encoding of a `Content-Type`; JSON if absent.
pub(super) fn encoding(content_type: Option<&str>) -> Result<Encoding, Status> {
    match content_type.map(str::trim) {
        None | Some("") => Ok(Encoding::Json),
        Some(text) => {
            Encoding::from_content_type(text).ok_or_else(|| Status::unsupported_media_type(ACCEPTED))
        }
    }
}

/// The object in a body. It must be of the resource's kind, or have no kind.
pub(super) fn object(resource: &Resource, content_type: Option<&str>, bytes: &[u8]) -> Result<Value, Status> {
    let is_yaml = content_type.is_some_and(|text| text.trim().starts_with("application/yaml"));
    let encoding = if is_yaml { Encoding::Json } else { encoding(content_type)? };
    let (value, api_version, kind) = match encoding {
        Encoding::Json => {
            let value = if is_yaml { yaml(bytes)? } else { json(&resource.kind, bytes)? };
            let api_version = value["apiVersion"].as_str().unwrap_or_default().to_owned();
            let kind = value["kind"].as_str().unwrap_or_default().to_owned();
            (value, api_version, kind)
        }
        Encoding::Protobuf => protobuf(&resource.kind, bytes)?,
    };
    check_kind(resource, &api_version, &kind)?;
    if !matches!(value.get("metadata"), None | Some(Value::Null | Value::Object(_))) {
        let message = format!(
            "{0} in version {1:?} cannot be handled as a {0}: json: cannot unmarshal into Go struct field \
             {0}.metadata of type v1.ObjectMeta",
            resource.kind, resource.version
        );
        return Err(Status::bad_request(message));
    }
    Ok(value)
}

/// Reads the body of a subresource request, without a check of the kind that it declares; `what` names it in errors.
pub(super) fn any_object(what: &str, content_type: Option<&str>, bytes: &[u8]) -> Result<Value, Status> {
    match encoding(content_type)? {
        Encoding::Json => json(what, bytes),
        Encoding::Protobuf => protobuf(what, bytes).map(|(value, ..)| value),
    }
}

/// A patch of the type that the `Content-Type` names.
pub(super) fn patch(
    resource: &Resource,
    head: &RequestHead,
    content_type: Option<&str>,
    bytes: &[u8],
) -> Result<Patch, Status> {
    let strategic = !resource.is_custom();
    let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let force = head.query.flag("force");
    let kind = match media_type {
        "application/json-patch+json" => Patch::Json,
        "application/merge-patch+json" => Patch::Merge,
        "application/strategic-merge-patch+json" if strategic => Patch::Strategic,
        "application/apply-patch+yaml" => {
            if head.query.text("fieldManager").is_empty() {
                let error = FieldError::required("fieldManager", "is required for apply patch");
                return Err(Status::invalid_options("PatchOptions", &[error]));
            }
            let configuration = yaml(bytes)?;
            return Ok(Patch::Apply { configuration, force });
        }
        "application/strategic-merge-patch+json" => {
            let accepted =
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            return Err(Status::unsupported_media_type(accepted));
        }
        _ => return Err(Status::no_patch()),
    };
    if head.query.get("force").is_some() {
        let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
        return Err(Status::invalid_options("PatchOptions", &[error]));
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let why = if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
        Status::bad_request(format!("error decoding patch: {why}"))
    })?;
    if media_type != "application/json-patch+json" && !value.is_object() {
        let found = if value.is_array() { "array" } else { "value" };
        let message = format!(
            "error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        );
        return Err(Status::bad_request(message));
    }
    Ok(kind(value))
}

/// YAML, which includes JSON.
fn yaml(bytes: &[u8]) -> Result<Value, Status> {
    let broken = |error: String| Status::bad_request(format!("error decoding YAML: {error}"));
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(_) => serde_saphyr::from_slice(bytes).map_err(|error| broken(error.to_string()))?,
    };
    if value.is_object() { Ok(value) } else { Err(broken("not an object".to_owned())) }
}

/// The options in the body of a deletion, if any.
pub(super) fn delete_options(content_type: Option<&str>, bytes: &[u8]) -> Result<DeleteOptions, Status> {
    if bytes.is_empty() {
        return Ok(DeleteOptions::default());
    }
    let value = match encoding(content_type)? {
        Encoding::Json => json("DeleteOptions", bytes)?,
        Encoding::Protobuf => protobuf("DeleteOptions", bytes)?.0,
    };
    serde_json::from_value(value)
        .map_err(|error| Status::bad_request(format!("invalid DeleteOptions: {error}")))
}

pub(super) fn json(kind: &str, bytes: &[u8]) -> Result<Value, Status> {
    let parsed: Result<Value, _> = serde_json::from_slice(bytes);
    match parsed {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(Value::Null) => Ok(Value::Object(serde_json::Map::new())),
        Ok(_) => Err(unrecognized(kind, "cannot unmarshal into Go value of type struct", bytes)),
        Err(error) if error.is_eof() => Err(unrecognized(kind, "unexpected end of JSON input", bytes)),
        Err(error) => Err(unrecognized(kind, &error.to_string(), bytes)),
    }
}

fn unrecognized(kind: &str, why: &str, bytes: &[u8]) -> Status {
    /// Maximum part of the body that a message shows, in bytes.
    const SHOWN_MAX: usize = 256;
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_MAX)]);
    let shown = if shown.is_empty() { "<empty>" } else { &*shown };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: \
         {why} ({shown})"
    ))
}

fn protobuf(kind: &str, bytes: &[u8]) -> Result<(Value, String, String), Status> {
    let broken = |error: kube_wire::Error| {
        Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {error}"))
    };
    let envelope = Envelope::open(bytes).map_err(broken)?;
    let (api_version, found) = (envelope.api_version, envelope.kind);
    let Some(message) = Schema::builtin().kind(api_version, found) else {
        let message = format!("no kind {found:?} is registered for version {api_version:?} in scheme");
        return Err(Status::bad_request(message));
    };
    // A kube-apiserver ignores fields that it does not know, too.
    let deserializer = Deserializer::new(envelope.raw, message).unknown_fields(UnknownFields::Skip);
    let value = deserializer.read::<Value>().map_err(broken)?;
    Ok((value, api_version.to_owned(), found.to_owned()))
}

fn check_kind(resource: &Resource, api_version: &str, kind: &str) -> Result<(), Status> {
    let same_kind = kind.is_empty() || kind == resource.kind;
    let same_version = api_version.is_empty() || api_version == resource.api_version;
    if same_kind && same_version {
        return Ok(());
    }
    let kind = if kind.is_empty() { &resource.kind } else { kind };
    let api_version = if api_version.is_empty() { &resource.api_version } else { api_version };
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let why = if Schema::builtin().kind(api_version, kind).is_some() {
        let group = match resource.group.split('.').next().unwrap_or_default() {
            "" => "core",
            group => group,
        };
        format!("converting ({version}.{kind}) to ({group}.{}): unknown conversion", resource.kind)
    } else {
        let scheme = "pkg/runtime/scheme.go:111";
        format!("no kind {kind:?} is registered for version {api_version:?} in scheme {scheme:?}")
    };
    Err(Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {}: {why}",
        resource.kind
    )))
}
