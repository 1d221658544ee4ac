//! A key that has written is not reconciled on a state from before.

use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube_informer::{Informer, Key};
use kube_informer_controller::{Action, Context, Controller, Predicate, Watch};
use serde_json::json;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

struct Data {
    log: Log,
    maps: Informer<ConfigMap>,
    world: Arc<World>,
}

/// A map as the server gives it back after a write that will be at this resourceVersion.
fn map_at(name: &str, version: &str) -> ConfigMap {
    serde_json::from_value(
        json!({"metadata": {"namespace": "web", "name": name, "resourceVersion": version}}),
    )
    .unwrap()
}

/// Notes the version that the cache shows. With an annotation it says that it wrote the version named there.
async fn note(context: Context<Data>, key: Key) -> Result<Action, kube_informer_controller::Error> {
    let data = context.data();
    let Some(map) = data.maps.lister().get(&key) else { return Ok(Action::Done) };
    let map = map.decode()?;
    data.log.note(format!(
        "{} at {}",
        key.name(),
        map.metadata.resource_version.as_deref().unwrap_or_default()
    ));
    if let Some(wrote) = map.metadata.annotations.as_ref().and_then(|annotations| annotations.get("wrote")) {
        context.wrote(&map_at(key.name(), wrote))?;
    }
    Ok(Action::Done)
}

fn start(world: &Arc<World>, when: Option<Predicate<ConfigMap>>) -> (Running, Log) {
    let maps = world.map_informer();
    let log = Log::default();
    let data = Data { log: log.clone(), maps: maps.clone(), world: world.clone() };
    let watch = when.into_iter().fold(Watch::on(&maps), |watch, predicate| watch.when(predicate));
    let controller = Controller::builder("t", watch).write_wait_max(30 * SECOND);
    (Running::start(controller.build(data, note).unwrap()), log)
}

fn writes(name: &str, version: u32) -> serde_json::Value {
    json!({"metadata": {"namespace": "web", "name": name, "generation": 1, "annotations": {"wrote": version.to_string()}}})
}

#[tokio::test(start_paused = true)]
async fn a_key_is_put_off_until_the_cache_shows_its_write_and_the_worker_goes_on() {
    let world = Arc::new(World::new());
    let (_running, log) = start(&world, None);
    world.maps.put(writes("a", 104)); // 101; its reconcile writes 104
    assert_eq!(log.next(1).await, ["a at 101"]);
    world.maps.put(named("a")); // 102: an event from before the write
    world.maps.put(named("b")); // 103: the only worker is free for it
    assert_eq!(log.next(1).await, ["b at 103"]);
    settle().await;
    assert!(log.take().is_empty(), "a is put off");
    world.maps.put(named("a")); // 104
    assert_eq!(log.next(1).await, ["a at 104"]);
    sleep(60 * SECOND).await;
    assert!(log.take().is_empty(), "and not once more when the limit is over");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_does_not_show_up_is_waited_for_no_longer_than_the_limit() {
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
async fn the_longest_duration_is_as_good_as_for_ever() {
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
            Ok(Action::RequeueAfter(Duration::MAX))
        })
        .unwrap();
    let running = Running::start(controller);
    assert_eq!(log.next(1).await, ["a at 101"]);
    world.maps.put(named("a"));
    sleep(3600 * SECOND).await;
    assert!(log.take().is_empty(), "it waits for its write, and has not failed");
    running.stop.stop();
    running.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_releases_its_key_though_a_predicate_leaves_its_event_out() {
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
async fn a_key_that_is_not_wanted_is_not_reconciled_when_its_write_shows_up() {
    let world = Arc::new(World::new());
    let (_running, log) = start(&world, Some(Predicate::generation_changed()));
    world.maps.put(writes("a", 102));
    assert_eq!(log.next(1).await, ["a at 101"]);
    world.maps.put(json!({"metadata": {"namespace": "web", "name": "a", "generation": 1}}));
    sleep(60 * SECOND).await;
    assert!(log.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_meanwhile_releases_the_key() {
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
async fn children_can_be_waited_for_and_what_nobody_watches_cannot() {
    let world = Arc::new(World::new());
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let log = Log::default();
    let data = Data { log: log.clone(), maps: maps.clone(), world: world.clone() };
    let pod_lister = pods.lister();
    // Makes a child if there is none: without waiting for its own write, it would make a second.
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
                context.wrote(&serde_json::from_value::<Pod>(child)?)?;
                let node = serde_json::from_value::<Node>(json!({"metadata": {"name": "n"}}))?;
                data.log.note(context.wrote(&node).unwrap_err());
            }
            Ok(Action::RequeueAfter(Duration::from_millis(1)))
        }
    };
    let controller = Controller::builder("t", &maps).owns(&pods).build(data, reconcile).unwrap();
    let _running = Running::start(controller);
    world.maps.put(named("a"));
    let lines = log.next(3).await;
    let refused = "Node `n` was written, but no informer of this controller shows it: watch the kind, or leave `wrote` out";
    assert_eq!(lines, ["0 children", refused, "1 children"]);
}
