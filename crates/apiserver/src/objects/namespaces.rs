//! Terminating namespaces: their objects are deleted, then the namespaces themselves.

use serde_json::{Value, json};

use super::{Target, Writer, meta};
use crate::storage::Mismatch;

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

    /// Removes a terminating namespace if it is empty. Another request can remove the namespace and create it again at the same
    /// time, so each write checks the state that it replaces.
    pub(super) fn finish_namespace(&self, namespace: &str) {
        let registry = self.registry();
        let Some(namespaces) = registry.find("", "v1", "namespaces") else { return };
        let target = Target {
            resource: namespaces.clone(),
            namespace: String::new(),
            name: namespace.to_owned(),
            subresource: "finalize".to_owned(),
        };
        let prefix = format!("{namespace}/");
        let is_done = |object: &Value| {
            let mut namespaced = registry.iter().filter(|resource| resource.namespaced());
            object["status"]["phase"] == "Terminating"
                && namespaced.all(|resource| self.storage.is_empty(resource.collection, &prefix))
        };
        let current = || self.get(&target).ok().map(|stored| (self.value(&target, &stored), stored));
        if current().is_some_and(|(object, _)| is_done(&object)) {
            self.amend(&target, &|object| {
                if is_done(object) {
                    object["spec"]["finalizers"] = json!([]);
                }
            });
        }
        // Removing the last finalizer removes the namespace. If a client had removed it before the deletion, nothing changed.
        while let Some((object, stored)) = current().filter(|(object, _)| !is_held(object) && is_done(object))
        {
            match self.remove(&target, &stored, object) {
                Ok(Err(Mismatch)) => {}
                Ok(Ok(())) | Err(_) => return,
            }
        }
    }
}

/// Whether finalizers keep a namespace. It also has some in its spec.
pub(super) fn is_held(object: &Value) -> bool {
    meta::has_finalizers(object)
        || object["spec"]["finalizers"].as_array().is_some_and(|names| !names.is_empty())
}
