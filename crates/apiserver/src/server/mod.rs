//! A running server: its address, its clients, and shutdown.

mod builder;
#[cfg(feature = "client")]
mod client;
mod coalesce;
mod connections;
mod control;
mod feed;
mod first_request;
mod kubeconfig;
mod listen;
mod manifests;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use builder::{Builder, StartError};
#[cfg(feature = "client")]
pub use client::ClientError;
pub(crate) use connections::Connections;
pub use control::{Backup, Restart};
pub use feed::{Feed, FeedError};
pub use manifests::{ManifestError, Manifests};

use crate::api::Api;
use crate::http::{ApiService, Arrival, RequestCount};
use tls::Identity;

/// An API server in this process. It stops when dropped; [`shutdown`](Self::shutdown) also waits until it has stopped.
#[derive(Debug)]
#[must_use = "a server stops when it is dropped"]
pub struct Server {
    api: Arc<Api>,
    address: Option<SocketAddr>,
    identity: Option<Identity>,
    tasks: TaskTracker,
    stop: CancellationToken,
    connections: Connections,
}

impl Server {
    /// A builder with default settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a server on a free port of the loopback interface, with plain HTTP and no token.
    ///
    /// # Errors
    /// If no socket can be bound.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// The address it listens on; `None` without a socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// `http://127.0.0.1:PORT`; `None` without a socket.
    pub fn url(&self) -> Option<String> {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        self.address.map(|address| format!("{scheme}://{address}"))
    }

    /// How many requests each client has made since the start, by user agent and verb; the most frequent first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use embedded_apiserver::Server;
    ///
    /// let server = Server::builder().without_socket().start().await?;
    /// assert!(server.requests().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn requests(&self) -> Vec<RequestCount> {
        self.api.tally.report()
    }

    /// The newest resourceVersion.
    pub fn revision(&self) -> u64 {
        self.api.storage.newest()
    }

    /// The current time of the server's [clock](Builder::clock), which sets the timestamps of objects.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// use embedded_apiserver::{Clock, Server};
    ///
    /// let new_year = UNIX_EPOCH + Duration::from_secs(1_893_456_000);
    /// let server = Server::builder().clock(Clock::new(move || new_year)).without_socket().start().await?;
    /// assert_eq!(server.now(), new_year);
    /// # Ok(()) }
    /// ```
    pub fn now(&self) -> SystemTime {
        self.api.clock.now()
    }

    /// The server as a tower service, for in-process requests.
    ///
    /// If the server has a socket, these requests bypass it, even while the server [refuses
    /// connections](Self::refuse_connections). Without a socket, the server breaks and refuses them like connections.
    pub fn service(&self) -> ApiService {
        match self.address {
            Some(_) => ApiService::new(self.api.clone(), Arrival::InProcess),
            None => ApiService::breakable(self.api.clone(), self.connections.clone()),
        }
    }

    /// A kubeconfig for the server; `None` without a socket.
    pub fn kubeconfig(&self) -> Option<String> {
        let ca = self.identity.as_ref().map(|identity| identity.ca_pem.as_str());
        Some(kubeconfig::render(&self.url()?, ca, self.api.options.token.as_deref()))
    }

    /// The certificate authority of the server's certificate, in PEM; `None` without TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.ca_pem.as_str())
    }

    /// Stops listening, closes all connections and waits until every task has ended.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}
