//! Conditions: setting them in a status, and tests for objects to wait for.
//!
//! All but [`set_condition`] are conditions for [`Informer::wait_until`](kube_informer::Informer::wait_until). They are functions of an
//! `Option<&K>`, so they also work with kube-rs's `await_condition`. To use a condition `ready` of kube-rs in `wait_until`, pass
//! `|object| ready.matches_object(object)`.
//!
//! ```no_run
//! # use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
//! # use kube_informer::Informer;
//! use kube_informer_controller::conditions;
//!
//! # async fn example(deployments: Informer<Deployment>) -> Result<(), Box<dyn std::error::Error>> {
//! deployments.wait_until(&"web/api".parse()?, conditions::rolled_out).await?;
//! # Ok(()) }
//! ```

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec, StatefulSet, StatefulSetSpec,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_core::Resource;

/// Sets a condition by its type; returns whether anything changed.
///
/// `lastTransitionTime` is taken from `condition` only if the status changes or the condition is new. Otherwise the previous time
/// stays, as the API conventions require. A reconcile can therefore always pass the current time.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
/// use k8s_openapi::jiff::Timestamp;
/// use kube_informer_controller::conditions::set_condition;
///
/// let ready = |status: &str, second| Condition {
///     type_: "Ready".to_owned(),
///     status: status.to_owned(),
///     reason: "Reconciled".to_owned(),
///     message: String::new(),
///     observed_generation: None,
///     last_transition_time: Time(Timestamp::from_second(second).unwrap_or_default()),
/// };
/// let mut conditions = vec![ready("False", 100)];
/// assert!(!set_condition(&mut conditions, ready("False", 200)));
/// assert_eq!(conditions, [ready("False", 100)]);
/// assert!(set_condition(&mut conditions, ready("True", 300)));
/// assert_eq!(conditions, [ready("True", 300)]);
/// ```
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    let Some(known) = conditions.iter_mut().find(|known| known.type_ == condition.type_) else {
        conditions.push(condition);
        return true;
    };
    if known.status == condition.status {
        condition.last_transition_time = known.last_transition_time.clone();
    }
    let changed = *known != condition;
    *known = condition;
    changed
}

/// The object was deleted, or replaced by another of the same name: the store has none with this uid.
///
/// Use it only for an object that the informer has already received. Before that, the object is absent, too, and the condition is
/// true. [`Informer::wait_deleted`](kube_informer::Informer::wait_deleted) does not have this limit: it takes the object as a write
/// returned it.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_informer::{Informer, Key};
/// use kube_informer_controller::conditions;
///
/// # async fn example(pods: Informer<Pod>, key: Key) -> Result<(), Box<dyn std::error::Error>> {
/// if let Some(pod) = pods.lister().get(&key) {
///     pods.wait_until(&key, conditions::deleted(pod.uid())).await?;
/// }
/// # Ok(()) }
/// ```
pub fn deleted<K: Resource>(uid: &str) -> impl Fn(Option<&K>) -> bool {
    move |object| object.is_none_or(|object| object.meta().uid.as_deref() != Some(uid))
}

/// The server serves the custom resource.
pub fn established(definition: Option<&CustomResourceDefinition>) -> bool {
    let status = definition.and_then(|definition| definition.status.as_ref());
    let conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    is_true(conditions.map(|condition| (&*condition.type_, &*condition.status)), "Established")
}

/// The pod has the condition `Ready`.
pub fn ready(pod: Option<&Pod>) -> bool {
    let status = pod.and_then(|pod| pod.status.as_ref());
    let conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    is_true(conditions.map(|condition| (&*condition.type_, &*condition.status)), "Ready")
}

/// The node has the condition `Ready`.
pub fn node_ready(node: Option<&Node>) -> bool {
    let status = node.and_then(|node| node.status.as_ref());
    let conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    is_true(conditions.map(|condition| (&*condition.type_, &*condition.status)), "Ready")
}

/// The job has finished successfully.
pub fn completed(job: Option<&Job>) -> bool {
    let status = job.and_then(|job| job.status.as_ref());
    let conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    is_true(conditions.map(|condition| (&*condition.type_, &*condition.status)), "Complete")
}

/// All replicas of the deployment are available and of its current generation, as `kubectl rollout status` requires.
pub fn rolled_out(deployment: Option<&Deployment>) -> bool {
    let Some(deployment) = deployment else { return false };
    let Some(status) = &deployment.status else { return false };
    // Whether `spec` is optional depends on the version of Kubernetes, here and below.
    let spec = Option::<&DeploymentSpec>::from(&deployment.spec);
    let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let count = |replicas: Option<i32>| replicas.unwrap_or_default();
    status.observed_generation >= deployment.metadata.generation
        && count(status.updated_replicas) >= wanted
        && count(status.replicas) <= count(status.updated_replicas)
        && count(status.available_replicas) >= count(status.updated_replicas)
}

/// All replicas of the stateful set are ready and of its current generation, as `kubectl rollout status` requires. With a partition,
/// only replicas with an ordinal of at least the partition must be of the current generation; with the strategy `OnDelete`, none must.
pub fn stateful_set_rolled_out(set: Option<&StatefulSet>) -> bool {
    let Some(set) = set else { return false };
    let Some(status) = &set.status else { return false };
    let spec = Option::<&StatefulSetSpec>::from(&set.spec);
    let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let count = |replicas: Option<i32>| replicas.unwrap_or_default();
    let strategy = spec.and_then(|spec| spec.update_strategy.as_ref());
    let is_updated = match strategy.and_then(|strategy| strategy.rolling_update.as_ref()) {
        _ if strategy.is_some_and(|strategy| strategy.type_.as_deref() == Some("OnDelete")) => true,
        Some(rolling) => count(status.updated_replicas) >= wanted - count(rolling.partition),
        None => status.update_revision == status.current_revision,
    };
    status.observed_generation >= set.metadata.generation
        && count(status.ready_replicas) >= wanted
        && is_updated
}

/// The daemon set has an available pod of its current generation on every node that it selects, as `kubectl rollout status`
/// requires. With the strategy `OnDelete`, the pods may be of an old generation.
pub fn daemon_set_rolled_out(set: Option<&DaemonSet>) -> bool {
    let Some(set) = set else { return false };
    let Some(status) = &set.status else { return false };
    let wanted = status.desired_number_scheduled;
    let count = |nodes: Option<i32>| nodes.unwrap_or_default();
    let strategy = Option::<&DaemonSetSpec>::from(&set.spec).and_then(|spec| spec.update_strategy.as_ref());
    let strategy = strategy.and_then(|strategy| strategy.type_.as_deref());
    status.observed_generation >= set.metadata.generation
        && (strategy == Some("OnDelete") || count(status.updated_number_scheduled) >= wanted)
        && count(status.number_available) >= wanted
}

fn is_true<'a>(mut conditions: impl Iterator<Item = (&'a str, &'a str)>, type_: &str) -> bool {
    conditions.any(|condition| condition == (type_, "True"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn of<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn conditions_are_true_only_with_status_true() {
        let with = |type_: &str, status: &str| json!({"status": {"conditions": [{"type": type_, "status": status}]}});
        assert!(ready(Some(&of(with("Ready", "True")))) && node_ready(Some(&of(with("Ready", "True")))));
        for other in [with("Ready", "False"), with("Initialized", "True"), json!({})] {
            assert!(!ready(Some(&of(other))));
        }
        assert!(
            completed(Some(&of(with("Complete", "True")))) && !completed(Some(&of(with("Failed", "True"))))
        );
        assert!(
            !ready(None) && !node_ready(None) && !completed(None) && !established(None) && !rolled_out(None)
        );
        let definition = |status: &str| {
            let spec = json!({"group": "g", "names": {"kind": "K", "plural": "ks"}, "scope": "Namespaced", "versions": []});
            let mut definition = with("Established", status);
            definition["spec"] = spec;
            definition["status"]["acceptedNames"] = json!({"kind": "K", "plural": "ks"});
            definition["status"]["storedVersions"] = json!([]);
            definition
        };
        assert!(established(Some(&of(definition("True")))) && !established(Some(&of(definition("False")))));
    }

    #[test]
    fn an_object_counts_as_deleted_if_it_is_absent_or_has_another_uid() {
        let pod: Pod = of(json!({"metadata": {"uid": "1"}}));
        assert!(!deleted("1")(Some(&pod)) && deleted("2")(Some(&pod)) && deleted::<Pod>("1")(None));
    }

    fn condition(type_: &str, status: &str, reason: &str, seconds: i64) -> Condition {
        let time = k8s_openapi::jiff::Timestamp::from_second(seconds).unwrap();
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(time),
        }
    }

    #[test]
    fn a_condition_keeps_its_transition_time_while_its_status_is_the_same() {
        let mut conditions = Vec::new();
        assert!(
            set_condition(&mut conditions, condition("Ready", "False", "Starting", 1)),
            "a new type is added"
        );
        assert!(
            set_condition(&mut conditions, condition("Other", "True", "Fine", 2)),
            "a second type is added"
        );
        assert!(
            !set_condition(&mut conditions, condition("Ready", "False", "Starting", 3)),
            "nothing changed"
        );
        assert!(
            set_condition(&mut conditions, condition("Ready", "False", "Pulling", 4)),
            "the reason has changed"
        );
        assert_eq!(conditions[0], condition("Ready", "False", "Pulling", 1), "no transition");
        assert!(set_condition(&mut conditions, condition("Ready", "True", "Done", 5)), "a transition");
        let expected = [condition("Ready", "True", "Done", 5), condition("Other", "True", "Fine", 2)];
        assert_eq!(conditions, expected);
    }

    #[test]
    fn a_rollout_is_complete_when_all_replicas_are_updated_and_available() {
        let is_complete = |generation: i64, observed: i64, replicas: [i32; 3]| {
            let [total, updated, available] = replicas;
            rolled_out(Some(&of(json!({
                "metadata": {"generation": generation},
                "spec": {"replicas": 3, "selector": {}, "template": {}},
                "status": {"observedGeneration": observed, "replicas": total, "updatedReplicas": updated, "availableReplicas": available},
            }))))
        };
        assert!(is_complete(2, 2, [3, 3, 3]));
        assert!(!is_complete(3, 2, [3, 3, 3]), "the new spec is not observed");
        assert!(!is_complete(2, 2, [3, 2, 3]), "an old replica is left");
        assert!(!is_complete(2, 2, [4, 3, 3]), "an old replica is terminating");
        assert!(!is_complete(2, 2, [3, 3, 2]), "a replica is not available");
    }

    #[test]
    fn the_rollout_of_a_stateful_set_respects_its_strategy() {
        let rolled_out = |strategy: Value, observed: i64, [updated, ready]: [i32; 2], revision: &str| {
            stateful_set_rolled_out(Some(&of(json!({
                "metadata": {"generation": 2},
                "spec": {"replicas": 3, "selector": {}, "template": {}, "serviceName": "s", "updateStrategy": strategy},
                "status": {"observedGeneration": observed, "replicas": 3, "updatedReplicas": updated, "readyReplicas": ready,
                           "currentRevision": revision, "updateRevision": "new"},
            }))))
        };
        let rolling =
            |partition: i32| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        assert!(rolled_out(rolling(0), 2, [3, 3], "new"));
        assert!(!rolled_out(rolling(0), 1, [3, 3], "new"), "the new spec is not observed");
        assert!(!rolled_out(rolling(0), 2, [2, 3], "old"), "an old replica is left");
        assert!(!rolled_out(rolling(0), 2, [3, 2], "new"), "a replica is not ready");
        assert!(rolled_out(rolling(2), 2, [1, 3], "old"), "the partition excludes the others");
        assert!(!rolled_out(rolling(2), 2, [0, 3], "old"));
        assert!(rolled_out(json!({}), 2, [3, 3], "new") && !rolled_out(json!({}), 2, [3, 3], "old"));
        assert!(rolled_out(json!({"type": "OnDelete"}), 2, [0, 3], "old"));
    }

    #[test]
    fn the_rollout_of_a_daemon_set_covers_every_selected_node() {
        let rolled_out = |strategy: &str, observed: i64, [updated, available]: [i32; 2]| {
            daemon_set_rolled_out(Some(&of(json!({
                "metadata": {"generation": 2},
                "spec": {"selector": {}, "template": {}, "updateStrategy": {"type": strategy}},
                "status": {"observedGeneration": observed, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
                           "numberMisscheduled": 0, "numberReady": 3, "updatedNumberScheduled": updated, "numberAvailable": available},
            }))))
        };
        assert!(rolled_out("RollingUpdate", 2, [3, 3]));
        assert!(!rolled_out("RollingUpdate", 1, [3, 3]), "the new spec is not observed");
        assert!(!rolled_out("RollingUpdate", 2, [2, 3]), "an old pod is left");
        assert!(!rolled_out("RollingUpdate", 2, [3, 2]), "a pod is not available");
        assert!(rolled_out("OnDelete", 2, [0, 3]));
    }
}
