//! Connections for many watches.
//!
//! A kube-apiserver lets a connection carry a hundred streams at once, and a client that asks for one more simply waits:
//! with a hundred watches open, the next list would never be sent. So watches are spread over connections of eighty,
//! and everything else travels on others: lists on one, writes (and leases, which must not wait behind a list) on
//! another. Where the server speaks HTTP/1.1 only, each request has a connection of its own anyway.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube_client::client::{Body, ConfigExt};
use kube_client::{Client, Config, Error};
use parking_lot::Mutex;
use tower::{BoxError, Service, ServiceBuilder};

use super::connections::{Count, Counted};
use super::held::Held;
use super::server_memory::{Introduction, ServerMemory};

/// Most watches that one connection carries.
pub const WATCHES_PER_CONNECTION: usize = 80;

/// Bytes that a stream may send before they are read, so that one that is not read cannot hold up its neighbours:
/// a connection's window has room for all of its streams.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * 100;

/// How a connection whose other end has died without a word is noticed, where the server speaks HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pings {
    /// Silence after which the server is asked whether it is still there. Default: 30 s.
    pub after: Duration,
    /// How long it may take to answer. Default: 15 s.
    pub timeout: Duration,
}

/// Longer times are as good as never.
const PING_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

impl Default for Pings {
    fn default() -> Self {
        Self { after: Duration::from_secs(30), timeout: Duration::from_secs(15) }
    }
}

/// The way to one API server, made for many watches: HTTP/2 where the server speaks it, pings, and room for lists and
/// writes however many watches are open. kube's own retries are off: a reflector does that, and shows it.
///
/// [`client`](Self::client) is an ordinary [`kube_client::Client`]; use it for `Api` as well. Everything that
/// `Client::try_from` makes of a [`Config`] is kept: authentication (exec and OIDC too), impersonation, server name,
/// proxies, timeouts, extra headers. (Only [`Client::valid_until`] is not: kube does not say when a certificate that an
/// exec plugin gave will expire.)
#[derive(Clone)]
pub struct Clients {
    client: Client,
}

// === impl Clients ===

impl Clients {
    /// From a configuration.
    ///
    /// # Errors
    /// If the credentials or certificates cannot be read, or the configuration asks for a feature (TLS, a proxy) that
    /// was not compiled in.
    pub fn from_config(config: Config) -> Result<Self, Error> {
        Self::with_pings(config, Pings::default())
    }

    /// From a configuration, with other times for noticing dead connections.
    ///
    /// # Errors
    /// As [`from_config`](Self::from_config).
    #[expect(clippy::needless_pass_by_value, reason = "as kube's own constructors")]
    pub fn with_pings(config: Config, pings: Pings) -> Result<Self, Error> {
        // hyper adds them to a point in time.
        let pings = Pings { after: pings.after.min(PING_MAX), timeout: pings.timeout.min(PING_MAX) };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let client = match config.proxy_url.clone() {
            None => build(&config, pings, http)?,
            Some(url) => match url.scheme_str() {
                #[cfg(feature = "socks5")]
                Some("socks5") => build(
                    &config,
                    pings,
                    hyper_util::client::legacy::connect::proxy::SocksV5::new(url, http),
                )?,
                #[cfg(feature = "http-proxy")]
                Some("http") => build(&config, pings, super::proxy::tunnel(&url, http))?,
                #[cfg(all(feature = "http-proxy", feature = "rustls-tls"))]
                Some("https") => {
                    build(&config, pings, super::proxy::tunnel(&url, super::tls::connector(&config, http)?))?
                }
                #[cfg(not(feature = "socks5"))]
                Some("socks5") => return Err(disabled(url, "kube-informer/socks5")),
                #[cfg(not(feature = "http-proxy"))]
                Some("http" | "https") => return Err(disabled(url, "kube-informer/http-proxy")),
                _ => return Err(Error::ProxyProtocolUnsupported { proxy_url: Box::new(url) }),
            },
        };
        Ok(Self { client })
    }

    /// From what kubectl would use: `$KUBECONFIG`, `~/.kube/config`, or the service account of the pod.
    ///
    /// # Errors
    /// If none is found, or as [`from_config`](Self::from_config).
    pub async fn infer() -> Result<Self, Error> {
        Self::from_config(Config::infer().await.map_err(Error::InferConfig)?)
    }

    /// The client. Watches, lists and all else that is sent by it take their own connections.
    pub fn client(&self) -> Client {
        self.client.clone()
    }
}

impl From<Clients> for Client {
    fn from(clients: Clients) -> Self {
        clients.client
    }
}

impl From<&Clients> for Client {
    fn from(clients: &Clients) -> Self {
        clients.client()
    }
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

#[cfg(not(all(feature = "socks5", feature = "http-proxy")))]
fn disabled(url: Uri, protocol_feature: &'static str) -> Error {
    Error::ProxyProtocolDisabled { proxy_url: Box::new(url), protocol_feature }
}

/// The client's layers, the same that kube puts on top of each other, less the retries.
fn build<H>(config: &Config, pings: Pings, connector: H) -> Result<Client, Error>
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
    let connector = super::tls::connector(config, connector)?;
    #[cfg(all(feature = "openssl-tls", not(feature = "rustls-tls")))]
    let connector = config.openssl_https_connector_with_connector(connector)?;
    #[cfg(not(any(feature = "rustls-tls", feature = "openssl-tls")))]
    if config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS) {
        return Err(Error::TlsRequired);
    }
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(Spread::new(connector, pings));
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Sends each request on a connection of its class.
#[derive(Clone)]
struct Spread<C> {
    connector: C,
    pings: Pings,
    lists: Lane<C>,
    others: Lane<C>,
    watches: Arc<Mutex<Vec<WatchConnection<C>>>>,
    /// Shared by all sources that send through it.
    server: Arc<ServerMemory>,
}

/// A client of one connection (or of several, one after the other, or as HTTP/1.1 needs them).
#[derive(Clone)]
struct Lane<C> {
    client: HyperClient<Counted<C>, Body>,
    count: Count,
}

/// A connection for watches; each open one holds the token.
struct WatchConnection<C> {
    client: Lane<C>,
    token: Arc<()>,
}

// === impl Spread ===

impl<C: Clone> Spread<C>
where
    Counted<C>: Connect + Clone + Send + Sync + 'static,
{
    fn new(connector: C, pings: Pings) -> Self {
        Self {
            lists: Lane::new(connector.clone(), pings),
            others: Lane::new(connector.clone(), pings),
            watches: Arc::default(),
            server: Arc::default(),
            connector,
            pings,
        }
    }

    /// A connection with room for a watch, and the token that keeps the room.
    fn for_watch(&self) -> (Lane<C>, Arc<()>) {
        let mut watches = self.watches.lock();
        // Connections that carry nothing are let go, except one.
        let mut has_spare = false;
        watches.retain(|connection| {
            let idle = Arc::strong_count(&connection.token) == 1;
            !idle || !std::mem::replace(&mut has_spare, true)
        });
        let room =
            |connection: &&WatchConnection<C>| Arc::strong_count(&connection.token) <= WATCHES_PER_CONNECTION;
        if watches.iter().find(room).is_none() {
            let client = Lane::new(self.connector.clone(), self.pings);
            watches.push(WatchConnection { client, token: Arc::default() });
        }
        // There is one with room now, and only this lock hands it out.
        let connection = watches.iter().find(room).unwrap_or(&watches[watches.len() - 1]);
        (connection.client.clone(), connection.token.clone())
    }
}

impl<C> Lane<C>
where
    Counted<C>: Connect + Clone,
{
    fn new(connector: C, pings: Pings) -> Self {
        let count = Count::default();
        let client = HyperClient::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keep_alive_interval(pings.after)
            .http2_keep_alive_timeout(pings.timeout)
            .build(Counted::new(connector, count.clone()));
        Self { client, count }
    }
}

impl<C> Service<Request<Body>> for Spread<C>
where
    C: Service<Uri> + Clone,
    Counted<C>: Connect + Clone + Send + Sync + 'static,
{
    type Response = Response<Held<Incoming>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if let Some(introduction) = request.extensions().get::<Introduction>()
            && let Err(known) = introduction.meet(&self.server)
        {
            return ready(Err(known.into())).boxed();
        }
        let (Lane { client, count }, token) = match Class::of(&request) {
            Class::Watch => {
                let (lane, token) = self.for_watch();
                (lane, Some(token))
            }
            Class::List => (self.lists.clone(), None),
            Class::Other => (self.others.clone(), None),
        };
        async move {
            let answer = count.carry(client.request(request)).await?;
            Ok(answer.map(|body| Held::new(body, token)))
        }
        .boxed()
    }
}

/// What a request is, as far as connections are concerned.
enum Class {
    Watch,
    List,
    Other,
}

impl Class {
    fn of(request: &Request<Body>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let watches = form_urlencoded::parse(query.as_bytes())
            .any(|(name, value)| name == "watch" && !matches!(&*value, "0" | "false"));
        if watches {
            Self::Watch
        } else if request.extensions().get::<IsList>().is_some() {
            Self::List
        } else {
            Self::Other
        }
    }
}

/// Marks a request as a list.
#[derive(Clone, Copy)]
pub(super) struct IsList;
