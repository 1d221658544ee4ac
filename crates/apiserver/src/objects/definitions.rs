//! Custom resource definitions: registers stored definitions as served resources, and removes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::meta;
use super::update::Recording;
use super::{Target, WriteOptions, Writer};
use crate::api::Api;
use crate::codec;
use crate::crd::{self, Definition, DefinitionError};
use crate::http::Status;
use crate::resources::Resource;
use crate::storage::Stored;

/// Finalizer that keeps a definition until its objects are deleted.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The field manager of a definition's status.
const MANAGER: &str = "kube-apiserver";

pub(super) fn is_definition(resource: &Resource) -> bool {
    resource.is("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Prepares and validates a definition before it is stored.
pub(super) fn prepare(resource: &Resource, crd: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    let status = crd.get("status").cloned();
    Definition::prepare(crd, old);
    // Keep the status that a write to the status subresource brings.
    if let (Some(status), true) = (status, old.is_some()) {
        crd["status"] = status;
    }
    match Definition::parse(crd, old) {
        Ok(_) => Ok(()),
        Err(DefinitionError::Invalid(errors)) => Err(Status::invalid(resource, meta::name(crd), &errors)),
        Err(error) => Err(Status::bad_request(error.to_string())),
    }
}

/// The stored definitions, each parsed and compiled once per write.
#[derive(Debug, Default)]
pub(crate) struct Definitions(Mutex<BTreeMap<Arc<str>, Arc<Compiled>>>);

#[derive(Debug)]
struct Compiled {
    stored: Arc<Stored>,
    /// The part that determines which names are taken.
    names: Value,
    /// `None` if it is not served.
    definition: Option<Arc<Definition>>,
}

impl Definitions {
    /// The compiled forms of these definitions; drops all others.
    fn compiled(&self, resource: &Resource, stored: Vec<Arc<Stored>>) -> Vec<Arc<Compiled>> {
        let mut known = self.0.lock();
        let compiled = stored.into_iter().map(|stored| {
            let found = known.get(&stored.key).filter(|known| Arc::ptr_eq(&known.stored, &stored));
            found.cloned().unwrap_or_else(|| Arc::new(Compiled::new(resource, stored)))
        });
        let compiled: Vec<_> = compiled.collect();
        *known = compiled.iter().map(|one| (one.stored.key.clone(), one.clone())).collect();
        compiled
    }
}

impl Compiled {
    fn new(resource: &Resource, stored: Arc<Stored>) -> Self {
        let crd = codec::decode(resource, &stored.bytes);
        let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
        let established = conditions.into_iter().any(|c| c["type"] == "Established" && c["status"] == "True");
        let definition = established.then(|| Definition::parse(&crd, None).ok()).flatten();
        let names = json!({
            "metadata": {"name": meta::name(&crd)},
            "spec": {"group": crd["spec"]["group"]},
            "status": {"acceptedNames": crd["status"]["acceptedNames"]},
        });
        Self { stored, names, definition: definition.map(Arc::new) }
    }
}

impl Writer<'_> {
    /// Accepts a definition's names and serves it, if none of them is taken.
    pub(super) fn establish(&self, name: &str) {
        let Some(target) = self.definition_target(name) else { return };
        let _defining = self.defining.lock();
        let now = self.clock.timestamp();
        let definitions = self.compiled_definitions();
        let status = Target { subresource: "status".to_owned(), ..target };
        let options = WriteOptions { manager: MANAGER.to_owned(), ..WriteOptions::default() };
        let written = self.change(&status, &options, Recording::Due, &|current| {
            let mut crd = current.cloned().ok_or_else(|| Status::not_found(&status.resource, name))?;
            // A definition does not conflict with itself.
            crd::accept_names(&mut crd, definitions.iter().map(|other| &other.names), &now);
            Ok(crd)
        });
        if let Err(status) = written {
            tracing::debug!(%name, message = %status.message, "definition was deleted before it was established");
        }
        self.register_established();
    }

    /// Deletes all objects of a terminating definition, then removes the definition.
    pub(super) fn empty_definition(&self, name: &str) {
        let Some(target) = self.definition_target(name) else { return };
        let registry = self.registry();
        let Some(resource) =
            registry.iter().find(|resource| resource.is_custom() && resource.qualified() == name)
        else {
            return self.release_definition(&target);
        };
        self.delete_all(resource, "");
        self.release_if_empty(resource);
    }

    /// Removes a terminating definition after its last object is deleted.
    pub(super) fn release_if_empty(&self, resource: &Resource) {
        let Some(target) = self.definition_target(&resource.qualified()) else { return };
        let Ok(stored) = self.get(&target) else { return };
        let crd = codec::decode(&target.resource, &stored.bytes);
        if meta::is_deleting(&crd) && self.storage.is_empty(resource.collection, "") {
            self.release_definition(&target);
        }
    }

    fn release_definition(&self, target: &Target) {
        self.without_finalizer(target, CLEANUP);
        self.serve_definitions();
    }
}

impl Api {
    /// Serves the stored definitions that are established, and no others.
    pub(crate) fn serve_definitions(&self) {
        let _defining = self.defining.lock();
        self.register_established();
    }

    /// Like `serve_definitions`, for callers that hold the lock.
    fn register_established(&self) {
        let definitions = self.compiled_definitions();
        let served: Vec<Arc<Definition>> =
            definitions.iter().filter_map(|compiled| compiled.definition.clone()).collect();
        self.register(&served);
    }

    fn compiled_definitions(&self) -> Vec<Arc<Compiled>> {
        let Some(target) = self.definition_target("") else { return Vec::new() };
        let (objects, _) = self.storage.all(target.resource.collection, "");
        self.definitions.compiled(&target.resource, objects)
    }

    fn definition_target(&self, name: &str) -> Option<Target> {
        let registry = self.registry();
        let resource = registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")?.clone();
        Some(Target { resource, namespace: String::new(), name: name.to_owned(), subresource: String::new() })
    }
}

/// The condition of a definition whose objects are being deleted.
pub(super) fn terminating(crd: &mut Value, now: &str) {
    let condition = json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        "lastTransitionTime": now,
    });
    if let Some(conditions) = crd["status"]["conditions"].as_array_mut() {
        conditions.push(condition);
    }
}
