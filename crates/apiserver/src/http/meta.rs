//! Paths that concern the server rather than its objects: discovery, health, version.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, VARY};
use http::{HeaderValue, Method, Response};
use serde_json::Value;

use super::body::ApiBody;
use super::respond;
use super::service::RequestHead;
use super::status::Status;
use crate::api::Api;
use crate::resources::{discovery, openapi, version};
use kube_wire::Encoding;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The checks that a health endpoint lists.
const CHECKS: &[&str] = &["ping", "log", "etcd", "informer-sync", "shutdown"];

/// Serves the path if it is one of these.
pub(super) fn serve(api: &Api, head: &RequestHead) -> Option<Response<ApiBody>> {
    let path = head.path.trim_end_matches('/');
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let registry = api.registry();
    let document = match &parts[..] {
        ["healthz" | "livez" | "readyz", ..] => return Some(health(head, &parts)),
        ["version"] => return Some(respond::json(200, version::ANSWER)),
        ["api"] if wants_aggregated(head) => {
            return Some(aggregated(head, &discovery::aggregated(&registry, true)));
        }
        ["apis"] if wants_aggregated(head) => {
            return Some(aggregated(head, &discovery::aggregated(&registry, false)));
        }
        ["api"] => Some(discovery::core_versions(head.header(HOST).unwrap_or_default())),
        ["apis"] => Some(discovery::groups(&registry)),
        ["apis", group] => discovery::group(&registry, group),
        ["api", version] => discovery::resources(&registry, "", version),
        ["apis", group, version] => discovery::resources(&registry, group, version),
        ["openapi", "v3"] => Some(openapi::root(&registry)),
        ["openapi", "v3", rest @ ..] => openapi::document(&registry, &rest.join("/")),
        _ => None,
    };
    let document = match (document, &parts[..]) {
        (Some(document), _) => document,
        (None, ["api", _]) => return Some(respond::status(&Status::unknown_resource(), Encoding::Json)),
        (None, ["apis", group, _]) if registry.has_builtin_group(group) => {
            return Some(respond::status(&Status::unknown_resource(), Encoding::Json));
        }
        (None, [""]) => discovery::paths(&registry),
        (None, _) => return None,
    };
    if head.method != Method::GET {
        return Some(respond::status(&Status::method_not_allowed(), Encoding::Json));
    }
    Some(respond::json(200, document.to_string()))
}

fn wants_aggregated(head: &RequestHead) -> bool {
    let accept = head.header(ACCEPT).unwrap_or_default();
    accept.split(',').any(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let has = |wanted: &str| clause.split(';').any(|part| part.trim() == wanted);
        parts.next() == Some("application/json")
            && has("g=apidiscovery.k8s.io")
            && has("v=v2")
            && has("as=APIGroupDiscoveryList")
    })
}

/// A document that clients cache and revalidate by its ETag.
fn aggregated(head: &RequestHead, document: &Value) -> Response<ApiBody> {
    let text = document.to_string();
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let tag = format!("\"{:016X}\"", hasher.finish());
    let known = head.header(IF_NONE_MATCH) == Some(tag.as_str());
    let mut response = if known {
        respond::answer(304, "", ApiBody::whole(""))
    } else {
        respond::answer(200, AGGREGATED, ApiBody::whole(text))
    };
    let headers = response.headers_mut();
    if known {
        headers.remove(CONTENT_TYPE);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}

fn health(head: &RequestHead, parts: &[&str]) -> Response<ApiBody> {
    match parts {
        [name] if head.query.get("verbose").is_some() => {
            let checks: String = CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
            respond::text(200, format!("{checks}{name} check passed\n"))
        }
        [_] => respond::text(200, "ok"),
        [_, check] if CHECKS.contains(check) => respond::text(200, "ok"),
        _ => respond::no_such_path(),
    }
}
