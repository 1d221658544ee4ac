//! The tower service: handles one request.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response};
use http_body::Body;
use kube_wire::Encoding;

use super::accept::{NotAcceptable, Offer, Representation};
use super::access::{self, Arrival};
use super::body::ApiBody;
use super::path::ApiPath;
use super::query::{ListOptions, Query, parse_revision};
use super::status::Status;
use super::{BoxError, admin, list, meta, read, respond};
use crate::api::Api;
use crate::codec;
use crate::crd::FieldError;
use crate::faults::{Fired, Instead, RequestInfo, Verb};
use crate::objects::{DeleteOptions, FieldValidation, Target, WriteOptions, Writer};
use crate::server::Connections;

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The server as a tower service, without a socket, for example for `kube::Client::new`.
#[derive(Clone, Debug)]
pub struct ApiService {
    api: Arc<Api>,
    arrival: Arrival,
    /// Breaks requests that do not arrive through a closable connection.
    connections: Option<Connections>,
}

/// A request without its body.
pub(super) struct RequestHead {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    /// The faults that fire for this request.
    pub(super) faults: Fired,
}

// === impl ApiService ===

impl ApiService {
    pub(crate) fn new(api: Arc<Api>, arrival: Arrival) -> Self {
        Self { api, arrival, connections: None }
    }

    /// A service whose requests can be broken and rejected like connections.
    pub(crate) fn breakable(api: Arc<Api>, connections: Connections) -> Self {
        Self { api, arrival: Arrival::InProcess, connections: Some(connections) }
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ApiBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ApiBody>, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { api, arrival, connections } = self.clone();
        Box::pin(async move {
            match connections {
                None => serve(&api, arrival, request).await,
                Some(connections) => breakable(&connections, serve(&api, arrival, request)).await,
            }
        })
    }
}

/// Serves a request. When connections are closed, the request and the response body break.
async fn breakable(
    connections: &Connections,
    served: impl Future<Output = io::Result<Response<ApiBody>>>,
) -> io::Result<Response<ApiBody>> {
    let broken = connections.admit()?;
    let response = broken.run_until_cancelled(served).await.unwrap_or_else(|| Err(ApiBody::broken()))?;
    Ok(response.map(|body| body.until(broken)))
}

async fn serve<B>(api: &Arc<Api>, arrival: Arrival, request: Request<B>) -> io::Result<Response<ApiBody>>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let mut head = RequestHead {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: Query::parse(parts.uri.query()),
        headers: parts.headers,
        faults: Fired::default(),
    };
    if let Err(status) = access::check(api, arrival, &head, parts.uri.authority()) {
        return Ok(respond::status(&status, Encoding::Json));
    }
    if access::is_untyped_page(&head) && !body.is_end_stream() {
        return Ok(respond::status(&Status::unsupported_media_type(ACCEPTED), Encoding::Json));
    }
    if admin::is_asked(api, &head) {
        return Ok(admin::serve(api, &head, body).await);
    }
    let path = ApiPath::parse(&head.path);
    let info = head.info(path.as_ref(), parts.uri.query());
    api.tally.count(&info);
    head.faults = api.faults.fire(&info);
    if !head.faults.delay.is_zero() {
        tokio::time::sleep(head.faults.delay).await;
    }
    if let Some(instead) = head.faults.instead.take() {
        return fault(&head, instead).await;
    }
    // Always read the body: a connection with an unread body cannot be reused.
    let bytes = match read::body(body, api.options.body_bytes_max).await {
        Ok(bytes) => bytes,
        Err(status) => return Ok(respond::status(&status, head.encoding())),
    };
    let script = head.faults.script.take();
    let response = match path {
        Some(path) => resource(api, &head, path, &bytes).await,
        None => meta::serve(api, &head).unwrap_or_else(respond::no_such_path),
    };
    Ok(match script {
        Some(script) => response.map(|body| body.with_faults(script, head.encoding())),
        None => response,
    })
}

/// The response of a fault.
async fn fault(head: &RequestHead, instead: Instead) -> io::Result<Response<ApiBody>> {
    let encoding = head.encoding();
    Ok(match instead {
        Instead::Status(status) => respond::status(&status, encoding),
        Instead::Expired if head.query.flag("watch") => {
            let asked = head.query.text("resourceVersion").parse().unwrap_or(0);
            let event = codec::status_event(&Status::expired_watch(asked, asked.saturating_add(1)), encoding);
            respond::answer(200, list::watch_content_type(encoding), ApiBody::whole(event))
        }
        Instead::Expired => respond::status(&Status::expired_list(), encoding),
        Instead::Overloaded { retry_after_seconds } => {
            let mut response = respond::text(429, "Too many requests, please try again later.\n");
            response.headers_mut().insert(RETRY_AFTER, retry_after_seconds.into());
            response
        }
        Instead::Html { code } => {
            let page =
                "<html><head><title>Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>\n";
            respond::answer(code, "text/html", ApiBody::whole(page))
        }
        Instead::Disconnect => {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "connection broken by a fault"));
        }
        Instead::Nothing => std::future::pending().await,
    })
}

/// Serves the resource API.
async fn resource(api: &Arc<Api>, head: &RequestHead, path: ApiPath, bytes: &[u8]) -> Response<ApiBody> {
    let registry = api.registry();
    let nothing = || {
        // Custom groups are served by different code in a kube-apiserver, with shorter messages.
        if registry.has_builtin_group(&path.group) {
            respond::status(&Status::unknown_resource(), Encoding::Json)
        } else {
            respond::no_such_path()
        }
    };
    let Some(resource) = registry.find(&path.group, &path.version, &path.resource) else { return nothing() };
    let placed = path.namespace.is_empty() || resource.namespaced();
    let subresource = path.subresource.is_empty() || resource.subresource(&path.subresource).is_some();
    let nowhere = resource.namespaced() && path.namespace.is_empty();
    if !placed || !subresource || (nowhere && !path.name.is_empty()) {
        return nothing();
    }
    if nowhere && head.method == Method::POST {
        return respond::status(&Status::method_not_allowed(), Encoding::Json);
    }
    let offer = Offer { protobuf: resource.message.is_some(), projections: true };
    let representation = match Representation::negotiate(head.header(ACCEPT), offer) {
        Ok(representation) => representation,
        Err(NotAcceptable::MediaType) => return respond::media_type_unknown(),
        Err(NotAcceptable::Form(encoding)) => {
            return respond::status(&Status::not_acceptable(ACCEPTED), encoding);
        }
    };
    let target = Target {
        resource: resource.clone(),
        namespace: path.namespace,
        name: path.name,
        subresource: path.subresource,
    };
    let answer = match (&head.method, target.name.is_empty()) {
        (&Method::GET, true) => read_collection(api, head, &target, path.watch, representation).await,
        (&Method::GET, false) => read_object(api, head, &target, path.watch, representation).await,
        _ => api.write_as(head.bearer(), |writer| write(writer, head, &target, bytes, representation)),
    };
    let mut response = answer.unwrap_or_else(|status| respond::status(&status, representation.encoding));
    if let Some(warning) = resource.deprecation_warning() {
        respond::warn(&mut response, &warning);
    }
    response
}

async fn read_collection(
    api: &Arc<Api>,
    head: &RequestHead,
    target: &Target,
    watch: bool,
    representation: Representation,
) -> Result<Response<ApiBody>, Status> {
    let mut options = ListOptions::parse(&head.query, api.options.watch_list)?;
    options.watch |= watch;
    require(target, if options.watch { "watch" } else { "list" })?;
    if options.watch {
        return list::watch(api, target, &options, &head.faults, representation);
    }
    list::list(api, target, &options, representation).await
}

async fn read_object(
    api: &Arc<Api>,
    head: &RequestHead,
    target: &Target,
    watch: bool,
    representation: Representation,
) -> Result<Response<ApiBody>, Status> {
    require(target, "get")?;
    if watch || head.query.flag("watch") {
        let options = ListOptions::parse(&head.query, api.options.watch_list)?;
        return list::watch(api, target, &options, &head.faults, representation);
    }
    if let Some(revision) = parse_revision(&head.query.text("resourceVersion")).map_err(Status::internal)? {
        list::fresh(api, target, revision).await?;
    }
    if target.subresource == "scale" {
        let scale = codec::other(&api.scale(target)?, representation.encoding);
        return Ok(respond::answer(200, representation.encoding.media_type(), ApiBody::whole(scale)));
    }
    let stored = api.get(target)?;
    if target.subresource == "log" {
        return Ok(respond::text(200, ""));
    }
    Ok(respond::object(200, &target.resource, &stored.bytes, representation))
}

/// Serves writes.
fn write(
    writer: &Writer<'_>,
    head: &RequestHead,
    target: &Target,
    bytes: &[u8],
    representation: Representation,
) -> Result<Response<ApiBody>, Status> {
    let resource = &target.resource;
    let verb = match (&head.method, target.name.is_empty()) {
        (&Method::POST, true) => "create",
        (&Method::POST, false) if !target.subresource.is_empty() => "create",
        (&Method::PUT, false) => "update",
        (&Method::PATCH, false) => "patch",
        (&Method::DELETE, false) => "delete",
        (&Method::DELETE, true) => "deletecollection",
        _ => return Err(Status::method_not_allowed()),
    };
    require(target, verb)?;
    let content_type = head.header(CONTENT_TYPE);
    let outcome = match (verb, target.subresource.as_str()) {
        ("create", "") => {
            let options = head.write_options("CreateOptions")?;
            writer.create(target, read::object(resource, content_type, bytes)?, &options)?
        }
        ("create", action) => {
            let options = head.write_options("CreateOptions")?;
            let object = read::any_object(action, content_type, bytes)?;
            writer.act(target, &object, &options)?
        }
        ("update", "scale") => {
            let options = head.write_options("UpdateOptions")?;
            let scale = read::any_object("Scale", content_type, bytes)?;
            writer.set_scale(target, &options, &|_| Ok(scale.clone()))?
        }
        ("update", _) => {
            let options = head.write_options("UpdateOptions")?;
            writer.replace(target, &read::object(resource, content_type, bytes)?, &options)?
        }
        ("patch", part) => {
            let options = head.write_options("PatchOptions")?;
            let patch = read::patch(resource, head, content_type, bytes)?;
            if part == "scale" {
                writer.patch_scale(target, &patch, &options)?
            } else {
                writer.patch(target, &patch, &options)?
            }
        }
        ("delete", _) => writer.delete(target, &head.delete_options(content_type, bytes)?)?,
        _ => {
            let options = head.delete_options(content_type, bytes)?;
            return list::delete(writer, target, head, &options, representation);
        }
    };
    Ok(respond::outcome(resource, outcome, representation))
}

/// Whether the resource, or the requested subresource, supports the verb.
fn require(target: &Target, verb: &str) -> Result<(), Status> {
    let known = match target.resource.subresource(&target.subresource) {
        Some(subresource) => subresource.verbs.iter().any(|known| known == verb),
        None => target.resource.has_verb(verb),
    };
    if known { Ok(()) } else { Err(Status::method_not_allowed()) }
}

// === impl RequestHead ===

impl RequestHead {
    pub(super) fn header(&self, name: http::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The bearer token.
    pub(super) fn bearer(&self) -> Option<&str> {
        access::bearer_token(&self.headers)
    }

    /// The properties that faults match.
    fn info(&self, path: Option<&ApiPath>, query: Option<&str>) -> RequestInfo {
        let mut info = RequestInfo {
            path: query.map_or_else(|| self.path.clone(), |query| format!("{}?{query}", self.path)),
            user_agent: self.header(USER_AGENT).unwrap_or_default().to_owned(),
            ..RequestInfo::default()
        };
        let Some(path) = path else { return info };
        let watch = path.watch || self.query.flag("watch");
        info.verb = match self.method {
            Method::GET if watch => Some(Verb::Watch),
            Method::GET if path.name.is_empty() => Some(Verb::List),
            Method::GET => Some(Verb::Get),
            Method::POST => Some(Verb::Create),
            Method::PUT => Some(Verb::Update),
            Method::PATCH => Some(Verb::Patch),
            Method::DELETE => Some(Verb::Delete),
            _ => None,
        };
        info.resource.clone_from(&path.resource);
        info.namespace.clone_from(&path.namespace);
        info.name.clone_from(&path.name);
        info
    }

    /// The encoding of errors that occur before negotiation.
    fn encoding(&self) -> Encoding {
        let offer = Offer { protobuf: true, projections: true };
        Representation::negotiate(self.header(ACCEPT), offer).map_or(Encoding::Json, |chosen| chosen.encoding)
    }

    fn write_options(&self, kind: &str) -> Result<WriteOptions, Status> {
        let validation = match self.query.get("fieldValidation") {
            None | Some("" | "Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                let error = FieldError::not_supported("fieldValidation", other, &supported);
                return Err(Status::invalid_options(kind, &[error]));
            }
        };
        Ok(WriteOptions { dry_run: self.query.dry_run(kind)?, manager: self.manager(), validation })
    }

    /// The field manager: the parameter, or the start of the user agent.
    fn manager(&self) -> String {
        let named = self.query.text("fieldManager");
        if !named.is_empty() {
            return named;
        }
        let agent = self.header(USER_AGENT).unwrap_or_default();
        agent.split('/').next().unwrap_or_default().chars().take(128).collect()
    }

    /// The options in the body, overridden by the query.
    fn delete_options(&self, content_type: Option<&str>, bytes: &[u8]) -> Result<DeleteOptions, Status> {
        let mut options = read::delete_options(content_type, bytes)?;
        if let Some(seconds) = self.query.number("gracePeriodSeconds")? {
            options.grace_period_seconds = Some(seconds);
        }
        if let Some(policy) = self.query.get("propagationPolicy") {
            options.propagation_policy = Some(policy.to_owned());
        }
        if self.query.get("orphanDependents").is_some() {
            options.orphan_dependents = Some(self.query.flag("orphanDependents"));
        }
        if self.query.dry_run("DeleteOptions")? {
            options.dry_run = vec!["All".to_owned()];
        }
        Ok(options)
    }
}
