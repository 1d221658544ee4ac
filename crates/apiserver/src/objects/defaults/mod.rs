//! Defaults for fields that a client omits.
//!
//! A kube-apiserver adds fields at two points, and managedFields show the difference. A kind's *defaults* are set
//! before ownership is recorded, so they belong to the writer. Fields added by *admission* have no owner.
//!
//! Only the defaults of kinds that controllers commonly use are implemented, not all several hundred. Finalizers and
//! taints that another controller would have to remove are left out intentionally.

mod others;
mod pods;
mod workloads;

use serde_json::{Map, Value, json};

use super::meta::{self, object_member};
use crate::clock::Chance;
use crate::crd;
use crate::resources::Resource;

/// When defaults are filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Create,
    Update,
}

/// Sets the defaults of the object's kind.
pub(super) fn fill(resource: &Resource, object: &mut Value, moment: Moment) {
    if let Some(version) = resource.custom() {
        return crd::set_defaults(object, &version.schema);
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => others::namespace(object, moment),
        ("", "pods") => pods::pod(object, moment),
        ("", "replicationcontrollers") => workloads::replication_controller(object, moment),
        ("apps", "replicasets") => workloads::replica_set(object, moment),
        ("apps", "deployments") => workloads::deployment(object, moment),
        ("apps", "statefulsets") => workloads::stateful_set(object, moment),
        ("apps", "daemonsets") => workloads::daemon_set(object, moment),
        ("batch", "jobs") => workloads::job(object, moment),
        ("batch", "cronjobs") => workloads::cron_job(object, moment),
        ("", "services") => others::service(object),
        ("", "secrets") => others::secret(object),
        ("", "endpoints") => others::endpoints(object),
        ("", "limitranges") => others::limit_range(object),
        ("", "persistentvolumeclaims") => others::claim(object, moment),
        ("", "persistentvolumes") => others::volume(object, moment),
        ("discovery.k8s.io", "endpointslices") => others::endpoint_slice(object),
        ("networking.k8s.io", "networkpolicies") => others::network_policy(object),
        ("autoscaling", "horizontalpodautoscalers") => others::autoscaler(object),
        ("scheduling.k8s.io", "priorityclasses") => {
            default_members(object, &[("preemptionPolicy", json!("PreemptLowerPriority"))]);
        }
        ("storage.k8s.io", "storageclasses") => {
            let values = [("reclaimPolicy", json!("Delete")), ("volumeBindingMode", json!("Immediate"))];
            default_members(object, &values);
        }
        _ => {}
    }
}

/// Adds what admission adds to a new object; these fields have no owner.
pub(super) fn admit(resource: &Resource, object: &mut Value, chance: &Chance) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => {
            object_member(object, "spec").insert("finalizers".to_owned(), json!(["kubernetes"]));
        }
        ("", "pods") => pods::admit(object_member(object, "spec")),
        ("", "services") => others::admit_service(object_member(object, "spec"), chance),
        ("batch", "jobs") => workloads::admit_job(object),
        _ => {}
    }
}

/// Restores server-assigned fields that an update omits.
pub(super) fn keep(resource: &Resource, object: &mut Value, current: &Value) {
    if resource.is("", "services") && object["spec"]["type"] != "ExternalName" {
        let spec = object_member(object, "spec");
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            default(spec, field, current["spec"][field].clone());
        }
    }
}

/// The warning for using a resource.
pub(super) fn warning(resource: &Resource) -> Option<&'static str> {
    let endpoints = resource.is("", "endpoints");
    endpoints.then_some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
}

/// Sets a member that is absent or null; a null default sets nothing.
fn default(object: &mut Map<String, Value>, name: &str, value: Value) {
    if !value.is_null() && object.get(name).is_none_or(Value::is_null) {
        object.insert(name.to_owned(), value);
    }
}

fn default_members(object: &mut Value, values: &[(&str, Value)]) {
    let Some(object) = object.as_object_mut() else { return };
    for (name, value) in values {
        default(object, name, value.clone());
    }
}

/// The status of a new object.
fn default_status(object: &mut Value, moment: Moment, status: Value) {
    if moment == Moment::Create {
        object["status"] = status;
    }
}

/// The objects in a list member.
fn each<'a>(
    object: &'a mut Map<String, Value>,
    list: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The member, if it is an object.
fn inner<'a>(object: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    object.get_mut(name).and_then(Value::as_object_mut)
}
