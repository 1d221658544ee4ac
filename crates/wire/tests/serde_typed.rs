//! serde over protobuf into the types that users hold: what comes from protobuf is what comes from JSON.
#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::{List, Resource};
use kube_core::{DynamicObject, PartialObjectMeta};
use kube_wire::de::Deserializer;
use kube_wire::schema::{Message, Schema};
use kube_wire::ser;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use support::{Vector, object, vectors};

/// Every kind of k8s-openapi; after the semicolon those that have no list.
macro_rules! kinds {
    ($with:ident) => {
        kinds! { @ $with
            api::admissionregistration::v1 {
                MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
                ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
            }
            api::admissionregistration::v1alpha1 { MutatingAdmissionPolicy MutatingAdmissionPolicyBinding }
            api::admissionregistration::v1beta1 { MutatingAdmissionPolicy MutatingAdmissionPolicyBinding }
            api::apiserverinternal::v1alpha1 { StorageVersion }
            api::apps::v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
            api::authentication::v1 { ; SelfSubjectReview TokenRequest TokenReview }
            api::authorization::v1 {
                ; LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
            }
            api::autoscaling::v1 { HorizontalPodAutoscaler ; Scale }
            api::autoscaling::v2 { HorizontalPodAutoscaler }
            api::batch::v1 { CronJob Job }
            api::certificates::v1 { CertificateSigningRequest }
            api::certificates::v1alpha1 { ClusterTrustBundle }
            api::certificates::v1beta1 { ClusterTrustBundle PodCertificateRequest }
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
            api::networking::v1beta1 { IPAddress ServiceCIDR }
            api::node::v1 { RuntimeClass }
            api::policy::v1 { PodDisruptionBudget ; Eviction }
            api::rbac::v1 { ClusterRole ClusterRoleBinding Role RoleBinding }
            api::resource::v1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
            api::resource::v1alpha3 { DeviceTaintRule ResourcePoolStatusRequest }
            api::resource::v1beta1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
            api::resource::v1beta2 { DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice }
            api::scheduling::v1 { PriorityClass }
            api::scheduling::v1alpha2 { PodGroup Workload }
            api::storage::v1 {
                CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
            }
            api::storage::v1beta1 { VolumeAttributesClass }
            api::storagemigration::v1beta1 { StorageVersionMigration }
            apiextensions_apiserver::pkg::apis::apiextensions::v1 { CustomResourceDefinition }
            apimachinery::pkg::apis::meta::v1 { ; APIGroup APIGroupList APIResourceList APIVersions Status }
            kube_aggregator::pkg::apis::apiregistration::v1 { APIService }
        }
    };
    (@ $with:ident $($($module:ident)::+ { $($kind:ident)* $(; $($single:ident)*)? })+) => {
        $({
            use k8s_openapi::$($module)::+ as kinds;
            $($with!(kinds::$kind); $with!(List<kinds::$kind>);)*
            $($($with!(kinds::$single);)*)?
        })+
    };
}

#[test]
fn protobuf_and_json_give_the_same_k8s_openapi_value() {
    let Ok(vectors) = vectors() else { return };
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
    let Ok(vectors) = vectors() else { return };
    macro_rules! check {
        ($type:ty) => {
            vectors.iter().filter(|vector| is::<$type>(vector)).for_each(same_bytes::<$type>);
        };
    }
    kinds!(check);
}

#[test]
fn protobuf_and_json_give_the_same_dynamic_object() {
    let Ok(vectors) = vectors() else { return };
    let objects = vectors.iter().filter(|vector| has_object_meta(message(vector)));
    let accepted = objects.filter(|vector| same::<DynamicObject>(vector)).count();
    assert!(accepted > 500, "only {accepted} objects were tested");
}

#[test]
fn protobuf_and_json_give_the_same_partial_object_metadata() {
    let Ok(vectors) = vectors() else { return };
    let objects = vectors.iter().filter(|vector| has_object_meta(message(vector)));
    let accepted = objects.filter(|vector| same::<Partial>(vector)).count();
    assert!(accepted > 500, "only {accepted} objects were tested");
}

#[test]
fn every_kind_of_k8s_openapi_that_has_test_vectors_is_tested() {
    let Ok(vectors) = vectors() else { return };
    let mut listed = BTreeSet::new();
    macro_rules! list {
        ($type:ty) => {
            listed.insert((<$type>::API_VERSION.to_owned(), <$type>::KIND.to_owned()));
        };
    }
    kinds!(list);
    let made: BTreeSet<_> = vectors.into_iter().map(|vector| (vector.api_version, vector.kind)).collect();
    let exists: BTreeSet<_> = kinds_in_source().intersection(&made).cloned().collect();
    let missing: Vec<_> = exists.difference(&listed).collect();
    assert!(missing.is_empty(), "add these to the list: {missing:?}");
    assert!(exists.len() > 90, "the sources of k8s-openapi were not read rightly: {exists:?}");
}

/// Checks that protobuf and JSON give the same. A few vectors are refused by k8s-openapi, whose time ends some hours before
/// the year 9999 does and must not be null; those have to be refused from protobuf too, and give `false`.
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
    // Where a field is required, k8s-openapi makes a default of null. The bytes are then those of that default.
    let json = serde_json::to_value(&value).unwrap();
    let from_json = ser::to_vec(&json, message(vector)).unwrap();
    assert!(found == from_json, "{}: other bytes than its JSON gives", vector.name);
    if json == serde_json::from_slice::<Value>(&vector.json).unwrap() {
        assert!(found == object(vector), "{}: other bytes than Go wrote", vector.name);
    }
}

/// `PartialObjectMeta`, to be compared.
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

/// The kinds that k8s-openapi has, read from its sources: nothing in the crate itself lists them.
fn kinds_in_source() -> BTreeSet<(String, String)> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "k8s-openapi").unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let mut kinds = BTreeSet::new();
    let mut pending: Vec<PathBuf> = vec![manifest.with_file_name("src").join("v1_36")];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let Some((_, resource)) = source.split_once("impl crate::Resource for ") else { continue };
        let constants: BTreeMap<_, _> = resource
            .lines()
            .map_while(|line| (line != "}").then_some(line))
            .filter_map(|line| line.trim().strip_prefix("const ")?.split_once(": &'static str = "))
            .map(|(name, value)| (name, value.trim_matches([';', '"'])))
            .collect();
        if let (Some(&api_version), Some(&kind)) = (constants.get("API_VERSION"), constants.get("KIND")) {
            kinds.insert((api_version.to_owned(), kind.to_owned()));
        }
    }
    kinds
}
