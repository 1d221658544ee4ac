//! Updating objects: PUT, and the last stage of every patch.

use serde_json::Value;

use super::meta::{self, set};
use super::namespaces::is_held;
use super::unsupported::{Subject, WriteOperation};
use super::{
    Outcome, Shown, Target, WriteOptions, Writer, create, defaults, definitions, manage, misfit, names, reset,
};
use crate::codec;
use crate::http::Status;
use crate::resources::Resource;
use crate::storage::{Expect, Mismatch, Stored, WriteKind};

/// Metadata that clients cannot change.
const SYSTEM_FIELDS: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

/// Resources that a PUT creates if they do not exist.
const CREATED_BY_PUT: &[(&str, &str)] = &[
    ("coordination.k8s.io", "leases"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("", "services"),
    ("", "endpoints"),
    ("", "limitranges"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
];

/// Built-in resources for which a PUT requires a resourceVersion.
const REVISION_REQUIRED: &[(&str, &str)] = &[
    ("coordination.k8s.io", "leases"),
    ("policy", "poddisruptionbudgets"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
];

/// Built-in resources whose generation counts spec changes.
const WITH_GENERATION: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("discovery.k8s.io", "endpointslices"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("resource.k8s.io", "resourceslices"),
];

pub(super) fn has_generation(resource: &Resource) -> bool {
    resource.is_custom() || listed(WITH_GENERATION, resource)
}

pub(super) fn listed(table: &[(&str, &str)], resource: &Resource) -> bool {
    table.iter().any(|(group, plural)| resource.is(group, plural))
}

/// Whether a new value's managedFields still have to be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    Due,
    Done,
}

/// Computes the new object from the current one, if it exists.
pub(crate) type Change<'a> = dyn Fn(Option<&Value>) -> Result<Value, Status> + 'a;

impl Writer<'_> {
    /// Replaces an object with client input.
    pub(crate) fn replace(
        &self,
        target: &Target,
        object: &Value,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        if meta::name(object).is_empty() {
            let message = format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                target.name
            );
            return Err(Status::bad_request(message));
        }
        check_place(target, object)?;
        let mut object = object.clone();
        create::place(target, &mut object)?;
        let must_exist = !listed(CREATED_BY_PUT, &target.resource) || !target.subresource.is_empty();
        let revision_required = target.resource.is_custom() || listed(REVISION_REQUIRED, &target.resource);
        if must_exist {
            self.get(target)?;
        }
        if revision_required && meta::text(&object, "resourceVersion").is_empty() && self.get(target).is_ok()
        {
            return Err(Status::revision_required(&target.resource, &target.name));
        }
        self.change(target, options, Recording::Due, &|current| match current {
            None if must_exist => Err(Status::not_found(&target.resource, &target.name)),
            _ => Ok(object.clone()),
        })
    }

    /// Computes a new object from the current one and stores it, retrying if the object changed in between. If the new
    /// object names a revision, it replaces only that revision.
    pub(crate) fn change(
        &self,
        target: &Target,
        options: &WriteOptions,
        recording: Recording,
        make: &Change<'_>,
    ) -> Result<Outcome, Status> {
        let resource = &target.resource;
        let key = target.key();
        loop {
            let Some(stored) = self.storage.get(resource.collection, &key) else {
                let object = make(None)?;
                return self.create_recorded(target, object, options, recording);
            };
            let current = self.value(target, &stored);
            let object = make(Some(&current))?;
            check_place(target, &object)?;
            check_identity(target, &key, &stored, &object)?;
            let mut object = object;
            let mut warnings = manage::validate_fields(resource, &mut object, options, recording)?;
            warnings.extend(defaults::warning(resource).map(str::to_owned));
            self.prepare_update(target, &current, &mut object);
            if definitions::is_definition(resource) && target.subresource.is_empty() {
                definitions::prepare(resource, &mut object, Some(&current))?;
            }
            manage::validate_values(target, &object, Some(&current))?;
            if recording == Recording::Due {
                self.record(target, Some(&current), &mut object, options);
            }
            names::check(resource, &object)?;
            let subject = Subject { operation: WriteOperation::Update, target, object: &object };
            warnings.extend(self.check_supported(&subject)?);
            match self.store_update(target, &stored, &current, object, options)? {
                Ok(outcome) => return Ok(Outcome { warnings, ..outcome }),
                Err(Mismatch) => tracing::debug!(%key, "object changed concurrently; retrying"),
            }
        }
    }

    fn store_update(
        &self,
        target: &Target,
        stored: &std::sync::Arc<Stored>,
        current: &Value,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Result<Outcome, Mismatch>, Status> {
        let resource = &target.resource;
        meta::set_revision(&mut object, stored.revision);
        let draft = codec::encode(resource, &object).map_err(|error| misfit(resource, &error))?;
        if draft.bytes == stored.bytes {
            return Ok(Ok(Outcome::ok(Shown::Stored(stored.clone()))));
        }
        // The last finalizer of a terminating object was removed: remove the object.
        let is_namespace = resource.is("", "namespaces");
        let held = |object: &Value| if is_namespace { is_held(object) } else { meta::has_finalizers(object) };
        let waits_for_grace = meta::meta(&object)["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
        let gone = meta::is_deleting(current) && held(current) && !held(&object) && !waits_for_grace;
        if options.dry_run {
            return Ok(Ok(Outcome::ok(Shown::Draft(draft))));
        }
        if gone {
            let deleted = self.remove(target, stored, object)?;
            return Ok(deleted.map(|()| Outcome::ok(Shown::Draft(draft))));
        }
        let expect = Expect::Revision(stored.revision);
        let committed =
            self.storage.commit(resource.collection, &stored.key, expect, WriteKind::Put, |revision| {
                meta::set_revision(&mut object, revision);
                codec::encode(resource, &object).unwrap_or(draft)
            });
        Ok(committed.map(|stored| {
            if target.subresource.is_empty() {
                self.after_put(target, &stored, &object, false);
            }
            Outcome::ok(Shown::Stored(stored))
        }))
    }

    /// Restores immutable fields and updates the generation.
    fn prepare_update(&self, target: &Target, current: &Value, object: &mut Value) {
        let resource = &target.resource;
        reset::restore(target, object, current);
        if resource.is("", "namespaces") && target.subresource.is_empty() {
            object["spec"] = current["spec"].clone();
        }
        for field in ["name", "namespace"] {
            set(object, field, meta::meta(current).get(field).cloned());
        }
        for field in SYSTEM_FIELDS {
            set(object, field, meta::meta(current).get(*field).cloned());
        }
        put_member(object, "apiVersion", current.get("apiVersion").cloned());
        put_member(object, "kind", current.get("kind").cloned());
        defaults::keep(resource, object, current);
        defaults::fill(resource, object, defaults::Moment::Update);
        if has_generation(resource) && counts(resource, current, object) {
            set(object, "generation", Some(meta::next_generation(current).into()));
        }
    }
}

/// Rejects a change of name or namespace.
pub(super) fn check_place(target: &Target, object: &Value) -> Result<(), Status> {
    let name = meta::name(object);
    if !name.is_empty() && name != target.name {
        let message =
            format!("the name of the object ({name}) does not match the name on the URL ({})", target.name);
        return Err(Status::bad_request(message));
    }
    let namespace = meta::namespace(object);
    if target.resource.namespaced() && !namespace.is_empty() && namespace != target.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    Ok(())
}

fn check_identity(target: &Target, key: &str, stored: &Stored, object: &Value) -> Result<(), Status> {
    let uid = meta::uid(object);
    let known = stored.attributes.uid();
    if !uid.is_empty() && uid != known {
        return Err(Status::uid_conflict(&target.resource, key, &target.name, uid, known));
    }
    let revision = meta::text(object, "resourceVersion");
    if !revision.is_empty() && revision.parse::<u64>().is_err() {
        return Err(Status::internal(format!("strconv.ParseUint: parsing {revision:?}: invalid syntax")));
    }
    if !revision.is_empty() && revision != "0" && revision != stored.revision.to_string() {
        return Err(Status::modified(&target.resource, &target.name));
    }
    Ok(())
}

/// Whether a change increments the generation. For custom resources, everything except metadata counts (and except
/// status, if it is a subresource); for built-in kinds, the spec.
fn counts(resource: &Resource, current: &Value, object: &Value) -> bool {
    if !resource.is_custom() && object.get("spec").is_some() {
        return current.get("spec") != object.get("spec");
    }
    let relevant = |value: &Value| {
        let members = value.as_object().into_iter().flatten();
        let relevant = members.filter(|(name, _)| {
            let status = name.as_str() == "status" && resource.has_status();
            !status && !matches!(name.as_str(), "metadata" | "apiVersion" | "kind")
        });
        relevant.map(|(name, value)| (name.clone(), value.clone())).collect::<serde_json::Map<_, _>>()
    };
    relevant(current) != relevant(object)
}

pub(super) fn put_member(object: &mut Value, name: &str, value: Option<Value>) {
    let Some(object) = object.as_object_mut() else { return };
    match value {
        Some(value) => {
            object.insert(name.to_owned(), value);
        }
        None => {
            object.remove(name);
        }
    }
}
