//! What makes a key be reconciled.

use crate::support::*;
use futures::StreamExt;
use futures::channel::mpsc;
use kube_informer::{Index, Key};
use kube_informer_controller::{BuildError, Controller, Predicate, Watch, children};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn an_owner_is_reconciled_when_a_child_is_added_changed_or_deleted() {
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
    assert_eq!(both, ["web/a", "web/b"], "of whom is not there, too: it may have been made anew");
    let lister = pods.lister();
    assert_eq!(children(&lister, "uid-of-b").unwrap()[0].key(), key("web/child"));
    world.pods.delete("web/child");
    assert_eq!(log.next(2).await.len(), 2);
    world.pods.put(named("stranger"));
    let mut other_kind = owned("cousin", &["a"]);
    other_kind["metadata"]["ownerReferences"][0]["apiVersion"] = json!("example.com/v1");
    world.pods.put(other_kind);
    settle().await;
    assert!(log.take().is_empty(), "neither is owned by a config map");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_changes_owners_tells_both() {
    let world = World::new();
    world.pods.put(owned("child", &["old"]));
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let (_running, log) = noting(Controller::builder("t", &maps).owns(&pods));
    assert_eq!(log.next(1).await, ["web/old"]);
    world.pods.put(owned("child", &["new"]));
    assert_eq!(log.next(2).await, ["web/new", "web/old"]);
}

#[tokio::test(start_paused = true)]
async fn a_childs_deletion_finds_its_owner_even_when_only_a_relist_tells() {
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
async fn other_objects_are_mapped_by_a_function_or_by_an_index_of_the_main_kind() {
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
            .watches(&pods, |pod| pod.labels().get("tell").map(|name| Key::new("web", &name)))
            .watches_related(&pods, &by_pod, |pod| [pod.name().to_owned()]),
    );
    assert_eq!(log.next(3).await.len(), 3);
    let tells = |name: &str, whom: &str| json!({"metadata": {"namespace": "web", "name": name, "labels": {"tell": whom}}});
    let expect = async |what: &str, mut keys: Vec<&str>| {
        let mut told = log.next(keys.len()).await;
        settle().await;
        told.extend(log.take());
        told.sort();
        told.dedup();
        keys.sort_unstable();
        assert_eq!(told, keys, "{what}");
    };
    world.pods.put(named("one"));
    expect("by the index", vec!["web/a", "web/b"]).await;
    world.pods.put(tells("three", "z"));
    expect("by the function", vec!["web/z"]).await;
    world.pods.put(tells("three", "y"));
    expect("what is no longer so", vec!["web/y", "web/z"]).await;
    world.maps.put(refers("a", "three"));
    expect("itself", vec!["web/a"]).await;
    world.pods.delete("web/three");
    expect("by both", vec!["web/a", "web/y"]).await;
}

#[tokio::test(start_paused = true)]
async fn streams_ask_for_one_or_for_all() {
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
async fn a_stream_that_ends_leaves_the_rest_running() {
    let world = World::new();
    let maps = world.map_informer();
    let keys = futures::stream::iter(["web/x"].map(key)).boxed();
    let (_running, log) = noting(Controller::builder("t", &maps).reconcile_on(keys));
    assert_eq!(log.next(1).await, ["web/x"]);
    world.maps.put(named("a"));
    assert_eq!(log.next(1).await, ["web/a"]);
}

#[tokio::test(start_paused = true)]
async fn predicates_say_which_updates_count() {
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
        let (_running, log) = noting(Controller::builder("t", Watch::on(&maps).when(predicate)));
        assert_eq!(log.next(1).await, ["web/a"], "an addition counts");
        world.maps.put(then);
        settle().await;
        assert_eq!(!log.take().is_empty(), passes, "{number}: {name}");
        world.maps.delete("web/a");
        assert_eq!(log.next(1).await, ["web/a"], "a deletion counts");
    }
}

#[tokio::test(start_paused = true)]
async fn resyncs_pass_unless_a_changed_resource_version_is_asked_for() {
    for (predicate, passes) in [
        (Predicate::generation_changed(), true),
        (Predicate::labels_changed(), true),
        (Predicate::resource_version_changed(), false),
    ] {
        let world = World::new();
        world.maps.put(json!({"metadata": {"namespace": "web", "name": "a", "generation": 1}}));
        let maps = kube_informer::Informer::<k8s_openapi::api::core::v1::ConfigMap>::from_source(
            std::sync::Arc::new(world.maps.clone()),
        );
        let maps = maps.resync(std::time::Duration::from_secs(60)).start().unwrap();
        let (_running, log) = noting(Controller::builder("t", Watch::on(&maps).when(predicate)));
        log.next(1).await;
        tokio::time::sleep(std::time::Duration::from_secs(61)).await;
        assert_eq!(!log.take().is_empty(), passes);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_work_is_told_when_it_is_built() {
    let world = World::new();
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let build = |builder: kube_informer_controller::ControllerBuilder<_>| {
        builder.build((), async |_, _: Key| Ok(kube_informer_controller::Action::Done)).unwrap_err()
    };
    let error = build(Controller::builder("t", &maps).concurrency(0));
    assert!(matches!(error, BuildError::NoWorkers { .. }), "{error}");
    let no_path = Index::field("x", "spec..x");
    let error = build(Controller::builder("t", &maps).watches_related(&pods, &no_path, |_| []));
    assert!(matches!(error, BuildError::Index { .. }), "{error}");
    pods.shutdown().await;
    let error = build(Controller::builder("t", &maps).owns(&pods));
    assert!(matches!(error, BuildError::Informer { .. }), "{error}");
    assert!(error.to_string().starts_with("controller `t`: pod: the informer was stopped"), "{error}");
}
