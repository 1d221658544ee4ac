//! Runs tests of the protocol on a real kube-apiserver and on the embedded server, so that both give the same answers.

use embedded_apiserver::{Restart, Server, WatchListMode};
use kube_client::Client;
#[cfg(feature = "real-server")]
use kube_informer_conformance::{Programs, RealServer};

/// A server of either kind.
pub(crate) enum AnyServer {
    #[cfg(feature = "real-server")]
    Real(Box<RealServer>),
    Embedded(Server),
}

/// Features that a test needs.
#[derive(Clone, Copy)]
pub(crate) enum Features {
    Default,
    /// The server streams the initial list of watches.
    WatchLists,
    NoWatchLists,
    /// `shardSelector`, if the server's version has it, and watch-lists.
    Shards,
}

impl AnyServer {
    #[cfg(feature = "real-server")]
    pub(crate) async fn real(features: Features) -> (Self, Client) {
        let builder = RealServer::builder(Programs::required());
        let builder = match features {
            Features::Default => builder,
            Features::WatchLists | Features::Shards => builder.watch_list(true),
            Features::NoWatchLists => builder.watch_list(false),
        };
        let mut server = builder.start().await.unwrap();
        let mut client = server.client().await.unwrap();
        // A server that does not know a feature gate does not start with it.
        if matches!(features, Features::Shards) && super::minor_version(&client).await >= 36 {
            let builder = RealServer::builder(Programs::required()).feature_gate("ShardedListAndWatch", true);
            server = builder.start().await.unwrap();
            client = server.client().await.unwrap();
        }
        (Self::Real(Box::new(server)), client)
    }

    pub(crate) async fn embedded(features: Features) -> (Self, Client) {
        let builder = Server::builder();
        let builder = match features {
            Features::Default | Features::WatchLists => builder,
            Features::NoWatchLists => builder.watch_list(WatchListMode::Off),
            Features::Shards => builder.sharded_list_and_watch(true),
        };
        let server = builder.start().await.unwrap();
        let mut config = server.config().unwrap();
        config.default_retry = false; // As for the real server: tests see every response.
        let client = Client::try_from(config).unwrap();
        (Self::Embedded(server), client)
    }

    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    /// Compacts the history, and restarts the server so that its memory has no history either.
    pub(crate) async fn drop_history(&mut self) {
        match self {
            #[cfg(feature = "real-server")]
            Self::Real(server) => {
                server.etcd_compact(None).await.unwrap();
                server.restart().await.unwrap();
            }
            Self::Embedded(server) => server.restart(&Restart::HistoryLost),
        }
    }
}

/// Makes two tests of each function: `name::embedded`, and with the feature `real-server` also `name::real`.
macro_rules! on_both {
    ($($name:ident: $features:expr,)+) => {
        $(
            mod $name {
                use super::*;

                #[cfg(feature = "real-server")]
                #[tokio::test]
                async fn real() {
                    let (server, client) = AnyServer::real($features).await;
                    super::$name(server, client).await;
                }

                #[tokio::test]
                async fn embedded() {
                    let (server, client) = AnyServer::embedded($features).await;
                    super::$name(server, client).await;
                }
            }
        )+
    };
}
