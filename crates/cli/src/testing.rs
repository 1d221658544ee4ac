//! Mirrors for unit tests: of an embedded server without sockets, so that tests can pause the clock.

use embedded_apiserver::Server;
use kube_informer::building_blocks::Resource;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::discovery::{Kind, Selected};
use crate::flags::SelectFlags;
use crate::list_limit::ListLimit;
use crate::mirror::{self, Mirror, MirrorOptions};

/// A server with these ConfigMaps, and this many synced mirrors of them.
pub(crate) async fn config_maps(maps: Vec<Value>, count: usize) -> (Server, Vec<Mirror>) {
    // The owners of objects need not exist.
    let builder = Server::builder().without_socket().garbage_collection(false);
    let server = builder.objects(maps).start().await.unwrap();
    let cluster = cluster(&server);
    let kind = Kind {
        resource: Resource::new("", "v1", "configmaps", "ConfigMap"),
        singular: "configmap".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Vec::new(),
    };
    let select = all_namespaces();
    let (errors, _) = mirror::errors();
    let start = |number| {
        let selected = Selected { kind: kind.clone(), name: None, namespace: None };
        Mirror::start(&cluster, selected, &select, &MirrorOptions::default(), number, errors.clone()).unwrap()
    };
    let mirrors: Vec<_> = (0..count).map(start).collect();
    for mirror in &mirrors {
        mirror.informer.synced().await.unwrap();
    }
    (server, mirrors)
}

/// The cluster of this server.
pub(crate) fn cluster(server: &Server) -> Cluster {
    Cluster {
        client: server.client().unwrap(),
        url: String::new(),
        default_namespace: "default".to_owned(),
        compress: false,
        request_timeout: None,
        list_limit: ListLimit::default(),
    }
}

/// `-A`
pub(crate) fn all_namespaces() -> SelectFlags {
    SelectFlags { all_namespaces: true, ..SelectFlags::default() }
}
