//! Deleting objects: preconditions, finalizers, grace periods.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::meta::{self, set};
use super::unsupported::{Subject, WriteOperation};
use super::{Outcome, Shown, Target, Writer, definitions, misfit};
use crate::codec;
use crate::crd::FieldError;
use crate::http::Status;
use crate::resources::Resource;
use crate::storage::{Expect, Mismatch, Stored, WriteKind};

/// `DeleteOptions`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) preconditions: Preconditions,
    pub(crate) dry_run: Vec<String>,
}

/// Conditions on the object to delete.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// Resources whose deletion returns the object instead of a status.
const SHOWN_WHEN_DELETED: &[&str] = &[
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "resourcequotas",
    "serviceaccounts",
    "services",
];

impl Writer<'_> {
    /// Deletes an object, or marks it for deletion.
    pub(crate) fn delete(&self, target: &Target, options: &DeleteOptions) -> Result<Outcome, Status> {
        check_options(options)?;
        loop {
            let stored = self.get(target)?;
            let current = self.value(target, &stored);
            check(target, &stored, options)?;
            let subject = Subject { operation: WriteOperation::Delete, target, object: &current };
            let warnings = self.check_supported(&subject)?;
            match self.delete_once(target, &stored, &current, options)? {
                Ok(outcome) => return Ok(Outcome { warnings, ..outcome }),
                Err(Mismatch) => {
                    tracing::debug!(key = %stored.key, "object changed concurrently; retrying");
                }
            }
        }
    }

    fn delete_once(
        &self,
        target: &Target,
        stored: &Arc<Stored>,
        current: &Value,
        options: &DeleteOptions,
    ) -> Result<Result<Outcome, Mismatch>, Status> {
        let resource = &target.resource;
        let dry_run = !options.dry_run.is_empty();
        let mut finalizers = finalizers_after(current, options);
        if definitions::is_definition(resource) && !meta::is_deleting(current) {
            finalizers.push(definitions::CLEANUP.to_owned());
        }
        let grace = grace(resource, current, options);
        let is_namespace = resource.is("", "namespaces");
        if finalizers.is_empty() && grace == Some(0) && !is_namespace && !resource.is("", "pods") {
            let shown = answer(resource, stored);
            if dry_run {
                return Ok(Ok(Outcome::ok(shown)));
            }
            let removed = self.remove(target, stored, current.clone())?;
            return Ok(removed.map(|()| Outcome::ok(shown)));
        }
        let object = self.marked(resource, current, &finalizers, grace);
        let marked = if dry_run || object == *current {
            Ok(stored.clone())
        } else {
            self.put(target, stored, object.clone())?
        };
        let Ok(stored) = marked else { return Ok(Err(Mismatch)) };
        if resource.is("", "pods") && finalizers.is_empty() && grace == Some(0) && !dry_run {
            let gone = self.remove_showing(target, &stored, object)?;
            return Ok(gone.map(|gone| Outcome::ok(Shown::Stored(gone))));
        }
        Ok(Ok(Outcome::ok(Shown::Stored(stored))))
    }

    /// The object marked for deletion.
    fn marked(
        &self,
        resource: &Resource,
        current: &Value,
        finalizers: &[String],
        grace: Option<i64>,
    ) -> Value {
        let mut object = current.clone();
        let names = (!finalizers.is_empty()).then(|| json!(finalizers));
        set(&mut object, "finalizers", names);
        if resource.is("", "namespaces") {
            if !meta::is_deleting(current) {
                set(&mut object, "deletionTimestamp", Some(self.clock.timestamp().into()));
            }
            object["status"]["phase"] = "Terminating".into();
            return object;
        }
        let grace = grace.unwrap_or(0);
        let known = meta::meta(current)["deletionGracePeriodSeconds"].as_i64();
        // A second deletion can only shorten the grace period.
        if meta::is_deleting(current) && known.is_some_and(|known| known <= grace) {
            return object;
        }
        if definitions::is_definition(resource) {
            definitions::terminating(&mut object, &self.clock.timestamp());
        }
        let later = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        set(&mut object, "deletionTimestamp", Some(self.clock.timestamp_in(later).into()));
        set(&mut object, "deletionGracePeriodSeconds", Some(grace.into()));
        if !meta::is_deleting(current) && meta::generation(current) > 0 {
            set(&mut object, "generation", Some(meta::next_generation(current).into()));
        }
        object
    }

    /// Deletes every object of a resource whose key starts with `prefix`.
    pub(super) fn delete_all(&self, resource: &Arc<Resource>, prefix: &str) {
        let (objects, _) = self.storage.all(resource.collection, prefix);
        for object in objects {
            let (namespace, name) = resource.split_key(&object.key);
            let target = Target {
                resource: resource.clone(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                subresource: String::new(),
            };
            // Fails only if the object is already deleted.
            let _gone = self.delete(&target, &DeleteOptions::default());
        }
    }

    /// Stores a value if the object is unchanged since `stored`.
    fn put(
        &self,
        target: &Target,
        stored: &Stored,
        mut object: Value,
    ) -> Result<Result<Arc<Stored>, Mismatch>, Status> {
        let resource = &target.resource;
        let stored = match self.write(resource, stored, WriteKind::Put, &mut object)? {
            Ok(stored) => stored,
            Err(Mismatch) => return Ok(Err(Mismatch)),
        };
        self.after_put(target, &stored, &object, false);
        let grace = meta::meta(&object)["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
        if grace > 0 && resource.is("", "pods") && self.options.pod_termination {
            self.terminating.add(target.clone(), stored.attributes.uid(), Duration::from_secs(grace));
        }
        Ok(Ok(stored))
    }

    /// Removes an object if it is unchanged since it was read. `object` is its last state.
    pub(super) fn remove(
        &self,
        target: &Target,
        stored: &Stored,
        object: Value,
    ) -> Result<Result<(), Mismatch>, Status> {
        self.remove_showing(target, stored, object).map(|removed| removed.map(|_| ()))
    }

    fn remove_showing(
        &self,
        target: &Target,
        stored: &Stored,
        mut object: Value,
    ) -> Result<Result<Arc<Stored>, Mismatch>, Status> {
        let resource = &target.resource;
        let removed = self.write(resource, stored, WriteKind::Delete, &mut object)?;
        Ok(removed.inspect(|last| {
            if resource.is("", "pods") {
                self.terminating.remove(&last.key);
            }
            self.after_remove(resource, last);
        }))
    }

    /// Commits a value if the object is unchanged since it was read. A value that cannot be encoded changes nothing.
    fn write(
        &self,
        resource: &Resource,
        stored: &Stored,
        write: WriteKind,
        object: &mut Value,
    ) -> Result<Result<Arc<Stored>, Mismatch>, Status> {
        // Encode before the commit, which must not fail.
        let draft = codec::encode(resource, object).map_err(|error| misfit(resource, &error))?;
        let expect = Expect::Revision(stored.revision);
        Ok(self.storage.commit(resource.collection, &stored.key, expect, write, |revision| {
            meta::set_revision(object, revision);
            codec::encode(resource, object).unwrap_or(draft)
        }))
    }
}

fn answer(resource: &Resource, stored: &Arc<Stored>) -> Shown {
    if resource.group.is_empty() && SHOWN_WHEN_DELETED.contains(&resource.plural.as_str()) {
        return Shown::Stored(stored.clone());
    }
    let (_, name) = resource.split_key(&stored.key);
    Shown::Status(Status::deleted(resource, name, stored.attributes.uid()))
}

fn check_options(options: &DeleteOptions) -> Result<(), Status> {
    let Some(policy) = options.propagation_policy.as_deref() else { return Ok(()) };
    let known = ["Foreground", "Background", "Orphan"];
    let error = if options.orphan_dependents.is_some() {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        FieldError::invalid("propagationPolicy", policy, detail)
    } else if !known.contains(&policy) {
        FieldError::not_supported("propagationPolicy", policy, &["Foreground", "Background", "Orphan", "nil"])
    } else {
        return Ok(());
    };
    Err(Status::invalid_options("DeleteOptions", &[error]))
}

fn check(target: &Target, stored: &Stored, options: &DeleteOptions) -> Result<(), Status> {
    let Preconditions { uid, resource_version } = &options.preconditions;
    let found = stored.attributes.uid();
    if let Some(wanted) = uid.as_deref().filter(|uid| !uid.is_empty() && *uid != found) {
        return Err(Status::precondition(&target.resource, &target.name, "UID", wanted, found));
    }
    let found = stored.revision.to_string();
    if let Some(wanted) =
        resource_version.as_deref().filter(|revision| !revision.is_empty() && *revision != found)
    {
        return Err(Status::precondition(&target.resource, &target.name, "ResourceVersion", wanted, &found));
    }
    Ok(())
}

/// The grace period in seconds.
fn grace(resource: &Resource, current: &Value, options: &DeleteOptions) -> Option<i64> {
    if !resource.is("", "pods") {
        return Some(0);
    }
    let finished = matches!(current["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let unscheduled = current["spec"]["nodeName"].as_str().is_none_or(str::is_empty);
    if finished || unscheduled {
        return Some(0);
    }
    let own = current["spec"]["terminationGracePeriodSeconds"].as_i64();
    let asked = options.grace_period_seconds.or(own).unwrap_or(30);
    Some(if asked < 0 { 1 } else { asked })
}

/// The finalizers that block deletion, with those of the propagation policy added or removed.
fn finalizers_after(current: &Value, options: &DeleteOptions) -> Vec<String> {
    let mut finalizers: Vec<String> = meta::finalizers(current).map(str::to_owned).collect();
    let policy = match (&options.propagation_policy, options.orphan_dependents) {
        (Some(policy), _) => Some(policy.as_str()),
        (None, Some(true)) => Some("Orphan"),
        (None, Some(false)) => Some("Background"),
        (None, None) => None,
    };
    if let Some(policy) = policy {
        let own = match policy {
            "Orphan" => Some(ORPHAN),
            "Foreground" => Some(FOREGROUND),
            _ => None,
        };
        finalizers.retain(|name| (name != ORPHAN && name != FOREGROUND) || Some(name.as_str()) == own);
        if let Some(own) = own.filter(|own| !finalizers.iter().any(|name| name == own)) {
            finalizers.push(own.to_owned());
        }
    }
    finalizers
}
