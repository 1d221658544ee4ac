//! Starting, reading and waiting: the use of an informer in addition to listening.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_client::Client;
use kube_client::client::Body;
use kube_core::metadata::PartialObjectMeta;
use kube_core::{ApiResource, GroupVersionKind, Selector};
use kube_informer::{Index, IndexError, Informer, InformerBuilder, Key, StartError, SyncError, WaitError};
use parking_lot::Mutex;
use serde_json::json;
use support::informers::*;
use support::*;

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

fn names(objects: &[kube_informer::Object<Pod>]) -> Vec<String> {
    let mut names = objects.iter().map(|object| object.key().to_string()).collect::<Vec<_>>();
    names.sort();
    names
}

/// A client whose server records its requests (path, selectors, Accept) and forbids everything.
fn forbidding() -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let log = asked.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let selectors = request.uri().query().unwrap_or_default().split('&');
        let selectors = selectors.filter(|pair| pair.contains("Selector")).collect::<Vec<_>>().join("&");
        let accept = request.headers()["accept"].to_str().unwrap();
        log.lock().push(format!("{}?{selectors} {accept}", request.uri().path()));
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
            "reason": "Forbidden", "message": "pods is forbidden: User \"system:guest\" cannot list"});
        let answer = http::Response::builder().status(403).header("content-type", "application/json");
        futures::future::ok::<_, std::io::Error>(
            answer.body(Body::from(body.to_string().into_bytes())).unwrap(),
        )
    });
    (Client::new(service, "default"), asked)
}

#[tokio::test(start_paused = true)]
async fn parallel_decoding_equals_sequential_decoding() {
    let source = pods();
    for number in 0..20 {
        source.put(on_node(&format!("pod-{number}"), "n1"));
    }
    source.put(json!({"metadata": {"namespace": "web", "name": "odd"}, "spec": {"nodeName": 7}}));
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    let view = pods.lister().view();
    let one_by_one = view.iter().map(|object| object.decode().map_err(|error| error.to_string()));
    let one_by_one = one_by_one.collect::<Vec<_>>();
    for threads in [0, 1, 3, 100] {
        let parallel =
            view.decode_parallel(threads).into_iter().map(|value| value.map_err(|error| error.to_string()));
        assert_eq!(parallel.collect::<Vec<_>>(), one_by_one, "{threads} threads");
    }
    assert_eq!(one_by_one.iter().filter(|value| value.is_err()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lister_is_narrowed_by_namespace_labels_and_fields() {
    let source = pods();
    for (namespace, name, tier, node) in
        [("web", "a", "backend", "n1"), ("web", "b", "front", "n1"), ("db", "a", "backend", "n2")]
    {
        source.put(json!({"metadata": {"namespace": namespace, "name": name, "labels": {"tier": tier}},
                          "spec": {"nodeName": node, "containers": [{"name": "c", "image": tier}]}}));
    }
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    let all = pods.lister();
    assert_eq!(names(&all.list()), ["db/a", "web/a", "web/b"]);
    assert_eq!(names(&all.namespace("web").list()), ["web/a", "web/b"]);
    assert_eq!(names(&all.labels("tier=backend").unwrap().list()), ["db/a", "web/a"]);
    let narrow = all.namespace("web").labels("tier!=backend").unwrap();
    assert_eq!((names(&narrow.list()), narrow.count()), (vec!["web/b".to_owned()], 1));
    assert!(narrow.get(&key("web/b")).is_some() && narrow.get(&key("web/a")).is_none());
    assert_eq!(names(&all.field("spec.nodeName", "n2").unwrap().list()), ["db/a"]);
    assert_eq!(names(&all.field("spec.containers[*].image", "front").unwrap().list()), ["web/b"]);
    assert!(all.field("spec..x", "x").is_err() && all.labels("a b").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lister_rejects_fields_that_no_object_can_have() {
    let error = |pods: &Informer<Pod>, path: &str| pods.lister().field(path, "x").unwrap_err().to_string();
    let pods = informer(&pods()).start().unwrap();
    assert!(error(&pods, "spec.nodeNmae").contains("`spec` has no member `nodeNmae`"));
    assert!(error(&pods, "metadata.nothing").contains("`metadata` has no member `nothing`"));

    let (client, _) = forbidding();
    let pods = Informer::<Pod>::builder(client).drop_fields(["spec"]).memory(memory()).start().unwrap();
    assert_eq!(
        error(&pods, "spec.nodeName"),
        "invalid field path `spec.nodeName`: the projection drops it; keep it, or choose another"
    );
    assert!(pods.lister().field("status.phase", "Running").is_ok());
}

#[tokio::test(start_paused = true)]
async fn absence_is_a_condition_once_the_initial_list_is_stored() {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).start().unwrap();
    let (a, absent) = (key("web/a"), key("web/absent"));
    let mut gone = Box::pin(pods.wait_until(&a, |pod| pod.is_none()));
    let mut never_there = Box::pin(pods.wait_until(&absent, |pod| pod.is_none()));
    assert!(gone.as_mut().now_or_never().is_none(), "before the initial list, absence means nothing");
    assert!(never_there.as_mut().now_or_never().is_none());
    assert!(never_there.await.unwrap().is_none());
    assert!(pods.is_synced());
    assert!(gone.as_mut().now_or_never().is_none(), "the object exists");
    source.delete("web/a");
    assert!(gone.await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn indexes_read_fields_or_values_and_can_be_added_while_running() {
    let source = pods();
    source.put(on_node("a", "n1"));
    let by_value = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let pods = informer(&source).index_by("by value", by_value).start().unwrap();
    pods.synced().await.unwrap();
    assert_eq!(names(&pods.lister().by_index("by value", "n1").unwrap()), ["web/a"]);
    let by_node = Index::field("node", "spec.nodeName");
    assert!(matches!(pods.lister().by_index(&by_node, "n1"), Err(IndexError::Unknown(_))));
    pods.add_index(&by_node).unwrap();
    assert_eq!(names(&pods.lister().by_index(&by_node, "n1").unwrap()), ["web/a"]);
    assert!(matches!(pods.add_index(&by_node), Err(IndexError::Duplicate(_))));
    pods.ensure_index(&by_node).unwrap();
    let other = Index::label("node", "node");
    assert!(
        matches!(pods.ensure_index(&other), Err(IndexError::Duplicate(_))),
        "the index reads another field"
    );
}

#[tokio::test(start_paused = true)]
async fn own_writes_can_be_awaited() {
    let source = pods();
    let pods = informer(&source).wait_max(Duration::from_secs(5)).start().unwrap();
    pods.synced().await.unwrap();
    settle().await;
    source.put(pod("a"));
    let written: Pod = source.get(&key("web/a")).unwrap().decode().unwrap();
    let found = pods.wait_for(&written).await.unwrap().unwrap();
    assert_eq!(found.resource_version(), "101");
    let a = pods.key_in_scope(&written.metadata).unwrap();
    assert!(pods.has_seen(&a, "101") && !pods.has_seen(&a, "102"));
    assert_eq!(pods.resource().kind, "Pod");

    let mut future = written.clone();
    future.metadata.resource_version = Some("200".into());
    let error = pods.wait_for(&future).await.unwrap_err();
    assert!(matches!(error, WaitError::TimedOut { .. }), "{error}");

    // A change of another object shows that the stream has advanced that far.
    let mut waiting = Box::pin(pods.wait_for(&future));
    assert!(waiting.as_mut().now_or_never().is_none());
    for _ in 0..120 {
        source.put(pod("b"));
    }
    assert_eq!(waiting.await.unwrap().unwrap().resource_version(), "101");
}

#[tokio::test(start_paused = true)]
async fn deletions_and_conditions_can_be_awaited() {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).start().unwrap();
    let a = key("web/a");
    let mut gone = Box::pin(pods.wait_gone(&a, "uid-1"));
    assert!(gone.as_mut().now_or_never().is_none(), "before the initial list, absence means nothing");
    pods.synced().await.unwrap();
    settle().await;
    assert!(gone.as_mut().now_or_never().is_none());
    source.delete("web/a");
    source.put(pod("a"));
    gone.await.unwrap();

    let on_n7 = |pod: Option<&Pod>| pod.and_then(|pod| pod.spec.as_ref()?.node_name.as_deref()) == Some("n7");
    let mut scheduled = Box::pin(pods.wait_until(&a, on_n7));
    assert!(scheduled.as_mut().now_or_never().is_none());
    source.put(on_node("a", "n7"));
    assert_eq!(scheduled.await.unwrap().unwrap().key(), a);

    let never = pods.wait_until(&a, |_| false);
    let (never, ()) = tokio::join!(never, pods.shutdown());
    assert!(matches!(never, Err(WaitError::Stopped(_))));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_object_out_of_scope_fails_immediately() {
    let (client, _) = forbidding();
    let pods = Informer::<Pod>::builder(client)
        .memory(memory())
        .namespaces(["web"])
        .labels("tier=backend")
        .fields("metadata.name!=x");
    let pods = pods.start().unwrap();
    let written = |namespace: &str, name: &str, tier: &str| -> Pod {
        let labels = json!({"tier": tier});
        let meta = json!({"namespace": namespace, "name": name, "labels": labels, "resourceVersion": "7"});
        serde_json::from_value(json!({"metadata": meta})).unwrap()
    };
    for (pod, why) in [
        (written("db", "a", "backend"), "namespace `db` is not watched"),
        (written("web", "a", "front"), "the label selector `tier=backend` excludes it"),
        (written("web", "x", "backend"), "the field selector `metadata.name!=x` excludes it"),
    ] {
        let error = pods.wait_for(&pod).now_or_never().unwrap().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(pods.key_in_scope(&pod.metadata).unwrap_err().to_string(), error);
    }
    assert!(pods.wait_for(&written("web", "a", "backend")).now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn invalid_settings_are_rejected_before_any_request() {
    type Mistake = fn(InformerBuilder<Pod>) -> InformerBuilder<Pod>;
    let mistakes: [(Mistake, &str); 8] = [
        (|pods| pods.labels("a in"), "invalid label selector"),
        (|pods| pods.fields("spec.nodeName"), "invalid field selector"),
        (|pods| pods.drop_fields(["spec..x"]), "invalid field to drop or keep"),
        (|pods| pods.drop_fields(["spec.nodename"]), "nodename"),
        (|pods| pods.drop_fields(["status"]).keep_fields(["spec"]), "cannot both drop and keep fields"),
        (|pods| pods.index(&Index::field("node", "spec.node")), "index `node`"),
        (|pods| pods.drop_fields(["spec"]).index(&Index::field("node", "spec.nodeName")), "drops field"),
        (|pods| pods.index(&Index::label("a", "a")).index(&Index::label("a", "b")), "taken"),
    ];
    let (client, asked) = forbidding();
    for (mistake, why) in mistakes {
        let error = mistake(Informer::builder(client.clone())).start().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let given = informer(&pods()).labels("a=b").start().unwrap_err();
    assert!(matches!(given, StartError::Contradiction(_)), "{given}");
    settle().await;
    assert_eq!(*asked.lock(), [""; 0]);
}

#[test]
fn starting_without_a_runtime_is_an_error() {
    assert_eq!(informer(&pods()).start().unwrap_err(), StartError::NoRuntime);
}

#[tokio::test(start_paused = true)]
async fn requests_follow_the_type_and_the_settings() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";
    let (client, asked) = forbidding();
    let pods =
        Informer::<Pod>::builder(client.clone()).namespaces(["web", "api", "web"]).labels("tier=backend");
    let pods = pods.reflector(listing()).start().unwrap();
    let SyncError::Refused { resource, status } = pods.synced().await.unwrap_err() else { panic!() };
    assert_eq!((&*resource, status.code), ("pods in namespace web with labels tier=backend", 403));
    assert!(status.message.contains("system:guest"), "{status}");
    let path =
        |namespace| format!("/api/v1/namespaces/{namespace}/pods?labelSelector=tier%3Dbackend {PROTOBUF}");
    settle().await;
    let version = "/version? application/json".to_owned();
    assert_eq!(asked.lock()[..3], [version, path("web"), path("api")], "each namespace once");
    drop(pods);

    let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let dynamic = Informer::dynamic(client.clone(), &widgets).reflector(listing()).start().unwrap();
    dynamic.synced().await.unwrap_err();
    assert_eq!(asked.lock().pop().unwrap(), "/apis/example.com/v1/widgets? application/json");
    drop(dynamic);

    let metadata =
        Informer::<Pod>::builder(client.clone()).metadata_only().reflector(listing()).start().unwrap();
    metadata.synced().await.unwrap_err();
    let partial = asked.lock().pop().unwrap();
    assert!(
        partial.starts_with("/api/v1/pods?") && partial.contains("as=PartialObjectMetadataList"),
        "{partial}"
    );
    drop(metadata);
    let metadata = Informer::<PartialObjectMeta<Pod>>::builder(client).reflector(listing()).start().unwrap();
    metadata.synced().await.unwrap_err();
    assert_eq!(asked.lock().pop().unwrap(), partial, "the type requests it too");
}

#[tokio::test(start_paused = true)]
async fn labels_are_selected_by_text_by_kubes_selector_and_by_the_selector_of_an_object() {
    let (client, asked) = forbidding();
    let of_object: LabelSelector = serde_json::from_value(json!({
        "matchLabels": {"tier": "backend"},
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
    }))
    .unwrap();
    let kube = Selector::try_from(of_object.clone()).unwrap();
    let builder = || Informer::<Pod>::builder(client.clone()).reflector(listing());
    for builder in
        [builder().labels(&of_object), builder().labels(kube), builder().labels("tier=backend,zone in (a,b)")]
    {
        builder.start().unwrap().synced().await.unwrap_err();
        let asked = asked.lock().pop().unwrap();
        assert!(asked.contains("labelSelector=tier%3Dbackend%2Czone+in+%28a%2Cb%29 "), "{asked}");
    }
    let near = json!({"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]});
    let near: LabelSelector = serde_json::from_value(near).unwrap();
    let error = builder().labels(&near).start().unwrap_err();
    assert!(matches!(&error, StartError::Selector(_)), "{error}");

    let source = pods();
    source.put(
        json!({"metadata": {"namespace": "web", "name": "a", "labels": {"tier": "backend", "zone": "b"}}}),
    );
    source.put(json!({"metadata": {"namespace": "web", "name": "b", "labels": {"tier": "backend"}}}));
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    assert_eq!(names(&pods.lister().labels(&of_object).unwrap().list()), ["web/a"]);
    assert!(pods.lister().labels(&near).is_err());
}

#[tokio::test(start_paused = true)]
async fn an_index_cannot_replace_the_one_over_namespaces() {
    let source = pods();
    source.put(pod("a"));
    let other = Index::field("namespace", "spec.nodeName");
    let error = informer(&source).index(&other).start().unwrap_err();
    assert!(
        error.to_string().contains("cannot add index `namespace`: the name is taken; choose another"),
        "{error}"
    );

    let pods = informer(&source).index(&Index::namespace()).start().unwrap();
    pods.synced().await.unwrap();
    assert_eq!(names(&pods.lister().namespace("web").list()), ["web/a"]);
    assert!(matches!(pods.add_index(&other), Err(IndexError::Duplicate(_))));
}

#[tokio::test(start_paused = true)]
async fn concurrent_readers_share_decoded_values_while_others_drop_theirs() {
    const PODS: usize = 300;
    let source = pods();
    for number in 0..PODS {
        source.put(on_node(&format!("pod-{number}"), "n1"));
    }
    let pods = informer(&source).hot_values_max(3).start().unwrap();
    pods.synced().await.unwrap();
    let objects = pods.lister().list();
    let held = std::thread::scope(|scope| {
        // Two threads read all objects and hold the values; two hold nothing.
        let hold = |from: usize| {
            let objects = &objects;
            scope.spawn(move || {
                let (end, begin) = (&objects[from..], &objects[..from]);
                let mut values =
                    end.iter().chain(begin).map(|object| object.decode().unwrap()).collect::<Vec<_>>();
                values.rotate_right(from);
                values
            })
        };
        let holders = [0, PODS / 2].map(hold);
        for _ in 0..2 {
            scope.spawn(|| objects.iter().rev().for_each(|object| drop(object.decode().unwrap())));
        }
        holders.map(|holder| holder.join().unwrap())
    });
    for (object, (one, other)) in objects.iter().zip(held[0].iter().zip(&held[1])) {
        assert!(Arc::ptr_eq(one, other), "{object:?} was decoded twice");
        assert_eq!(one.metadata.name.as_deref(), Some(object.name()));
    }
}

#[tokio::test(start_paused = true)]
async fn promise_11_a_condition_is_checked_only_when_its_object_changes() {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    let checks = AtomicUsize::new(0);
    let a = key("web/a");
    let mut waiting = Box::pin(pods.wait_until(&a, |pod| {
        checks.fetch_add(1, Ordering::Relaxed);
        pod.is_some_and(|pod| pod.spec.is_some())
    }));
    for number in 0..50 {
        assert!(waiting.as_mut().now_or_never().is_none());
        source.put(pod(&format!("other-{number}")));
        settle().await;
    }
    assert_eq!(checks.load(Ordering::Relaxed), 1);
    source.put(on_node("a", "n7"));
    waiting.await.unwrap();
    assert_eq!(checks.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn promise_11_a_deletion_can_be_awaited_before_its_creation_is_seen() {
    let source = pods();
    let pods = informer(&source).start().unwrap();
    let created = |name: &str| -> Pod {
        source.put(pod(name));
        source.get(&Key::new("web", name)).unwrap().decode().unwrap()
    };
    let early = created("early");
    let mut gone = Box::pin(pods.wait_deleted(&early));
    assert!(gone.as_mut().now_or_never().is_none(), "nothing was listed yet");
    pods.synced().await.unwrap();
    settle().await;
    assert!(gone.as_mut().now_or_never().is_none(), "the object exists");
    source.delete("web/early");
    gone.await.unwrap();

    let late = created("late");
    let mut gone = Box::pin(pods.wait_deleted(&late));
    assert!(gone.as_mut().now_or_never().is_none(), "the store has not seen the creation");
    settle().await;
    assert!(gone.as_mut().now_or_never().is_none(), "the object exists");
    // Deleted and created again under the same name: the original object is gone.
    source.delete("web/late");
    source.put(pod("late"));
    gone.await.unwrap();
    pods.wait_until(&key("web/late"), |pod| pod.is_some()).await.unwrap();

    // An object deleted before the store saw it is gone once the store has advanced that far.
    let brief = created("brief");
    source.delete("web/brief");
    let mut gone = Box::pin(pods.wait_deleted(&brief));
    assert!(gone.as_mut().now_or_never().is_none());
    gone.await.unwrap();
    pods.wait_deleted(&brief).now_or_never().expect("no wait for a deleted object").unwrap();
}

#[tokio::test(start_paused = true)]
async fn promise_11_only_objects_returned_by_the_server_can_be_awaited() {
    let pods = informer(&pods()).wait_max(Duration::from_secs(5)).start().unwrap();
    let mut object: Pod = serde_json::from_value(pod("a")).unwrap();
    let error = |result: Result<(), WaitError>| result.unwrap_err().to_string();
    let no_version = "cannot wait for `web/a`: no resourceVersion in its metadata; \
                      pass the object as the server returned it";
    assert_eq!(error(pods.wait_for(&object).now_or_never().unwrap().map(drop)), no_version);
    assert!(error(pods.wait_deleted(&object).now_or_never().unwrap()).contains("no uid"));
    object.metadata.uid = Some("uid-1".to_owned());
    assert_eq!(error(pods.wait_deleted(&object).now_or_never().unwrap()), no_version);
    object.metadata.resource_version = Some("500".to_owned());
    assert!(
        matches!(pods.wait_deleted(&object).await, Err(WaitError::TimedOut { .. })),
        "the object never arrives"
    );
}

#[tokio::test(start_paused = true)]
async fn annotations_finalizers_and_fields_are_read_without_decoding() {
    let server = kube_informer::testing::ScriptedSource::new("v1", "Pod");
    server.put(json!({
        "metadata": {"namespace": "web", "name": "api", "annotations": {"a": "1", "b/c": "two"}, "finalizers": ["x/y", "x/z"]},
        "spec": {"nodeName": "node-7", "containers": [{"name": "c"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }));
    server.put(json!({"metadata": {"namespace": "web", "name": "bare"}}));
    let pods = Informer::<Pod>::from_source(Arc::new(server)).start().unwrap();
    pods.synced().await.unwrap();
    let pod = pods.lister().get(&Key::new("web", "api")).unwrap();
    let annotations = pod.annotations();
    assert_eq!(
        annotations.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(),
        ["a=1", "b/c=two"]
    );
    assert_eq!(pod.finalizers(), ["x/y", "x/z"]);
    assert_eq!(pod.field("spec.nodeName").unwrap(), Some(json!("node-7")));
    assert_eq!(pod.field("status.conditions[?type=Ready].status").unwrap(), Some(json!("True")));
    assert_eq!(pod.field("status.phase").unwrap(), None);
    assert_eq!(pod.field("spec.containers").unwrap().unwrap()[0]["name"], "c");
    assert!(pod.field("spec..x").is_err() && pod.field("spec.noSuchField").is_err());
    let bare = pods.lister().get(&Key::new("web", "bare")).unwrap();
    assert!(bare.annotations().is_empty() && bare.finalizers().is_empty());
}
