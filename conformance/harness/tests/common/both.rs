//! Tests of the protocol that run on a real kube-apiserver and on the embedded server alike, so that what our own server
//! says is what the other says.
#![allow(dead_code)] // Each test file is a program of its own and uses a part of this.

use embedded_apiserver::{Restart, Server, WatchListMode};
use kube_client::Client;
use kube_informer_conformance::{Programs, RealServer};

/// A server of either kind.
pub(crate) enum AnyServer {
    Real(Box<RealServer>),
    Embedded(Server),
}

/// Whether the server streams the initial state of watches.
pub(crate) enum WatchLists {
    Default,
    On,
    Off,
}

impl AnyServer {
    /// A real one.
    pub(crate) async fn real(watch_lists: WatchLists) -> (Self, Client) {
        let builder = RealServer::builder(Programs::required());
        let builder = match watch_lists {
            WatchLists::Default => builder,
            WatchLists::On => builder.watch_list(true),
            WatchLists::Off => builder.watch_list(false),
        };
        let server = builder.start().await.unwrap();
        let client = server.client().await.unwrap();
        (Self::Real(Box::new(server)), client)
    }

    pub(crate) async fn embedded(watch_lists: WatchLists) -> (Self, Client) {
        let builder = Server::builder();
        let builder = match watch_lists {
            WatchLists::Default | WatchLists::On => builder,
            WatchLists::Off => builder.watch_list(WatchListMode::Off),
        };
        let server = builder.start().await.unwrap();
        let mut config = server.config().unwrap();
        config.default_retry = false; // As the real one's: every answer is seen.
        let client = Client::try_from(config).unwrap();
        (Self::Embedded(server), client)
    }

    /// A compaction, and a restart, after which nothing of the past is in memory either.
    pub(crate) async fn forget_the_past(&mut self) {
        match self {
            Self::Real(server) => {
                server.etcd_compact(None).await.unwrap();
                server.restart().await.unwrap();
            }
            Self::Embedded(server) => server.restart(&Restart::HistoryLost),
        }
    }
}

/// Makes two tests of each function: `name::real`, with the feature `real-server`, and `name::embedded`.
#[allow(unused_macros)]
macro_rules! on_both {
    ($($name:ident: $watch_lists:expr,)+) => {
        $(
            mod $name {
                use super::*;

                #[cfg(feature = "real-server")]
                #[tokio::test]
                async fn real() {
                    let (server, client) = AnyServer::real($watch_lists).await;
                    super::$name(server, client).await;
                }

                #[tokio::test]
                async fn embedded() {
                    let (server, client) = AnyServer::embedded($watch_lists).await;
                    super::$name(server, client).await;
                }
            }
        )+
    };
}
