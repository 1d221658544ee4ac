//! Defaults of workloads: deployments and similar kinds, jobs.

use serde_json::{Map, Value, json};

use super::pods::pod_spec;
use super::{Moment, default, default_status, each, inner, meta, object_member};

pub(super) fn replication_controller(object: &mut Value, moment: Moment) {
    default(object_member(object, "spec"), "replicas", json!(1));
    template(object);
    labels_of_template(object);
    default_status(object, moment, json!({"replicas": 0}));
}

pub(super) fn replica_set(object: &mut Value, moment: Moment) {
    default(object_member(object, "spec"), "replicas", json!(1));
    template(object);
    default_status(object, moment, json!({"replicas": 0}));
}

pub(super) fn deployment(object: &mut Value, moment: Moment) {
    template(object);
    let spec = object_member(object, "spec");
    default(spec, "replicas", json!(1));
    default(spec, "revisionHistoryLimit", json!(10));
    default(spec, "progressDeadlineSeconds", json!(600));
    default(spec, "strategy", json!({}));
    if let Some(strategy) = inner(spec, "strategy") {
        default(strategy, "type", json!("RollingUpdate"));
        if strategy.get("type") == Some(&json!("RollingUpdate")) {
            default(strategy, "rollingUpdate", json!({}));
            if let Some(rolling) = inner(strategy, "rollingUpdate") {
                default(rolling, "maxUnavailable", json!("25%"));
                default(rolling, "maxSurge", json!("25%"));
            }
        }
    }
    default_status(object, moment, json!({}));
}

pub(super) fn stateful_set(object: &mut Value, moment: Moment) {
    template(object);
    let spec = object_member(object, "spec");
    default(spec, "replicas", json!(1));
    default(spec, "revisionHistoryLimit", json!(10));
    default(spec, "podManagementPolicy", json!("OrderedReady"));
    default(spec, "updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
    let retention = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    default(spec, "persistentVolumeClaimRetentionPolicy", retention);
    for claim in each(spec, "volumeClaimTemplates") {
        default(claim, "kind", json!("PersistentVolumeClaim"));
        default(claim, "apiVersion", json!("v1"));
        default(claim, "status", json!({"phase": "Pending"}));
        if let Some(spec) = inner(claim, "spec") {
            default(spec, "volumeMode", json!("Filesystem"));
        }
    }
    default_status(object, moment, json!({"replicas": 0, "availableReplicas": 0}));
}

pub(super) fn daemon_set(object: &mut Value, moment: Moment) {
    template(object);
    let generation = meta::generation(object).max(1).to_string();
    let annotations = meta::meta_mut(object).entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        default(annotations, "deprecated.daemonset.template.generation", generation.into());
    }
    let spec = object_member(object, "spec");
    default(spec, "revisionHistoryLimit", json!(10));
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    default(spec, "updateStrategy", rolling);
    let zero = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
    default_status(object, moment, zero.iter().map(|name| ((*name).to_owned(), json!(0))).collect());
}

pub(super) fn job(object: &mut Value, moment: Moment) {
    template(object);
    labels_of_template(object);
    job_spec(object_member(object, "spec"));
    default_status(object, moment, json!({}));
}

fn job_spec(spec: &mut Map<String, Value>) {
    for (field, value) in [("parallelism", json!(1)), ("completions", json!(1)), ("backoffLimit", json!(6))] {
        default(spec, field, value);
    }
    default(spec, "completionMode", json!("NonIndexed"));
    default(spec, "suspend", json!(false));
    default(spec, "manualSelector", json!(false));
    default(spec, "podReplacementPolicy", json!("TerminatingOrFailed"));
}

/// A job selects its pods by its own uid, which its template cannot contain in advance.
pub(super) fn admit_job(object: &mut Value) {
    let (uid, name) = (meta::uid(object).to_owned(), meta::name(object).to_owned());
    let spec = object_member(object, "spec");
    if spec.get("manualSelector") == Some(&json!(true)) {
        return;
    }
    default(spec, "selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    let own: Vec<(String, Value)> = ["", "batch.kubernetes.io/"]
        .iter()
        .flat_map(|prefix| {
            let (uid, name) = (uid.clone().into(), name.clone().into());
            [(format!("{prefix}controller-uid"), uid), (format!("{prefix}job-name"), name)]
        })
        .collect();
    add_labels(spec.entry("template").or_insert_with(|| json!({})), &own);
    add_labels(object, &own);
}

pub(super) fn cron_job(object: &mut Value, moment: Moment) {
    let spec = object_member(object, "spec");
    default(spec, "concurrencyPolicy", json!("Allow"));
    default(spec, "suspend", json!(false));
    default(spec, "successfulJobsHistoryLimit", json!(3));
    default(spec, "failedJobsHistoryLimit", json!(1));
    if let Some(template) = spec.get_mut("jobTemplate") {
        self::template(template);
    }
    default_status(object, moment, json!({}));
}

/// The pod template of a workload. A template gets no priority and no tolerations; only pods do.
fn template(object: &mut Value) {
    let template = object_member(object, "spec").entry("template").or_insert_with(|| json!({}));
    if template.get("spec").is_some_and(Value::is_object) {
        pod_spec(object_member(template, "spec"));
    }
}

/// A workload without labels gets those of its template.
fn labels_of_template(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() && meta::meta(object).get("labels").is_none_or(Value::is_null) {
        meta::set(object, "labels", Some(labels));
    }
}

fn add_labels(object: &mut Value, labels: &[(String, Value)]) {
    let known = meta::meta_mut(object).entry("labels").or_insert_with(|| json!({}));
    // Labels that are not an object are rejected when the object is encoded.
    if let Some(known) = known.as_object_mut() {
        known.extend(labels.iter().cloned());
    }
}
