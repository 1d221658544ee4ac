//! PATCH, in its four types.

use serde_json::Value;

use super::meta;
use super::update::Recording;
use super::{Outcome, Target, WriteOptions, Writer};
use crate::apply::{self, ApplyError, TypeView};
use crate::http::Status;
use crate::patch::{PatchError, json_patch, merge_patch, strategic_merge_patch};

/// A patch, by its media type.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply { configuration: Value, force: bool },
}

impl Writer<'_> {
    /// Patches an object; an apply may also create it.
    pub(crate) fn patch(
        &self,
        target: &Target,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        let resource = &target.resource;
        match patch {
            Patch::Apply { configuration, force } => {
                super::update::check_place(target, configuration)?;
                let text = |name: &str| configuration[name].as_str().unwrap_or_default();
                let (api_version, kind) = (text("apiVersion"), text("kind"));
                if api_version != resource.api_version || kind != resource.kind {
                    let slash = if api_version.contains('/') { "" } else { "/" };
                    let message = format!("invalid object type: {slash}{api_version}, Kind={kind}");
                    return Err(Status::bad_request(message));
                }
                self.change(target, options, Recording::Done, &|current| {
                    if current.is_none() && !target.subresource.is_empty() {
                        return Err(Status::not_found(resource, &target.name));
                    }
                    self.with_write(target, options, |write| {
                        let mut object = apply::apply(current, configuration, write, *force)
                            .map_err(|error| refused_apply(&error))?;
                        if current.is_none() {
                            meta::set(&mut object, "name", Some(target.name.clone().into()));
                        }
                        Ok(object)
                    })
                })
            }
            _ => self.change(target, options, Recording::Due, &|current| {
                let current = current.ok_or_else(|| Status::not_found(resource, &target.name))?;
                patched(target, current, patch)
            }),
        }
    }
}

/// The object after a patch other than apply.
pub(super) fn patched(target: &Target, current: &Value, patch: &Patch) -> Result<Value, Status> {
    let object = match patch {
        Patch::Json(operations) => json_patch(current, operations).map_err(|error| refused(&error))?,
        Patch::Merge(patch) | Patch::Apply { configuration: patch, .. } => {
            let mut object = current.clone();
            merge_patch(&mut object, patch);
            object
        }
        Patch::Strategic(patch) => {
            let types = TypeView::builtin(&target.resource.api_version, &target.resource.kind)
                .unwrap_or_else(TypeView::deduced);
            strategic_merge_patch(current, patch, types).map_err(|error| refused(&error))?
        }
    };
    // A patch can replace the whole object with any value.
    if object.is_object() { Ok(object) } else { Err(Status::patch_rejected()) }
}

fn refused(error: &PatchError) -> Status {
    match error.code() {
        422 => Status::patch_rejected(),
        413 => Status::of(413, "RequestEntityTooLarge", error.message(), 0),
        500 => Status::internal(error.message()),
        _ => Status::bad_request(error.message()),
    }
}

fn refused_apply(error: &ApplyError) -> Status {
    match error {
        ApplyError::Conflict(conflicts) => {
            let causes =
                conflicts.iter().map(|conflict| serde_json::from_value(conflict.cause()).unwrap_or_default());
            Status::apply_conflict(error.to_string(), causes.collect())
        }
        ApplyError::BadRequest(message) => Status::bad_request(message.clone()),
        _ => Status::internal(error.to_string()),
    }
}
