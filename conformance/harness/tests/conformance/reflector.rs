//! The building blocks (`ListWatch`, `Reflector`, `Fifo`, `Store`) on a real kube-apiserver: the store equals the
//! server in both encodings, with and without watch-lists, after restarts, compactions and a restored etcd.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_client::Client;
use kube_informer::Scope;
use kube_informer::WatchList;
use kube_informer::building_blocks::StoreSink;
use kube_informer::building_blocks::{Fifo, FifoConfig};
use kube_informer::building_blocks::{ListWatch, Resource};
use kube_informer::building_blocks::{Reflector, ReflectorConfig, ReflectorStatus};
use kube_informer::building_blocks::{Store, StoreConfig};
use kube_informer::{Cluster, EncodingPreference};
use kube_informer_conformance::{Programs, RealServer, raw};
use kube_wire::Encoding;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::common;
use crate::common::MAPS;

#[tokio::test]
async fn the_store_equals_the_server_in_both_encodings_with_and_without_watch_lists() {
    let programs = Programs::required();
    let server = RealServer::builder(programs).start().await.unwrap();
    let client = server.client().await.unwrap();
    let names = (0..50).map(|i| format!("before-{i}")).collect::<Vec<_>>();
    common::create(&client, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut mirrors = Vec::new();
    for watch_list in [WatchList::On, WatchList::Off] {
        for (preference, encoding) in
            [(EncodingPreference::Auto, Encoding::Protobuf), (EncodingPreference::Json, Encoding::Json)]
        {
            let mirror = Mirror::start(&server, watch_list, preference).await;
            mirror.equals(&client).await;
            assert!(mirror.store.snapshot().iter().all(|object| object.encoding() == encoding));
            mirrors.push(mirror);
        }
    }
    // Changes of every kind reach every store.
    for i in 0..30 {
        common::create(&client, &[&format!("after-{i}")]).await;
        patch(&client, &format!("before-{i}"), &format!("{i}")).await;
        delete(&client, &format!("before-{}", 49 - i % 15)).await;
    }
    for mirror in &mirrors {
        mirror.equals(&client).await;
        assert_eq!(mirror.status.borrow().epoch, 0);
    }
}

#[tokio::test]
async fn a_restart_resumes_and_a_compaction_relists() {
    let programs = Programs::required();
    let mut server = RealServer::builder(programs).start().await.unwrap();
    let client = server.client().await.unwrap();
    common::create(&client, &["a", "b", "c"]).await;
    let mirror = Mirror::start(&server, WatchList::Off, EncodingPreference::Auto).await;
    mirror.equals(&client).await;

    server.restart().await.unwrap();
    let client = server.client().await.unwrap();
    common::create(&client, &["d"]).await;
    mirror.equals(&client).await;

    // Changes during a disconnect that are then compacted must be found by a list. (The graceful restart above takes a
    // minute, because the server waits for watches to end. Here it is killed.)
    server.kill();
    server.restart().await.unwrap();
    let client = server.client().await.unwrap();
    delete(&client, "a").await;
    common::create(&client, &["e"]).await;
    server.etcd_compact(None).await.unwrap();
    server.kill();
    server.restart().await.unwrap();
    mirror.equals(&server.client().await.unwrap()).await;
}

#[tokio::test]
async fn an_etcd_restored_from_an_older_backup_begins_a_new_epoch_and_the_store_follows() {
    let programs = Programs::required();
    let mut server = RealServer::builder(programs).start().await.unwrap();
    let client = server.client().await.unwrap();
    common::create(&client, &["kept"]).await;
    let backup = server.backup().await.unwrap();
    let client = server.client().await.unwrap();
    // Enough writes that the versions of the restored server are lower than those the mirror has.
    let names = (0..300).map(|i| format!("lost-{i}")).collect::<Vec<_>>();
    common::create(&client, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut mirror = Mirror::start(&server, WatchList::Off, EncodingPreference::Auto).await;
    mirror.equals(&client).await;

    server.kill();
    server.restore(&backup).await.unwrap();
    mirror.status.wait_for(|status| status.epoch == 1).await.unwrap();
    mirror.equals(&server.client().await.unwrap()).await;
}

/// A reflector, a queue and a store of config maps, and the task that applies deltas to the store.
struct Mirror {
    store: Arc<Store>,
    status: watch::Receiver<ReflectorStatus>,
    _tasks: JoinSet<()>,
}

impl Mirror {
    async fn start(server: &RealServer, watch_list: WatchList, encoding: EncodingPreference) -> Self {
        let cluster = Cluster::from_config(server.config().await.unwrap()).unwrap();
        let source = ListWatch::new(cluster.client(), Resource::new("", "v1", "configmaps", "ConfigMap"))
            .namespace("default")
            .encoding(encoding);
        let store = Arc::new(Store::new(StoreConfig::default()).unwrap());
        let fifo = Fifo::new(FifoConfig::default());
        let sink = Arc::new(StoreSink::new(fifo.clone(), store.clone()));
        let mut config = ReflectorConfig::default();
        config.watch_list = watch_list;
        let reflector = Reflector::new(Arc::new(source), sink, Scope::default(), config);
        let status = reflector.status();
        let mut tasks = JoinSet::new();
        tasks.spawn(reflector.run());
        let applied_to = store.clone();
        tasks.spawn(async move {
            while let Some(batch) = fifo.take().await {
                applied_to.apply(batch.deltas());
                batch.done();
            }
        });
        Self { store, status, _tasks: tasks }
    }

    /// Waits until the store equals the server: the same names, resourceVersions and data.
    async fn equals(&self, client: &Client) {
        loop {
            let expected = on_server(client).await;
            if self.contents() == expected {
                return;
            }
            // Yields to the reflector, then lists again.
            tokio::task::yield_now().await;
        }
    }

    fn contents(&self) -> BTreeMap<String, (String, serde_json::Value)> {
        let snapshot = self.store.snapshot();
        snapshot
            .iter()
            .map(|object| {
                let value: serde_json::Value = object.raw().decode().unwrap();
                (object.name().to_owned(), (object.resource_version().to_owned(), value["data"].clone()))
            })
            .collect()
    }
}

async fn on_server(client: &Client) -> BTreeMap<String, (String, serde_json::Value)> {
    let list = loop {
        // The server may be restarting.
        match raw::get(client, MAPS, raw::JSON).await {
            Ok(answer) if answer.status == 200 => break answer.json(),
            _ => tokio::task::yield_now().await,
        }
    };
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| {
            let text = |name: &str| item["metadata"][name].as_str().unwrap().to_owned();
            (text("name"), (text("resourceVersion"), item["data"].clone()))
        })
        .collect()
}

async fn patch(client: &Client, name: &str, value: &str) {
    let body = serde_json::json!({"data": {"changed": value}}).to_string();
    let request = http::Request::patch(format!("{MAPS}/{name}"))
        .header("content-type", "application/merge-patch+json")
        .body(body.into_bytes().into())
        .unwrap();
    client.send(request).await.unwrap();
}

async fn delete(client: &Client, name: &str) {
    let request = http::Request::delete(format!("{MAPS}/{name}")).body(Vec::new().into()).unwrap();
    client.send(request).await.unwrap();
}
