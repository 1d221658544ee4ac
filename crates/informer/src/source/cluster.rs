//! Connections for many concurrent requests.
//!
//! A kube-apiserver allows a hundred streams per connection, and one more request waits silently: with a hundred watches or
//! followed logs open, the next write would never be sent. Here a request occupies one of eighty slots of its connection until its
//! response is read or dropped. If no connection has a free slot, another one is opened.
//! Requests of different classes never share a connection: long-lived responses (watches, followed logs, proxied requests),
//! lists, and all others (writes and leases, which must not wait behind either). With HTTP/1.1 each request has its own
//! connection anyway.
//!
//! An upgrade (`exec`, `attach`, `port-forward`) takes over its connection, which HTTP/2 does not allow. Those connections
//! offer HTTP/1.1 only.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use educe::Educe;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use http::header::UPGRADE;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube_client::client::{Body, ConfigExt};
use kube_client::{Client, Config, Error};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceBuilder};

use super::connections::{Carrier, TrackedConnector};
use super::credentials::{self, without_password};
use super::server_memory::{Introduction, ServerMemory};
use super::tracked_body::TrackedBody;
use super::unpack::{Compression, Unpack};

/// How many requests of one class share a connection.
pub const STREAMS_PER_CONNECTION: usize = 80;

/// If a caller cancels a request after this long without a response, the connection may be dead and is retired. A caller that
/// cancels sooner probably has another reason.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);

/// Bytes that a stream may send before they are read. A connection's window fits all of its streams, so an unread stream
/// cannot block the others.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * 100;

/// Detects dead HTTP/2 connections.
#[derive(Clone, Copy)]
struct Pings {
    after: Duration,
    timeout: Duration,
}

/// Longer times are cut to this one, which is equivalent to never.
const PING_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Settings of [`Cluster`] that are not part of a kubeconfig.
///
/// ```
/// let mut config = kube_informer::ClusterConfig::default();
/// config.compress_lists = true;
/// ```
#[derive(Clone, Copy, Debug, Educe, PartialEq, Eq)]
#[educe(Default)]
#[non_exhaustive]
pub struct ClusterConfig {
    /// An HTTP/2 connection that has been silent for this long is pinged. Default: 30 s.
    #[educe(Default(expression = Duration::from_secs(30)))]
    pub ping_after: Duration,
    /// A connection whose ping is unanswered for this long is closed. Default: 15 s.
    #[educe(Default(expression = Duration::from_secs(15)))]
    pub ping_timeout: Duration,
    /// Requests lists in gzip. Over a slow network that saves most of the time; near the server it costs more CPU, on both
    /// sides, than the network gains. Watches are never compressed, because their events would arrive in whole blocks. A
    /// streamed initial list is a watch, too: set [`WatchList::Off`](crate::reflector::WatchList::Off) to compress it. Default: off.
    pub compress_lists: bool,
    /// Most uncompressed bytes of one compressed list; more is an error. Default: 4 GiB.
    #[educe(Default(expression = 4 << 30))]
    pub unpacked_bytes_max: u64,
}

/// The connections to one API server, for many watches: HTTP/2 where the server supports it, pings, and capacity for lists
/// and writes however many watches, followed logs or slow responses are open. kube's own retries are disabled: the
/// reflector retries, and reports it.
///
/// [`client`](Self::client) is an ordinary [`kube_client::Client`]; use it for `Api` as well, `exec`, `attach` and
/// `portforward` included (with kube's feature `ws`): upgrades go over HTTP/1.1. All settings of a [`Config`] apply, as in
/// `Client::try_from`: authentication (exec and OIDC too), impersonation, server name, proxies, timeouts, extra headers. An exec
/// plugin runs when the first request needs it, within limits of time and output, and again when its credentials expire or are
/// refused. Exception: [`Client::valid_until`] is not available, because kube does not report when the certificate of an exec plugin
/// expires.
#[derive(Clone, Educe)]
#[educe(Debug)]
pub struct Cluster {
    #[educe(Debug(ignore))]
    client: Client,
}

// === impl Cluster ===

impl Cluster {
    /// Creates the connections from a configuration.
    ///
    /// # Errors
    /// Returns an error if the credentials or certificates cannot be read, or the configuration needs a feature (TLS, a
    /// proxy) that was not compiled in.
    pub fn from_config(config: Config) -> Result<Self, Error> {
        Self::configured(config, ClusterConfig::default())
    }

    /// Like [`from_config`](Self::from_config), with settings.
    ///
    /// # Errors
    /// As [`from_config`](Self::from_config).
    pub fn configured(config: Config, own: ClusterConfig) -> Result<Self, Error> {
        let client = credentials::client(config, move |config| Self::connect(config, own))?;
        Ok(Self { client })
    }

    /// A client without the credentials that are not part of a connection.
    fn connect(config: &Config, own: ClusterConfig) -> Result<Client, Error> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        match config.proxy_url.clone() {
            None => build(config, own, http),
            Some(url) => match url.scheme_str() {
                #[cfg(feature = "socks5")]
                Some("socks5") => {
                    build(config, own, hyper_util::client::legacy::connect::proxy::SocksV5::new(url, http))
                }
                #[cfg(feature = "http-proxy")]
                Some("http") => build(config, own, super::proxy::tunnel(&url, http)),
                #[cfg(all(feature = "http-proxy", feature = "rustls-tls"))]
                Some("https") => {
                    // The tunnel request uses HTTP/1.1.
                    let to_proxy = super::tls::connector(config, http, super::tls::Offers::Http1)?;
                    build(config, own, super::proxy::tunnel(&url, to_proxy))
                }
                #[cfg(not(feature = "socks5"))]
                Some("socks5") => Err(disabled(&url, "kube-informer/socks5")),
                #[cfg(not(feature = "http-proxy"))]
                Some("http" | "https") => Err(disabled(&url, "kube-informer/http-proxy")),
                _ => Err(Error::ProxyProtocolUnsupported { proxy_url: Box::new(without_password(&url)) }),
            },
        }
    }

    /// Uses the configuration that kubectl would: `$KUBECONFIG`, `~/.kube/config`, or the pod's service account.
    ///
    /// # Errors
    /// Returns an error if no configuration is found, or as [`from_config`](Self::from_config).
    pub async fn infer() -> Result<Self, Error> {
        Self::from_config(Config::infer().await.map_err(Error::InferConfig)?)
    }

    /// The client. Long-lived responses, lists, upgrades and all other requests use separate connections.
    pub fn client(&self) -> Client {
        self.client.clone()
    }
}

impl From<Cluster> for Client {
    fn from(cluster: Cluster) -> Self {
        cluster.client
    }
}

impl From<&Cluster> for Client {
    fn from(cluster: &Cluster) -> Self {
        cluster.client()
    }
}

#[cfg(not(all(feature = "socks5", feature = "http-proxy")))]
fn disabled(url: &Uri, protocol_feature: &'static str) -> Error {
    Error::ProxyProtocolDisabled { proxy_url: Box::new(without_password(url)), protocol_feature }
}

/// The same layers as in kube, without the retries.
fn build<H>(config: &Config, own: ClusterConfig, connector: H) -> Result<Client, Error>
where
    H: Service<Uri> + Clone + Send + Sync + 'static,
    H::Response: hyper_util::client::legacy::connect::Connection
        + hyper::rt::Read
        + hyper::rt::Write
        + Send
        + Unpin
        + 'static,
    H::Future: Send + 'static,
    H::Error: std::error::Error + Send + Sync + 'static,
{
    #[cfg(feature = "rustls-tls")]
    let (connector, upgrades) = {
        use super::tls::{Offers, connector as tls};
        (tls(config, connector.clone(), Offers::Http2)?, tls(config, connector, Offers::Http1)?)
    };
    #[cfg(all(feature = "openssl-tls", not(feature = "rustls-tls")))]
    let (connector, upgrades) = {
        // It offers only HTTP/1.1, for every class.
        let connector = config.openssl_https_connector_with_connector(connector)?;
        (connector.clone(), connector)
    };
    #[cfg(not(any(feature = "rustls-tls", feature = "openssl-tls")))]
    let (connector, upgrades) = {
        if config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS) {
            return Err(Error::TlsRequired);
        }
        (connector.clone(), connector)
    };
    let (connector, upgrades) = (with_timeouts(config, connector), with_timeouts(config, upgrades));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(ConnectionPools::new(connector, upgrades, own));
    Ok(Client::new(service, config.default_namespace.clone()))
}

fn with_timeouts<C>(config: &Config, connector: C) -> TimeoutConnector<C>
where
    C: Service<Uri> + Send,
    C::Response: hyper::rt::Read + hyper::rt::Write + Send + Unpin,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    connector
}

/// Sends each request on a connection of its class.
#[derive(Clone)]
struct ConnectionPools<C> {
    streams: ConnectionPool<C>,
    lists: ConnectionPool<C>,
    others: ConnectionPool<C>,
    /// Over HTTP/1.1, where each request has its own connection.
    upgrades: PooledClient<C>,
    /// Shared by all sources that send through it.
    server: Arc<ServerMemory>,
    compression: Option<Compression>,
}

/// The connections of one class: as many as its requests need.
#[derive(Clone)]
struct ConnectionPool<C> {
    connector: C,
    pings: Pings,
    entries: Arc<Mutex<Vec<PoolEntry<C>>>>,
}

/// A client with one connection, and the token that each of its requests holds.
struct PoolEntry<C> {
    client: PooledClient<C>,
    token: Arc<()>,
}

/// A request without a response so far.
///
/// Its connection may be dead, which pings detect only after a while. If the caller cancels the request after [`SUSPECT_AFTER`], the
/// connection is retired, and the next request opens a new one. A lease, for example, is then renewed in time.
struct Unanswered<C> {
    entries: Arc<Mutex<Vec<PoolEntry<C>>>>,
    token: Arc<()>,
    since: Instant,
    is_answered: bool,
}

/// A client with one HTTP/2 connection at a time, or with as many HTTP/1.1 connections as it has requests.
type PooledClient<C> = HyperClient<TrackedConnector<C>, Body>;

// === impl ConnectionPools ===

impl<C: Clone> ConnectionPools<C>
where
    TrackedConnector<C>: Connect + Clone + Send + Sync + 'static,
{
    /// `upgrades` makes connections that never speak HTTP/2.
    fn new(connector: C, upgrades: C, own: ClusterConfig) -> Self {
        // hyper adds these times to an `Instant`, which must not overflow.
        let (after, timeout) = (own.ping_after.min(PING_MAX), own.ping_timeout.min(PING_MAX));
        let (pings, unpacked_bytes_max) = (Pings { after, timeout }, own.unpacked_bytes_max);
        let pool = || ConnectionPool { connector: connector.clone(), pings, entries: Arc::default() };
        Self {
            streams: pool(),
            lists: pool(),
            others: pool(),
            upgrades: pooled_client(upgrades, pings),
            compression: own.compress_lists.then_some(Compression { unpacked_bytes_max }),
            server: Arc::default(),
        }
    }

    /// A client for a request, and the request's entry in the pool, if it has one.
    fn client_for(&self, class: Class) -> (PooledClient<C>, Option<Unanswered<C>>) {
        let pool = match class {
            Class::Stream => &self.streams,
            Class::List => &self.lists,
            Class::Other => &self.others,
            Class::Upgrade => return (self.upgrades.clone(), None),
        };
        let (client, token) = pool.take();
        let entries = pool.entries.clone();
        (client, Some(Unanswered { entries, token, since: Instant::now(), is_answered: false }))
    }
}

impl<C: Clone> ConnectionPool<C>
where
    TrackedConnector<C>: Connect + Clone,
{
    /// A client whose connection can carry another request, and the token that counts it.
    fn take(&self) -> (PooledClient<C>, Arc<()>) {
        let mut entries = self.entries.lock();
        // Close idle connections, except one.
        let mut has_spare = false;
        entries.retain(|entry| {
            let idle = Arc::strong_count(&entry.token) == 1;
            !idle || !std::mem::replace(&mut has_spare, true)
        });
        let free = |entry: &PoolEntry<C>| Arc::strong_count(&entry.token) <= STREAMS_PER_CONNECTION;
        let at = entries.iter().position(free).unwrap_or_else(|| {
            let client = pooled_client(self.connector.clone(), self.pings);
            entries.push(PoolEntry { client, token: Arc::default() });
            entries.len() - 1
        });
        (entries[at].client.clone(), entries[at].token.clone())
    }
}

impl<C> Unanswered<C> {
    /// Records that the server has answered, or that the request has failed (hyper then drops the connection). The returned token
    /// occupies the request's slot until its body is read.
    fn answered(mut self) -> Arc<()> {
        self.is_answered = true;
        self.token.clone()
    }
}

impl<C> Drop for Unanswered<C> {
    fn drop(&mut self) {
        if !self.is_answered && self.since.elapsed() >= SUSPECT_AFTER {
            self.entries.lock().retain(|entry| !Arc::ptr_eq(&entry.token, &self.token));
        }
    }
}

fn pooled_client<C>(connector: C, pings: Pings) -> PooledClient<C>
where
    TrackedConnector<C>: Connect + Clone,
{
    HyperClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(pings.after)
        .http2_keep_alive_timeout(pings.timeout)
        .build(TrackedConnector::new(connector))
}

impl<C> Service<Request<Body>> for ConnectionPools<C>
where
    C: Service<Uri> + Clone,
    TrackedConnector<C>: Connect + Clone + Send + Sync + 'static,
{
    type Response = Response<Unpack<TrackedBody<Incoming>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(introduction) = request.extensions().get::<Introduction>()
            && let Err(known) = introduction.meet(&self.server)
        {
            return ready(Err(known.into())).boxed();
        }
        let class = Class::of(&request);
        let compression = self.compression.filter(|_| class == Class::List);
        if compression.is_some() {
            Compression::ask(&mut request);
        }
        let (client, unanswered) = self.client_for(class);
        let carrier = Carrier::of(&mut request);
        async move {
            let answer = carrier.carry(client.request(request)).await;
            let token = unanswered.map(Unanswered::answered);
            let answer = answer?.map(|body| TrackedBody::new(body, token));
            Ok(match compression {
                Some(compression) => compression.unpack(answer),
                None => answer.map(Unpack::Uncompressed),
            })
        }
        .boxed()
    }
}

/// The class of a request, for choosing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Its response may be long-lived: a watch, a followed log, or a proxied request.
    Stream,
    List,
    /// It takes over its connection.
    Upgrade,
    Other,
}

impl Class {
    fn of(request: &Request<Body>) -> Self {
        if request.headers().contains_key(UPGRADE) {
            return Self::Upgrade;
        }
        let query = request.uri().query().unwrap_or_default();
        let is_set = |flag: &str| {
            form_urlencoded::parse(query.as_bytes())
                .any(|(name, value)| name == flag && !matches!(&*value, "0" | "false"))
        };
        let path = request.uri().path();
        let follows = path.ends_with("/log") && is_set("follow");
        let is_proxied = path.split('/').any(|segment| segment == "proxy");
        if is_set("watch") || follows || is_proxied {
            Self::Stream
        } else if request.extensions().get::<IsList>().is_some() {
            Self::List
        } else {
            Self::Other
        }
    }
}

/// Marks a request as a list, in its extensions, for the client of [`Cluster`]: it uses a connection for lists, and may be
/// compressed. [`ListWatch`](super::ListWatch) does this; requests that a program sends itself can too.
///
/// ```
/// # use kube_client::client::Body;
/// use kube_informer::building_blocks::IsList;
///
/// let mut request = http::Request::get("/api/v1/pods").body(Body::empty())?;
/// request.extensions_mut().insert(IsList);
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct IsList;
