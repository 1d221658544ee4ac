//! Something to serve in unit tests.

use std::sync::Arc;

use embedded_apiserver::Server;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::{Access, Served};
use crate::testing;

/// A server with these ConfigMaps, and a synced mirror of them.
pub(super) async fn config_maps(maps: Vec<Value>) -> (Server, Arc<Served>) {
    served(maps, 1).await
}

/// An empty server, and this many synced mirrors of its ConfigMaps.
pub(super) async fn mirrors(count: usize) -> (Server, Arc<Served>) {
    served(Vec::new(), count).await
}

async fn served(maps: Vec<Value>, count: usize) -> (Server, Arc<Served>) {
    let (server, mirrors) = testing::config_maps(maps, count).await;
    (server, Arc::new(Served::new(mirrors, Registry::default(), Access::default())))
}
