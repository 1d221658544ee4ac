//! serde over protobuf into user-facing types: protobuf and JSON give the same values.
#![allow(clippy::unwrap_used, reason = "a panic fails the test, also in helper functions")]

mod support;

use std::fmt::Debug;

use k8s_openapi::{List, Resource};
use kube_core::{DynamicObject, PartialObjectMeta};
use kube_wire::internals::de::Deserializer;
use kube_wire::internals::ser;
use kube_wire::schema::{Message, Schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use support::{Vector, object, vectors};

/// Every kind of k8s-openapi, by the macro for the versions in which it exists; those after the semicolon have no
/// list.
macro_rules! kinds {
    ($with:ident) => {
        kinds! { @ $with
            k8s_if_ge_1_33 {
                api::admissionregistration::v1 {
                    MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
                    ValidatingWebhookConfiguration
                }
                api::admissionregistration::v1alpha1 {
                    MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
                }
                api::apiserverinternal::v1alpha1 { StorageVersion }
                api::apps::v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
                api::authentication::v1 { ; SelfSubjectReview TokenRequest TokenReview }
                api::authorization::v1 {
                    ; LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview
                    SubjectAccessReview
                }
                api::autoscaling::v1 { HorizontalPodAutoscaler ; Scale }
                api::autoscaling::v2 { HorizontalPodAutoscaler }
                api::batch::v1 { CronJob Job }
                api::certificates::v1 { CertificateSigningRequest }
                api::certificates::v1beta1 { ClusterTrustBundle }
                api::coordination::v1 { Lease }
                api::coordination::v1alpha2 { LeaseCandidate }
                api::coordination::v1beta1 { LeaseCandidate }
                api::core::v1 {
                    ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
                    PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service
                    ServiceAccount ; Binding
                }
                api::discovery::v1 { EndpointSlice }
                api::events::v1 { Event }
                api::flowcontrol::v1 { FlowSchema PriorityLevelConfiguration }
                api::networking::v1 { IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR }
                api::node::v1 { RuntimeClass }
                api::policy::v1 { PodDisruptionBudget ; Eviction }
                api::rbac::v1 { ClusterRole ClusterRoleBinding Role RoleBinding }
                api::resource::v1alpha3 { DeviceTaintRule }
                api::resource::v1beta1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
                api::resource::v1beta2 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
                api::scheduling::v1 { PriorityClass }
                api::storage::v1 { CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment }
                apiextensions_apiserver::pkg::apis::apiextensions::v1 { CustomResourceDefinition }
                apimachinery::pkg::apis::meta::v1 {
                    ; APIGroup APIGroupList APIResourceList APIVersions Status
                }
                kube_aggregator::pkg::apis::apiregistration::v1 { APIService }
            }
            k8s_if_ge_1_34 {
                api::admissionregistration::v1beta1 { MutatingAdmissionPolicy MutatingAdmissionPolicyBinding }
                api::resource::v1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
                api::storage::v1 { VolumeAttributesClass }
            }
            k8s_if_ge_1_35 {
                api::certificates::v1beta1 { PodCertificateRequest }
                api::storagemigration::v1beta1 { StorageVersionMigration }
            }
            k8s_if_ge_1_36 {
                api::admissionregistration::v1 { MutatingAdmissionPolicy MutatingAdmissionPolicyBinding }
                api::resource::v1alpha3 { ResourcePoolStatusRequest }
                api::resource::v1beta2 { DeviceTaintRule }
            }
            k8s_if_ge_1_37 {
                api::certificates::v1 { ClusterTrustBundle PodCertificateRequest }
                api::lifecycle::v1alpha1 { Eviction EvictionRequest }
                api::resource::v1 { DeviceTaintRule }
                api::scheduling::v1alpha3 { CompositePodGroup PodGroup Workload }
                api::scheduling::v1beta1 { PodGroup Workload }
                api::storagemigration::v1 { StorageVersionMigration }
            }
            k8s_if_le_1_33 {
                api::admissionregistration::v1beta1 {
                    ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
                }
                api::resource::v1alpha3 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
            }
            k8s_if_le_1_34 {
                api::storage::v1alpha1 { VolumeAttributesClass }
                api::storagemigration::v1alpha1 { StorageVersionMigration }
            }
            k8s_if_le_1_36 {
                api::certificates::v1alpha1 { ClusterTrustBundle }
                api::networking::v1beta1 { IPAddress ServiceCIDR }
                api::storage::v1beta1 { VolumeAttributesClass }
            }
            k8s_if_1_34 {
                api::certificates::v1alpha1 { PodCertificateRequest }
            }
            k8s_if_1_35 {
                api::scheduling::v1alpha1 { Workload }
            }
            k8s_if_1_36 {
                api::scheduling::v1alpha2 { PodGroup Workload }
            }
        }
    };
    (@ $with:ident $($version:ident { $($($module:ident)::+ { $($kind:ident)* $(; $($single:ident)*)? })+ })+) => {
        $(k8s_openapi::$version! {
            $({
                use k8s_openapi::$($module)::+ as kinds;
                $($with!(kinds::$kind); $with!(List<kinds::$kind>);)*
                $($($with!(kinds::$single);)*)?
            })+
        })+
    };
}

#[test]
fn protobuf_and_json_give_the_same_k8s_openapi_value() {
    let vectors = vectors();
    macro_rules! check {
        ($type:ty) => {
            let mine: Vec<_> = vectors.iter().filter(|vector| is::<$type>(vector)).collect();
            let accepted = mine.iter().filter(|vector| same::<$type>(vector)).count();
            assert!(mine.is_empty() || accepted > 0, "none of {} {}", <$type>::API_VERSION, <$type>::KIND);
        };
    }
    kinds!(check);
}

#[test]
fn a_k8s_openapi_value_gives_the_bytes_that_go_wrote() {
    let vectors = vectors();
    macro_rules! check {
        ($type:ty) => {
            vectors.iter().filter(|vector| is::<$type>(vector)).for_each(same_bytes::<$type>);
        };
    }
    kinds!(check);
}

#[test]
fn protobuf_and_json_give_the_same_dynamic_object() {
    let vectors = vectors();
    let objects = vectors.iter().filter(|vector| has_object_meta(message(vector)));
    let accepted = objects.filter(|vector| same::<DynamicObject>(vector)).count();
    assert!(accepted > 500, "only {accepted} objects were tested");
}

#[test]
fn protobuf_and_json_give_the_same_partial_object_metadata() {
    let vectors = vectors();
    let objects = vectors.iter().filter(|vector| has_object_meta(message(vector)));
    let accepted = objects.filter(|vector| same::<Partial>(vector)).count();
    assert!(accepted > 500, "only {accepted} objects were tested");
}

k8s_openapi::k8s_if_1_37! {
#[test]
fn every_kind_of_the_schema_table_is_tested_unless_k8s_openapi_lacks_it() {
    let mut listed = std::collections::BTreeSet::new();
    macro_rules! list {
        ($type:ty) => {
            listed.insert((<$type>::API_VERSION, <$type>::KIND));
        };
    }
    kinds!(list);
    let table = Schema::builtin().kinds().map(|kind| (kind.api_version, kind.kind));
    let untested = table.filter(|kind| !listed.contains(kind) && !is_absent(*kind)).collect::<Vec<_>>();
    assert!(
        untested.is_empty(),
        "add these to `kinds!`, or to ABSENT if k8s-openapi lacks them: {untested:?}"
    );
    let both = listed.into_iter().filter(|kind| is_absent(*kind)).collect::<Vec<_>>();
    assert!(both.is_empty(), "k8s-openapi has these, so ABSENT must not name them: {both:?}");
}

/// Kinds of the schema table that k8s-openapi lacks, by apiVersion: API versions that are no longer served, request
/// options, and types that never occur alone. `*` is every kind of that version; a kind's list is absent with it.
const ABSENT: &[(&str, &str)] = &[
    ("*", "CreateOptions DeleteOptions GetOptions ListOptions PatchOptions UpdateOptions WatchEvent"),
    ("admission.k8s.io/v1", "*"),
    ("admission.k8s.io/v1beta1", "*"),
    ("admissionregistration.k8s.io/v1alpha1", "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"),
    (
        "admissionregistration.k8s.io/v1beta1",
        "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding \
         ValidatingWebhookConfiguration",
    ),
    ("apidiscovery.k8s.io/v2", "*"),
    ("apidiscovery.k8s.io/v2beta1", "*"),
    ("apiextensions.k8s.io/v1", "ConversionReview"),
    ("apiextensions.k8s.io/v1beta1", "*"),
    ("apiregistration.k8s.io/v1beta1", "*"),
    ("apps/v1beta1", "*"),
    ("apps/v1beta2", "*"),
    ("authentication.k8s.io/v1alpha1", "*"),
    ("authentication.k8s.io/v1beta1", "*"),
    ("authorization.k8s.io/v1beta1", "*"),
    ("autoscaling/v2beta1", "*"),
    ("autoscaling/v2beta2", "*"),
    ("batch/v1beta1", "*"),
    ("certificates.k8s.io/v1alpha1", "*"),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest"),
    ("coordination.k8s.io/v1beta1", "Lease"),
    ("discovery.k8s.io/v1beta1", "*"),
    ("events.k8s.io/v1beta1", "*"),
    ("extensions/v1beta1", "*"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "*"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "*"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "*"),
    ("imagepolicy.k8s.io/v1alpha1", "*"),
    ("meta.k8s.io/v1", "*"),
    ("meta.k8s.io/v1beta1", "*"),
    ("networking.k8s.io/v1alpha1", "*"),
    ("networking.k8s.io/v1beta1", "IPAddress Ingress IngressClass ServiceCIDR"),
    ("node.k8s.io/v1alpha1", "*"),
    ("node.k8s.io/v1beta1", "*"),
    ("policy/v1beta1", "*"),
    ("rbac.authorization.k8s.io/v1alpha1", "*"),
    ("rbac.authorization.k8s.io/v1beta1", "*"),
    ("resource.k8s.io/v1alpha3", "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice"),
    ("scheduling.k8s.io/v1alpha1", "*"),
    ("scheduling.k8s.io/v1alpha2", "*"),
    ("scheduling.k8s.io/v1beta1", "PriorityClass"),
    ("storage.k8s.io/v1alpha1", "*"),
    (
        "storage.k8s.io/v1beta1",
        "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass",
    ),
    ("storagemigration.k8s.io/v1alpha1", "*"),
    (
        "v1",
        "List NodeProxyOptions PodAttachOptions PodExecOptions PodLogOptions PodPortForwardOptions PodProxyOptions \
         PodStatusResult RangeAllocation SerializedReference ServiceProxyOptions",
    ),
];

fn is_absent((api_version, kind): (&str, &str)) -> bool {
    let names = |name: &str| name == "*" || name == kind || kind.strip_suffix("List") == Some(name);
    ABSENT.iter().any(|(version, kinds)| *version == api_version && kinds.split_whitespace().any(names))
}
}

/// Checks that protobuf and JSON give the same value. k8s-openapi rejects a few vectors, because its time ends some
/// hours before the year 9999 does and must not be null; those must be rejected from protobuf too, and return `false`.
fn same<T: DeserializeOwned + PartialEq + Debug>(vector: &Vector) -> bool {
    match (from_protobuf::<T>(vector), from_json::<T>(vector)) {
        (Ok(found), Ok(expected)) => {
            assert_eq!(found, expected, "{}", vector.name);
            true
        }
        (Err(error), Err(expected)) => {
            let is_time = |error: String| error.contains("timestamp");
            assert!(is_time(error.to_string()) && is_time(expected.to_string()), "{error} {expected}");
            false
        }
        (found, expected) => panic!("{}: {found:?}, expected {expected:?}", vector.name),
    }
}

fn same_bytes<T: DeserializeOwned + Serialize>(vector: &Vector) {
    let Ok(value) = from_json::<T>(vector) else { return };
    let found =
        ser::to_vec(&value, message(vector)).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
    // k8s-openapi replaces null in a required field with a default. The bytes are then those of that default.
    let json = serde_json::to_value(&value).unwrap();
    let from_json = ser::to_vec(&json, message(vector)).unwrap();
    assert!(found == from_json, "{}: other bytes than its JSON gives", vector.name);
    // Objects of earlier releases get fields that Go now writes even if unset.
    if !vector.earlier && json == serde_json::from_slice::<Value>(&vector.json).unwrap() {
        assert!(found == object(vector), "{}: other bytes than Go wrote", vector.name);
    }
}

/// `PartialObjectMeta` with comparison.
#[derive(Debug)]
struct Partial(PartialObjectMeta);

impl<'de> Deserialize<'de> for Partial {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        PartialObjectMeta::deserialize(deserializer).map(Self)
    }
}

impl PartialEq for Partial {
    fn eq(&self, other: &Self) -> bool {
        (&self.0.types, &self.0.metadata) == (&other.0.types, &other.0.metadata)
    }
}

fn from_protobuf<T: DeserializeOwned>(vector: &Vector) -> kube_wire::Result<T> {
    let deserializer = Deserializer::new(object(vector), message(vector));
    T::deserialize(deserializer.type_meta(&vector.api_version, &vector.kind))
}

fn from_json<T: DeserializeOwned>(vector: &Vector) -> serde_json::Result<T> {
    serde_json::from_slice(&vector.json)
}

fn is<T: Resource>(vector: &Vector) -> bool {
    vector.api_version == T::API_VERSION && vector.kind == T::KIND
}

fn message(vector: &Vector) -> &'static Message {
    Schema::builtin().kind(&vector.api_version, &vector.kind).unwrap_or_else(|| panic!("{}", vector.name))
}

fn has_object_meta(message: &Message) -> bool {
    let metadata = message.field_named("metadata").and_then(|field| field.ty.message(Schema::builtin()));
    message.type_meta && metadata.is_some_and(|metadata| metadata.name.ends_with(".ObjectMeta"))
}
