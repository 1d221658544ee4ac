//! Consequences of a deletion: dependents are deleted with their owners, and terminating namespaces are emptied.
//!
//! In a cluster, controllers do this asynchronously. Here it happens before the causing request is answered, in a
//! fixed order, so tests need not wait. Work is queued instead of recursive, because a chain of owners can be
//! arbitrarily long.

use std::sync::Arc;

use serde_json::Value;

use super::definitions::{self, is_definition};
use super::delete::{FOREGROUND, ORPHAN};
use super::meta::{self, meta};
use super::update::Recording;
use super::{DeleteOptions, Target, WriteOptions, Writer};
use crate::codec;
use crate::http::Status;
use crate::resources::Resource;
use crate::storage::Stored;

/// A consequence of a write.
#[derive(Debug)]
pub(crate) enum Effect {
    /// An object was removed.
    Removed { resource: Arc<Resource>, last: Arc<Stored> },
    /// An object was marked for deletion.
    Deleting(Target),
    /// An object with owners was created.
    Owned(Target),
    /// An object was created in a namespace or definition that is being emptied.
    Stray(Target),
    /// A definition was written.
    Definition { name: String },
}

impl Writer<'_> {
    /// Processes the consequences of earlier writes, and their own consequences.
    pub(super) fn settle(&self) {
        while let Some(effect) = self.next_effect() {
            match effect {
                Effect::Definition { name } => self.establish(&name),
                Effect::Removed { resource, last } => self.removed(&resource, &last),
                Effect::Deleting(target) => self.deleting(&target),
                Effect::Owned(target) => self.check_owners(&target),
                Effect::Stray(target) => {
                    // Fails only if the object is already deleted.
                    let _gone = self.delete(&target, &DeleteOptions::default());
                }
            }
        }
    }

    /// Queues the consequences of a stored object.
    pub(super) fn after_put(&self, target: &Target, stored: &Stored, object: &Value, is_new: bool) {
        let resource = &target.resource;
        let (namespace, name) = resource.split_key(&stored.key);
        let target = || Target { namespace: namespace.to_owned(), ..target.named(name) };
        if is_definition(resource) {
            self.then(Effect::Definition { name: name.to_owned() });
        }
        if meta::is_deleting(object) {
            self.then(Effect::Deleting(target()));
        } else if is_new && stored.attributes.owners().next().is_some() {
            self.then(Effect::Owned(target()));
        }
        if is_new && self.is_being_emptied(resource, namespace) {
            self.then(Effect::Stray(target()));
        }
    }

    /// Whether the namespace or definition of a newly created object is being deleted. A create that passed the checks
    /// before the deletion began may be stored after the emptying. Either the emptying finds the object, or this
    /// check, which runs after the object is stored, finds the deletion.
    fn is_being_emptied(&self, resource: &Resource, namespace: &str) -> bool {
        let namespace_goes = || {
            let registry = self.registry();
            let namespaces = registry.find("", "v1", "namespaces");
            let found = namespaces.and_then(|found| self.storage.get(found.collection, namespace));
            found.is_none_or(|found| found.attributes.field("status.phase") == "Terminating")
        };
        let definition_goes = || {
            let registry = self.registry();
            let served = registry.find(&resource.group, &resource.version, &resource.plural);
            served.is_none_or(|served| served.is_terminating())
        };
        (resource.namespaced() && self.options.garbage_collection && namespace_goes())
            || (resource.is_custom() && definition_goes())
    }

    /// Queues the consequences of a removed object.
    pub(super) fn after_remove(&self, resource: &Arc<Resource>, last: &Arc<Stored>) {
        self.then(Effect::Removed { resource: resource.clone(), last: last.clone() });
    }

    fn removed(&self, resource: &Arc<Resource>, last: &Arc<Stored>) {
        if is_definition(resource) {
            self.serve_definitions();
        }
        if resource.is_custom() {
            self.release_if_empty(resource);
        }
        if !self.options.garbage_collection {
            return;
        }
        for dependent in self.dependents(last.attributes.uid()) {
            self.collect(&dependent);
        }
        if last.attributes.owners().next().is_some() {
            let object = codec::decode(resource, &last.bytes);
            let (namespace, _) = resource.split_key(&last.key);
            for owner in owners(&object).filter_map(|owner| self.owner(owner, namespace)) {
                self.finish_foreground(&owner);
            }
        }
        let (namespace, _) = resource.split_key(&last.key);
        if !namespace.is_empty() {
            self.finish_namespace(namespace);
        }
    }

    /// Handles an object that was marked for deletion: processes its built-in finalizers.
    fn deleting(&self, target: &Target) {
        let Ok(stored) = self.get(target) else { return };
        let object = self.value(target, &stored);
        if is_definition(&target.resource)
            && meta::finalizers(&object).any(|name| name == definitions::CLEANUP)
        {
            self.empty_definition(&target.name);
        }
        if !self.options.garbage_collection {
            return;
        }
        if target.resource.is("", "namespaces") {
            self.empty_namespace(&target.name);
        }
        if meta::finalizers(&object).any(|name| name == ORPHAN) {
            for dependent in self.dependents(stored.attributes.uid()) {
                self.disown(&dependent, &|uid| uid != stored.attributes.uid());
            }
            self.without_finalizer(target, ORPHAN);
        }
        if meta::finalizers(&object).any(|name| name == FOREGROUND) {
            for dependent in self.dependents(stored.attributes.uid()) {
                let Ok(found) = self.get(&dependent) else { continue };
                let has_dependents = !self.storage.dependents(found.attributes.uid()).is_empty();
                let policy = if has_dependents { "Foreground" } else { "Background" };
                let options =
                    DeleteOptions { propagation_policy: Some(policy.to_owned()), ..DeleteOptions::default() };
                // Fails only if the object is already deleted.
                let _gone = self.delete(&dependent, &options);
            }
            self.finish_foreground(target);
        }
    }

    /// Removes an owner in foreground deletion once no dependent blocks it.
    fn finish_foreground(&self, owner: &Target) {
        let Ok(stored) = self.get(owner) else { return };
        let object = self.value(owner, &stored);
        if !meta::is_deleting(&object) || !meta::finalizers(&object).any(|name| name == FOREGROUND) {
            return;
        }
        let uid = stored.attributes.uid();
        let blocks = |dependent: &Target| {
            self.get(dependent).is_ok_and(|found| {
                let object = self.value(dependent, &found);
                owners(&object).any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true)
            })
        };
        if !self.dependents(uid).iter().any(blocks) {
            self.without_finalizer(owner, FOREGROUND);
        }
    }

    /// Deletes an object whose owners are all gone; if some remain, removes only the references to the others.
    fn collect(&self, dependent: &Target) {
        let Ok(stored) = self.get(dependent) else { return };
        let object = self.value(dependent, &stored);
        if meta::is_deleting(&object) {
            return;
        }
        let left: Vec<String> = owners(&object)
            .filter(|owner| self.owner(owner, &dependent.namespace).is_some())
            .filter_map(|owner| owner["uid"].as_str().map(str::to_owned))
            .collect();
        if left.is_empty() {
            let options = DeleteOptions {
                propagation_policy: Some("Background".to_owned()),
                ..DeleteOptions::default()
            };
            // Fails only if the object is already deleted.
            let _gone = self.delete(dependent, &options);
        } else {
            self.disown(dependent, &|uid| left.iter().any(|known| known == uid));
        }
    }

    /// Deletes a new object whose owners are all gone.
    fn check_owners(&self, target: &Target) {
        if self.options.garbage_collection {
            let Ok(stored) = self.get(target) else { return };
            let object = self.value(target, &stored);
            if owners(&object).all(|owner| self.owner(owner, &target.namespace).is_none()) {
                self.collect(target);
            }
        }
    }

    /// Keeps only the owners whose uid satisfies `keep`.
    fn disown(&self, dependent: &Target, keep: &dyn Fn(&str) -> bool) {
        self.amend(dependent, &|object| {
            if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
                owners.retain(|owner| owner["uid"].as_str().is_some_and(keep));
            }
        });
    }

    /// Removes one finalizer.
    pub(super) fn without_finalizer(&self, target: &Target, name: &str) {
        self.amend(target, &|object| {
            if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|finalizer| finalizer != name);
            }
        });
    }

    /// Changes an object on behalf of the server; does nothing if it no longer exists.
    pub(super) fn amend(&self, target: &Target, change: &dyn Fn(&mut Value)) {
        let options =
            WriteOptions { manager: "kube-controller-manager".to_owned(), ..WriteOptions::default() };
        let _gone = self.change(target, &options, Recording::Done, &|current| {
            let mut object =
                current.cloned().ok_or_else(|| Status::not_found(&target.resource, &target.name))?;
            change(&mut object);
            Ok(object)
        });
    }

    fn dependents(&self, uid: &str) -> Vec<Target> {
        let registry = self.registry();
        let dependents = self.storage.dependents(uid).into_iter();
        let targets = dependents.filter_map(|owned| {
            let resource = registry.of_collection(owned.collection)?.clone();
            let (namespace, name) = resource.split_key(&owned.key);
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            Some(Target { resource, namespace, name, subresource: String::new() })
        });
        targets.collect()
    }

    /// The owner that a reference names, if it exists.
    fn owner(&self, reference: &Value, namespace: &str) -> Option<Target> {
        let text = |name: &str| reference[name].as_str().unwrap_or_default();
        let registry = self.registry();
        let resource = registry.find_kind(text("apiVersion"), text("kind"))?.clone();
        let namespace = if resource.namespaced() { namespace } else { "" };
        let target = Target {
            namespace: namespace.to_owned(),
            name: text("name").to_owned(),
            subresource: String::new(),
            resource,
        };
        let found = self.get(&target).ok()?;
        (found.attributes.uid() == text("uid")).then_some(target)
    }
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    meta(object)["ownerReferences"].as_array().into_iter().flatten()
}
