//! Custom resources in the registry: one [`Resource`] per served version of a definition.

use std::sync::Arc;

use super::{Flavour, Resource, Scope, Subresource, api_version, strings};
use crate::codec::Form;
use crate::crd::{Definition, Version};
use crate::storage::CollectionId;

const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// The resources of a definition, storage version first.
pub(super) fn resources(definition: &Arc<Definition>, collection: CollectionId) -> Vec<Resource> {
    let mut served: Vec<(usize, &Version)> =
        definition.versions.iter().enumerate().filter(|(_, version)| version.served).collect();
    served.sort_by_key(|(_, version)| !version.storage);
    served.into_iter().map(|(at, version)| resource(definition, at, version, collection)).collect()
}

fn resource(
    definition: &Arc<Definition>,
    at: usize,
    version: &Version,
    collection: CollectionId,
) -> Resource {
    let names = &definition.names;
    let subresource =
        |name: &str, kind| Subresource { name: name.to_owned(), verbs: strings(SUBRESOURCE_VERBS), kind };
    let mut subresources = Vec::new();
    if version.status {
        subresources.push(subresource("status", None));
    }
    if version.scale.is_some() {
        let kind = ("autoscaling".to_owned(), "v1".to_owned(), "Scale".to_owned());
        subresources.push(subresource("scale", Some(kind)));
    }
    Resource {
        group: definition.group.clone(),
        version: version.name.clone(),
        api_version: api_version(&definition.group, &version.name),
        plural: names.plural.clone(),
        singular: names.singular.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone(),
        scope: if definition.namespaced { Scope::Namespaced } else { Scope::Cluster },
        verbs: strings(VERBS),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        subresources,
        storage_hash: String::new(),
        collection,
        view: u8::try_from(at).unwrap_or(u8::MAX),
        flavour: Flavour::Custom { definition: definition.clone(), at },
        form: Form::Json,
        message: None,
    }
}
