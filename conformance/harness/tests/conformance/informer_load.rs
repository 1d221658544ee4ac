//! Many informers, objects and changes on a real kube-apiserver, over connections that keep breaking. The stores
//! converge to the state in etcd, and a handler checks the contract's promises at every event.

use std::collections::{BTreeMap, HashMap};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::building_blocks::compare_resource_versions;
use kube_informer::{Cluster, Event, EventHandler, Index, Informer, Key, ListenerConfig, Lister, Origin};
use kube_informer_conformance::Proxy;

use crate::common;
use crate::common::MAPS;
use crate::common::informers::{converges, listed, long, quick};
use crate::common::writes::{Change, churn, create, write};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_and_fifty_informers_start_concurrently_and_each_sees_its_own_objects() {
    const INFORMERS: usize = 250;
    let (server, client) = common::server().await;
    let cluster = Cluster::from_config(server.config().await.unwrap()).unwrap();
    write(&client, (0..INFORMERS).map(|n| Change::Create(n, n))).await;
    let informers: Vec<_> = (0..INFORMERS)
        .map(|n| {
            let builder = Informer::<ConfigMap>::builder(&cluster).namespaces(["default"]);
            builder.labels(format!("group=g{n}")).reflector(quick()).start().unwrap()
        })
        .collect();
    for informer in &informers {
        informer.synced().await.unwrap();
    }
    // All watches are open, on a few connections. Each receives its own change, and other requests still succeed.
    write(&client, (0..INFORMERS).map(|n| Change::Update(n, 1))).await;
    for (n, informer) in informers.iter().enumerate() {
        let path = format!("{MAPS}?labelSelector=group%3Dg{n}");
        converges(informer, &client, &path).await;
        assert_eq!(informer.lister().count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_churn_over_a_faulty_network_the_store_equals_etcd_and_every_promise_held() {
    let (objects, rounds) = if long() { (20_000, 10) } else { (1_000, 4) };
    let (mut server, client) = common::server().await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let cluster = Cluster::from_config(proxy.before(server.config().await.unwrap())).unwrap();
    write(&client, create(objects)).await;

    let by_group = Index::label("group", "group");
    let maps = Informer::<ConfigMap>::builder(&cluster).namespaces(["default"]).index(&by_group);
    let maps = maps.reflector(quick()).start().unwrap();
    maps.synced().await.unwrap();
    let watched = Arc::new(Watched::default());
    let mut many = ListenerConfig::default();
    many.changes_max = usize::MAX; // Coalesced events are not in the server's order.
    let promises = Promises::new(maps.lister(), by_group.clone(), watched.clone());
    maps.add_handler_with(many, promises).unwrap().detach();
    // A handler that never returns and one that always panics must not affect the others.
    maps.add_handler(async |_: Event<ConfigMap>| futures::future::pending().await).unwrap().detach();
    let panicking =
        maps.add_handler(async |_: Event<ConfigMap>| resume_unwind(Box::new("on purpose"))).unwrap();
    // A subscription with a small buffer that is read only at the end.
    let mut few = ListenerConfig::default();
    few.changes_max = 100;
    let mut slow = maps.subscribe_with(few);

    let mut present: Vec<usize> = (0..objects).collect();
    for round in 0..rounds {
        // Connections break in the middle of a response, earlier in each round.
        proxy.cut_after(Some(60_000 / (round + 1)));
        proxy.cut();
        let changes = churn(round as usize, &mut present, objects);
        write(&client, changes).await;
        if round % 4 == 1 {
            // Disconnected while objects change and the history is compacted.
            proxy.close();
            let changes = churn(100 + round as usize, &mut present, objects);
            write(&client, changes).await;
            server.etcd_compact(None).await.unwrap();
            server.kill();
            server.restart().await.unwrap();
            proxy.open();
        }
        // The network works for a while, so that each round completes.
        proxy.cut_after(None);
        proxy.cut();
        converges(&maps, &client, MAPS).await;
    }

    let truth = listed(&client, MAPS).await;
    assert_eq!(truth.len(), present.len());
    // The slow subscription receives the latest state of every object, coalesced per key, and no deleted object.
    assert!(slow.coalesced_count() > 0);
    let mut received: BTreeMap<String, String> = BTreeMap::new();
    // Unconstrained, so that the task budget does not end the loop before all events are read.
    while let Some(Some(event)) = tokio::task::unconstrained(slow.next()).now_or_never() {
        match &event {
            Event::Deleted { last, .. } => drop(received.remove(&last.key().to_string())),
            Event::Synced => {}
            Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                received.insert(object.key().to_string(), object.resource_version().to_owned());
            }
        }
    }
    let version =
        |object: &serde_json::Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    assert_eq!(received, truth.iter().map(|(key, object)| (key.clone(), version(object))).collect());
    assert!(panicking.panics() > 0);
    assert!(!watched.broken.load(Ordering::Relaxed), "see above");
}

/// The result of a handler's checks.
#[derive(Debug, Default)]
struct Watched {
    broken: AtomicBool,
}

/// A handler that checks the promises at every event.
struct Promises {
    lister: Lister<ConfigMap>,
    by_group: Index,
    watched: Arc<Watched>,
    /// The last uid and version received, by key.
    received: HashMap<Key, (String, String)>,
    last_live: String,
    events: usize,
}

impl Promises {
    fn new(lister: Lister<ConfigMap>, by_group: Index, watched: Arc<Watched>) -> Self {
        Self { lister, by_group, watched, received: HashMap::new(), last_live: "1".to_owned(), events: 0 }
    }

    #[allow(clippy::print_stderr, reason = "printed only when a promise is broken")]
    fn check(&self, kept: bool, promise: &str, event: &Event<ConfigMap>) {
        if !kept {
            eprintln!("broken: {promise}: {event:?}");
            self.watched.broken.store(true, Ordering::Relaxed);
        }
    }
}

impl EventHandler<ConfigMap> for Promises {
    async fn handle(&mut self, event: Event<ConfigMap>) {
        let Some(object) = event.object() else { return };
        let (key, uid, version) = (object.key(), object.uid(), object.resource_version());
        let newer = |version: &str, than: &str| {
            compare_resource_versions(version, than).is_some_and(|order| order.is_gt())
        };
        // Versions never regress, the changes of a key come in order, and a replaced object is deleted first.
        let known = self.received.get(&key);
        match &event {
            Event::Added { .. } => self.check(known.is_none(), "added once", &event),
            Event::Updated { old, .. } => {
                let follows = known.is_some_and(|(last_uid, last)| {
                    (last_uid.as_str(), last.as_str()) == (uid, old.resource_version())
                        && newer(version, last)
                });
                self.check(follows, "in order, no regression", &event);
            }
            Event::Deleted { .. } => {
                let was_added = known.is_some_and(|(last_uid, _)| last_uid == uid);
                self.check(was_added, "only reported objects are deleted", &event);
            }
            Event::Synced => {}
        }
        // Store first: the store has this state or a newer one.
        let stored = self.lister.get(&key);
        let shows = match (&event, &stored) {
            (Event::Deleted { .. }, None) => true,
            (Event::Deleted { .. }, Some(now)) => now.uid() != uid,
            (_, Some(now)) => now.uid() != uid || !newer(version, now.resource_version()),
            // Deleted since; its event follows.
            (_, None) => true,
        };
        self.check(shows, "store first", &event);
        match &event {
            Event::Deleted { .. } => drop(self.received.remove(&key)),
            _ => drop(self.received.insert(key, (uid.to_owned(), version.to_owned()))),
        }
        // A snapshot is consistent: each object is in the index exactly once.
        self.events += 1;
        if self.events.is_multiple_of(500) {
            let view = self.lister.view();
            let groups =
                (0..10).map(|group| view.by_index(&self.by_group, &format!("g{group}")).unwrap().len());
            self.check(groups.sum::<usize>() == view.iter().count(), "consistent snapshot", &event);
        }
        // Live events arrive in the server's order, also across watches.
        if event.origin() == Some(Origin::Live) {
            self.check(newer(version, &self.last_live), "in the server's order", &event);
            version.clone_into(&mut self.last_live);
        }
    }
}
