//! A TCP proxy that simulates a faulty network: it breaks connections on request, or after a number of bytes. It does
//! not read the data, so TLS passes through it.

use std::net::{Ipv4Addr, SocketAddr};

use kube_client::Config;
use tokio::{
    io::{AsyncReadExt, copy},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use crate::Error;

/// A proxy that forwards to one address, alive as long as this value.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    faults: watch::Sender<Faults>,
    _tasks: JoinSet<()>,
}

/// The faults that the proxy injects.
#[derive(Clone, Copy, Debug)]
struct Faults {
    open: bool,
    /// The number of bytes from the server after which a connection breaks.
    bytes_max: u64,
    /// The number of times that all connections were broken.
    cuts: u64,
}

impl Proxy {
    /// Starts a proxy on a free loopback port.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot listen.
    pub async fn start(target: SocketAddr) -> Result<Self, Error> {
        let what = || Error::io("listen for a proxy");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(what())?;
        let address = listener.local_addr().map_err(what())?;
        let (faults, current) = watch::channel(Faults { open: true, bytes_max: u64::MAX, cuts: 0 });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, target, current));
        Ok(Self { address, faults, _tasks: tasks })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes a client configuration so that the client connects through this proxy.
    ///
    /// # Panics
    ///
    /// Panics if the proxy's address is not a valid URL, which cannot happen.
    #[must_use]
    pub fn before(&self, mut config: Config) -> Config {
        let scheme = config.cluster_url.scheme_str().unwrap_or("https");
        // A socket address is an authority.
        config.cluster_url = format!("{scheme}://{}/", self.address).parse().expect("a URL");
        config
    }

    /// Breaks all connections. New ones are accepted.
    pub fn cut(&self) {
        self.faults.send_modify(|faults| faults.cuts += 1);
    }

    /// Breaks all connections, and every new one immediately, until [`open`](Self::open).
    pub fn close(&self) {
        self.faults.send_modify(|faults| (faults.open, faults.cuts) = (false, faults.cuts + 1));
    }

    /// Accepts connections again.
    pub fn open(&self) {
        self.faults.send_modify(|faults| faults.open = true);
    }

    /// Breaks every new connection after this many bytes from the server; `None` removes the limit.
    pub fn cut_after(&self, bytes: Option<u64>) {
        self.faults.send_modify(|faults| faults.bytes_max = bytes.unwrap_or(u64::MAX));
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, faults: watch::Receiver<Faults>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let now = *faults.borrow();
                if let Ok((client, _)) = accepted && now.open {
                    connections.spawn(carry(client, target, now, faults.clone()));
                }
            }
        }
    }
}

/// Forwards one connection until either side ends it, its byte limit is reached or all connections are cut. Errors end
/// it, as a broken network would.
async fn carry(
    mut client: TcpStream,
    target: SocketAddr,
    faults: Faults,
    mut changes: watch::Receiver<Faults>,
) {
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.split();
    let (from_server, mut to_server) = server.split();
    let mut limited = from_server.take(faults.bytes_max);
    tokio::select! {
        biased;
        _ = changes.wait_for(|now| now.cuts > faults.cuts) => {}
        _ = copy(&mut from_client, &mut to_server) => {}
        _ = copy(&mut limited, &mut to_client) => {}
    }
}
