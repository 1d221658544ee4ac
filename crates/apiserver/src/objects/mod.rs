//! The semantics of writes to Kubernetes objects.
//!
//! Everything here is synchronous. A write reads the object, computes the new value without holding a lock, and
//! commits it for the revision it read. If the object changed in between, the write retries, or returns a conflict if
//! the client named a revision.

mod actions;
mod create;
mod defaults;
mod definitions;
mod delete;
mod gc;
mod initial;
mod manage;
pub(crate) mod meta;
pub(crate) mod names;
mod namespaces;
mod patch;
mod reset;
mod reviews;
mod scale;
mod terminating;
mod tokens;
mod unsupported;
mod update;
mod writer;

use std::sync::Arc;

use serde_json::Value;

use crate::api::Api;
use crate::codec;
use crate::http::Status;
use crate::resources::Resource;
use crate::storage::{Draft, Stored};

pub(crate) use definitions::Definitions;
pub(crate) use delete::DeleteOptions;
pub(crate) use gc::Effect;
pub(crate) use manage::FieldValidation;
pub(crate) use patch::Patch;
pub(crate) use terminating::TerminatingPods;
pub(crate) use tokens::Tokens;
pub(crate) use unsupported::Configurations;
pub use unsupported::Unsupported;
pub(crate) use writer::Writer;

/// The target of a request.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<Resource>,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub(crate) namespace: String,
    /// Empty for the collection.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
}

/// The options of a write.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) manager: String,
    pub(crate) validation: FieldValidation,
}

/// The outcome of a write.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: u16,
    pub(crate) shown: Shown,
    pub(crate) warnings: Vec<String>,
}

/// The body of the response.
#[derive(Debug)]
pub(crate) enum Shown {
    Stored(Arc<Stored>),
    /// The object that would have been stored (dry run).
    Draft(Draft),
    /// An object of a kind other than the resource's, such as a `Scale`.
    Other(Value),
    Status(Status),
}

// === impl Target ===

impl Target {
    pub(crate) fn key(&self) -> String {
        self.resource.key(&self.namespace, &self.name)
    }

    /// The prefix of the collection's keys.
    pub(crate) fn prefix(&self) -> String {
        if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) }
    }

    /// A target for `name`, without the subresource.
    pub(crate) fn named(&self, name: &str) -> Self {
        Self { name: name.to_owned(), subresource: String::new(), ..self.clone() }
    }
}

// === impl Outcome ===

impl Outcome {
    fn ok(shown: Shown) -> Self {
        Self { code: 200, shown, warnings: Vec::new() }
    }

    fn created(shown: Shown) -> Self {
        Self { code: 201, shown, warnings: Vec::new() }
    }
}

// === impl Api ===

impl Api {
    /// The stored object.
    pub(crate) fn get(&self, target: &Target) -> Result<Arc<Stored>, Status> {
        let found = self.storage.get(target.resource.collection, &target.key());
        found.ok_or_else(|| Status::not_found(&target.resource, &target.name))
    }

    fn value(&self, target: &Target, stored: &Stored) -> Value {
        codec::decode(&target.resource, &stored.bytes)
    }
}

/// The error for an object that cannot be encoded: the client sent an object that does not match the kind.
fn misfit(resource: &Resource, error: &codec::Misfit) -> Status {
    let Resource { kind, version, .. } = resource;
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
}
