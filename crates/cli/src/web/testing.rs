//! Something to serve in unit tests: mirrors of an embedded server without sockets, so that tests can pause the clock.

use std::sync::Arc;

use embedded_apiserver::Server;
use kube_informer::building_blocks::Resource;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::{Access, Served};
use crate::cluster::Cluster;
use crate::discovery::{Kind, Selected};
use crate::flags::SelectFlags;
use crate::list_limit::ListLimit;
use crate::mirror::{self, Mirror, MirrorOptions};

/// A server with these ConfigMaps, and a synced mirror of them.
pub(super) async fn config_maps(maps: Vec<Value>) -> (Server, Arc<Served>) {
    let server = Server::builder().without_socket().objects(maps).start().await.unwrap();
    let served = served(&server, 1).await;
    (server, served)
}

/// An empty server, and this many synced mirrors of its ConfigMaps.
pub(super) async fn mirrors(count: usize) -> (Server, Arc<Served>) {
    let server = Server::builder().without_socket().start().await.unwrap();
    let served = served(&server, count).await;
    (server, served)
}

async fn served(server: &Server, count: usize) -> Arc<Served> {
    let cluster = Cluster {
        client: server.client().unwrap(),
        url: String::new(),
        default_namespace: "default".to_owned(),
        compress: false,
        request_timeout: None,
        list_limit: ListLimit::default(),
    };
    let kind = Kind {
        resource: Resource::new("", "v1", "configmaps", "ConfigMap"),
        singular: "configmap".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Vec::new(),
    };
    let select = SelectFlags { all_namespaces: true, ..SelectFlags::default() };
    let (errors, _) = mirror::errors();
    let start = |number| {
        let selected = Selected { kind: kind.clone(), name: None, namespace: None };
        Mirror::start(&cluster, selected, &select, &MirrorOptions::default(), number, errors.clone()).unwrap()
    };
    let mirrors: Vec<_> = (0..count).map(start).collect();
    for mirror in &mirrors {
        mirror.informer.synced().await.unwrap();
    }
    Arc::new(Served::new(mirrors, Registry::default(), Access::default()))
}
