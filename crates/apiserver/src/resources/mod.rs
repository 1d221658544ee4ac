//! The served resources: built-in ones from a table, and registered custom ones.
//!
//! A [`Resource`] is one resource in one version, with everything that a request needs to know about it. Versions of
//! the same resource share a collection in the storage. The [`Registry`] is immutable; registering creates a new one,
//! so each request uses one consistent state.

mod builtin;
mod custom;
pub(crate) mod discovery;
pub(crate) mod openapi;
pub(crate) mod version;

use std::collections::HashMap;
use std::sync::Arc;

use kube_wire::schema::Message;

use crate::codec::Form;
use crate::crd::{Definition, Version};
use crate::storage::{CollectionId, Storage};

/// Whether objects are namespaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
}

/// One resource in one version.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    /// `v1`, `apps/v1`.
    pub(crate) api_version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) scope: Scope,
    pub(crate) verbs: Vec<String>,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) storage_hash: String,
    pub(crate) collection: CollectionId,
    /// Distinguishes the versions of one collection.
    pub(crate) view: u8,
    pub(crate) flavour: Flavour,
    /// How the collection stores its objects.
    pub(crate) form: Form,
    /// The message of this kind and version, if it has one: then it is also served as protobuf.
    pub(crate) message: Option<&'static Message>,
}

/// How objects of the resource are treated.
#[derive(Debug)]
pub(crate) enum Flavour {
    /// A built-in kind.
    Builtin,
    /// `events.k8s.io/v1`: core events with different field names.
    Events,
    /// A custom resource.
    Custom {
        definition: Arc<Definition>,
        /// The index of the version in the definition.
        at: usize,
    },
}

/// A subresource, such as `status`.
#[derive(Debug)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    pub(crate) verbs: Vec<String>,
    /// Group, version and kind, if they differ from the resource's own.
    pub(crate) kind: Option<(String, String, String)>,
}

/// All resources.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    resources: Vec<Arc<Resource>>,
    by_path: HashMap<(String, String, String), usize>,
    /// Collections of custom resources, by group and plural name; they outlive their definitions.
    collections: HashMap<(String, String), CollectionId>,
}

// === impl Resource ===

impl Resource {
    /// The name in errors: `configmaps`, `things.example.com`.
    pub(crate) fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// The name in validation errors: `ConfigMap`, `Thing.example.com`.
    pub(crate) fn qualified_kind(&self) -> String {
        qualified(&self.kind, &self.group)
    }

    /// Whether this is the given resource, in any version.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.flavour, Flavour::Custom { .. })
    }

    /// The definition's version, for custom resources.
    pub(crate) fn custom(&self) -> Option<&Version> {
        match &self.flavour {
            Flavour::Custom { definition, at } => definition.versions.get(*at),
            Flavour::Builtin | Flavour::Events => None,
        }
    }

    /// The warning for requests to a deprecated version.
    pub(crate) fn deprecation_warning(&self) -> Option<String> {
        let Flavour::Custom { definition, at } = &self.flavour else { return None };
        let version = definition.versions.get(*at).filter(|version| version.deprecated)?;
        if let Some(warning) = &version.deprecation_warning {
            return Some(warning.clone());
        }
        let served = definition.versions.iter().filter(|other| other.served && !other.deprecated);
        let newest = served.map(|other| other.name.as_str()).max_by_key(|name| discovery::priority(name));
        let newer = newest.filter(|newest| discovery::priority(newest) > discovery::priority(&version.name));
        let instead = newer.map(|newer| format!("; use {}/{newer} {}", self.group, self.kind));
        Some(format!("{} {} is deprecated{}", self.api_version, self.kind, instead.unwrap_or_default()))
    }

    /// Whether the definition is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        matches!(&self.flavour, Flavour::Custom { definition, .. } if definition.terminating)
    }

    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether status can be written only through its subresource.
    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The storage key of an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced() { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    /// Namespace and name of a storage key; the namespace is empty for cluster-scoped objects.
    pub(crate) fn split_key<'a>(&self, key: &'a str) -> (&'a str, &'a str) {
        if self.namespaced() { key.split_once('/').unwrap_or(("", key)) } else { ("", key) }
    }
}

// === impl Registry ===

impl Registry {
    /// The built-in resources, each with its own empty collection.
    pub(crate) fn builtin(storage: &Storage) -> Self {
        let mut registry = Self::default();
        for row in builtin::BUILTIN {
            let shares = (row.group == "events.k8s.io").then(|| registry.find("", "v1", "events")).flatten();
            let collection = shares.map_or_else(|| storage.open(), |events| events.collection);
            let events = row.group == "events.k8s.io";
            let own = api_version(row.group, row.version);
            registry.add(Arc::new(Resource {
                group: row.group.to_owned(),
                version: row.version.to_owned(),
                api_version: api_version(row.group, row.version),
                plural: row.plural.to_owned(),
                singular: row.singular.to_owned(),
                kind: row.kind.to_owned(),
                list_kind: format!("{}List", row.kind),
                scope: row.scope,
                verbs: strings(row.verbs),
                short_names: strings(row.short_names),
                categories: strings(row.categories),
                subresources: row
                    .subresources
                    .iter()
                    .map(|subresource| Subresource {
                        name: subresource.name.to_owned(),
                        verbs: strings(subresource.verbs),
                        kind: subresource
                            .kind
                            .map(|(group, version, kind)| (group.into(), version.into(), kind.into())),
                    })
                    .collect(),
                storage_hash: row.hash.to_owned(),
                collection,
                view: u8::from(events),
                flavour: if events { Flavour::Events } else { Flavour::Builtin },
                form: Form::of(if events { "v1" } else { &own }, row.kind),
                message: Form::of(&own, row.kind).message(),
            }));
        }
        registry
    }

    /// The built-in resources and these custom ones.
    pub(crate) fn with_custom(&self, definitions: &[Arc<Definition>], storage: &Storage) -> Self {
        let mut registry = Self { collections: self.collections.clone(), ..Self::default() };
        for resource in self.resources.iter().filter(|resource| !resource.is_custom()) {
            registry.add(resource.clone());
        }
        for definition in definitions {
            let name = (definition.group.clone(), definition.names.plural.clone());
            let collection = *registry.collections.entry(name).or_insert_with(|| storage.open());
            for resource in custom::resources(definition, collection) {
                registry.add(Arc::new(resource));
            }
        }
        registry
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        // A lookup by borrowed parts would need a custom key type; the cost per request is acceptable.
        let at = self.by_path.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))?;
        self.resources.get(*at)
    }

    /// The resource with this kind, for owner references.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|resource| resource.api_version == api_version && resource.kind == kind)
    }

    /// The resource of a collection, in its storage version.
    pub(crate) fn of_collection(&self, collection: CollectionId) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|resource| resource.collection == collection)
    }

    pub(crate) fn has_builtin_group(&self, group: &str) -> bool {
        self.resources.iter().any(|resource| resource.group == group && !resource.is_custom())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }

    fn add(&mut self, resource: Arc<Resource>) {
        let path = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.by_path.insert(path, self.resources.len());
        self.resources.push(resource);
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}
