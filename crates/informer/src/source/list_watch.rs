//! Lists and watches one resource over HTTP.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use http::header::{ACCEPT, ACCEPT_ENCODING};
use http_body_util::{BodyExt, Limited};
use kube_client::Client;
use kube_client::client::Body;
use kube_wire::schema::Schema;
use kube_wire::{Encoding, Limits, ObjectReader, Projection, TypeMeta};
use tokio::sync::OnceCell;

use super::cluster::IsList;
use super::json_switch::AskedProtobuf;
use super::response::{self, WatchDeadline};
use super::server_memory::{Introduction, ServerMemory};
use super::{
    InvalidPathSegment, JsonSwitch, ListOptions, ListStream, ListerWatcher, Resource, SourceError,
    WatchOptions, WatchStream,
};
use crate::deadline::after;

/// Lists and watches a resource (built-in, custom or aggregated), in all namespaces or in one.
///
/// Works with any [`kube_client::Client`]; [`Cluster`](super::Cluster) provides one made for many watches.
///
/// ```no_run
/// # use kube_informer::building_blocks::{ListWatch, Resource};
/// # fn example(client: kube_client::Client) {
/// let pods = ListWatch::new(client, Resource::new("", "v1", "pods", "Pod"))
///     .namespace("web")
///     .labels("tier=backend");
/// # }
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("ListWatch({self})")]
pub struct ListWatch {
    client: Client,
    resource: Resource,
    namespace: Option<String>,
    label_selector: String,
    field_selector: String,
    metadata_only: bool,
    encoding: EncodingPreference,
    json_switch: JsonSwitch,
    asked_protobuf: AskedProtobuf,
    server_is_newer: ServerIsNewer,
    /// What was learned about the server by all users of the same [`Cluster`](super::Cluster); set by the first request.
    server: Arc<OnceLock<Arc<ServerMemory>>>,
    projection: Projection,
    limits: Limits,
    list_idle_max: Duration,
    modify_list: Option<Modify<ListOptions>>,
    modify_watch: Option<Modify<WatchOptions>>,
}

/// Whether a server is newer than the schema table; set once known, and shared by all sources of the server.
pub(crate) type ServerIsNewer = Arc<OnceCell<bool>>;

type Modify<O> = Arc<dyn Fn(&mut O) + Send + Sync>;

/// The encoding to request. Responses in any encoding are understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EncodingPreference {
    /// Protobuf where it loses nothing: for kinds in the schema table, from servers not newer than the table. JSON
    /// otherwise. This costs one request to `/version`.
    #[default]
    Auto,
    /// Protobuf for kinds in the schema table, however new the server is. This avoids JSON with a newer server as long as
    /// its objects have no new fields. The first object with one fails to decode, and switches the source to JSON.
    Protobuf,
    /// JSON.
    Json,
}

// === impl ListWatch ===

impl ListWatch {
    /// Lists and watches a resource in all namespaces.
    pub fn new(client: impl Into<Client>, resource: Resource) -> Self {
        Self {
            client: client.into(),
            resource,
            namespace: None,
            label_selector: String::new(),
            field_selector: String::new(),
            metadata_only: false,
            encoding: EncodingPreference::default(),
            json_switch: JsonSwitch::default(),
            asked_protobuf: AskedProtobuf::default(),
            server_is_newer: Arc::default(),
            server: Arc::default(),
            projection: Projection::default(),
            limits: Limits::default(),
            list_idle_max: Duration::from_secs(60),
            modify_list: None,
            modify_watch: None,
        }
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only objects with these labels, in the syntax of kubectl's `-l`.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = selector.into();
        self
    }

    /// Only objects with these fields, in the syntax of kubectl's `--field-selector`.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = selector.into();
        self
    }

    /// Fetches only metadata: objects arrive as `PartialObjectMetadata`.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// The encoding to request.
    #[must_use]
    pub fn encoding(mut self, preference: EncodingPreference) -> Self {
        self.encoding = preference;
        self
    }

    /// Which fields to keep of each object.
    #[must_use]
    pub fn projection(mut self, projection: Projection) -> Self {
        self.projection = projection;
        self
    }

    /// Limits on the size of objects and other input.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long a list may pause between two pieces. Default: 60 s. It may be slower than 1 KiB/s for five times as long.
    #[must_use]
    pub fn list_idle_max(mut self, limit: Duration) -> Self {
        self.list_idle_max = limit;
        self
    }

    /// Shares the result of the version request with other sources.
    pub(crate) fn server_is_newer_as(mut self, shared: &ServerIsNewer) -> Self {
        self.server_is_newer = shared.clone();
        self
    }

    /// Changes the options of each list before it is sent.
    #[must_use]
    pub fn modify_list(mut self, modify: impl Fn(&mut ListOptions) + Send + Sync + 'static) -> Self {
        self.modify_list = Some(Arc::new(modify));
        self
    }

    /// Changes the options of each watch before it is sent.
    #[must_use]
    pub fn modify_watch(mut self, modify: impl Fn(&mut WatchOptions) + Send + Sync + 'static) -> Self {
        self.modify_watch = Some(Arc::new(modify));
        self
    }

    /// The type of the objects on the wire.
    fn type_meta(&self) -> TypeMeta {
        if self.metadata_only {
            return TypeMeta::new("meta.k8s.io/v1", "PartialObjectMetadata");
        }
        self.resource.type_meta()
    }

    /// Whether to request protobuf. The server's version is requested before a complete list; a watch that continues from
    /// one uses the known version.
    async fn asks_protobuf(&self, begins_list: bool) -> bool {
        let type_meta = self.type_meta();
        let in_table = Schema::builtin().kind(type_meta.api_version(), type_meta.kind()).is_some();
        in_table
            && !self.json_switch.is_on()
            && match self.encoding {
                EncodingPreference::Auto if begins_list => !self.server_is_newer().await,
                EncodingPreference::Auto => !self.server_is_newer.get().copied().unwrap_or(false),
                EncodingPreference::Protobuf => true,
                EncodingPreference::Json => false,
            }
    }

    /// Whether the server is newer than the schema table, as far as it reports it. A server that could not be reached is
    /// asked again the next time.
    async fn server_is_newer(&self) -> bool {
        let wait = VERSION_WAIT.min(self.list_idle_max);
        let ask = async {
            match tokio::time::timeout(wait, self.server_version()).await {
                Ok(Ok(version)) => {
                    let table = Schema::builtin().kubernetes_version();
                    Ok(version.is_some_and(|version| is_newer(&version.git_version, table)))
                }
                Ok(Err(unreachable)) => Err(unreachable),
                Err(_) => Ok(false),
            }
        };
        self.server_is_newer.get_or_try_init(|| ask).await.copied().unwrap_or(false)
    }

    /// The server's version; `None` if its response does not contain one.
    async fn server_version(&self) -> Result<Option<Version>, SourceError> {
        let request = http::Request::get("/version").header(ACCEPT, Encoding::Json.media_type());
        let mut request = request.body(Body::empty()).map_err(|error| SourceError::Other(Arc::new(error)))?;
        request.extensions_mut().insert(IsList);
        let answer = self.client.send(request).await?;
        if !answer.status().is_success() {
            return Ok(None);
        }
        let body = Limited::new(answer.into_body(), VERSION_BYTES_MAX).collect().await;
        Ok(body.ok().and_then(|body| serde_json::from_slice(&body.to_bytes()).ok()))
    }

    /// The `Accept` header, in order of preference.
    fn accept(&self, watch: bool, protobuf: bool) -> String {
        let encodings: &[Encoding] =
            if protobuf { &[Encoding::Protobuf, Encoding::Json] } else { &[Encoding::Json] };
        let shape = match (self.metadata_only, watch) {
            (false, _) => "",
            (true, false) => ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            (true, true) => ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        };
        let clauses = encodings.iter().map(|encoding| {
            let stream = if watch && *encoding == Encoding::Protobuf { ";stream=watch" } else { "" };
            format!("{}{stream}{shape}", encoding.media_type())
        });
        clauses.collect::<Vec<_>>().join(",")
    }

    /// The URL path to list and watch.
    pub(crate) fn path(&self) -> Result<String, InvalidPathSegment> {
        self.resource.path(self.namespace.as_deref(), None)
    }

    fn request(
        &self,
        namespace: Option<&str>,
        query: &str,
        accept: String,
    ) -> Result<http::Request<Body>, SourceError> {
        let path = self.resource.path(self.namespace.as_deref().or(namespace), None);
        let path = path.map_err(|error| SourceError::Other(Arc::new(error)))?;
        http::Request::get(format!("{path}?{query}"))
            .header(ACCEPT, accept)
            // Compression costs the server more than the network gains, and gzipped watches arrive in whole blocks.
            .header(ACCEPT_ENCODING, "identity")
            .body(Body::empty())
            .map_err(|error| SourceError::Unsendable(Arc::new(error)))
    }

    fn reader(&self) -> ObjectReader {
        ObjectReader::new(self.projection.clone(), self.limits).expect(self.type_meta())
    }
}

impl ListerWatcher for ListWatch {
    fn list(&self, mut options: ListOptions) -> BoxFuture<'_, Result<ListStream, SourceError>> {
        options.label_selector.clone_from(&self.label_selector);
        let fields = [self.field_selector.as_str(), &options.field_selector];
        options.field_selector =
            fields.into_iter().filter(|fields| !fields.is_empty()).collect::<Vec<_>>().join(",");
        if let Some(modify) = &self.modify_list {
            modify(&mut options);
        }
        async move {
            let protobuf = self.asks_protobuf(options.continue_token.is_empty()).await;
            self.asked_protobuf.set(protobuf);
            let mut request =
                self.request(options.namespace.as_deref(), &options.query(), self.accept(false, protobuf))?;
            request.extensions_mut().insert(IsList);
            let reader = self.reader().in_blocks();
            let answer = tokio::time::timeout(self.list_idle_max, self.client.send(request)).await;
            let answer = answer.map_err(|_| SourceError::Idle(self.list_idle_max))?;
            let answer = response::accepted(answer, self.list_idle_max).await?;
            response::list(answer, reader, self.list_idle_max, self.type_meta())
        }
        .boxed()
    }

    fn watch(&self, mut options: WatchOptions) -> BoxFuture<'_, Result<WatchStream, SourceError>> {
        options.label_selector.clone_from(&self.label_selector);
        options.field_selector.clone_from(&self.field_selector);
        if let Some(modify) = &self.modify_watch {
            modify(&mut options);
        }
        async move {
            let protobuf = self.asks_protobuf(options.send_initial_events).await;
            // A watch without initial events keeps the listed objects, which may be in protobuf.
            self.asked_protobuf.set(protobuf || (self.asked_protobuf.get() && !options.send_initial_events));
            let mut request = self.request(None, &options.query(), self.accept(true, protobuf))?;
            let optional = options.send_initial_events && options.initial_events_optional;
            let optional_watch_list = optional.then(|| self.resource.group.as_str().into());
            request
                .extensions_mut()
                .insert(Introduction { server: self.server.clone(), optional_watch_list });
            // Some proxies hold the headers back until the first event, so the headers may take as long as the watch.
            let asked = options.timeout.unwrap_or(UNLIMITED_WATCH);
            let in_all_max = asked.saturating_add(WATCH_GRACE);
            let ends_by = WatchDeadline { asked, at: after(in_all_max) };
            let reader = self.reader();
            let reader = if options.send_initial_events { reader.in_blocks() } else { reader };
            let answer = tokio::time::timeout(in_all_max, self.client.send(request)).await;
            let answer = answer.map_err(|_| SourceError::Idle(in_all_max))?;
            response::watch(response::accepted(answer, self.list_idle_max).await?, reader, ends_by)
        }
        .boxed()
    }

    fn expected_type(&self) -> Option<TypeMeta> {
        Some(self.type_meta())
    }

    fn resource(&self) -> Option<Resource> {
        Some(self.resource.clone())
    }

    fn json_switch(&self) -> Option<JsonSwitch> {
        Some(self.json_switch.clone())
    }

    fn outdated(&self) -> BoxFuture<'_, ()> {
        async {
            self.json_switch.turned().await;
            // All objects since the last complete list were requested in JSON.
            if !self.asked_protobuf.get() {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }

    fn watch_list_is_broken(&self) {
        if let Some(server) = self.server.get() {
            server.watch_list_is_broken(&self.resource.group);
        }
    }

    fn describe(&self) -> String {
        self.to_string()
    }
}

/// Limits of the version request. It is optional: without an answer, decoding still detects unknown fields.
const VERSION_WAIT: Duration = Duration::from_secs(10);
const VERSION_BYTES_MAX: usize = 64 << 10;

/// The relevant part of a `/version` response.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

/// How long after its requested end a watch may still be open, whatever it receives: a proxy that sends a byte a minute
/// could keep it open forever.
const WATCH_GRACE: Duration = Duration::from_secs(60);

/// How long a server keeps a watch without a requested duration, at most.
const UNLIMITED_WATCH: Duration = Duration::from_secs(3600);

/// Whether a server's version (`v1.37.1`) is newer than the table's. Only minor versions count: they add fields.
fn is_newer(server: &str, table: &str) -> bool {
    let minor = |version: &str| {
        let mut numbers = version.trim_start_matches('v').split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse::<u32>().ok()?, numbers.next()?.parse::<u32>().ok()?))
    };
    match (minor(server), minor(table)) {
        (Some(server), Some(table)) => server > table,
        // An unknown format: assume that the server is newer.
        _ => true,
    }
}

impl fmt::Display for ListWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource.plural)?;
        if !self.resource.group.is_empty() {
            write!(f, ".{}", self.resource.group)?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}")?,
            None => f.write_str(" in all namespaces")?,
        }
        if !self.label_selector.is_empty() {
            write!(f, " with labels {}", self.label_selector)?;
        }
        if !self.field_selector.is_empty() {
            write!(f, " with fields {}", self.field_selector)?;
        }
        Ok(())
    }
}
