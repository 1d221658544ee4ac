//! Discovery: the kinds that a server has, and the lookup of kinds by name.

mod fetch;
mod lookup;
mod manifest;

use kube_informer::building_blocks::Resource;
use kube_wire::schema::Schema;

pub(crate) use lookup::{Selected, Wanted};

use crate::cluster::Cluster;
use crate::failure::Failure;

/// One kind in one version, as discovery describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) resource: Resource,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
}

/// All kinds of a server: groups in the server's order, the preferred version of each first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) kinds: Vec<Kind>,
    /// Unavailable groups, such as `metrics.k8s.io/v1beta1`: their kinds are unknown.
    pub(crate) broken: Vec<String>,
}

impl Catalogue {
    /// Requests the kinds from the server.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses the request. An unavailable group is not an error: it is listed in `broken`.
    pub(crate) async fn fetch(cluster: &Cluster) -> Result<Self, Failure> {
        fetch::catalogue(cluster).await
    }
}

impl Kind {
    /// `pods`, `deployments.apps`: the name of the kind in messages.
    pub(crate) fn qualified(&self) -> String {
        match self.resource.group.as_str() {
            "" => self.resource.plural.clone(),
            group => format!("{}.{group}", self.resource.plural),
        }
    }

    /// `pod`, `deployment.apps`: the name of the kind in `-o name`.
    pub(crate) fn name_prefix(&self) -> String {
        let singular =
            if self.singular.is_empty() { self.resource.kind.to_lowercase() } else { self.singular.clone() };
        match self.resource.group.as_str() {
            "" => singular,
            group => format!("{singular}.{group}"),
        }
    }

    /// Whether objects of this kind add kinds to the server.
    pub(crate) fn defines_kinds(&self) -> bool {
        matches!(
            (self.resource.group.as_str(), self.resource.plural.as_str()),
            ("apiextensions.k8s.io", "customresourcedefinitions") | ("apiregistration.k8s.io", "apiservices")
        )
    }

    /// Whether the kind can be a custom resource: its group is a domain name, and no built-in kind has its name.
    pub(crate) fn is_custom(&self) -> bool {
        let type_meta = self.resource.type_meta();
        self.resource.group.contains('.')
            && Schema::builtin().kind(type_meta.api_version(), type_meta.kind()).is_none()
    }

    /// The path of the CustomResourceDefinition of this kind.
    ///
    /// # Errors
    /// If the kind's name cannot be part of a URL.
    pub(crate) fn definition_path(&self) -> Result<String, Failure> {
        let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
        Resource::new(group, "v1", plural, "CustomResourceDefinition")
            .path(None, Some(&self.qualified()))
            .map_err(|error| Failure::Usage(error.to_string()))
    }

    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// The path of the collection, or of one object in it.
    ///
    /// # Errors
    /// If a name cannot be part of a URL.
    pub(crate) fn path(&self, namespace: Option<&str>, name: Option<&str>) -> Result<String, Failure> {
        let namespace = namespace.filter(|_| self.namespaced);
        self.resource.path(namespace, name).map_err(|error| Failure::Usage(error.to_string()))
    }
}
