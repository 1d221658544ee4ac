//! Terminating namespaces: their objects are deleted, then the namespaces themselves.

use serde_json::json;

use super::{Target, Writer};

impl Writer<'_> {
    /// Deletes all objects in a terminating namespace. Pods wait for their grace period, other objects for their
    /// finalizers. Removing the last object removes the namespace.
    pub(super) fn empty_namespace(&self, namespace: &str) {
        let registry = self.registry();
        let prefix = format!("{namespace}/");
        let mut seen = Vec::new();
        for resource in registry.iter().filter(|resource| resource.namespaced()) {
            if seen.contains(&resource.collection) {
                continue;
            }
            seen.push(resource.collection);
            self.delete_all(resource, &prefix);
        }
        self.finish_namespace(namespace);
    }

    /// Removes a terminating namespace if it is empty.
    pub(super) fn finish_namespace(&self, namespace: &str) {
        let registry = self.registry();
        let Some(namespaces) = registry.find("", "v1", "namespaces") else { return };
        let target = Target {
            resource: namespaces.clone(),
            namespace: String::new(),
            name: namespace.to_owned(),
            subresource: "finalize".to_owned(),
        };
        let terminating =
            self.get(&target).is_ok_and(|stored| stored.attributes.field("status.phase") == "Terminating");
        let prefix = format!("{namespace}/");
        let empty = || {
            let mut namespaced = registry.iter().filter(|resource| resource.namespaced());
            namespaced.all(|resource| self.storage.is_empty(resource.collection, &prefix))
        };
        if terminating && empty() {
            self.amend(&target, &|object| object["spec"]["finalizers"] = json!([]));
        }
    }
}
