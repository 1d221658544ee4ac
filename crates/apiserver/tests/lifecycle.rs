//! Consequences of writes: finalizers, owners, namespaces, terminating pods, deleted definitions.

use crate::support;

use std::time::Duration;

use embedded_apiserver::{Clock, Server};
use serde_json::{Value, json};
use support::Session;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn session() -> Session {
    let clock = Clock::starting_at(std::time::UNIX_EPOCH);
    Session::new(Server::builder().without_socket().seed(1).clock(clock).start().await.unwrap())
}

impl Session {
    async fn owned(&self, name: &str, owners: &[&Value], block: bool) -> Value {
        let references: Vec<Value> = owners
            .iter()
            .map(|owner| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block}))
            .collect();
        self.json("POST", MAPS, json!({"metadata": {"name": name, "ownerReferences": references}})).await
    }

    async fn delete(&self, path: &str, policy: &str) {
        self.json("DELETE", &format!("{path}?propagationPolicy={policy}"), json!({})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_at_the_servers_time() {
    let session = session().await;
    for (name, seconds, timestamp) in [("a", 0, "1970-01-01T00:00:00Z"), ("b", 90, "1970-01-01T00:01:30Z")] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        assert_eq!(session.server.now(), std::time::UNIX_EPOCH + Duration::from_secs(seconds));
        let created = session.owned(name, &[], false).await;
        assert_eq!(created["metadata"]["creationTimestamp"], timestamp);
    }
}

#[tokio::test(start_paused = true)]
async fn dependents_are_deleted_with_their_last_owner() {
    let session = session().await;
    let (a, b) = (session.owned("a", &[], false).await, session.owned("b", &[], false).await);
    let child = session.owned("child", &[&a], false).await;
    session.owned("grandchild", &[&child], false).await;
    session.owned("shared", &[&a, &b], false).await;
    session.delete(&format!("{MAPS}/a"), "Background").await;
    assert_eq!(session.find(&format!("{MAPS}/child")).await, None);
    assert_eq!(session.find(&format!("{MAPS}/grandchild")).await, None);
    let shared = session.find(&format!("{MAPS}/shared")).await.unwrap();
    assert_eq!(
        shared["metadata"]["ownerReferences"].as_array().unwrap().len(),
        1,
        "only the owner that is left"
    );
    session.delete(&format!("{MAPS}/b"), "Background").await;
    assert_eq!(session.find(&format!("{MAPS}/shared")).await, None);
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_without_their_owner() {
    let session = session().await;
    let owner = session.owned("owner", &[], false).await;
    session.owned("child", &[&owner], false).await;
    session.delete(&format!("{MAPS}/owner"), "Orphan").await;
    assert_eq!(session.find(&format!("{MAPS}/owner")).await, None);
    let child = session.find(&format!("{MAPS}/child")).await.unwrap();
    assert_eq!(child["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len), 0);
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_waits_for_dependents_that_block_it() {
    let session = session().await;
    let owner = session.owned("owner", &[], false).await;
    session.owned("child", &[&owner], true).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    session.json("PATCH", &format!("{MAPS}/child"), hold).await;
    session.delete(&format!("{MAPS}/owner"), "Foreground").await;
    let waiting = session.find(&format!("{MAPS}/owner")).await.unwrap();
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(
        session.find(&format!("{MAPS}/child")).await.unwrap()["metadata"]["deletionTimestamp"].is_string()
    );
    session.json("PATCH", &format!("{MAPS}/child"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(session.find(&format!("{MAPS}/child")).await, None);
    assert_eq!(session.find(&format!("{MAPS}/owner")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_new_object_without_existing_owners_is_deleted() {
    let session = session().await;
    let ghost = json!({"metadata": {"name": "ghost", "uid": "00000000-0000-4000-8000-000000000000"}});
    session.owned("late", &[&ghost], false).await;
    assert_eq!(session.find(&format!("{MAPS}/late")).await, None);
}

#[tokio::test(start_paused = true)]
async fn without_garbage_collection_nothing_follows_a_deletion() {
    let server = Server::builder().without_socket().garbage_collection(false).start().await.unwrap();
    let session = Session::new(server);
    let owner = session.owned("owner", &[], false).await;
    session.owned("child", &[&owner], false).await;
    session.delete(&format!("{MAPS}/owner"), "Background").await;
    assert!(session.find(&format!("{MAPS}/child")).await.is_some());
    session.json("DELETE", "/api/v1/namespaces/default", json!({})).await;
    assert_eq!(session.find("/api/v1/namespaces/default").await.unwrap()["status"]["phase"], "Terminating");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_removed_after_its_last_object() {
    let session = session().await;
    session.json("POST", "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    let maps = "/api/v1/namespaces/n/configmaps";
    session.json("POST", maps, json!({"metadata": {"name": "plain"}})).await;
    session
        .json("POST", maps, json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}))
        .await;
    session.json("DELETE", "/api/v1/namespaces/n", json!({})).await;
    assert_eq!(session.find(&format!("{maps}/plain")).await, None);
    assert_eq!(session.find("/api/v1/namespaces/n").await.unwrap()["status"]["phase"], "Terminating");
    session.json("PATCH", &format!("{maps}/held"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(session.find("/api/v1/namespaces/n").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_finalizers_is_removed() {
    let session = session().await;
    let mut namespace = session.json("POST", "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    namespace["spec"]["finalizers"] = json!([]);
    session.json("PUT", "/api/v1/namespaces/n/finalize", namespace).await;
    assert_eq!(session.find("/api/v1/namespaces/n").await.unwrap()["spec"], json!({}));
    session.json("DELETE", "/api/v1/namespaces/n", json!({})).await;
    assert_eq!(session.find("/api/v1/namespaces/n").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_is_removed_after_its_grace_period() {
    let session = session().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "node", "terminationGracePeriodSeconds": 20, "containers": [{"name": "c"}]}});
    session.json("POST", PODS, pod).await;
    let marked = session.json("DELETE", &format!("{PODS}/p"), json!({})).await;
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 20);
    tokio::time::sleep(Duration::from_secs(19)).await;
    assert!(session.find(&format!("{PODS}/p")).await.is_some());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(session.find(&format!("{PODS}/p")).await, None);
}

#[tokio::test(start_paused = true)]
async fn pods_are_bound_and_evicted() {
    let session = session().await;
    session
        .json("POST", PODS, json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}))
        .await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-1"}});
    session.json("POST", &format!("{PODS}/p/binding"), binding.clone()).await;
    let pod = session.find(&format!("{PODS}/p")).await.unwrap();
    assert_eq!(
        (&pod["spec"]["nodeName"], &pod["status"]["conditions"][0]["type"]),
        (&json!("node-1"), &json!("PodScheduled"))
    );
    let again = session.request("POST", &format!("{PODS}/p/binding"), &[], binding.to_string().into()).await;
    assert_eq!(again.code, 409);
    let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 0}});
    session.json("POST", &format!("{PODS}/p/eviction"), eviction).await;
    assert_eq!(session.find(&format!("{PODS}/p")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_removed_after_its_objects() {
    let session = session().await;
    let crd = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
                              {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    session.json("POST", crds, crd).await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    let held = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "finalizers": ["example.com/hold"]}});
    session.json("POST", things, held).await;
    let other = session.find("/apis/example.com/v1beta1/namespaces/default/things/t").await.unwrap();
    assert_eq!(other["apiVersion"], "example.com/v1beta1", "the same object in another version");
    session.json("DELETE", &format!("{crds}/things.example.com"), json!({})).await;
    assert!(
        session.find(&format!("{crds}/things.example.com")).await.unwrap()["metadata"]["deletionTimestamp"]
            .is_string()
    );
    session.json("PATCH", &format!("{things}/t"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(session.find(&format!("{crds}/things.example.com")).await, None);
    assert_eq!(session.request("GET", things, &[], Vec::new()).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn both_event_apis_share_one_collection() {
    let session = session().await;
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started", "message": "hello", "type": "Normal", "source": {"component": "kubelet"},
    });
    session.json("POST", "/api/v1/namespaces/default/events", event).await;
    let other = session.find("/apis/events.k8s.io/v1/namespaces/default/events/e").await.unwrap();
    assert_eq!((&other["note"], &other["regarding"]["name"]), (&json!("hello"), &json!("p")));
    let selected =
        session.find("/api/v1/events?fieldSelector=involvedObject.name%3Dp,reason%3DStarted").await.unwrap();
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
    let accept = [("accept", "application/vnd.kubernetes.protobuf")];
    let protobuf = session.request("GET", "/apis/events.k8s.io/v1/events", &accept, Vec::new()).await;
    assert_eq!(&protobuf.body[..4], b"k8s\0");
}

#[tokio::test(start_paused = true)]
async fn workloads_are_scaled_and_count_their_generations() {
    let session = session().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector =
        json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]});
    let spec = json!({"selector": selector, "template": template});
    session.json("POST", deployments, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    let scale = session.find(&format!("{deployments}/d/scale")).await.unwrap();
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(1), &json!("a=b,!c")));
    session.json("PATCH", &format!("{deployments}/d/scale"), json!({"spec": {"replicas": 4}})).await;
    session.json("PATCH", &format!("{deployments}/d/status"), json!({"status": {"replicas": 2}})).await;
    session.json("PATCH", &format!("{deployments}/d"), json!({"metadata": {"labels": {"x": "y"}}})).await;
    let deployment = session.find(&format!("{deployments}/d")).await.unwrap();
    assert_eq!(
        (
            &deployment["spec"]["replicas"],
            &deployment["metadata"]["generation"],
            &deployment["status"]["replicas"]
        ),
        (&json!(4), &json!(2), &json!(2))
    );
}
