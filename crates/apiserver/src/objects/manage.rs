//! Validation and ownership for every write: unknown fields, schema validation and managedFields.

use serde_json::Value;

use super::update::Recording;
use super::{Target, WriteOptions};
use crate::api::Api;
use crate::apply::{self, TypeView};
use crate::codec::{self, unknown_fields};
use crate::crd;
use crate::http::Status;
use crate::resources::Resource;

/// How a write treats fields that the kind does not declare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    /// They are dropped and reported in a warning header.
    #[default]
    Warn,
    /// The request is rejected.
    Strict,
}

/// Drops the fields that the kind does not declare. Returns the warnings about them.
pub(super) fn validate_fields(
    resource: &Resource,
    object: &mut Value,
    options: &WriteOptions,
    recording: Recording,
) -> Result<Vec<String>, Status> {
    let unknown = match (resource.custom(), resource.message) {
        (Some(version), _) => crd::prune(object, &version.schema),
        (None, Some(message)) => unknown_fields(object, message),
        (None, None) => Vec::new(),
    };
    if !unknown.is_empty() && !resource.is_custom() {
        // Encoding drops them.
        let bytes = codec::encode_bytes(resource, object).map_err(|error| super::misfit(resource, &error))?;
        *object = codec::decode(resource, &bytes);
    }
    if let (Some(version), Recording::Due) = (resource.custom(), recording) {
        crd::drop_nulls(object, &version.schema);
    }
    let texts: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    match options.validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(texts),
        FieldValidation::Strict if texts.is_empty() => Ok(texts),
        FieldValidation::Strict => {
            let Resource { kind, version, .. } = resource;
            Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
                texts.join(", ")
            )))
        }
    }
}

/// Validates a custom resource against its schema.
pub(super) fn validate_values(target: &Target, object: &Value, old: Option<&Value>) -> Result<(), Status> {
    let Some(version) = target.resource.custom() else { return Ok(()) };
    let errors = match target.subresource.as_str() {
        "status" => version.validate_status(object, old),
        _ => version.validate(object, old),
    };
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&target.resource, super::meta::name(object), &errors))
}

/// How the resource's objects merge.
pub(super) fn types(resource: &Resource) -> TypeView<'_> {
    if let Some(version) = resource.custom() {
        return version.types();
    }
    TypeView::builtin(&resource.api_version, &resource.kind).unwrap_or_else(TypeView::deduced)
}

impl Api {
    /// Records field ownership after a write other than apply.
    pub(super) fn record(
        &self,
        target: &Target,
        old: Option<&Value>,
        new: &mut Value,
        options: &WriteOptions,
    ) {
        self.with_write(target, options, |write| apply::record_update(old, new, write));
    }

    /// Calls `then` with the write's description for server-side apply.
    pub(super) fn with_write<T>(
        &self,
        target: &Target,
        options: &WriteOptions,
        then: impl FnOnce(&apply::FieldWrite<'_>) -> T,
    ) -> T {
        let now = self.clock.timestamp();
        then(&apply::FieldWrite {
            manager: if options.manager.is_empty() { "unknown" } else { &options.manager },
            api_version: &target.resource.api_version,
            subresource: &target.subresource,
            reset: super::reset::fields(target),
            now: &now,
            types: types(&target.resource),
        })
    }
}
