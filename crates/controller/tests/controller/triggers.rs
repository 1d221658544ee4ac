//! Which changes queue which keys.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::*;
use futures::StreamExt;
use futures::channel::mpsc;
use kube_informer::{Index, Key};
use kube_informer_controller::{
    BuildError, Context, Controller, ControllerBuilder, Predicate, Trigger, children,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

#[tokio::test(start_paused = true)]
async fn c1_child_changes_reconcile_the_owner() {
    let world = World::new();
    world.maps.put(named("a"));
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let (_running, log) = noting(Controller::builder("t", &maps).owns(&pods));
    assert_eq!(log.next(1).await, ["web/a"]);

    world.pods.put(owned("child", &["a"]));
    assert_eq!(log.next(1).await, ["web/a"]);
    world.pods.put(owned("child", &["a", "b"]));
    let mut both = log.next(2).await;
    both.sort();
    assert_eq!(
        both,
        ["web/a", "web/b"],
        "an owner that is not cached is queued too: it may have been re-created"
    );
    let lister = pods.lister();
    assert_eq!(children(&lister, "uid-of-b").unwrap()[0].key(), key("web/child"));
    world.pods.delete("web/child");
    assert_eq!(log.next(2).await.len(), 2);
    world.pods.put(named("stranger"));
    let mut other_kind = owned("cousin", &["a"]);
    other_kind["metadata"]["ownerReferences"][0]["apiVersion"] = json!("example.com/v1");
    world.pods.put(other_kind);
    settle().await;
    assert!(log.take().is_empty(), "no config map owns the pods");
}

#[tokio::test(start_paused = true)]
async fn c1_a_change_of_owner_reconciles_both_owners() {
    let world = World::new();
    world.pods.put(owned("child", &["old"]));
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let (_running, log) = noting(Controller::builder("t", &maps).owns(&pods));
    assert_eq!(log.next(1).await, ["web/old"]);
    world.pods.put(owned("child", &["new"]));
    assert_eq!(log.next(2).await, ["web/new", "web/old"]);
}

#[tokio::test(start_paused = true)]
async fn c1_a_deletion_found_by_a_relist_reconciles_the_owner() {
    let world = World::new();
    world.pods.put(owned("child", &["a"]));
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let (_running, log) = noting(Controller::builder("t", &maps).owns(&pods));
    assert_eq!(log.next(1).await, ["web/a"]);
    settle().await;
    world.pods.close_watches();
    world.pods.delete("web/child");
    world.pods.compact();
    assert_eq!(log.next(1).await, ["web/a"]);
    assert_eq!(pods.lister().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_is_found_from_a_namespace() {
    let world = World::new();
    world.maps.put(json!({"metadata": {"name": "wide"}}));
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let (_running, log) = noting(Controller::builder("t", &maps).owns(&pods));
    assert_eq!(log.next(1).await, ["wide"]);
    world.pods.put(owned("child", &["wide"]));
    assert_eq!(log.next(1).await, ["wide"]);
}

#[tokio::test(start_paused = true)]
async fn c1_other_kinds_are_mapped_by_a_function_or_an_index() {
    let world = World::new();
    let refers =
        |name: &str, to: &str| json!({"metadata": {"namespace": "web", "name": name}, "data": {"pod": to}});
    for (name, to) in [("a", "one"), ("b", "one"), ("c", "two")] {
        world.maps.put(refers(name, to));
    }
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let by_pod = Index::field("pod", "data.pod");
    let (_running, log) = noting(
        Controller::builder("t", &maps)
            .watches(&pods, |pod| pod.labels().get("names").map(|name| Key::new("web", &name)))
            .watches_related(&pods, &by_pod, |pod| [pod.name().to_owned()]),
    );
    assert_eq!(log.next(3).await.len(), 3);
    let names = |name: &str, whom: &str| json!({"metadata": {"namespace": "web", "name": name, "labels": {"names": whom}}});
    let expect = async |what: &str, mut keys: Vec<&str>| {
        let mut received = log.next(keys.len()).await;
        settle().await;
        received.extend(log.take());
        received.sort();
        received.dedup();
        keys.sort_unstable();
        assert_eq!(received, keys, "{what}");
    };
    world.pods.put(named("one"));
    expect("by the index", vec!["web/a", "web/b"]).await;
    world.pods.put(names("three", "z"));
    expect("by the function", vec!["web/z"]).await;
    world.pods.put(names("three", "y"));
    expect("what is no longer so", vec!["web/y", "web/z"]).await;
    world.maps.put(refers("a", "three"));
    expect("itself", vec!["web/a"]).await;
    world.pods.delete("web/three");
    expect("by both", vec!["web/a", "web/y"]).await;
}

#[tokio::test(start_paused = true)]
async fn streams_queue_one_key_or_all_keys() {
    let world = World::new();
    world.maps.put(named("a"));
    world.maps.put(named("b"));
    let maps = world.map_informer();
    let (ask_one, one) = mpsc::unbounded();
    let (ask_all, all) = mpsc::unbounded::<()>();
    let (_running, log) = noting(Controller::builder("t", &maps).reconcile_on(one).reconcile_all_on(all));
    assert_eq!(log.next(2).await.len(), 2);
    ask_one.unbounded_send(key("web/elsewhere")).unwrap();
    assert_eq!(log.next(1).await, ["web/elsewhere"]);
    ask_all.unbounded_send(()).unwrap();
    let mut all = log.next(2).await;
    all.sort();
    assert_eq!(all, ["web/a", "web/b"]);
    drop(ask_one);
    ask_all.unbounded_send(()).unwrap();
    assert_eq!(log.next(2).await.len(), 2, "the end of one stream is not that of another");
}

#[tokio::test(start_paused = true)]
async fn a_finished_stream_does_not_stop_the_controller() {
    let world = World::new();
    let maps = world.map_informer();
    let keys = futures::stream::iter(["web/x"].map(key)).boxed();
    let (_running, log) = noting(Controller::builder("t", &maps).reconcile_on(keys));
    assert_eq!(log.next(1).await, ["web/x"]);
    world.maps.put(named("a"));
    assert_eq!(log.next(1).await, ["web/a"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_always_ready_yields_to_other_tasks() {
    const KEYS: usize = 5_000;
    let world = World::new();
    let maps = world.map_informer();
    let (turns, done) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
    let bystander = tokio::spawn({
        let turns = turns.clone();
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    let keys = futures::stream::iter(0..KEYS).map({
        let (turns, done, mut before) = (turns.clone(), done.clone(), 0);
        move |number| {
            match number {
                0 => before = turns.load(Ordering::Relaxed),
                _ if number + 1 == KEYS => {
                    turns.fetch_sub(before, Ordering::Relaxed);
                    done.notify_one();
                }
                _ => {}
            }
            key("web/x")
        }
    });
    let (_running, _log) = noting(Controller::builder("t", &maps).reconcile_on(keys));
    done.notified().await;
    bystander.abort();
    assert!(turns.load(Ordering::Relaxed) >= 30, "{turns:?} turns while {KEYS} keys came");
}

#[tokio::test(start_paused = true)]
async fn predicates_filter_updates() {
    type Wanted = Predicate<k8s_openapi::api::core::v1::ConfigMap>;
    let object = |generation: i64, label: &str, note: &str| -> Value {
        json!({"metadata": {"namespace": "web", "name": "a", "generation": generation, "labels": {"l": label},
                            "annotations": {"note": note}}})
    };
    let first = || object(1, "x", "");
    let generation = Wanted::generation_changed;
    let (labels, version) = (Wanted::labels_changed, Wanted::resource_version_changed);
    let cases = [
        ("generation", generation(), object(2, "x", ""), true),
        ("generation", generation(), object(1, "y", "n"), false),
        ("generation, of a kind without", generation(), object(0, "x", "n"), true),
        ("labels", labels(), object(1, "y", ""), true),
        ("labels", labels(), object(2, "x", "n"), false),
        ("resourceVersion", version(), object(1, "x", "n"), true),
        ("either", generation().or(labels()), object(1, "y", ""), true),
        ("either", generation().or(labels()), object(1, "x", "n"), false),
        ("both", generation().and(labels()), object(1, "y", ""), false),
        ("both", generation().and(labels()), object(2, "y", ""), true),
    ];
    for (number, (name, predicate, then, passes)) in cases.into_iter().enumerate() {
        let world = World::new();
        let mut before = first();
        if name.ends_with("without") {
            before["metadata"]["generation"] = json!(0);
        }
        world.maps.put(before);
        let maps = world.map_informer();
        let (_running, log) = noting(Controller::builder("t", Trigger::on(&maps).when(predicate)));
        assert_eq!(log.next(1).await, ["web/a"], "an addition counts");
        world.maps.put(then);
        settle().await;
        assert_eq!(!log.take().is_empty(), passes, "{number}: {name}");
        world.maps.delete("web/a");
        assert_eq!(log.next(1).await, ["web/a"], "a deletion counts");
    }
}

#[tokio::test(start_paused = true)]
async fn resyncs_pass_except_for_resource_version_changed() {
    for (predicate, passes) in [
        (Predicate::generation_changed(), true),
        (Predicate::labels_changed(), true),
        (Predicate::resource_version_changed(), false),
    ] {
        let world = World::new();
        world.maps.put(json!({"metadata": {"namespace": "web", "name": "a", "generation": 1}}));
        let maps = kube_informer::Informer::<k8s_openapi::api::core::v1::ConfigMap>::from_source(Arc::new(
            world.maps.clone(),
        ));
        let maps = maps.resync(std::time::Duration::from_secs(60)).start().unwrap();
        let (_running, log) = noting(Controller::builder("t", Trigger::on(&maps).when(predicate)));
        log.next(1).await;
        tokio::time::sleep(std::time::Duration::from_secs(61)).await;
        assert_eq!(!log.take().is_empty(), passes);
    }
}

#[tokio::test(start_paused = true)]
async fn build_rejects_invalid_settings() {
    let world = World::new();
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let build = |builder: ControllerBuilder<_>| builder.build((), async |_, _: Key| done()).unwrap_err();
    let error = build(Controller::builder("t", &maps).concurrency(0));
    assert!(matches!(error, BuildError::NoWorkers { .. }), "{error}");
    let no_path = Index::field("x", "spec..x");
    let error = build(Controller::builder("t", &maps).watches_related(&pods, &no_path, |_| []));
    assert!(matches!(error, BuildError::Index { .. }), "{error}");
    pods.shutdown().await;
    let error = build(Controller::builder("t", &maps).owns(&pods));
    assert!(matches!(error, BuildError::Informer { .. }), "{error}");
    assert!(
        error.to_string().starts_with("cannot build controller `t`: pod: the informer was stopped"),
        "{error}"
    );
}

/// More changes than a listener's backlog holds before a handler's would be coalesced.
const FLOOD: usize = 10_100;

/// Runs a controller whose only worker is busy and whose queue is full until permits are added.
fn blocked<M: Send + Sync + 'static>(builder: ControllerBuilder<M>) -> (Running, Log, Arc<Semaphore>) {
    let (log, turns) = (Log::default(), Arc::new(Semaphore::new(0)));
    let reconcile = {
        let turns = turns.clone();
        move |context: Context<Log>, key: Key| {
            let turns = turns.clone();
            async move {
                turns.acquire().await.unwrap().forget();
                context.data().note(key);
                done()
            }
        }
    };
    let controller = builder.queue_capacity(1).build(log.clone(), reconcile).unwrap();
    (Running::start(controller), log, turns)
}

/// Waits until all of these keys were reconciled.
async fn all_reconciled(log: &Log, mut expected: HashSet<&str>) {
    while !expected.is_empty() {
        let wait = tokio::time::timeout(std::time::Duration::from_secs(3600), log.next(1)).await;
        let Ok(lines) = wait else { panic!("never reconciled: {expected:?}") };
        for key in &lines {
            expected.remove(key.as_str());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c1_owners_in_intermediate_states_are_reconciled_with_a_full_queue() {
    let world = World::new();
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let (_running, log, turns) = blocked(Controller::builder("t", &maps).owns(&pods));
    for name in ["busy", "queued", "waiting"] {
        world.maps.put(named(name));
        settle().await;
    }
    world.pods.put(owned("moving", &["first"]));
    settle().await;
    world.pods.put(owned("brief", &["brief-owner"]));
    world.pods.put(owned("moving", &["between"]));
    world.pods.delete("web/brief");
    world.pods.put(owned("moving", &["last"]));
    for _ in 0..FLOOD {
        world.pods.put(named("noise"));
    }
    settle().await;
    turns.add_permits(1000);
    let expected = ["web/brief-owner", "web/first", "web/between", "web/last"];
    all_reconciled(&log, expected.into()).await;
}

#[tokio::test(start_paused = true)]
async fn c1_a_recreated_object_with_the_same_generation_is_reconciled() {
    let world = World::new();
    let object = |note: &str| json!({"metadata": {"namespace": "web", "name": "a", "uid": "one", "generation": 1, "annotations": {"note": note}}});
    world.maps.put(object("there"));
    let maps = world.map_informer();
    let watch = Trigger::on(&maps).when(Predicate::generation_changed());
    let (_running, log, turns) = blocked(Controller::builder("t", watch));
    turns.add_permits(1);
    assert_eq!(log.next(1).await, ["web/a"]);
    for name in ["busy", "queued", "waiting"] {
        world.maps.put(named(name));
        settle().await;
    }
    world.maps.delete("web/a");
    world.maps.put(object("there again"));
    for _ in 0..FLOOD {
        world.maps.put(named("noise"));
    }
    settle().await;
    turns.add_permits(1000);
    all_reconciled(&log, ["web/a"].into()).await;
}

#[tokio::test(start_paused = true)]
async fn c1_a_panicking_mapping_function_loses_only_unreturned_keys() {
    let world = World::new();
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let (_running, log) = noting(Controller::builder("t", &maps).watches(&pods, |pod| {
        let label = pod.labels().get("names").map(|name| name.into_owned());
        assert_ne!(label.as_deref(), Some("clumsy"), "the mapping function panics");
        label.map(|name| Key::new("web", &name))
    }));
    let names =
        |whom: &str| json!({"metadata": {"namespace": "web", "name": "p", "labels": {"names": whom}}});
    world.pods.put(names("before"));
    assert_eq!(log.next(1).await, ["web/before"]);
    world.pods.put(names("clumsy"));
    assert_eq!(log.next(1).await, ["web/before"], "the old state is mapped all the same");
    world.pods.put(names("after"));
    assert_eq!(log.next(1).await, ["web/after"]);
}

#[tokio::test(start_paused = true)]
async fn c1_related_objects_are_in_the_namespace_of_the_changed_object() {
    let world = World::new();
    let refers = |namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name}, "data": {"pod": "shared"}});
    world.maps.put(refers("web", "a"));
    world.maps.put(refers("shop", "b"));
    world.maps.put(refers("", "wide"));
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let by_pod = Index::field("pod", "data.pod");
    let builder = Controller::builder("t", &maps);
    let (_running, log) = noting(builder.watches_related(&pods, &by_pod, |pod| [pod.name().to_owned()]));
    log.next(3).await;
    let reconciled = async || {
        settle().await;
        let mut keys = log.take();
        keys.sort();
        keys
    };
    world.pods.put(json!({"metadata": {"namespace": "web", "name": "shared"}}));
    assert_eq!(reconciled().await, ["web/a", "wide"], "a cluster-scoped object may refer into any namespace");
    world.pods.put(json!({"metadata": {"namespace": "shop", "name": "shared"}}));
    assert_eq!(reconciled().await, ["shop/b", "wide"]);
    world.pods.put(json!({"metadata": {"name": "shared"}}));
    assert_eq!(reconciled().await, ["shop/b", "web/a", "wide"], "a cluster-scoped one concerns all");
}

#[tokio::test(start_paused = true)]
async fn an_index_error_names_its_informer() {
    let world = World::new();
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    maps.add_index(&Index::label("taken", "x")).unwrap();
    for (index, why) in [
        (Index::field("x", "spec..x"), "invalid index `x`"),
        (Index::field("taken", "data.x"), "cannot add index `taken`: the name is taken"),
    ] {
        let builder = Controller::builder("t", &maps).watches_related(&pods, &index, |_| []);
        let error = builder.build((), async |_, _: Key| done()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot build controller `t`: configmap: {why}")), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_index_can_be_added_repeatedly() {
    let by_initial = || Index::by("initial", |map| map.name().chars().next().map(String::from));
    let world = World::new();
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    maps.ensure_index(&by_initial()).unwrap();
    let builder = Controller::builder("t", &maps).watches_related(&pods, &by_initial(), |_| []);
    drop(builder.build((), async |_, _: Key| done()).unwrap());

    let by_suffix =
        |suffix: &'static str| Index::by("suffix", move |map| map.name().ends_with(suffix).then(String::new));
    maps.ensure_index(&by_suffix("x")).unwrap();
    assert!(maps.ensure_index(&by_suffix("y")).is_err(), "the function captures another value");
}
