//! The custom resource.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt as _;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page that is to be served under a name.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus",
    derive = "PartialEq"
)]
#[kube(crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi"))]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The name it is to be reached by.
    pub host: String,
    /// The page.
    pub html: String,
    /// How many replicas serve it.
    #[serde(default = "one")]
    pub replicas: i32,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// The generation that this is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// How many replicas are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Why it is not served, if it cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

fn one() -> i32 {
    1
}

/// The definition, to be created in a cluster before the operator can run.
pub fn definition() -> CustomResourceDefinition {
    Website::crd()
}
