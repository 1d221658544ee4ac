//! Creating objects.

use serde_json::{Value, json};

use super::meta::{self, set};
use super::unsupported::{Subject, WriteOperation};
use super::update::Recording;
use super::{
    Outcome, Shown, Target, WriteOptions, Writer, defaults, definitions, manage, misfit, names, reviews,
};
use crate::codec;
use crate::http::Status;
use crate::resources::Resource;
use crate::storage::{Expect, Mismatch, WriteKind};

/// How many generated names are tried before the conflict is reported.
const GENERATE_TRIES: usize = 8;

impl Writer<'_> {
    /// Creates an object from client input.
    pub(crate) fn create(
        &self,
        target: &Target,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        self.create_recorded(target, object, options, Recording::Due)
    }

    /// Creates an object whose managedFields may already be recorded.
    pub(super) fn create_recorded(
        &self,
        target: &Target,
        object: Value,
        options: &WriteOptions,
        recording: Recording,
    ) -> Result<Outcome, Status> {
        let resource = &target.resource;
        if reviews::is_review(resource) {
            return self.review(target, object);
        }
        let mut object = object;
        place(target, &mut object)?;
        self.check_namespace(target, meta::name(&object))?;
        if resource.is_terminating() {
            return Err(Status::definition_terminating(resource));
        }
        let mut warnings = manage::validate_fields(resource, &mut object, options, recording)?;
        warnings.extend(defaults::warning(resource).map(str::to_owned));
        let generated = meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty();
        let tries = if generated { GENERATE_TRIES } else { 1 };
        for _ in 0..tries {
            let mut object = object.clone();
            if generated {
                let base = meta::text(&object, "generateName");
                let base = base.get(..names::GENERATED_BASE_LENGTH_MAX).unwrap_or(base);
                let name = format!("{base}{}", self.chance.name_suffix());
                set(&mut object, "name", Some(name.into()));
            }
            self.prepare_create(resource, &mut object);
            names::check(resource, &object)?;
            if definitions::is_definition(resource) {
                definitions::prepare(resource, &mut object, None)?;
            }
            manage::validate_values(target, &object, None)?;
            if recording == Recording::Due {
                self.record(target, None, &mut object, options);
            }
            defaults::admit(resource, &mut object, &self.chance);
            let subject = Subject { operation: WriteOperation::Create, target, object: &object };
            let unsupported = self.check_supported(&subject)?;
            match self.insert(target, object, options)? {
                Ok(outcome) => {
                    warnings.extend(unsupported);
                    return Ok(Outcome { warnings, ..outcome });
                }
                Err(name) if generated => tracing::debug!(%name, "generated name is taken"),
                Err(name) => return Err(Status::already_exists(resource, &name)),
            }
        }
        Err(Status::already_exists(resource, meta::text(&object, "generateName")))
    }

    /// Stores a prepared object; returns `Err(name)` inside `Ok` if the name is taken.
    fn insert(
        &self,
        target: &Target,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Result<Outcome, String>, Status> {
        let resource = &target.resource;
        let name = meta::name(&object).to_owned();
        let key = resource.key(meta::namespace(&object), &name);
        // Encode before the commit, which must not fail.
        let draft = codec::encode(resource, &object).map_err(|error| misfit(resource, &error))?;
        if options.dry_run {
            let taken = self.storage.get(resource.collection, &key).is_some();
            return Ok(if taken { Err(name) } else { Ok(Outcome::created(Shown::Draft(draft))) });
        }
        // A kube-apiserver checks this last, in its storage layer, and accepts 0.
        if meta::text(&object, "resourceVersion").parse::<u64>().is_ok_and(|revision| revision > 0) {
            return Err(Status::internal("resourceVersion should not be set on objects to be created"));
        }
        let committed =
            self.storage.commit(resource.collection, &key, Expect::Absent, WriteKind::Put, |revision| {
                meta::set_revision(&mut object, revision);
                codec::encode(resource, &object).unwrap_or(draft)
            });
        Ok(match committed {
            Ok(stored) => {
                self.after_put(target, &stored, &object, true);
                Ok(Outcome::created(Shown::Stored(stored)))
            }
            Err(Mismatch) => Err(name),
        })
    }

    /// Sets the server-generated fields of a new object.
    fn prepare_create(&self, resource: &Resource, object: &mut Value) {
        for absent in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            set(object, absent, None);
        }
        set(object, "uid", Some(self.chance.uid().into()));
        set(object, "creationTimestamp", Some(self.clock.timestamp().into()));
        set(object, "generation", super::update::has_generation(resource).then(|| json!(1)));
        if resource.has_status() && !resource.is("", "nodes") {
            super::update::put_member(object, "status", None);
        }
        defaults::fill(resource, object, defaults::Moment::Create);
    }

    /// A namespaced object needs a namespace that exists and is not terminating.
    fn check_namespace(&self, target: &Target, name: &str) -> Result<(), Status> {
        if !target.resource.namespaced() {
            return Ok(());
        }
        let registry = self.registry();
        let Some(namespaces) = registry.find("", "v1", "namespaces") else { return Ok(()) };
        let namespace = self
            .storage
            .get(namespaces.collection, &target.namespace)
            .ok_or_else(|| Status::not_found(namespaces, &target.namespace))?;
        if namespace.attributes.field("status.phase") == "Terminating" {
            return Err(Status::namespace_terminating(&target.resource, name, &target.namespace));
        }
        Ok(())
    }
}

/// Sets the namespace from the request's path; rejects an object that names another one.
pub(super) fn place(target: &Target, object: &mut Value) -> Result<(), Status> {
    let namespace = meta::namespace(object);
    if !target.resource.namespaced() {
        set(object, "namespace", None);
        return Ok(());
    }
    if !namespace.is_empty() && namespace != target.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    set(object, "namespace", Some(target.namespace.clone().into()));
    Ok(())
}
