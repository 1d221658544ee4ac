//! Informers on a real kube-apiserver with faults: it crashes, freezes, compacts its history, rejects requests, is
//! restored from a backup. After each fault the store equals the server's state, and listeners receive the promised
//! events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::building_blocks::{
    ListOptions, ListStream, ListWatch, ListerWatcher, Resource, SourceError, WatchOptions, WatchStream,
};
use kube_informer::{Cluster, ClusterConfig, Event, Informer, SyncError, WatchList};
use kube_informer_conformance::{Programs, Proxy, RealServer};
use tokio::sync::mpsc;

use crate::common;
use crate::common::MAPS;
use crate::common::informers::{converges, converges_to, listed, quick};

#[tokio::test]
async fn after_a_server_crash_the_watch_resumes_without_duplicate_events() {
    let (mut server, client) = common::server().await;
    common::create(&client, &["a", "b"]).await;
    let maps = informer(&server, WatchList::Auto).await;
    let mut events = maps.subscribe();
    maps.synced().await.unwrap();
    for round in 0..2 {
        server.kill();
        server.restart().await.unwrap();
        common::create(&client, &[&format!("after-{round}")]).await;
        converges(&maps, &client, MAPS).await;
    }
    let mut received = Vec::new();
    while received.len() < 5 {
        match events.next().await.unwrap() {
            Event::Added { object, .. } => received.push(object.name().to_owned()),
            Event::Synced => received.push("synced".to_owned()),
            other => panic!("{other:?}"),
        }
    }
    received[..2].sort();
    assert_eq!(received, ["a", "b", "synced", "after-0", "after-1"]);
}

#[tokio::test]
async fn changes_and_deletions_during_a_disconnect_are_reported_after_a_compaction() {
    for watch_list in [WatchList::Off, WatchList::On] {
        let (mut server, client) = common::server().await;
        let proxy = Proxy::start(server.address()).await.unwrap();
        common::create(&client, &["gone", "kept", "replaced", "updated"]).await;
        let cluster = Cluster::from_config(proxy.before(server.config().await.unwrap())).unwrap();
        let mut config = quick();
        config.watch_list = watch_list;
        let maps = Informer::<ConfigMap>::builder(&cluster).namespaces(["default"]).reflector(config);
        let maps = maps.start().unwrap();
        maps.synced().await.unwrap();
        let mut events = maps.subscribe();
        while !matches!(events.next().await.unwrap(), Event::Synced) {}

        proxy.close();
        server.kubectl(&["delete", "configmap", "gone", "replaced"]).await.unwrap();
        server.kubectl(&["label", "configmap", "updated", "new=yes"]).await.unwrap();
        common::create(&client, &["born", "replaced"]).await;
        // The compaction drops etcd's history, the restart the server's.
        server.etcd_compact(None).await.unwrap();
        server.restart().await.unwrap();
        proxy.open();
        converges(&maps, &client, MAPS).await;

        let mut received = Vec::new();
        while received.len() < 5 {
            received.push(match events.next().await.unwrap() {
                Event::Added { object, .. } => format!("added {}", object.name()),
                Event::Updated { new, .. } => format!("updated {}", new.name()),
                Event::Deleted { last, final_state_known, .. } => {
                    assert!(!final_state_known, "{last:?}");
                    format!("vanished {}", last.name())
                }
                Event::Synced => panic!("synced twice"),
            });
        }
        let place = |what: &str| received.iter().position(|line| line == what).unwrap();
        assert!(place("vanished replaced") < place("added replaced"), "{received:?}");
        received.sort();
        let all = ["added born", "added replaced", "updated updated", "vanished gone", "vanished replaced"];
        assert_eq!(received, all);
    }
}

#[tokio::test]
async fn pings_detect_a_frozen_server_and_the_watch_resumes_after_it_thaws() {
    let (server, client) = common::server().await;
    common::create(&client, &["a"]).await;
    let mut config = ClusterConfig::default();
    (config.ping_after, config.ping_timeout) = (Duration::from_millis(200), Duration::from_millis(300));
    let cluster = Cluster::configured(server.config().await.unwrap(), config).unwrap();
    let (sender, mut errors) = mpsc::unbounded_channel();
    let maps = Informer::<ConfigMap>::builder(&cluster).namespaces(["default"]).reflector(quick());
    let maps = maps.on_error(move |error| drop(sender.send(error.to_string()))).start().unwrap();
    maps.synced().await.unwrap();
    let mut events = maps.subscribe();

    server.freeze().unwrap();
    // Detected while the server is frozen and its connection is open and silent.
    let detected = errors.recv().await.unwrap();
    server.thaw().unwrap();
    common::create(&client, &["b"]).await;
    converges(&maps, &client, MAPS).await;
    assert!(detected.contains("configmaps"), "{detected}");
    let mut received = Vec::new();
    while received.len() < 3 {
        match events.next().await.unwrap() {
            Event::Added { object, .. } => received.push(object.name().to_owned()),
            Event::Synced => received.push("synced".to_owned()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, ["a", "synced", "b"]);
}

#[tokio::test]
async fn a_revoked_token_is_reported_as_an_error_and_a_restored_one_recovers() {
    let programs = Programs::required();
    let mut server = RealServer::builder(programs).user("reader", &["readers"]).start().await.unwrap();
    let client = server.client().await.unwrap();
    common::create(&client, &["a"]).await;
    grant(&server, "default").await;
    let cluster = Cluster::from_config(server.config_of("reader").await.unwrap()).unwrap();
    let (sender, mut errors) = mpsc::unbounded_channel();
    let maps = Informer::<ConfigMap>::builder(&cluster).namespaces(["default"]).reflector(quick());
    let maps = maps
        .on_error(move |failure| {
            let _ = sender.send(failure.error.status().map(|status| status.code));
        })
        .start()
        .unwrap();
    while maps.synced().await.is_err() {}
    converges(&maps, &client, MAPS).await;

    server.kill(); // A graceful shutdown would wait a minute for the watches to end.
    server.revoke("reader").await.unwrap();
    while errors.recv().await.unwrap() != Some(401) {}
    assert_eq!(maps.lister().count(), 1, "the cached object stays");
    server.kubectl(&["delete", "configmap", "a"]).await.unwrap();
    common::create(&client, &["b"]).await;
    server.kill();
    server.admit("reader").await.unwrap();
    converges(&maps, &client, MAPS).await;
}

#[tokio::test]
async fn namespaces_chosen_by_label_need_permissions_on_each_or_on_the_whole_cluster() {
    let builder = RealServer::builder(Programs::required());
    let builder = builder.user("reader", &["readers"]).user("cluster-reader", &["cluster-readers"]);
    let server = builder.start().await.unwrap();
    let kubectl = async |command: &str| {
        server.kubectl(&command.split(' ').collect::<Vec<_>>()).await.unwrap();
    };
    for (namespace, team) in [("one", "web"), ("two", "web"), ("other", "db")] {
        kubectl(&format!("create namespace {namespace}")).await;
        kubectl(&format!("label namespace {namespace} team={team}")).await;
        kubectl(&format!("create configmap of-{namespace} -n {namespace}")).await;
    }
    kubectl("create clusterrole namespaces --verb=list,watch --resource=namespaces").await;
    kubectl("create clusterrole maps --verb=list,watch --resource=configmaps").await;
    let groups = "--group=readers --group=cluster-readers";
    kubectl(&format!("create clusterrolebinding namespaces --clusterrole=namespaces {groups}")).await;
    kubectl("create clusterrolebinding maps --clusterrole=maps --group=cluster-readers").await;
    for namespace in ["one", "two"] {
        grant(&server, namespace).await;
    }
    for user in ["reader", "cluster-reader"] {
        let cluster = Cluster::from_config(server.config_of(user).await.unwrap()).unwrap();
        let maps =
            Informer::<ConfigMap>::builder(&cluster).namespaces_matching("team=web").reflector(quick());
        let maps = maps.start().unwrap();
        // The authorizer has a cache of roles, which lags by milliseconds.
        while maps.synced().await.is_err() {}
        let mut keys: Vec<_> = maps.lister().list().iter().map(|map| map.key().to_string()).collect();
        keys.sort();
        assert_eq!(keys, ["one/of-one", "two/of-two"], "{user}");
    }
}

#[tokio::test]
async fn a_forbidden_list_is_reported_and_syncs_once_rbac_allows_it() {
    let programs = Programs::required();
    let server = RealServer::builder(programs).user("reader", &["readers"]).start().await.unwrap();
    let client = server.client().await.unwrap();
    server.kubectl(&["create", "namespace", "closed"]).await.unwrap();
    server.kubectl(&["create", "configmap", "hidden", "-n", "closed"]).await.unwrap();
    common::create(&client, &["a"]).await;
    let cluster = Cluster::from_config(server.config_of("reader").await.unwrap()).unwrap();
    let all = Informer::<ConfigMap>::builder(&cluster).reflector(quick()).start().unwrap();
    let Err(SyncError::Refused { status, .. }) = all.synced().await else { panic!("{:?}", all.state()) };
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    let last_error = all.status()[0].reflector().last_error.clone().unwrap();
    assert_eq!(last_error.status().unwrap().code, 403);

    // One of two namespaces is allowed: its objects are cached, and the error of the other is reported.
    grant(&server, "default").await;
    let two = Informer::<ConfigMap>::builder(&cluster).namespaces(["default", "closed"]).reflector(quick());
    let two = two.start().unwrap();
    converges(&two, &client, MAPS).await;
    let Err(SyncError::Refused { resource, status }) = two.synced().await else {
        panic!("{:?}", two.state())
    };
    assert_eq!(status.code, 403);
    assert!(resource.contains("closed"), "{resource}");
    common::create(&client, &["b"]).await;
    converges(&two, &client, MAPS).await;

    grant(&server, "closed").await;
    while two.synced().await.is_err() {}
    let everything = async || {
        let mut objects = listed(&client, MAPS).await;
        objects.append(&mut listed(&client, "/api/v1/namespaces/closed/configmaps").await);
        objects
    };
    converges_to(&two, everything).await;
    assert_eq!(two.lister().count(), 3);
}

#[tokio::test]
async fn after_an_etcd_restore_a_new_epoch_reports_every_difference() {
    let (mut server, client) = common::server().await;
    common::create(&client, &["changed", "deleted", "kept"]).await;
    let backup = server.backup().await.unwrap();
    listed(&client, MAPS).await; // The server has reconnected to etcd.
    let lost: Vec<_> = (0..200).map(|i| format!("lost-{i}")).collect();
    common::create(&client, &lost.iter().map(String::as_str).collect::<Vec<_>>()).await;
    server.kubectl(&["delete", "configmap", "deleted"]).await.unwrap();
    server.kubectl(&["label", "configmap", "changed", "new=yes"]).await.unwrap();
    let maps = informer(&server, WatchList::Auto).await;
    maps.synced().await.unwrap();
    converges(&maps, &client, MAPS).await;
    let mut events = maps.subscribe();
    while !matches!(events.next().await.unwrap(), Event::Synced) {}

    server.kill(); // A graceful shutdown would wait a minute for the watches to end.
    server.restore(&backup).await.unwrap();
    converges(&maps, &client, MAPS).await;
    assert_eq!(maps.status()[0].reflector().epoch, 1);
    let mut received = Vec::new();
    while received.len() < 202 {
        match events.next().await.unwrap() {
            Event::Deleted { last, .. } if last.name().starts_with("lost-") => received.push(String::new()),
            Event::Added { object, .. } => received.push(format!("added {}", object.key())),
            Event::Updated { new, .. } => received.push(format!("updated {}", new.key())),
            event => panic!("unexpected {event:?}"),
        }
    }
    received.sort();
    assert_eq!(received[200..], ["added default/deleted", "updated default/changed"]);
    // The watch continues from there.
    common::create(&client, &["later"]).await;
    converges(&maps, &client, MAPS).await;
}

#[tokio::test]
async fn a_paged_list_completes_although_its_token_expires() {
    let programs = Programs::required();
    // Without its watch cache the server reads pages from etcd, which was compacted.
    let server = Arc::new(RealServer::builder(programs).watch_cache(false).start().await.unwrap());
    let client = server.client().await.unwrap();
    let names: Vec<_> = (0..45).map(|i| format!("map-{i:02}")).collect();
    common::create(&client, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let cluster = Cluster::from_config(server.config().await.unwrap()).unwrap();
    let inner = ListWatch::new(cluster.client(), Resource::of::<ConfigMap>()).namespace("default");
    let source = Arc::new(CompactingSource { inner, server: server.clone(), done: AtomicBool::new(false) });
    let mut config = quick();
    (config.page_size, config.watch_list) = (Some(10), WatchList::Off);
    let maps = Informer::<ConfigMap>::from_source(source.clone()).reflector(config).start().unwrap();
    maps.synced().await.unwrap();
    assert!(source.done.load(Ordering::Relaxed));
    converges(&maps, &client, MAPS).await;
    assert_eq!(maps.lister().count(), 45, "one was deleted and one created between the pages");
    common::create(&client, &["later"]).await;
    converges(&maps, &client, MAPS).await;
}

/// A source whose server changes objects and compacts its history just before the second page is requested.
struct CompactingSource {
    inner: ListWatch,
    server: Arc<RealServer>,
    done: AtomicBool,
}

impl ListerWatcher for CompactingSource {
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ListStream, SourceError>> {
        async move {
            if !options.continue_token.is_empty() && !self.done.swap(true, Ordering::Relaxed) {
                self.server.kubectl(&["delete", "configmap", "map-03"]).await.unwrap();
                self.server.kubectl(&["create", "configmap", "map-99"]).await.unwrap();
                self.server.etcd_compact(None).await.unwrap();
            }
            self.inner.list(options).await
        }
        .boxed()
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<WatchStream, SourceError>> {
        self.inner.watch(options)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// An informer over the config maps of the default namespace.
async fn informer(server: &RealServer, watch_list: WatchList) -> Informer<ConfigMap> {
    let cluster = Cluster::from_config(server.config().await.unwrap()).unwrap();
    let mut config = quick();
    config.watch_list = watch_list;
    Informer::<ConfigMap>::builder(&cluster).namespaces(["default"]).reflector(config).start().unwrap()
}

/// Grants the group `readers` to list and watch config maps in a namespace.
async fn grant(server: &RealServer, namespace: &str) {
    let role = ["create", "role", "read", "--verb=list,watch", "--resource=configmaps", "-n", namespace];
    server.kubectl(&role).await.unwrap();
    let binding = ["create", "rolebinding", "read", "--role=read", "--group=readers", "-n", namespace];
    server.kubectl(&binding).await.unwrap();
}
