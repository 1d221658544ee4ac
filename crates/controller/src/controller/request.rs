//! Recognises writes in requests to the API server, from method, path and body.

use futures::FutureExt;
use http::{Method, Request, StatusCode, Uri};
use kube_client::client::Body;
use kube_core::ObjectMeta;
use serde::Deserialize;

/// A request that changes objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteRequest {
    pub(crate) method: Method,
    pub(crate) target: WriteTarget,
    subresource: Option<String>,
}

/// An object, or a collection, that a request writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteTarget {
    /// The path of the collection.
    pub(crate) path: String,
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    /// `None` for the collection, and for a creation with `generateName` whose outcome is unknown.
    pub(crate) name: Option<String>,
}

/// The outcome of a write, according to a successful response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WriteOutcome {
    /// The object is in this state.
    Written(ObjectMeta),
    /// The object was deleted.
    Gone(ObjectMeta),
    /// These objects of a collection were deleted, or are being deleted. Their metadata is from before the deletion.
    Collection(Vec<ObjectMeta>),
}

/// Subresources that write to their object. Others, such as `exec` and `proxy`, are not tracked: their bodies may be streams.
const WRITING_SUBRESOURCES: [&str; 8] =
    ["status", "scale", "ephemeralcontainers", "resize", "binding", "eviction", "finalize", "approval"];

/// The part of a write's body that matters here.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WriteBody {
    metadata: BodyMetadata,
    /// Set in the options of a deletion.
    dry_run: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct BodyMetadata {
    name: Option<String>,
}

/// An object or a `Status`.
#[derive(Deserialize)]
struct WriteResponse {
    kind: Option<String>,
    #[serde(default)]
    metadata: ObjectMeta,
    details: Option<StatusDetails>,
}

/// The list of the objects that were deleted.
#[derive(Deserialize)]
struct DeletedCollection {
    items: Vec<DeletedItem>,
}

#[derive(Deserialize)]
struct DeletedItem {
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct StatusDetails {
    uid: Option<String>,
}

// === impl WriteRequest ===

impl WriteRequest {
    /// The write that a request makes; `None` for reads and dry runs.
    pub(crate) fn of(request: &Request<Body>) -> Option<Self> {
        let method = request.method().clone();
        if ![Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(&method)
            || is_dry_run(request.uri())
        {
            return None;
        }
        let (mut target, subresource) = WriteTarget::parse(request.uri().path())?;
        let is_writing = |name: &String| WRITING_SUBRESOURCES.contains(&name.as_str());
        if !subresource.as_ref().is_none_or(is_writing) {
            return None;
        }
        if method == Method::DELETE || method == Method::POST && target.name.is_none() {
            let body = body(request);
            if !body.dry_run.is_empty() {
                return None;
            }
            if method == Method::POST {
                target.name = body.metadata.name.filter(|name| !name.is_empty());
            }
        }
        Some(Self { method, target, subresource })
    }

    /// Whether it deletes an object or a collection.
    pub(crate) fn is_deletion(&self) -> bool {
        self.method == Method::DELETE
    }

    /// Whether a response of this code says that the server has changed nothing. A collection may be deleted in part.
    ///
    /// A client may repeat a request whose answer was lost, below the layer that tracks writes. If the first attempt was executed,
    /// the second one conflicts with it.
    pub(crate) fn is_refused(&self, code: StatusCode) -> bool {
        match (self.is_deletion(), &self.target.name) {
            (true, None) => matches!(code.as_u16(), 401 | 404 | 405 | 429),
            (_, Some(_)) if code == StatusCode::CONFLICT => false,
            _ => code.is_client_error() && code != StatusCode::REQUEST_TIMEOUT,
        }
    }

    /// Whether a response of this code says that the object does not exist.
    pub(crate) fn is_absent(&self, code: StatusCode) -> bool {
        code == StatusCode::NOT_FOUND && self.target.name.is_some() && self.subresource.is_none()
    }

    /// The outcome according to a successful response; `None` if it is unclear.
    pub(crate) fn outcome(&self, response: &[u8]) -> Option<WriteOutcome> {
        if self.is_deletion() && self.target.name.is_none() {
            let list = serde_json::from_slice::<DeletedCollection>(response).ok()?;
            let items = list.items.into_iter().map(|item| item.metadata).collect::<Vec<_>>();
            let is_complete = items.iter().all(|meta| meta.uid.is_some() && meta.resource_version.is_some());
            return is_complete.then_some(WriteOutcome::Collection(items));
        }
        let WriteResponse { kind, metadata, details } = serde_json::from_slice(response).ok()?;
        let is_status = kind.as_deref() == Some("Status");
        match self.method {
            Method::DELETE if is_status && self.subresource.is_none() => {
                let (name, namespace) = (self.target.name.clone(), self.target.namespace.clone());
                let uid = Some(details?.uid?);
                Some(WriteOutcome::Gone(ObjectMeta { name, namespace, uid, ..ObjectMeta::default() }))
            }
            _ if is_status || metadata.uid.is_none() || metadata.resource_version.is_none() => None,
            // Without finalizers and grace period, the object was deleted when the server answered.
            Method::DELETE if !is_terminating(&metadata) => Some(WriteOutcome::Gone(metadata)),
            Method::PUT | Method::PATCH if was_last_finalizer(&metadata) => {
                Some(WriteOutcome::Gone(metadata))
            }
            _ => Some(WriteOutcome::Written(metadata)),
        }
    }
}

/// Whether an object that is being deleted still exists.
pub(crate) fn is_terminating(meta: &ObjectMeta) -> bool {
    let waits = meta.finalizers.iter().flatten().next().is_some();
    let has_grace = meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
    meta.deletion_timestamp.is_some() && (waits || has_grace)
}

/// Whether an update has removed the last finalizer of an object that is being deleted, and so the object.
fn was_last_finalizer(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some() && !is_terminating(meta)
}

fn is_dry_run(uri: &Uri) -> bool {
    let mut pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| name == "dryRun" && !value.is_empty())
}

/// Reads the body of a request if it is in memory, as kube's clients send it. A streamed body is not read.
fn body(request: &Request<Body>) -> WriteBody {
    let body = request.body().try_clone().and_then(|body| body.collect_bytes().now_or_never());
    let bytes = body.and_then(Result::ok).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

// === impl WriteTarget ===

impl WriteTarget {
    /// The object of this name in a collection, or the collection.
    pub(crate) fn of(path: &str, name: Option<&str>) -> Option<Self> {
        let (target, _) = Self::parse(path)?;
        Some(Self { name: name.map(str::to_owned), ..target })
    }

    /// Reads a path such as `/apis/apps/v1/namespaces/web/deployments/api/status`; returns the subresource, too.
    fn parse(path: &str) -> Option<(Self, Option<String>)> {
        let segments = path.split('/').filter(|segment| !segment.is_empty()).collect::<Vec<_>>();
        let (group, rest) = match segments[..] {
            ["api", _, ref rest @ ..] => ("", rest),
            ["apis", group, _, ref rest @ ..] => (group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            // The subresources of a namespace itself.
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(name), None),
            [plural, name, subresource @ ..] => (plural, Some(name), Some(subresource.join("/"))),
            [] => return None,
        };
        let collection = segments.len() - rest.len() + 1;
        let target = Self {
            path: format!("/{}", segments[..collection].join("/")),
            group: group.to_owned(),
            plural: (*plural).to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.map(|name| (*name).to_owned()),
        };
        Some((target, subresource))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn write(method: &str, uri: &str, body: &Value) -> Option<WriteRequest> {
        let body = serde_json::to_vec(body).unwrap();
        let request = Request::builder().method(method).uri(uri).body(Body::from(body)).unwrap();
        WriteRequest::of(&request)
    }

    #[test]
    fn paths_name_resource_namespace_and_object() {
        let cases = [
            (
                "/api/v1/namespaces/web/pods/api",
                "/api/v1/namespaces/web/pods",
                "",
                "pods",
                Some("web"),
                Some("api"),
            ),
            ("/api/v1/namespaces/web", "/api/v1/namespaces", "", "namespaces", None, Some("web")),
            ("/api/v1/namespaces/web/finalize", "/api/v1/namespaces", "", "namespaces", None, Some("web")),
            ("/api/v1/nodes/one/status", "/api/v1/nodes", "", "nodes", None, Some("one")),
            (
                "/apis/apps/v1/namespaces/web/deployments/api/scale",
                "/apis/apps/v1/namespaces/web/deployments",
                "apps",
                "deployments",
                Some("web"),
                Some("api"),
            ),
        ];
        for (uri, path, group, plural, namespace, name) in cases {
            let target = write("PATCH", uri, &json!({})).unwrap().target;
            let expected = WriteTarget {
                path: path.to_owned(),
                group: group.to_owned(),
                plural: plural.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
            };
            assert_eq!(target, expected, "{uri}");
        }
    }

    #[test]
    fn reads_dry_runs_and_streams_are_not_writes() {
        let nothing = json!({});
        for (method, uri, body) in [
            ("GET", "/api/v1/pods", &nothing),
            ("PATCH", "/api/v1/namespaces/web/pods/api?dryRun=All", &nothing),
            ("DELETE", "/api/v1/namespaces/web/pods/api", &json!({"dryRun": ["All"]})),
            ("POST", "/api/v1/namespaces/web/pods/api/exec", &nothing),
            ("POST", "/version", &nothing),
        ] {
            assert_eq!(write(method, uri, body), None, "{method} {uri}");
        }
        let created =
            write("POST", "/api/v1/namespaces/web/pods", &json!({"metadata": {"name": "api"}})).unwrap();
        assert_eq!(created.target.name.as_deref(), Some("api"));
        let generated =
            write("POST", "/api/v1/namespaces/web/pods", &json!({"metadata": {"generateName": "a"}}))
                .unwrap();
        assert_eq!(generated.target.name, None);
    }

    #[test]
    fn refusals_exclude_answers_to_a_repeated_write() {
        let (collection, pod) = ("/api/v1/namespaces/web/pods", "/api/v1/namespaces/web/pods/api");
        let (named, generated) =
            (json!({"metadata": {"name": "api"}}), json!({"metadata": {"generateName": "a"}}));
        for (method, uri, body, code, expected) in [
            ("POST", collection, &named, 422, (true, false)),
            ("POST", collection, &named, 409, (false, false)),
            ("POST", collection, &generated, 409, (true, false)),
            ("PUT", pod, &named, 409, (false, false)),
            ("DELETE", pod, &json!({}), 404, (true, true)),
            ("PATCH", "/api/v1/namespaces/web/pods/api/status", &named, 404, (true, false)),
            ("DELETE", collection, &json!({}), 404, (true, false)),
            ("DELETE", pod, &json!({}), 504, (false, false)),
        ] {
            let (write, code) = (write(method, uri, body).unwrap(), StatusCode::from_u16(code).unwrap());
            assert_eq!((write.is_refused(code), write.is_absent(code)), expected, "{method} {uri} {code}");
        }
    }

    #[test]
    fn outcomes_distinguish_written_gone_and_unknown() {
        let object = |meta: Value| {
            let mut metadata = json!({"name": "api", "namespace": "web", "uid": "u", "resourceVersion": "7"});
            metadata.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
            json!({"kind": "Pod", "metadata": metadata})
        };
        let deleting = |more: Value| {
            let mut meta = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
            meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            object(meta)
        };
        let status = |uid: Value| json!({"kind": "Status", "status": "Success", "details": {"uid": uid}});
        let pod = "/api/v1/namespaces/web/pods/api";
        let finalizers = || deleting(json!({"finalizers": ["a/b"]}));
        let cases = [
            ("PATCH", pod, object(json!({})), Some(false)),
            ("PATCH", pod, finalizers(), Some(false)),
            ("PATCH", pod, deleting(json!({})), Some(true)),
            ("PATCH", pod, deleting(json!({"deletionGracePeriodSeconds": 30})), Some(false)),
            ("DELETE", pod, object(json!({})), Some(true)),
            ("DELETE", pod, finalizers(), Some(false)),
            ("DELETE", pod, status(json!("u")), Some(true)),
            ("DELETE", pod, status(json!(null)), None),
            ("DELETE", "/api/v1/namespaces/web/pods", json!({"kind": "PodList", "items": []}), Some(false)),
            ("POST", "/api/v1/namespaces/web/pods/api/eviction", status(json!("u")), None),
            ("PATCH", pod, json!({"kind": "Pod", "metadata": {"name": "api"}}), None),
        ];
        for (method, uri, response, expected) in cases {
            let outcome =
                write(method, uri, &json!({})).unwrap().outcome(&serde_json::to_vec(&response).unwrap());
            let is_gone = outcome.map(|outcome| matches!(outcome, WriteOutcome::Gone(_)));
            assert_eq!(is_gone, expected, "{method} {uri} {response}");
        }
    }
}
