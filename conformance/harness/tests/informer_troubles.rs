//! Informers on a real kube-apiserver to which things happen: it dies, freezes, forgets, refuses, goes back in time. Each
//! time the store ends up equal to the server's state, and listeners hear what they were promised.
#![allow(clippy::unwrap_used)] // Tests, and functions that only tests call.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::MAPS;
use common::informers::{converges, converges_to, listed, quick};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::building_blocks::{
    ListOptions, ListStream, ListWatch, ListerWatcher, Resource, SourceError, WatchOptions, WatchStream,
};
use kube_informer::{Cluster, ClusterConfig, Event, Informer, Pings, SyncError, WatchList};
use kube_informer_conformance::{Programs, Proxy, RealServer};
use tokio::sync::mpsc;

#[tokio::test]
async fn a_killed_server_that_comes_back_is_followed_on_and_nothing_is_told_twice() {
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
    let mut told = Vec::new();
    while told.len() < 5 {
        match events.next().await.unwrap() {
            Event::Added { object, .. } => told.push(object.name().to_owned()),
            Event::Synced => told.push("synced".to_owned()),
            other => panic!("{other:?}"),
        }
    }
    told[..2].sort();
    assert_eq!(told, ["a", "b", "synced", "after-0", "after-1"]);
}

#[tokio::test]
async fn what_happened_while_disconnected_and_was_compacted_is_told_and_every_disappearance_with_it() {
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
        // The server's own memory of the past goes with a restart, etcd's with a compaction.
        server.etcd_compact(None).await.unwrap();
        server.restart().await.unwrap();
        proxy.open();
        converges(&maps, &client, MAPS).await;

        let mut told = Vec::new();
        while told.len() < 5 {
            told.push(match events.next().await.unwrap() {
                Event::Added { object, .. } => format!("added {}", object.name()),
                Event::Updated { new, .. } => format!("updated {}", new.name()),
                Event::Deleted { last, final_state_known, .. } => {
                    assert!(!final_state_known, "{last:?}");
                    format!("vanished {}", last.name())
                }
                Event::Synced => panic!("synced twice"),
            });
        }
        let place = |what: &str| told.iter().position(|line| line == what).unwrap();
        assert!(place("vanished replaced") < place("added replaced"), "{told:?}");
        told.sort();
        let all = ["added born", "added replaced", "updated updated", "vanished gone", "vanished replaced"];
        assert_eq!(told, all);
    }
}

#[tokio::test]
async fn a_frozen_server_is_noticed_by_pings_and_the_watch_resumed_once_it_thaws() {
    let (server, client) = common::server().await;
    common::create(&client, &["a"]).await;
    let pings = Pings { after: Duration::from_millis(200), timeout: Duration::from_millis(300) };
    let cluster =
        Cluster::configured(server.config().await.unwrap(), ClusterConfig::default().pings(pings)).unwrap();
    let (heard, mut troubles) = mpsc::unbounded_channel();
    let maps = Informer::<ConfigMap>::builder(&cluster).namespaces(["default"]).reflector(quick());
    let maps = maps.on_error(move |trouble| drop(heard.send(trouble.to_string()))).start().unwrap();
    maps.synced().await.unwrap();
    let mut events = maps.subscribe();

    server.freeze().unwrap();
    // Noticed while the server is frozen: its connection is open and silent, and stays so.
    let noticed = troubles.recv().await.unwrap();
    server.thaw().unwrap();
    common::create(&client, &["b"]).await;
    converges(&maps, &client, MAPS).await;
    assert!(noticed.contains("configmaps"), "{noticed}");
    let mut told = Vec::new();
    while told.len() < 3 {
        match events.next().await.unwrap() {
            Event::Added { object, .. } => told.push(object.name().to_owned()),
            Event::Synced => told.push("synced".to_owned()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, ["a", "synced", "b"]);
}

#[tokio::test]
async fn a_revoked_token_is_shown_as_trouble_and_a_restored_one_ends_it() {
    let programs = Programs::required();
    let mut server = RealServer::builder(programs).user("reader", &["readers"]).start().await.unwrap();
    let client = server.client().await.unwrap();
    common::create(&client, &["a"]).await;
    grant(&server, "default").await;
    let cluster = Cluster::from_config(server.config_of("reader").await.unwrap()).unwrap();
    let (heard, mut troubles) = mpsc::unbounded_channel();
    let maps = Informer::<ConfigMap>::builder(&cluster).namespaces(["default"]).reflector(quick());
    let maps = maps
        .on_error(move |trouble| {
            let _ = heard.send(trouble.error.status().map(|status| status.code));
        })
        .start()
        .unwrap();
    while maps.synced().await.is_err() {}
    converges(&maps, &client, MAPS).await;

    server.kill(); // In order it would wait a minute for the watches to end.
    server.revoke("reader").await.unwrap();
    while troubles.recv().await.unwrap() != Some(401) {}
    assert_eq!(maps.lister().count(), 1, "what was known is still shown");
    server.kubectl(&["delete", "configmap", "a"]).await.unwrap();
    common::create(&client, &["b"]).await;
    server.kill();
    server.admit("reader").await.unwrap();
    converges(&maps, &client, MAPS).await;
}

#[tokio::test]
async fn what_rbac_forbids_is_reported_instead_of_waited_for_and_shown_once_it_is_allowed() {
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
    let last_error = all.status()[0].reflector.last_error.clone().unwrap();
    assert_eq!(last_error.status().unwrap().code, 403);

    // One of two namespaces is allowed: it is shown, and the other's refusal is told.
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
async fn an_etcd_restored_from_a_backup_is_a_new_epoch_in_which_every_difference_is_told() {
    let (mut server, client) = common::server().await;
    common::create(&client, &["changed", "deleted", "kept"]).await;
    let backup = server.backup().await.unwrap();
    listed(&client, MAPS).await; // The server has found its etcd again.
    let lost: Vec<_> = (0..200).map(|i| format!("lost-{i}")).collect();
    common::create(&client, &lost.iter().map(String::as_str).collect::<Vec<_>>()).await;
    server.kubectl(&["delete", "configmap", "deleted"]).await.unwrap();
    server.kubectl(&["label", "configmap", "changed", "new=yes"]).await.unwrap();
    let maps = informer(&server, WatchList::Auto).await;
    maps.synced().await.unwrap();
    converges(&maps, &client, MAPS).await;
    let mut events = maps.subscribe();
    while !matches!(events.next().await.unwrap(), Event::Synced) {}

    server.kill(); // In order it would wait a minute for the watches to end.
    server.restore(&backup).await.unwrap();
    converges(&maps, &client, MAPS).await;
    assert_eq!(maps.status()[0].reflector.epoch, 1);
    let mut told = Vec::new();
    while told.len() < 202 {
        match events.next().await.unwrap() {
            Event::Deleted { last, .. } if last.name().starts_with("lost-") => told.push(String::new()),
            event => told.push(format!("{event:?}").split(['@', ' ']).take(2).collect::<Vec<_>>().join(" ")),
        }
    }
    told.sort();
    assert_eq!(told[200..], ["added default/deleted", "updated default/changed"]);
    // And it goes on from there.
    common::create(&client, &["later"]).await;
    converges(&maps, &client, MAPS).await;
}

#[tokio::test]
async fn a_list_in_pages_whose_token_expires_between_two_of_them_is_completed_all_the_same() {
    let programs = Programs::required();
    // Without its watch cache the server reads pages from etcd, which forgets.
    let server = Arc::new(RealServer::builder(programs).watch_cache(false).start().await.unwrap());
    let client = server.client().await.unwrap();
    let names: Vec<_> = (0..45).map(|i| format!("map-{i:02}")).collect();
    common::create(&client, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let cluster = Cluster::from_config(server.config().await.unwrap()).unwrap();
    let inner = ListWatch::new(cluster.client(), Resource::of::<ConfigMap>()).namespace("default");
    let forgetful = Arc::new(Forgetful { inner, server: server.clone(), done: AtomicBool::new(false) });
    let mut config = quick();
    (config.page_size, config.watch_list) = (Some(10), WatchList::Off);
    let maps = Informer::<ConfigMap>::from_source(forgetful.clone()).reflector(config).start().unwrap();
    maps.synced().await.unwrap();
    assert!(forgetful.done.load(Ordering::Relaxed));
    converges(&maps, &client, MAPS).await;
    assert_eq!(maps.lister().count(), 45, "one went and one came between the pages");
    common::create(&client, &["later"]).await;
    converges(&maps, &client, MAPS).await;
}

/// A source whose server changes and forgets the past just before the second page is asked for.
struct Forgetful {
    inner: ListWatch,
    server: Arc<RealServer>,
    done: AtomicBool,
}

impl ListerWatcher for Forgetful {
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

/// Lets the group `readers` read config maps in a namespace.
async fn grant(server: &RealServer, namespace: &str) {
    let role = ["create", "role", "read", "--verb=list,watch", "--resource=configmaps", "-n", namespace];
    server.kubectl(&role).await.unwrap();
    let binding = ["create", "rolebinding", "read", "--role=read", "--group=readers", "-n", namespace];
    server.kubectl(&binding).await.unwrap();
}
