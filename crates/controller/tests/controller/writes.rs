//! A key is not reconciled with a cache that lacks its own writes.

use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube_informer::{Informer, Key};
use kube_informer_controller::{Action, Context, Controller, Error, Predicate, Trigger};
use serde_json::json;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

struct Data {
    log: Log,
    maps: Informer<ConfigMap>,
    world: Arc<World>,
}

/// A map as the server returns it after a write with this resourceVersion.
fn map_at(name: &str, version: &str) -> ConfigMap {
    serde_json::from_value(
        json!({"metadata": {"namespace": "web", "name": name, "resourceVersion": version}}),
    )
    .unwrap()
}

/// Notes the cached version, and reports a write of the version in the annotation `wrote`.
async fn note(context: Context<Data>, key: Key) -> Result<Action, Error> {
    let data = context.data();
    let Some(map) = data.maps.lister().get(&key) else { return done() };
    let map = map.decode()?;
    data.log.note(format!(
        "{} at {}",
        key.name(),
        map.metadata.resource_version.as_deref().unwrap_or_default()
    ));
    if let Some(wrote) = map.metadata.annotations.as_ref().and_then(|annotations| annotations.get("wrote")) {
        assert!(context.wrote(&map_at(key.name(), wrote)));
    }
    done()
}

fn start(world: &Arc<World>, when: Option<Predicate<ConfigMap>>) -> (Running, Log) {
    let maps = world.map_informer();
    let log = Log::default();
    let data = Data { log: log.clone(), maps: maps.clone(), world: world.clone() };
    let watch = when.into_iter().fold(Trigger::on(&maps), |watch, predicate| watch.when(predicate));
    let controller = Controller::builder("t", watch).write_wait_max(30 * SECOND);
    (Running::start(controller.build(data, note).unwrap()), log)
}

fn writes(name: &str, version: u32) -> serde_json::Value {
    json!({"metadata": {"namespace": "web", "name": name, "generation": 1, "annotations": {"wrote": version.to_string()}}})
}

#[tokio::test(start_paused = true)]
async fn c6_a_key_is_deferred_until_the_cache_has_its_write() {
    let world = Arc::new(World::new());
    let (_running, log) = start(&world, None);
    world.maps.put(writes("a", 104)); // 101; its reconcile writes 104
    assert_eq!(log.next(1).await, ["a at 101"]);
    world.maps.put(named("a")); // 102: an event from before the write
    world.maps.put(named("b")); // 103: the only worker is free for it
    assert_eq!(log.next(1).await, ["b at 103"]);
    settle().await;
    assert!(log.take().is_empty(), "a is deferred");
    world.maps.put(named("a")); // 104
    assert_eq!(log.next(1).await, ["a at 104"]);
    sleep(60 * SECOND).await;
    assert!(log.take().is_empty(), "and not again at the limit");
}

#[tokio::test(start_paused = true)]
async fn c6_a_missing_write_defers_its_key_up_to_the_limit() {
    let world = Arc::new(World::new());
    let (_running, log) = start(&world, None);
    world.maps.put(writes("a", 900));
    assert_eq!(log.next(1).await, ["a at 101"]);
    let wrote = Instant::now();
    sleep(SECOND).await;
    world.maps.put(named("a"));
    assert_eq!(log.next(1).await, ["a at 102"]);
    assert_eq!(wrote.elapsed(), 30 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn c6_a_key_whose_write_never_appears_is_reconciled_again() {
    let world = Arc::new(World::new());
    let (_running, log) = start(&world, None);
    world.maps.put(writes("a", 900));
    assert_eq!(log.next(1).await, ["a at 101"]);
    let wrote = Instant::now();
    assert_eq!(log.next(1).await, ["a at 101"], "nothing has changed, but the write may be lost");
    assert_eq!(wrote.elapsed(), 30 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn c6_a_full_queue_does_not_extend_the_limit() {
    let world = Arc::new(World::new());
    world.maps.put(writes("a", 900));
    let maps = world.map_informer();
    let log = Log::default();
    let data = Data { log: log.clone(), maps: maps.clone(), world: world.clone() };
    let reconcile = async |context: Context<Data>, key: Key| {
        if !key.name().starts_with('s') {
            return note(context, key).await;
        }
        context.data().log.note(key.name());
        sleep(100 * SECOND).await;
        done()
    };
    // After the first reconcile, the stream yields more keys than the queue takes.
    let streamed = futures::stream::once(sleep(SECOND))
        .flat_map(|()| futures::stream::iter((0..3).map(|number| Key::new("web", &format!("s{number}")))));
    let builder = Controller::builder("t", &maps).queue_capacity(1).write_wait_max(30 * SECOND);
    let _running = Running::start(builder.reconcile_on(streamed).build(data, reconcile).unwrap());
    let expected = ["a at 101", "s0", "s1", "a at 101", "s2"];
    assert_eq!(
        log.next(expected.len()).await,
        expected,
        "the limit ends while the last key of the stream waits"
    );
}

#[tokio::test(start_paused = true)]
async fn c6_maximum_durations_never_expire() {
    let world = Arc::new(World::new());
    world.maps.put(writes("a", 900));
    let (maps, log) = (world.map_informer(), Log::default());
    let data = Data { log: log.clone(), maps: maps.clone(), world: world.clone() };
    let controller = Controller::builder("t", &maps)
        .write_wait_max(Duration::MAX)
        .grace(Duration::MAX)
        .aging(Duration::MAX)
        .build(data, async |context: Context<Data>, key| {
            let Action::Done = note(context, key).await? else { unreachable!() };
            Ok::<_, Error>(Action::RequeueAfter(Duration::MAX))
        })
        .unwrap();
    let running = Running::start(controller);
    assert_eq!(log.next(1).await, ["a at 101"]);
    world.maps.put(named("a"));
    sleep(3600 * SECOND).await;
    assert!(log.take().is_empty(), "the key waits for its write, and has not failed");
    running.stop.stop();
    running.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn c6_a_write_filtered_by_a_predicate_releases_its_key() {
    let world = Arc::new(World::new());
    let (_running, log) = start(&world, Some(Predicate::generation_changed()));
    world.maps.put(writes("a", 103));
    assert_eq!(log.next(1).await, ["a at 101"]);
    world.maps.put(json!({"metadata": {"namespace": "web", "name": "a", "generation": 2}})); // 102: wanted again
    settle().await;
    assert!(log.take().is_empty());
    let before = Instant::now();
    world
        .maps
        .put(json!({"metadata": {"namespace": "web", "name": "a", "generation": 2}, "data": {"x": "y"}})); // 103
    assert_eq!(log.next(1).await, ["a at 103"]);
    assert!(before.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_unqueued_key_is_not_reconciled_when_its_write_arrives() {
    let world = Arc::new(World::new());
    let (_running, log) = start(&world, Some(Predicate::generation_changed()));
    world.maps.put(writes("a", 102));
    assert_eq!(log.next(1).await, ["a at 101"]);
    world.maps.put(json!({"metadata": {"namespace": "web", "name": "a", "generation": 1}}));
    sleep(60 * SECOND).await;
    assert!(log.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_foreign_deletion_releases_the_key() {
    let world = Arc::new(World::new());
    let (_running, log) = start(&world, None);
    world.maps.put(writes("a", 102));
    assert_eq!(log.next(1).await, ["a at 101"]);
    let before = Instant::now();
    world.maps.delete("web/a"); // 102
    world.maps.put(named("a")); // 103
    assert_eq!(log.next(1).await, ["a at 103"]);
    assert!(before.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn c6_writes_of_children_defer_and_unwatched_writes_do_not() {
    let world = Arc::new(World::new());
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let log = Log::default();
    let data = Data { log: log.clone(), maps: maps.clone(), world: world.clone() };
    let pod_lister = pods.lister();
    // Creates a child if there are no children yet: on a stale cache it would create a second one.
    let reconcile = move |context: Context<Data>, _: Key| {
        let children = pod_lister.count();
        async move {
            let data = context.data();
            data.log.note(format!("{children} children"));
            if children == 0 {
                data.world.pods.close_watches(); // so that the child shows up late
                let version = data.world.pods.put(owned("child", &["a"]));
                let child =
                    json!({"metadata": {"namespace": "web", "name": "child", "resourceVersion": version}});
                assert!(context.wrote(&serde_json::from_value::<Pod>(child)?));
                let node = serde_json::from_value::<Node>(json!({"metadata": {"name": "n"}}))?;
                data.log.note(format!("the node is shown: {}", context.wrote(&node)));
            }
            Ok::<_, Error>(Action::RequeueAfter(Duration::from_millis(1)))
        }
    };
    let controller = Controller::builder("t", &maps).owns(&pods).build(data, reconcile).unwrap();
    let _running = Running::start(controller);
    world.maps.put(named("a"));
    let lines = log.next(3).await;
    assert_eq!(lines, ["0 children", "the node is shown: false", "1 children"]);
}

/// A reconcile on `main` writes version 104, while a second informer of the kind is registered.
async fn write_two_informers(main: &Informer<ConfigMap>, other: &Informer<ConfigMap>, world: &World) {
    let log = Log::default();
    let reconcile = {
        let main = main.clone();
        move |context: Context<Log>, key: Key| {
            let map = main.lister().get(&key);
            async move {
                let Some(map) = map else { return done() };
                context.data().note(map.resource_version());
                let mut written = (*map.decode()?).clone();
                if written.data.is_none() {
                    written.metadata.resource_version = Some("104".to_owned());
                    assert!(context.wrote(&written));
                }
                done()
            }
        }
    };
    let watch = Trigger::on(other).when(Predicate::new(|_| false));
    let controller = Controller::builder("t", main).watches(watch, |_| []);
    let _running = Running::start(controller.build(log.clone(), reconcile).unwrap());
    let map = |data: serde_json::Value| json!({"metadata": {"namespace": "web", "name": "a", "uid": "one"}, "data": data});
    world.maps.put(map(json!(null))); // 101; its reconcile writes 104
    assert_eq!(log.next(1).await, ["101"]);
    let began = Instant::now();
    world.maps.put(map(json!({"x": "1"})));
    world.maps.put(map(json!({"x": "2"})));
    settle().await;
    assert!(log.take().is_empty(), "the key's write is not in the cache");
    world.maps.put(map(json!({"x": "3"})));
    assert_eq!(log.next(1).await, ["104"]);
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn c6_a_write_ignores_informers_of_another_cluster() {
    let (here, there) = (World::new(), World::new());
    there.maps.put(named("a"));
    write_two_informers(&here.map_informer(), &there.map_informer(), &here).await;
}

#[tokio::test(start_paused = true)]
async fn c6_a_new_object_is_expected_in_the_first_informer_that_has_it() {
    let (here, there) = (World::new(), World::new());
    let (maps, pods, other_pods) = (here.map_informer(), here.pod_informer(), there.pod_informer());
    let log = Log::default();
    let reconcile = {
        let pods = pods.lister();
        move |context: Context<Log>, _: Key| {
            let children = pods.count();
            async move {
                context.data().note(format!("{children} children"));
                if children == 0 {
                    let child = json!({"metadata": {"namespace": "web", "name": "child", "uid": "child-1", "resourceVersion": "101"}});
                    assert!(context.wrote(&serde_json::from_value::<Pod>(child)?));
                }
                Ok::<_, Error>(Action::RequeueAfter(Duration::from_millis(1)))
            }
        }
    };
    // The other cluster is ahead: its resourceVersions mean nothing here.
    (0..20).for_each(|number| drop(there.pods.put(named(&format!("p{number}")))));
    let controller = Controller::builder("t", &maps).owns(&pods).watches(&other_pods, |_| []);
    here.maps.put(named("a"));
    let _running = Running::start(controller.build(log.clone(), reconcile).unwrap());
    assert_eq!(log.next(1).await, ["0 children"]);
    there.pods.put(named("child"));
    sleep(SECOND).await;
    assert!(log.take().is_empty(), "the child is not in the cache");
    let mut child = owned("child", &["a"]);
    child["metadata"]["uid"] = json!("child-1");
    here.pods.put(child);
    assert_eq!(log.next(1).await[0], "1 children");
}

#[tokio::test(start_paused = true)]
async fn c6_a_key_is_deferred_until_the_cache_has_its_deletion() {
    let world = World::new();
    let child = |uid: &str| {
        let mut child = owned("child", &["a"]);
        child["metadata"]["uid"] = json!(uid);
        child
    };
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    world.maps.put(named("a"));
    world.pods.put(child("one"));
    let log = Log::default();
    let reconcile = {
        let pods = pods.lister();
        move |context: Context<Log>, _: Key| {
            let child = pods.get(&key("web/child"));
            async move {
                let Some(child) = child else {
                    context.data().note("no child");
                    return done();
                };
                context.data().note(child.uid());
                if child.uid() == "one" {
                    assert!(context.deleted(&*child.decode()?));
                }
                Ok::<_, Error>(Action::RequeueAfter(Duration::from_millis(1)))
            }
        }
    };
    let controller = Controller::builder("t", &maps).owns(&pods).build(log.clone(), reconcile).unwrap();
    let _running = Running::start(controller);
    assert_eq!(log.next(1).await, ["one"]);
    sleep(SECOND).await;
    world.pods.put(child("one"));
    sleep(SECOND).await;
    assert!(log.take().is_empty(), "the object is still in the cache");
    world.pods.delete("web/child");
    assert_eq!(log.next(1).await, ["no child"]);
    world.pods.put(child("two"));
    assert_eq!(log.next(1).await[0], "two", "another object may have the name");
}

#[tokio::test(start_paused = true)]
async fn the_reason_for_not_deferring_a_write_is_logged() {
    let server = embedded_apiserver::Server::builder().without_socket().seed(1).start().await.unwrap();
    let client = server.client().unwrap();
    let maps =
        Informer::<ConfigMap>::builder(client).labels("app=web").namespaces(["default"]).start().unwrap();
    let (logs, _guard) = capture_logs();
    let (ask, asked) = futures::channel::mpsc::unbounded();
    let reconcile = |context: Context<Log>, _: Key| async move {
        let written = |namespace: &str| -> ConfigMap {
            serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": "x"}})).unwrap()
        };
        let shown = ["default", "other"].map(|namespace| context.wrote(&written(namespace)));
        context.data().note(format!("{shown:?}"));
        done()
    };
    let log = Log::default();
    let controller =
        Controller::builder("t", &maps).reconcile_on(asked).build(log.clone(), reconcile).unwrap();
    let _running = Running::start(controller);
    ask.unbounded_send(key("default/x")).unwrap();
    assert_eq!(log.next(1).await, ["[false, false]"]);
    let lines = logs.take().join("\n");
    for why in ["the label selector `app=web` excludes it", "namespace `other` is not watched"] {
        assert!(lines.contains(why), "{why}: {lines}");
    }
}
