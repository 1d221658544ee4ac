//! Server settings, and starting a server.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Server;
use super::connections::Connections;
use super::listen;
use super::manifests::{ManifestError, Manifests};
use super::tls::Identity;
use crate::api::{Api, Options};
use crate::clock::{Chance, Clock};
use crate::http::{ApiService, Arrival, WatchListMode};
use crate::objects::Unsupported;

/// Builds a [`Server`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    socket: Option<SocketAddr>,
    connections_max: usize,
    tls: bool,
    seed: Option<u64>,
    clock: Option<Clock>,
    options: Options,
    /// Definitions only.
    crds: Vec<Manifests>,
    objects: Vec<Manifests>,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The socket could not be bound.
    #[error("cannot listen on {address}: {source}; choose another address, or port 0 for a free one")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// Creating the certificate failed.
    #[error("cannot set up TLS: {0}")]
    Tls(#[source] Box<dyn Error + Send + Sync>),
    /// An object that the server should start with is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            socket: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)),
            connections_max: listen::CONNECTIONS_MAX,
            tls: false,
            seed: None,
            clock: None,
            options: Options::default(),
            crds: Vec::new(),
            objects: Vec::new(),
        }
    }
}

impl Builder {
    /// The port to listen on; 0, the default, picks a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.socket.get_or_insert(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).set_port(port);
        self
    }

    /// The address to listen on; the default is the loopback interface. A server that other machines can reach should
    /// have a [`token`](Self::token); starting one without a token logs a warning.
    pub fn address(mut self, address: IpAddr) -> Self {
        let port = self.socket.map_or(0, |socket| socket.port());
        self.socket = Some(SocketAddr::new(address, port));
        self
    }

    /// Opens no socket: requests arrive only through [`Server::service`].
    pub fn without_socket(mut self) -> Self {
        self.socket = None;
        self
    }

    /// Serves HTTPS with a self-issued certificate; clients created by the server trust it.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Accepts requests to this host in addition to loopback hosts, if the server has no token; and requests from web
    /// pages of this host, with or without a token.
    ///
    /// Other hosts are rejected, because a page whose host name resolves to this machine could otherwise read
    /// everything (DNS rebinding).
    pub fn allowed_host(mut self, host: impl Into<String>) -> Self {
        self.options.allowed_hosts.push(host.into());
        self
    }

    /// Maximum number of open connections; the default is 16,384. Further ones wait in the system's accept queue.
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.connections_max = connections.min(Semaphore::MAX_PERMITS);
        self
    }

    /// Requires this bearer token on all requests except health checks and `/version`.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.options.token = Some(token.into());
        self
    }

    /// Makes everything random reproducible: uids, generated names, the cluster IPs of services, signing keys, and the duration of
    /// watches without `timeoutSeconds`.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The clock for timestamps; the default is the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// How the server treats `sendInitialEvents`.
    pub fn watch_list(mut self, mode: WatchListMode) -> Self {
        self.options.watch_list = mode;
        self
    }

    /// Whether the server supports `shardSelector` in lists, watches and deletions of collections, like a kube-apiserver
    /// with the feature gate `ShardedListAndWatch`. The default is no, as in Kubernetes 1.37: the parameter is ignored.
    ///
    /// [`kube_wire::shard`] has the selector.
    pub fn sharded_list_and_watch(mut self, on: bool) -> Self {
        self.options.sharded_list_and_watch = on;
        self
    }

    /// Past events of each resource available to lists at an old revision and to new watches; the default is 16,384.
    pub fn history(mut self, events: usize) -> Self {
        self.options.window.history_events_max = events;
        self
    }

    /// How many events an open watch may lag before it is closed; the default is 16,384.
    pub fn watch_buffer(mut self, events: usize) -> Self {
        self.options.window.watch_buffer_events_max = events;
        self
    }

    /// Maximum size of the superseded and deleted objects in the history of each resource, in bytes; the default is
    /// 256 MiB. The oldest events are dropped first.
    pub fn history_bytes(mut self, bytes: usize) -> Self {
        self.options.window.history_bytes_max = bytes;
        self
    }

    /// Maximum size of the superseded and deleted objects held for lagging watches, in bytes per resource; the default
    /// is 256 MiB. A watch whose next event was dropped is closed.
    pub fn watch_buffer_bytes(mut self, bytes: usize) -> Self {
        self.options.window.watch_buffer_bytes_max = bytes;
        self
    }

    /// How often a watch that asked for bookmarks gets one; the default is a minute.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.options.bookmark_interval = interval;
        self
    }

    /// How long a request waits for a resourceVersion not reached yet; the default is three seconds.
    pub fn fresh_wait(mut self, wait: Duration) -> Self {
        self.options.fresh_wait = wait;
        self
    }

    /// Whether dependents of deleted objects are collected and terminating namespaces are emptied; the default is yes.
    /// In a cluster, controllers do this, not the API server.
    pub fn garbage_collection(mut self, on: bool) -> Self {
        self.options.garbage_collection = on;
        self
    }

    /// Whether terminating pods are removed after their grace period, as by a kubelet; the default is yes.
    pub fn pod_termination(mut self, on: bool) -> Self {
        self.options.pod_termination = on;
        self
    }

    /// How the server treats writes that configure an unsupported feature (admission webhooks, CEL rules, RBAC and
    /// others, see docs/embedded-server.md), or to which such a feature would have applied. The default is a `Warning`
    /// header; with [`Unsupported::Refuse`], a test that relies on such a feature fails.
    pub fn unsupported(mut self, unsupported: Unsupported) -> Self {
        self.options.unsupported = unsupported;
        self
    }

    /// Whether faults can be armed over HTTP, at `/faults`; the default is no.
    pub fn admin_endpoint(mut self, on: bool) -> Self {
        self.options.admin = on;
        self
    }

    /// Starts with these CustomResourceDefinitions: a YAML file, a directory, or typed values. They are served immediately.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use embedded_apiserver::Server;
    /// use serde_json::json;
    ///
    /// # let directory = std::env::temp_dir().join(format!("manifests-{}", std::process::id()));
    /// # std::fs::create_dir_all(&directory)?;
    /// # std::fs::write(directory.join("map.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\n")?;
    /// # let deploy = directory.to_str().ok_or("not UTF-8")?;
    /// let server = Server::builder()
    ///     .without_socket()
    ///     .objects(deploy) // every .yaml, .yml and .json file of a directory
    ///     .objects([json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "web"}})])
    ///     .start()
    ///     .await?;
    /// # std::fs::remove_dir_all(directory)?;
    /// # drop(server);
    /// # Ok(()) }
    /// ```
    pub fn crds(mut self, definitions: impl Into<Manifests>) -> Self {
        self.crds.push(definitions.into());
        self
    }

    /// Starts with these objects, their status included: a YAML file, a directory, or typed values, in any order. Definitions are
    /// created first, and namespaces that do not exist are created. See [`crds`](Self::crds) for an example.
    pub fn objects(mut self, objects: impl Into<Manifests>) -> Self {
        self.objects.push(objects.into());
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be bound, TLS cannot be set up, or an object of [`crds`](Self::crds) or
    /// [`objects`](Self::objects) is invalid.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub async fn start(self) -> Result<Server, StartError> {
        let chance = self.seed.map_or_else(Chance::system, Chance::seeded);
        let clock = self.clock.unwrap_or_else(Clock::system);
        let api = Arc::new(Api::new(self.options, clock, chance));
        api.create_initial_objects();
        create_manifests(&api, &self.crds, &self.objects)?;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let mut server =
            Server { api, address: None, identity: None, tasks, stop, connections: Connections::default() };
        let removal =
            server.stop.clone().run_until_cancelled_owned(server.api.clone().remove_terminated_pods());
        server.tasks.spawn(async move { removal.await.unwrap_or_default() });
        let Some(address) = self.socket else { return Ok(server) };
        let bind = |source| StartError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        let bound = listener.local_addr().map_err(bind)?;
        if !bound.ip().is_loopback() && server.api.options.token.is_none() {
            tracing::warn!(address = %bound, "other machines can read and write without a token; set one");
        }
        let arrival = if bound.ip().is_loopback() { Arrival::Loopback } else { Arrival::Network };
        let (connections, requests) = Connections::with_port();
        server.connections = connections;
        server.address = Some(bound);
        server.identity = self.tls.then(|| Identity::new(bound.ip())).transpose().map_err(StartError::Tls)?;
        let config = server.identity.as_ref().map(|identity| identity.config.clone());
        let listen = listen::Listen {
            service: ApiService::new(server.api.clone(), arrival),
            tls: config.map(Into::into),
            tasks: server.tasks.clone(),
            stop: server.stop.clone(),
            connections: server.connections.clone(),
            slots: Arc::new(Semaphore::new(self.connections_max)),
        };
        server.tasks.spawn(listen.run(listener, bound, requests));
        Ok(server)
    }
}

/// Creates the objects of manifests: definitions first, then namespaces, then everything else.
fn create_manifests(api: &Api, crds: &[Manifests], objects: &[Manifests]) -> Result<(), ManifestError> {
    let mut all = Vec::new();
    for definitions in crds {
        for manifest in definitions.read()? {
            if !manifest.is_definition() {
                return Err(manifest.error("not a CustomResourceDefinition; add it with `objects`"));
            }
            all.push(manifest);
        }
    }
    for manifests in objects {
        all.extend(manifests.read()?);
    }
    all.sort_by_key(|manifest| manifest.rank());
    all.iter().try_for_each(|manifest| manifest.create(api))
}
