//! Objects that exist from the start: the namespaces and the Service that every cluster has.

use serde_json::{Value, json};

use super::{Target, WriteOptions};
use crate::api::Api;

const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];
const MANAGER: &str = "kube-apiserver";
/// The first address of the service range.
const SERVICE_ADDRESS: &str = "10.0.0.1";
/// The default port of a kube-apiserver.
const TARGET_PORT: u16 = 6443;

impl Api {
    /// Creates the initial objects.
    pub(crate) fn create_initial_objects(&self) {
        for name in NAMESPACES {
            self.create_initial("namespaces", "", json!({"metadata": {"name": name}}));
        }
        self.create_initial("services", "default", kubernetes_service());
    }

    fn create_initial(&self, plural: &str, namespace: &str, object: Value) {
        let registry = self.registry();
        let Some(resource) = registry.find("", "v1", plural) else { return };
        let target = Target {
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            name: String::new(),
            subresource: String::new(),
        };
        let options = WriteOptions { manager: MANAGER.to_owned(), ..WriteOptions::default() };
        let created = self.write(|writer| writer.create(&target, object, &options));
        // The objects are valid, and the storage is empty.
        debug_assert!(created.is_ok(), "{created:?}");
    }
}

fn kubernetes_service() -> Value {
    json!({
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP", "clusterIP": SERVICE_ADDRESS, "clusterIPs": [SERVICE_ADDRESS],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": TARGET_PORT}],
        },
    })
}
