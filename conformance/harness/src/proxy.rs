//! A TCP proxy in front of a server that breaks connections on request, or by itself after so many bytes. It looks at
//! nothing, so TLS goes through it; clients and servers see what a bad network would show them.

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
    mood: watch::Sender<Mood>,
    _tasks: JoinSet<()>,
}

/// What the proxy does to connections.
#[derive(Clone, Copy, Debug)]
struct Mood {
    open: bool,
    /// Bytes from the server after which a connection breaks.
    bytes_max: u64,
    /// Grows each time that all connections are broken.
    cuts: u64,
}

impl Proxy {
    /// A proxy on a free loopback port.
    ///
    /// # Errors
    ///
    /// If there is no port.
    pub async fn start(target: SocketAddr) -> Result<Self, Error> {
        let what = || Error::io("listen for a proxy");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(what())?;
        let address = listener.local_addr().map_err(what())?;
        let (mood, heard) = watch::channel(Mood { open: true, bytes_max: u64::MAX, cuts: 0 });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, target, heard));
        Ok(Self { address, mood, _tasks: tasks })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The configuration of a client that takes the way through this proxy.
    ///
    /// # Panics
    ///
    /// If the configuration's own address is none.
    #[must_use]
    pub fn before(&self, mut config: Config) -> Config {
        let scheme = config.cluster_url.scheme_str().unwrap_or("https");
        // A socket address is an authority.
        config.cluster_url = format!("{scheme}://{}/", self.address).parse().expect("a URL");
        config
    }

    /// Breaks all connections. New ones are let through.
    pub fn cut(&self) {
        self.mood.send_modify(|mood| mood.cuts += 1);
    }

    /// Breaks all connections, and every new one at once, until [`open`](Self::open).
    pub fn close(&self) {
        self.mood.send_modify(|mood| (mood.open, mood.cuts) = (false, mood.cuts + 1));
    }

    /// Lets connections through again.
    pub fn open(&self) {
        self.mood.send_modify(|mood| mood.open = true);
    }

    /// Breaks every new connection after so many bytes from the server; none: lets it live.
    pub fn cut_after(&self, bytes: Option<u64>) {
        self.mood.send_modify(|mood| mood.bytes_max = bytes.unwrap_or(u64::MAX));
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, mood: watch::Receiver<Mood>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let now = *mood.borrow();
                if let Ok((client, _)) = accepted && now.open {
                    connections.spawn(carry(client, target, now, mood.clone()));
                }
            }
        }
    }
}

/// One connection, until either side ends it, its bytes are used up or all are cut. What goes wrong is what a client
/// is to live with.
async fn carry(mut client: TcpStream, target: SocketAddr, mood: Mood, mut moods: watch::Receiver<Mood>) {
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.split();
    let (from_server, mut to_server) = server.split();
    let mut limited = from_server.take(mood.bytes_max);
    tokio::select! {
        biased;
        _ = moods.wait_for(|now| now.cuts > mood.cuts) => {}
        _ = copy(&mut from_client, &mut to_server) => {}
        _ = copy(&mut limited, &mut to_client) => {}
    }
}
