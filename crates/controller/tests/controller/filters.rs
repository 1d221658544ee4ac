//! Filters, predicates of creations and deletions, references, and controlling owners.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::*;
use embedded_apiserver::Server;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{DynamicObject, Selector};
use kube_informer::testing::ScriptedSource;
use kube_informer::{Informer, Key, Object};
use kube_informer_controller::{
    Action, BuildError, Context, Controller, ControllerBuilder, Error, Filter, Predicate, Trigger,
};
use serde_json::{Value, json};
use tokio::time::sleep;

/// A map of a class, by label, annotation and field.
fn of_class(name: &str, class: &str) -> Value {
    json!({"metadata": {"namespace": "web", "name": name, "labels": {"class": class}, "annotations": {"class": class}},
           "data": {"class": class}})
}

/// Waits until nothing more happens; returns the keys that were reconciled, sorted.
async fn reconciled(log: &Log) -> Vec<String> {
    settle().await;
    let mut keys = log.take();
    keys.sort();
    keys
}

#[tokio::test(start_paused = true)]
async fn c1_a_filter_restricts_a_controller_to_its_class() {
    type Of = Filter<ConfigMap>;
    for filter in [
        Of::labels("class=ours"),
        Of::labels(Selector::from_iter([("class", "ours")])),
        Of::labels(&LabelSelector {
            match_labels: Some([("class".to_owned(), "ours".to_owned())].into()),
            ..LabelSelector::default()
        }),
        Of::annotation("class", "ours"),
        Of::field("data.class", "ours"),
        Of::new(|map| map.labels().get("class").as_deref() == Some("ours")),
        Of::labels("class!=ours").negated(),
        Of::labels("class").and(Of::field("data.class", "ours")),
    ] {
        let world = World::new();
        world.maps.put(of_class("a", "ours"));
        world.maps.put(of_class("b", "other"));
        let (maps, pods) = (world.map_informer(), world.pod_informer());
        let trigger = Trigger::on(&maps).only(filter.clone());
        let (_running, log) = noting(Controller::builder("t", trigger).owns(&pods));
        assert_eq!(log.next(1).await, ["web/a"]);
        assert!(reconciled(&log).await.is_empty(), "{filter:?}: b is of another class");
        world.maps.put(of_class("b", "ours"));
        assert_eq!(reconciled(&log).await, ["web/b"], "it enters");
        world.maps.put(of_class("a", "other"));
        assert_eq!(reconciled(&log).await, ["web/a"], "it leaves: once");
        world.maps.put(of_class("a", "another"));
        assert!(reconciled(&log).await.is_empty());
        world.pods.put(owned("child", &["a", "b", "gone"]));
        assert_eq!(
            reconciled(&log).await,
            ["web/b", "web/gone"],
            "a child of another class's object does not count"
        );
        world.maps.delete("web/a");
        assert!(reconciled(&log).await.is_empty());
        world.maps.delete("web/b");
        assert_eq!(reconciled(&log).await, ["web/b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn c1_a_deletion_is_reconciled_although_a_new_object_of_another_class_has_the_name() {
    let world = World::new();
    world.maps.put(of_class("a", "ours"));
    let maps = world.map_informer();
    let trigger = Trigger::on(&maps).only(Filter::labels("class=ours"));
    let (_running, log) = noting(Controller::builder("t", trigger));
    assert_eq!(log.next(1).await, ["web/a"]);
    world.maps.delete("web/a");
    world.maps.put(of_class("a", "other"));
    assert_eq!(reconciled(&log).await, ["web/a"], "the object of our class was deleted");
    world.maps.put(of_class("a", "another"));
    assert!(reconciled(&log).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_filter_on_a_child_trigger_restricts_it_to_some_children() {
    let world = World::new();
    let child = |name: &str, class: &str| {
        let mut child = owned(name, &["a"]);
        child["metadata"]["labels"] = json!({"class": class});
        child
    };
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let trigger = Trigger::on(&pods).only(Filter::labels("class=ours"));
    let (_running, log) = noting(Controller::builder("t", &maps).owns(trigger));
    settle().await;
    world.pods.put(child("x", "other"));
    assert!(reconciled(&log).await.is_empty(), "it is of another class");
    world.pods.put(child("x", "ours"));
    assert_eq!(reconciled(&log).await, ["web/a"], "it enters");
    let mut changed = child("x", "ours");
    changed["spec"] = json!({"nodeName": "n"});
    world.pods.put(changed);
    assert_eq!(reconciled(&log).await, ["web/a"], "it changes");
    world.pods.put(child("x", "other"));
    assert_eq!(reconciled(&log).await, ["web/a"], "it leaves");
    world.pods.delete("web/x");
    assert!(reconciled(&log).await.is_empty(), "its deletion is that of another class");
    // The main kind is not filtered.
    world.maps.put(of_class("a", "other"));
    assert_eq!(reconciled(&log).await, ["web/a"]);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_filter_on_a_child_trigger_loses_no_key() {
    let (logs, _guard) = capture_logs_of("kube_informer::");
    let world = World::new();
    let child = |name: &str, class: &str, owner: &str| {
        let mut child = owned(name, &[owner]);
        child["metadata"]["labels"] = json!({"class": class});
        child
    };
    let filter = Filter::new(|pod: &Object<Pod>| {
        let class = pod.labels().get("class").map(|class| class.into_owned());
        assert_ne!(class.as_deref(), Some("odd"), "an odd class");
        class.as_deref() == Some("ours")
    });
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let (_running, log) = noting(Controller::builder("t", &maps).owns(Trigger::on(&pods).only(filter)));
    settle().await;
    world.pods.put(child("x", "ours", "a"));
    assert_eq!(reconciled(&log).await, ["web/a"]);
    world.pods.put(child("x", "odd", "b"));
    assert_eq!(reconciled(&log).await, ["web/a", "web/b"], "both owners");
    world.pods.put(child("x", "other", "b"));
    assert_eq!(reconciled(&log).await, ["web/b"], "it may have passed before");
    world.pods.put(child("y", "odd", "c"));
    assert_eq!(reconciled(&log).await, ["web/c"]);
    world.pods.delete("web/y");
    assert_eq!(reconciled(&log).await, ["web/c"]);
    let panics = logs.take().into_iter().filter(|line| line.contains("an odd class")).count();
    assert_eq!(panics, 2, "each panic is reported once");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_filter_on_the_main_trigger_loses_no_key() {
    let world = World::new();
    let panics = Arc::new(AtomicUsize::new(0));
    let filter = {
        let panics = panics.clone();
        Filter::new(move |map: &Object<ConfigMap>| {
            let left = || panics.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
            assert!(map.name() != "odd" || left().is_err(), "an odd object");
            true
        })
    };
    let maps = world.map_informer();
    let (_running, log) = noting(Controller::builder("t", Trigger::on(&maps).only(filter)));
    settle().await;
    // In the listener only.
    panics.store(1, Relaxed);
    world.maps.put(of_class("odd", "1"));
    assert_eq!(reconciled(&log).await, ["web/odd"]);
    // In the worker, too: it cannot determine whether the key passes the filter, and tries again later.
    panics.store(2, Relaxed);
    world.maps.put(of_class("odd", "2"));
    world.maps.put(of_class("even", "1"));
    assert_eq!(reconciled(&log).await, ["web/even"], "another key is not affected");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(reconciled(&log).await, ["web/odd"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_left_its_class_is_retried_until_it_succeeds() {
    let world = World::new();
    world.maps.put(of_class("a", "ours"));
    let maps = world.map_informer();
    let log = Log::default();
    let reconcile = {
        let maps = maps.lister();
        move |context: Context<Log>, key: Key| {
            let is_ours =
                maps.get(&key).is_some_and(|map| map.labels().get("class").as_deref() == Some("ours"));
            async move {
                context.data().note(format!("{is_ours} {}", context.failures()));
                if is_ours || context.failures() == 2 { done() } else { Err(Error::new("not yet")) }
            }
        }
    };
    let trigger = Trigger::on(&maps).only(Filter::labels("class=ours"));
    let _running = Running::start(Controller::builder("t", trigger).build(log.clone(), reconcile).unwrap());
    assert_eq!(log.next(1).await, ["true 0"]);
    world.maps.put(of_class("a", "other"));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(log.take(), ["false 0", "false 1", "false 2"]);
}

#[tokio::test(start_paused = true)]
async fn c1_a_key_that_left_its_class_is_requeued_on_request() {
    let world = World::new();
    world.maps.put(of_class("a", "ours"));
    let maps = world.map_informer();
    let log = Log::default();
    let reconcile = {
        let (maps, turns) = (maps.lister(), AtomicUsize::new(0));
        move |context: Context<Log>, key: Key| {
            let is_ours =
                maps.get(&key).is_some_and(|map| map.labels().get("class").as_deref() == Some("ours"));
            let turn = turns.fetch_add(1, Relaxed);
            context.data().note(format!("{turn} {is_ours}"));
            // The teardown takes two more turns.
            let again = Action::RequeueAfter(Duration::from_secs(10));
            async move { Ok::<_, Error>(if is_ours || turn == 3 { Action::Done } else { again }) }
        }
    };
    let trigger = Trigger::on(&maps).only(Filter::labels("class=ours"));
    let _running = Running::start(Controller::builder("t", trigger).build(log.clone(), reconcile).unwrap());
    assert_eq!(log.next(1).await, ["0 true"]);
    world.maps.put(of_class("a", "other"));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(log.take(), ["1 false", "2 false", "3 false"]);
}

#[tokio::test(start_paused = true)]
async fn a_predicate_of_deletions_applies_to_objects_that_leave_their_class() {
    let world = World::new();
    world.maps.put(of_class("a", "ours"));
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let trigger = Trigger::on(&maps).only(Filter::labels("class=ours")).when(Predicate::deleted(|_| false));
    let (_running, log) = noting(Controller::builder("t", trigger).owns(&pods));
    assert_eq!(log.next(1).await, ["web/a"]);
    world.maps.put(of_class("a", "other"));
    assert!(reconciled(&log).await.is_empty(), "it counts as deleted");
    world.pods.put(owned("child", &["a"]));
    assert!(reconciled(&log).await.is_empty(), "it is of another class");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_filter_fails_the_build() {
    let server = Server::builder().without_socket().seed(1).start().await.unwrap();
    let maps = Informer::<ConfigMap>::builder(server.client().unwrap());
    let maps = maps.drop_fields(["metadata.annotations"]).start().unwrap();
    for (filter, reason) in [
        (Filter::labels("a=b=c"), "invalid label selector"),
        (
            Filter::annotation("example.com/class", "x"),
            "`metadata.annotations['example.com/class']`: the projection drops it",
        ),
        (Filter::field("data..x", "y"), "data..x"),
        (Filter::field("dta.x", "y"), "the object has no member `dta`"),
        (Filter::labels("a").and(Filter::field("dta.x", "y")).negated(), "the object has no member `dta`"),
    ] {
        let builder = Controller::builder("t", Trigger::on(&maps).only(filter));
        let error = builder.build((), async |_, _: Key| done()).unwrap_err();
        assert!(matches!(error, BuildError::Filter { .. }) && error.to_string().contains(reason), "{error}");
    }
}

/// A custom resource `Website` of `example.com/v1` with the field `spec.secret`.
fn definition() -> CustomResourceDefinition {
    let spec = json!({"type": "object", "properties": {"secret": {"type": "string"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let names = json!({"kind": "Website", "plural": "websites"});
    let spec = json!({"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]});
    serde_json::from_value(json!({"metadata": {"name": "websites.example.com"}, "spec": spec})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn fields_of_a_custom_resource_are_checked_at_build() {
    let source = ScriptedSource::new("example.com/v1", "Website");
    let sites = Informer::<DynamicObject>::from_source(Arc::new(source)).definition(&definition());
    let (sites, pods) = (sites.start().unwrap(), World::new().pod_informer());
    let why = "`spec` has no member `secrt` (Website of example.com/v1)";
    let build = |builder: ControllerBuilder<DynamicObject>| builder.build((), async |_, _: Key| done());
    let filtered = Trigger::on(&sites).only(Filter::field("spec.secrt", "x"));
    let error = build(Controller::builder("t", filtered)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot build controller `t`: website: invalid filter: invalid field path `spec.secrt`: {why}"
        )
    );
    let error = build(Controller::builder("t", &sites).watches_referenced(&pods, "spec.secrt")).unwrap_err();
    assert!(matches!(error, BuildError::Index { .. }) && error.to_string().contains(why), "{error}");
    let valid = Trigger::on(&sites).only(Filter::field("spec.secret", "x"));
    assert!(build(Controller::builder("t", valid).watches_referenced(&pods, "spec.secret")).is_ok());
}

#[tokio::test(start_paused = true)]
async fn predicates_filter_creations_deletions_and_annotations() {
    type Of = Predicate<ConfigMap>;
    let noted = |note: &str| json!({"metadata": {"namespace": "web", "name": "a", "annotations": {"note": note}}, "data": {"x": note}});
    let plain = |text: &str| json!({"metadata": {"namespace": "web", "name": "a", "annotations": {"note": "x"}}, "data": {"x": text}});
    let cases = [
        ("created", Of::created(|_| false), [false, true, true, true]),
        ("deleted", Of::deleted(|_| false), [true, true, true, false]),
        ("annotations", Of::annotations_changed(), [true, true, false, true]),
        ("both", Of::created(|_| false).and(Of::deleted(|_| false)), [false, true, true, false]),
        ("either", Of::created(|_| false).or(Of::deleted(|_| false)), [true, true, true, true]),
    ];
    for (name, predicate, passes) in cases {
        let world = World::new();
        let maps = world.map_informer();
        let (_running, log) = noting(Controller::builder("t", Trigger::on(&maps).when(predicate)));
        settle().await;
        let mut seen = Vec::new();
        world.maps.put(noted("x"));
        seen.push(!reconciled(&log).await.is_empty());
        world.maps.put(noted("y"));
        seen.push(!reconciled(&log).await.is_empty());
        world.maps.put(noted("x"));
        reconciled(&log).await;
        world.maps.put(plain("z"));
        seen.push(!reconciled(&log).await.is_empty());
        world.maps.delete("web/a");
        seen.push(!reconciled(&log).await.is_empty());
        assert_eq!(seen, passes, "{name}: creation, annotation, data, deletion");
    }
}

#[tokio::test(start_paused = true)]
async fn c1_references_are_followed_within_a_namespace() {
    let world = World::new();
    let refers = |namespace: &str, name: &str, to: &str| json!({"metadata": {"namespace": namespace, "name": name}, "data": {"pod": to}});
    world.maps.put(refers("web", "a", "shared"));
    world.maps.put(refers("web", "b", "other"));
    world.maps.put(refers("shop", "c", "shared"));
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let (_running, log) = noting(Controller::builder("t", &maps).watches_referenced(&pods, "data.pod"));
    log.next(3).await;
    world.pods.put(json!({"metadata": {"namespace": "web", "name": "shared"}}));
    assert_eq!(reconciled(&log).await, ["web/a"]);
    world.pods.delete("web/shared");
    assert_eq!(reconciled(&log).await, ["web/a"]);
}

#[tokio::test(start_paused = true)]
async fn c1_only_the_controlling_owner_is_reconciled_on_request() {
    let world = World::new();
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let (_running, log) = noting(Controller::builder("t", &maps).controls(&pods));
    let mut child = owned("child", &["controller", "other"]);
    child["metadata"]["ownerReferences"][1]["controller"] = json!(false);
    world.pods.put(child);
    assert_eq!(reconciled(&log).await, ["web/controller"]);
}

#[tokio::test(start_paused = true)]
async fn a_result_can_set_the_priority_of_the_next_run() {
    let world = World::new();
    for name in ["one", "two"] {
        world.maps.put(named(name));
    }
    let maps: Informer<ConfigMap> = world.map_informer();
    let log = Log::default();
    let reconcile = |context: Context<Log>, key: Key| async move {
        context.data().note(key.name());
        // The first to run asks for a lower priority than the second. Both are due while a third key keeps the worker busy.
        match key.name() {
            "busy" => sleep(Duration::from_secs(20)).await,
            _ => sleep(Duration::from_millis(1)).await,
        }
        let priority = if key.name() == "one" { -50 } else { 50 };
        match key.name() {
            "busy" => done(),
            _ => Ok::<_, Error>(Action::RequeueWith { after: Duration::from_secs(10), priority }),
        }
    };
    let controller = Controller::builder("t", &maps).build(log.clone(), reconcile).unwrap();
    let _running = Running::start(controller);
    assert_eq!(log.next(2).await, ["one", "two"]);
    world.maps.put(named("busy"));
    assert_eq!(log.next(3).await, ["busy", "two", "one"]);
}
