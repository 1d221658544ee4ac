//! The children of a website: functions from the website to the desired objects.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube_core::ResourceExt as _;
use serde_json::{from_value, json};

use crate::Website;

/// The label of all children, which the operator's informers select.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "website-operator");

/// All children of a website.
#[derive(Clone, Debug, PartialEq)]
pub struct Children {
    /// The page.
    pub config_map: ConfigMap,
    /// The web server.
    pub deployment: Deployment,
    /// The address.
    pub service: Service,
}

impl Children {
    /// The desired children. [`Context::apply`](kube_informer_controller::Context::apply) adds the owner reference.
    ///
    /// # Errors
    /// Returns an error if a field has another type than its kind requires.
    pub fn of(site: &Website) -> serde_json::Result<Self> {
        let name = site.name_any();
        let labels = json!({"example.com/website": name});
        let metadata = json!({
            "name": name,
            "namespace": site.namespace(),
            "labels": {"example.com/website": name, MANAGED_BY.0: MANAGED_BY.1},
        });
        let page = json!({"metadata": metadata, "data": {"index.html": site.spec.html}});
        let server = json!({
            "metadata": metadata,
            "spec": {
                "replicas": site.spec.replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "containers": [{
                            "name": "web",
                            "image": "nginx:1.29",
                            "ports": [{"containerPort": 80}],
                            "volumeMounts": [{"name": "page", "mountPath": "/usr/share/nginx/html"}],
                        }],
                        "volumes": [{"name": "page", "configMap": {"name": name}}],
                    },
                },
            },
        });
        let address = json!({"metadata": metadata, "spec": {"selector": labels, "ports": [{"port": 80}]}});
        Ok(Self {
            config_map: from_value(page)?,
            deployment: from_value(server)?,
            service: from_value(address)?,
        })
    }
}
