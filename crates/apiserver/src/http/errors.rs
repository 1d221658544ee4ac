//! The errors of a kube-apiserver, with its codes, reasons, causes and messages, because clients depend on all of them
//! (client-go even on the text of a message); and the two success statuses.

use std::borrow::Cow;

use super::service::RequestHead;
use super::status::{Cause, Details, Status};
use crate::crd::{FieldError, aggregate};
use crate::resources::Resource;

impl Status {
    /// The response to a deletion that removed the object.
    pub(crate) fn deleted(resource: &Resource, name: &str, uid: &str) -> Self {
        let mut status = Self { success: true, ..Self::failure(0, "", "") }.about(resource, name);
        if let Some(details) = &mut status.details {
            details.uid = uid.to_owned();
        }
        status
    }

    /// Success without an object to return.
    pub(crate) fn success(code: u16) -> Self {
        Self { success: true, ..Self::failure(code, "", "") }
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::failure(404, "NotFound", format!("{} {name:?} not found", resource.qualified()))
            .about(resource, name)
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::failure(409, "AlreadyExists", format!("{} {name:?} already exists", resource.qualified()))
            .about(resource, name)
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified());
        Self::failure(409, "Conflict", message).about(resource, name)
    }

    /// The resourceVersion is stale.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// The uid in a PUT belongs to another object.
    pub(crate) fn uid_conflict(
        resource: &Resource,
        key: &str,
        name: &str,
        wanted: &str,
        found: &str,
    ) -> Self {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{key}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
            resource.plural
        );
        Self::conflict(resource, name, &why)
    }

    /// A deletion's precondition failed. The details contain the kind, not the resource.
    pub(crate) fn precondition(
        resource: &Resource,
        name: &str,
        what: &str,
        wanted: &str,
        found: &str,
    ) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: the {what} in the precondition ({wanted}) does not match \
             the {what} in record ({found}). The object might have been {}",
            resource.qualified_kind(),
            if what == "UID" { "deleted and then recreated" } else { "modified" }
        );
        let mut status = Self::failure(409, "Conflict", message).about(resource, name);
        if let Some(details) = &mut status.details {
            details.kind = resource.kind.clone();
        }
        status
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized")
    }

    /// The server does not accept this host name.
    pub(crate) fn foreign_host(host: &str) -> Self {
        let message = format!(
            "cannot serve host {host:?}: a server without a token serves loopback hosts only; allow the host, or set a token"
        );
        Self::failure(403, "Forbidden", message)
    }

    /// The request comes from a web page of another site.
    pub(crate) fn foreign_origin(origin: &str) -> Self {
        let message = format!("cannot serve a web page from {origin}: it has another origin; allow its host");
        Self::failure(403, "Forbidden", message)
    }

    /// The user may not use this path.
    pub(super) fn forbidden_path(user: &str, head: &RequestHead) -> Self {
        let verb = head.method.as_str().to_ascii_lowercase();
        Self::failure(
            403,
            "Forbidden",
            format!("forbidden: User {user:?} cannot {verb} path {:?}", head.path),
        )
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        Self::failure(403, "Forbidden", format!("{} {name:?} is forbidden: {why}", resource.qualified()))
            .about(resource, name)
    }

    pub(crate) fn namespace_terminating(resource: &Resource, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Self::forbidden(resource, name, &why);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating".to_owned(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            });
        }
        status
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self { details: Some(Box::default()), ..Self::failure(405, "MethodNotAllowed", message) }
    }

    /// A custom resource's definition is being deleted.
    pub(crate) fn definition_terminating(resource: &Resource) -> Self {
        let message = "create not allowed while custom resource definition is terminating";
        Self::failure(405, "MethodNotAllowed", message).about(resource, "")
    }

    /// The write uses a feature that the server does not implement and is configured to reject.
    pub(crate) fn not_implemented(resource: &Resource, why: &str) -> Self {
        Self::failure(501, "NotImplemented", why).about(resource, "")
    }

    /// The group exists but does not have this resource.
    pub(crate) fn unknown_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self { details: Some(Box::default()), ..Self::failure(404, "NotFound", message) }
    }

    /// The media type is not a patch type.
    pub(crate) fn no_patch() -> Self {
        let message = "415: Unsupported Media Type";
        Self { details: Some(Box::default()), ..Self::failure(415, "UnsupportedMediaType", message) }
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::failure(406, "NotAcceptable", message)
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::failure(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::failure(413, "RequestEntityTooLarge", message)
    }

    /// The revision of a list has expired.
    pub(crate) fn expired_list() -> Self {
        Self::failure(410, "Expired", "The resourceVersion for the provided list is too old.")
    }

    /// The revision of a watch has expired.
    pub(crate) fn expired_watch(asked: u64, oldest: u64) -> Self {
        Self::failure(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    /// The revision of a continue token has expired. Includes a fresh token that continues at the same position.
    pub(crate) fn expired_continue(fresh: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start \
                       a new list without the continue parameter, or use the continue token in this response to \
                       retrieve the remainder of the results. Continuing with the provided token results in an \
                       inconsistent list - objects that were created, modified, or deleted between the time the \
                       first chunk was returned and now may show up in the list.";
        Self { continue_token: fresh, ..Self::failure(410, "Expired", message) }
    }

    pub(crate) fn too_large_revision(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let details = Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() };
        Self { details: Some(Box::new(details)), ..Self::failure(504, "Timeout", message) }
    }

    /// Options that cannot be combined, such as `ListOptions`.
    pub(crate) fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        Self::invalid_kind("meta.k8s.io", kind, "", errors)
    }

    /// A request object that is never stored is invalid.
    pub(crate) fn invalid_kind(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let message = format!("{kind}.{group} {name:?} is invalid: {}", aggregate(errors));
        let (name, group, kind) = (name.to_owned(), group.to_owned(), kind.to_owned());
        let details = Details { name, group, kind, causes: causes(errors), ..Details::default() };
        Self { details: Some(Box::new(details)), ..Self::failure(422, "Invalid", message) }
    }

    /// An object is invalid. The details contain the kind, not the resource.
    pub(crate) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Self {
        let message = format!("{} {name:?} is invalid: {}", resource.qualified_kind(), aggregate(errors));
        let mut status = Self::failure(422, "Invalid", message).about(resource, name);
        if let Some(details) = &mut status.details {
            details.kind = resource.kind.clone();
            details.causes = causes(errors);
        }
        status
    }

    /// The update requires a resourceVersion. The details contain the resource, not the kind.
    pub(crate) fn revision_required(resource: &Resource, name: &str) -> Self {
        let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        let message = format!(
            "{} {name:?} is invalid: {}",
            resource.qualified(),
            aggregate(std::slice::from_ref(&error))
        );
        let mut status = Self::failure(422, "Invalid", message).about(resource, name);
        if let Some(details) = &mut status.details {
            details.causes = causes(&[error]);
        }
        status
    }

    /// The patch is well-formed but cannot be applied.
    pub(crate) fn patch_rejected() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self { details: Some(Box::default()), ..Self::failure(422, "Invalid", message) }
    }

    /// Other managers own fields that an apply would change.
    pub(crate) fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        let details = Details { causes, ..Details::default() };
        Self { details: Some(Box::new(details)), ..Self::failure(409, "Conflict", message) }
    }

    /// An error without a reason, like unhandled errors of a kube-apiserver's storage layer.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::failure(500, "", message)
    }

    /// An error injected by a fault.
    pub(crate) fn of(
        code: u16,
        reason: &'static str,
        message: impl Into<String>,
        retry_after_seconds: u32,
    ) -> Self {
        let details = Details { retry_after_seconds, ..Details::default() };
        let details = (retry_after_seconds > 0).then(|| Box::new(details));
        Self { details, ..Self::failure(code, reason, message) }
    }

    /// Like `of`, with an arbitrary reason.
    pub(crate) fn named(code: u16, reason: &str, message: &str, retry_after_seconds: u32) -> Self {
        Self { reason: Cow::Owned(reason.to_owned()), ..Self::of(code, "", message, retry_after_seconds) }
    }
}

fn causes(errors: &[FieldError]) -> Vec<Cause> {
    // `FieldError::cause` always has the form of a cause.
    errors.iter().map(|error| serde_json::from_value(error.cause()).unwrap_or_default()).collect()
}
