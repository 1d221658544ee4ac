//! Server-side apply, as pure functions over JSON values: field ownership, and merging configurations into objects.
//!
//! [`apply`] merges a configuration, rejects changes to fields that others own, and removes fields that the applier no
//! longer sets. [`record_update`] records ownership for every other write. Both read and write
//! `metadata.managedFields` and need to know how the object's type merges: a [`TypeView`] over the table of built-in
//! kinds or over a custom resource's schema.
//!
//! Simplification: a kube-apiserver converts the object to the version of each managedFields entry before comparing;
//! this module compares without converting.

mod compare;
mod conflict;
mod extent;
pub(crate) mod go;
mod last_applied;
mod managed;
mod merge;
mod normal;
mod ownership;
mod path;
mod reconcile;
mod set;
#[cfg(test)]
mod tests;
mod types;
mod validate;
mod walk;

pub use conflict::{ApplyError, Conflict};
pub use managed::ManagerOperation;
pub use normal::normalize;
pub(crate) use path::same as same_value;
pub use path::{BadPathElement, PathElement};
use serde_json::{Value, json};
pub use set::FieldSet;
pub use types::TypeView;

use self::{
    managed::{Managed, Manager, remove_entries},
    ownership::{Applied, Ledger},
};

/// The writer of a request, the target and the time.
#[derive(Debug, Clone, Copy)]
pub struct FieldWrite<'a> {
    /// The field manager: the request's `fieldManager`, or else the part of its User-Agent before the first `/`.
    pub manager: &'a str,
    /// The group and version of the request, e.g. `apps/v1`.
    pub api_version: &'a str,
    /// The subresource written to, e.g. `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Paths of fields that the write cannot set and so does not own: `[["status"]]` for a write to an object whose kind
    /// has a `status` subresource.
    pub reset: &'a [&'a [&'a str]],
    /// The time, as RFC 3339 in UTC with whole seconds: `2026-11-15T08:39:17Z`.
    pub now: &'a str,
    /// How the object's type merges.
    pub types: TypeView<'a>,
}

/// Applies a configuration to an object, or creates the object from it if `live` is `None`.
///
/// The returned object is complete except for what a server adds to a new object (uid, creationTimestamp, …) and for
/// defaults. Set those afterwards without recording them: a default that was not applied has no owner. An apply that
/// changes nothing returns the same object, times included, unless the applier becomes an owner of a field.
///
/// # Errors
///
/// [`ApplyError::Conflict`] if the configuration sets fields that others own to different values and `force` is not
/// set, [`ApplyError::Typed`] if it does not match its type, [`ApplyError::BadRequest`] if it contains managedFields.
///
/// ```
/// # use embedded_apiserver::internals::apply::{FieldWrite, TypeView, apply};
/// # use serde_json::json;
/// let write = FieldWrite {
///     manager: "one", api_version: "v1", subresource: "", reset: &[], now: "2026-11-15T08:39:17Z",
///     types: TypeView::builtin("v1", "ConfigMap").unwrap(),
/// };
/// let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "1"}});
/// let made = apply(None, &config, &write, false)?;
/// assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:data": {"f:k": {}}}));
///
/// let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "2"}});
/// let refused = apply(Some(&made), &other, &FieldWrite { manager: "two", ..write }, false).unwrap_err();
/// assert_eq!(refused.to_string(), "Apply failed with 1 conflict: conflict with \"one\": .data.k");
/// # Ok::<(), embedded_apiserver::internals::apply::ApplyError>(())
/// ```
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    write: &FieldWrite<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    let metadata = applied.get("metadata").and_then(Value::as_object);
    if metadata.and_then(|metadata| metadata.get("managedFields")).is_some_and(|entries| !entries.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    if let Some(what) = validate::validate(write.types, applied) {
        let described = describe(applied, write);
        return Err(ApplyError::Typed(format!("failed to create typed patch object ({described}): {what}")));
    }
    let empty = write.bare(&json!({"apiVersion": applied.get("apiVersion"), "kind": applied.get("kind")}));
    let (object, mut managed) = match live {
        None => (empty.clone(), Managed::default()),
        Some(live) => {
            let managed = Managed::of(live)
                .map_err(|what| ApplyError::Typed(format!("failed to decode managed fields: {what}")))?;
            (write.bare(live), managed)
        }
    };
    let ledger = write.ledger();
    if managed.0.is_empty() {
        // No ownership recorded so far: existing fields belong to a manager for earlier changes.
        ledger.update(
            &empty,
            &object,
            &mut managed,
            write.named("before-first-apply", ManagerOperation::Update),
        );
    }

    let applier = write.named(write.manager, ManagerOperation::Apply);
    let attempt = |force| ledger.apply(&object, applied, managed.clone(), &applier, force);
    let done = match attempt(force) {
        Err(conflicts) if write.manager == last_applied::KUBECTL => {
            let conflicts = last_applied::without_own(conflicts, &object, write);
            if conflicts.is_empty() { attempt(true) } else { Err(conflicts) }
        }
        done => done,
    };
    let Applied { mut object, managed } = done.map_err(ApplyError::Conflict)?;
    if write.manager == last_applied::KUBECTL {
        last_applied::renew(&mut object, applied);
    }
    normalize(&mut object, write.types);
    managed.write(&mut object);
    Ok(object)
}

/// Records ownership for a write other than apply: the writer becomes the owner of the fields that `new` changes.
///
/// Call this on create, update and patch, with `new` as it will be stored: defaults set, `metadata` filled, status
/// kept or taken from `old` as the subresource requires. Call it before admission, whose additions have no owner.
/// `new` carries the managedFields that the request sent, if any. An empty list or a single empty entry clears all
/// entries; ownership is then not recorded until the next apply. For the `scale` subresource, pass the scaled object
/// itself with the new number of replicas.
pub fn record_update(old: Option<&Value>, new: &mut Value, write: &FieldWrite<'_>) {
    let mut managed = Managed::for_update(old, new, !write.subresource.is_empty());
    if managed.0.is_empty() && old.is_some() {
        remove_entries(new);
        return;
    }
    let empty = json!({"apiVersion": new.get("apiVersion"), "kind": new.get("kind")});
    let (before, after) = (write.bare(old.unwrap_or(&empty)), write.bare(new));
    write.ledger().update(
        &before,
        &after,
        &mut managed,
        write.named(write.manager, ManagerOperation::Update),
    );
    managed.write(new);
}

impl<'a> FieldWrite<'a> {
    fn ledger(&self) -> Ledger<'a> {
        let reset = FieldSet::of(self.reset);
        Ledger { types: self.types, api_version: self.api_version, now: self.now, reset }
    }

    fn named(&self, manager: &str, operation: ManagerOperation) -> Manager {
        Manager::new(manager, operation, self.api_version, self.subresource)
    }

    /// The object in the form used for comparison: normalized, without managedFields.
    fn bare(&self, object: &Value) -> Value {
        let mut object = object.clone();
        remove_entries(&mut object);
        normalize(&mut object, self.types);
        object
    }
}

/// `namespace/name; group/version, Kind=Kind`.
fn describe(object: &Value, write: &FieldWrite<'_>) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let group_version = match write.api_version.split_once('/') {
        Some(_) => write.api_version.to_owned(),
        None => format!("/{}", write.api_version),
    };
    format!(
        "{}/{}; {group_version}, Kind={}",
        text("/metadata/namespace"),
        text("/metadata/name"),
        text("/kind")
    )
}
