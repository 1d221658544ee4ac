//! The custom resource.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt as _;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A web page that is served under a host name.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
#[kube(status = "WebsiteStatus", derive = "PartialEq")]
#[kube(crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi"))]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The host name of the website.
    pub host: String,
    /// The content of the page, in HTML.
    pub html: String,
    /// How many replicas serve it.
    #[serde(default = "one")]
    pub replicas: i32,
}

/// What the operator reports about a website.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// The generation of the spec that this status describes.
    #[serde(default)]
    pub observed_generation: i64,
    /// How many replicas are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Why the website cannot be served; absent if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

fn one() -> i32 {
    1
}

/// The CustomResourceDefinition. Install it before the operator runs.
pub fn definition() -> CustomResourceDefinition {
    Website::crd()
}
