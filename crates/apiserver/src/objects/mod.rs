//! What writes do: the rules that make stored bytes Kubernetes objects.
//!
//! Everything here is synchronous. A write reads the object, makes the new value outside of any lock, and commits it for
//! the revision it has read; if somebody was faster it begins again, or says so, if the client had named a revision.

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

/// What a request is about.
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

/// How a write is to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) manager: String,
    pub(crate) validation: FieldValidation,
}

/// What a write has to show.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: u16,
    pub(crate) shown: Shown,
    pub(crate) warnings: Vec<String>,
}

/// The answer's body.
#[derive(Debug)]
pub(crate) enum Shown {
    Stored(Arc<Stored>),
    /// What would have been stored.
    Draft(Draft),
    /// An object of another kind than the resource's, such as a `Scale`.
    Other(Value),
    Status(Status),
}

// === impl Target ===

impl Target {
    pub(crate) fn key(&self) -> String {
        self.resource.key(&self.namespace, &self.name)
    }

    /// What keys of the collection begin with.
    pub(crate) fn prefix(&self) -> String {
        if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) }
    }

    /// The same object without its subresource.
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

/// A misfit found when an object is encoded: the client sent something that is no such kind.
fn misfit(resource: &Resource, error: &codec::Misfit) -> Status {
    let Resource { kind, version, .. } = resource;
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
}
