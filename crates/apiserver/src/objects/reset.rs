//! Fields that a write cannot set. They keep their values, and the writer does not become their owner.
//!
//! A write to the object itself does not change `status` if that is a subresource. A write to `status` does not change
//! `spec`; whether it can set labels, annotations, finalizers and owners depends on the kind.

use serde_json::Value;

use super::Target;
use super::meta::{self, meta_mut};
use super::update::{listed, put_member};

/// Paths of fields.
type Paths = &'static [&'static [&'static str]];

const STATUS: Paths = &[&["status"]];
const SPEC: Paths = &[&["spec"]];
const SPEC_AND_LABELS: Paths = &[&["spec"], &["metadata", "labels"]];
const SPEC_AND_OWNERS: Paths = &[&["spec"], &["metadata", "ownerReferences"]];
const ALL_BUT_STATUS: Paths = &[&["metadata"], &["spec"]];

/// Built-in resources whose `status` subresource cannot set metadata.
const STATUS_WITHOUT_METADATA: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "servicecidrs"),
    ("resource.k8s.io", "resourceclaims"),
    ("storage.k8s.io", "volumeattachments"),
];

/// The fields that a write to the target cannot set.
pub(super) fn fields(target: &Target) -> Paths {
    let resource = &target.resource;
    match target.subresource.as_str() {
        "" if resource.has_status() => STATUS,
        "finalize" => STATUS,
        "status" if resource.is_custom() || listed(STATUS_WITHOUT_METADATA, resource) => ALL_BUT_STATUS,
        "status" if resource.is("apps", "deployments") => SPEC_AND_LABELS,
        "status" if resource.is("", "pods") => SPEC_AND_OWNERS,
        "status" | "approval" => SPEC,
        _ => &[],
    }
}

/// Restores the current values of fields that the write cannot change. Keeps the request's managedFields, which are
/// processed later.
pub(super) fn restore(target: &Target, object: &mut Value, current: &Value) {
    let managed = meta::meta(object).get("managedFields").cloned();
    for path in fields(target) {
        match **path {
            ["metadata", part] => meta::set(object, part, meta::meta(current).get(part).cloned()),
            [member] => put_member(object, member, current.get(member).cloned()),
            _ => {}
        }
    }
    if target.resource.is_custom() && target.subresource == "status" {
        restore_other_members(object, current);
    }
    meta_mut(object);
    meta::set(object, "managedFields", managed);
}

/// Custom resources can have members other than spec and status.
fn restore_other_members(object: &mut Value, current: &Value) {
    let (Some(object), Some(current)) = (object.as_object_mut(), current.as_object()) else { return };
    let kept = |name: &str| matches!(name, "metadata" | "status");
    object.retain(|name, _| kept(name));
    object.extend(
        current.iter().filter(|(name, _)| !kept(name)).map(|(name, value)| (name.clone(), value.clone())),
    );
}
