//! Waiting for conditions.

use std::fmt::Debug;
use std::sync::Arc;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::testing::ScriptedSource;
use kube_informer::{Informer, Key};
use kube_informer_controller::conditions;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::settle;

/// Waits for a condition that the second state of an object meets, and the first does not.
async fn wait<K>(
    (api_version, kind): (&str, &str),
    mut object: Value,
    [before, after]: [Value; 2],
    condition: impl FnMut(Option<&K>) -> bool,
) where
    K: DeserializeOwned + Debug + Send + Sync + 'static,
{
    let source = ScriptedSource::new(api_version, kind);
    let informer = Informer::<K>::from_source(Arc::new(source.clone())).start().unwrap();
    object["metadata"] = json!({"name": "a", "generation": 2});
    object["status"] = before;
    source.put(object.clone());
    let key = Key::new("", "a");
    let mut met = Box::pin(informer.wait_until(&key, condition));
    for _ in 0..3 {
        assert!(met.as_mut().now_or_never().is_none(), "{kind}: it is not met");
        settle().await;
    }
    object["status"] = after;
    source.put(object);
    let met = met.await.unwrap().unwrap();
    assert_eq!((met.name(), met.key()), ("a", key.clone()), "{kind}");
}

fn condition(name: &str, status: &str) -> Value {
    json!({"conditions": [{"type": name, "status": status}]})
}

#[tokio::test(start_paused = true)]
async fn every_condition_can_be_awaited() {
    let of = |name: &str| [condition(name, "False"), condition(name, "True")];
    wait(("v1", "Pod"), json!({}), of("Ready"), conditions::ready).await;
    wait(("v1", "Node"), json!({}), of("Ready"), conditions::node_ready).await;
    wait(("batch/v1", "Job"), json!({}), of("Complete"), conditions::completed).await;
    let names = json!({"kind": "Website", "plural": "websites"});
    let spec = json!({"group": "g", "names": names, "scope": "Namespaced", "versions": []});
    let accepted = of("Established").map(|mut status| {
        status["acceptedNames"] = names.clone();
        status["storedVersions"] = json!([]);
        status
    });
    let definitions = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    wait(definitions, json!({"spec": spec}), accepted, conditions::established).await;

    let spec = json!({"replicas": 1, "selector": {}, "template": {}, "serviceName": "s"});
    let status = |updated: i32| {
        json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": updated, "availableReplicas": 1, "readyReplicas": 1,
               "currentRevision": "1", "updateRevision": updated.to_string()})
    };
    let object = json!({"spec": spec});
    let states = [status(0), status(1)];
    wait(("apps/v1", "Deployment"), object.clone(), states.clone(), conditions::rolled_out).await;
    wait(("apps/v1", "StatefulSet"), object, states, conditions::stateful_set_rolled_out).await;
    let status = |updated: i32| {
        json!({"observedGeneration": 2, "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberMisscheduled": 0,
               "numberReady": 1, "numberAvailable": 1, "updatedNumberScheduled": updated})
    };
    let spec = json!({"spec": {"selector": {}, "template": {}}});
    wait(("apps/v1", "DaemonSet"), spec, [status(0), status(1)], conditions::daemon_set_rolled_out).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_can_be_awaited_as_a_condition() {
    let source = ScriptedSource::new("v1", "Pod");
    source.put(json!({"metadata": {"namespace": "web", "name": "a"}}));
    let pods = Informer::<Pod>::from_source(Arc::new(source.clone())).start().unwrap();
    pods.synced().await.unwrap();
    let key = Key::new("web", "a");
    let uid = pods.lister().get(&key).unwrap().uid().to_owned();
    let mut deleted = Box::pin(pods.wait_until(&key, conditions::deleted(&uid)));
    assert!(deleted.as_mut().now_or_never().is_none(), "the object exists");
    source.delete("web/a");
    assert!(deleted.await.unwrap().is_none());
    // A new object has taken its place.
    source.put(json!({"metadata": {"namespace": "web", "name": "a"}}));
    let other = pods.wait_until(&key, |pod| pod.is_some()).await.unwrap().unwrap();
    assert_ne!(other.uid(), uid);
    let found = pods.wait_until(&key, conditions::deleted(&uid)).await.unwrap();
    assert_eq!(found.unwrap().uid(), other.uid());
}
