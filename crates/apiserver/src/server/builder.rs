//! What can be chosen about a server, and starting it.

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
}

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The socket could not be bound.
    #[error("cannot listen on {address}: choose another address, or port 0 for any")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No certificate could be made.
    #[error("cannot set up TLS")]
    Tls(#[source] Box<dyn Error + Send + Sync>),
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
        }
    }
}

impl Builder {
    /// The port to listen on; 0, the default, takes any that is free.
    pub fn port(mut self, port: u16) -> Self {
        self.socket.get_or_insert(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).set_port(port);
        self
    }

    /// The address to listen on; the default is the loopback interface. A server that others can reach should have a
    /// [`token`](Self::token): starting one without says so in the log.
    pub fn address(mut self, address: IpAddr) -> Self {
        let port = self.socket.map_or(0, |socket| socket.port());
        self.socket = Some(SocketAddr::new(address, port));
        self
    }

    /// No socket: requests come through [`Server::service`] only.
    pub fn without_socket(mut self) -> Self {
        self.socket = None;
        self
    }

    /// HTTPS with a certificate of its own; clients made by the server trust it.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Without a token, requests to this host are answered, too, in addition to loopback hosts; and with or without one,
    /// requests of web pages from it.
    ///
    /// A page whose host name resolves to this machine could otherwise read everything (DNS rebinding).
    pub fn allowed_host(mut self, host: impl Into<String>) -> Self {
        self.options.allowed_hosts.push(host.into());
        self
    }

    /// Connections that may be open at the same time; the default is 16,384. Further ones wait in the system's queue.
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.connections_max = connections.min(Semaphore::MAX_PERMITS);
        self
    }

    /// Requests must carry this bearer token; only health checks and the version are answered without it.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.options.token = Some(token.into());
        self
    }

    /// Uids, generated names and jitter repeat themselves from this seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The clock that timestamps are read from; the default is the system's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// What becomes of `sendInitialEvents`.
    pub fn watch_list(mut self, mode: WatchListMode) -> Self {
        self.options.watch_list = mode;
        self
    }

    /// Events of each resource that lists at an old revision and new watches can go back; the default is 16,384.
    pub fn history(mut self, events: usize) -> Self {
        self.options.window.history_events_max = events;
        self
    }

    /// Events an open watch may fall behind before it is closed; the default is 16,384.
    pub fn watch_buffer(mut self, events: usize) -> Self {
        self.options.window.watch_buffer_events_max = events;
        self
    }

    /// Bytes of superseded and deleted objects that the history of each resource holds; the default is 256 MiB. The oldest
    /// events are dropped first.
    pub fn history_bytes(mut self, bytes: usize) -> Self {
        self.options.window.history_bytes_max = bytes;
        self
    }

    /// Bytes of superseded and deleted objects that are held for open watches that fall behind, per resource; the default
    /// is 256 MiB. A watch whose next event had to be dropped is closed.
    pub fn watch_buffer_bytes(mut self, bytes: usize) -> Self {
        self.options.window.watch_buffer_bytes_max = bytes;
        self
    }

    /// How often a watch is sent a bookmark, if it asked for them; the default is a minute.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.options.bookmark_interval = interval;
        self
    }

    /// How long a request waits for a resourceVersion that is not there yet; the default is three seconds.
    pub fn fresh_wait(mut self, wait: Duration) -> Self {
        self.options.fresh_wait = wait;
        self
    }

    /// Whether dependents of deleted objects are collected and terminating namespaces emptied; the default is yes.
    /// An API server alone does neither: controllers do.
    pub fn garbage_collection(mut self, on: bool) -> Self {
        self.options.garbage_collection = on;
        self
    }

    /// Whether terminating pods go when their grace period is over; the default is yes. In a cluster a kubelet does it.
    pub fn pod_termination(mut self, on: bool) -> Self {
        self.options.pod_termination = on;
        self
    }

    /// What is done about writes that configure a feature which the server does not have (admission webhooks, CEL rules,
    /// RBAC and others, see docs/embedded-server.md), or that such a feature would have judged. The default is a
    /// `Warning` header; [`Unsupported::Refuse`] makes a test fail that relies on such a feature.
    pub fn unsupported(mut self, unsupported: Unsupported) -> Self {
        self.options.unsupported = unsupported;
        self
    }

    /// Whether faults can be armed over HTTP, at `/faults`; the default is no.
    pub fn admin_endpoint(mut self, on: bool) -> Self {
        self.options.admin = on;
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    /// If the socket cannot be bound or TLS cannot be set up.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn start(self) -> Result<Server, StartError> {
        let chance = self.seed.map_or_else(Chance::system, Chance::seeded);
        let clock = self.clock.unwrap_or_else(Clock::system);
        let api = Arc::new(Api::new(self.options, clock, chance));
        api.create_initial_objects();
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
            tracing::warn!(address = %bound, "every machine that reaches this address can read and write: set a token");
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
