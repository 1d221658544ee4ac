//! kube-rs's `Api` against the server: over a socket, over TLS and without a socket.

use std::collections::BTreeMap;

use embedded_apiserver::Server;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::Api;
use kube_client::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};

fn config_map(name: &str, value: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.data = Some(BTreeMap::from([("k".to_owned(), value.to_owned())]));
    object
}

async fn writes_and_reads(server: &Server) {
    let client = server.client().unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let created = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    assert!(created.metadata.uid.is_some() && created.metadata.creation_timestamp.is_some());
    let mut events = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert!(
        matches!(events.try_next().await.unwrap(), Some(WatchEvent::Added(object)) if object.data == created.data)
    );

    let mut changed = created.clone();
    changed.data = Some(BTreeMap::from([("k".to_owned(), "2".to_owned())]));
    let changed = api.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(changed.metadata.resource_version, created.metadata.resource_version);
    let stale = api.replace("a", &PostParams::default(), &created).await.unwrap_err();
    assert!(
        matches!(stale, kube_client::Error::Api(status) if status.code == 409 && status.reason == "Conflict")
    );

    let list = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 1);
    assert_eq!(list.items[0].data, changed.data);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let missing = api.get_opt("a").await.unwrap();
    assert_eq!(missing, None);

    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(match events.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            WatchEvent::Bookmark(_) => "bookmark",
            WatchEvent::Error(_) => "error",
        });
        if seen.last() == Some(&"deleted") {
            break;
        }
    }
    assert_eq!(seen.last(), Some(&"deleted"), "{seen:?}");

    let namespaces: Api<Namespace> = Api::all(client);
    let names: Vec<String> = namespaces
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .filter_map(|n| n.metadata.name)
        .collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
}

#[tokio::test]
async fn objects_are_written_read_and_watched_over_plain_http() {
    let server = Server::start().await.unwrap();
    writes_and_reads(&server).await;
    server.shutdown().await;
}

#[tokio::test]
async fn objects_are_written_read_and_watched_over_tls_with_a_token() {
    let server = Server::builder().tls().token("secret").start().await.unwrap();
    writes_and_reads(&server).await;
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn objects_are_written_read_and_watched_without_a_socket() {
    let server = Server::builder().without_socket().seed(1).start().await.unwrap();
    writes_and_reads(&server).await;
    server.shutdown().await;
}
