//! Which resource: the part of the URL that does not change.

use kube_core::{ApiResource, DynamicResourceScope, Resource as KubeResource};
use kube_wire::TypeMeta;

/// A resource of the API, as its URL and its objects name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// API group; empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name, as in the URL: `pods`.
    pub plural: String,
    /// Kind of the objects: `Pod`.
    pub kind: String,
}

impl Resource {
    /// A resource by its names: `Resource::new("apps", "v1", "deployments", "Deployment")`.
    pub fn new(group: &str, version: &str, plural: &str, kind: &str) -> Self {
        let [group, version, plural, kind] = [group, version, plural, kind].map(str::to_owned);
        Self { group, version, plural, kind }
    }

    /// The resource of a type: a `k8s_openapi` type, or one with `#[derive(CustomResource)]`.
    pub fn of<K>() -> Self
    where
        K: KubeResource<DynamicType = ()>,
        K::Scope: 'static,
    {
        Self::new(&K::group(&()), &K::version(&()), &K::plural(&()), &K::kind(&()))
    }

    /// apiVersion and kind of its objects.
    pub fn type_meta(&self) -> TypeMeta {
        TypeMeta::new(&self.api_version(), &self.kind)
    }

    fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of the collection, in one namespace or in all.
    pub(super) fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let namespace = namespace.map_or(String::new(), |namespace| format!("/namespaces/{namespace}"));
        format!("{root}/{}{namespace}/{}", self.api_version(), self.plural)
    }
}

impl From<&ApiResource> for Resource {
    fn from(resource: &ApiResource) -> Self {
        Self::new(&resource.group, &resource.version, &resource.plural, &resource.kind)
    }
}

/// Dynamic resources know their names at run time.
impl Resource {
    /// The resource of a dynamic type.
    pub fn of_dynamic<K>(dynamic: &K::DynamicType) -> Self
    where
        K: KubeResource<Scope = DynamicResourceScope>,
    {
        Self::new(&K::group(dynamic), &K::version(dynamic), &K::plural(dynamic), &K::kind(dynamic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_the_apis() {
        let pods = Resource::of::<k8s_openapi::api::core::v1::Pod>();
        assert_eq!(pods.path(None), "/api/v1/pods");
        assert_eq!(pods.path(Some("web")), "/api/v1/namespaces/web/pods");
        let deployments = Resource::of::<k8s_openapi::api::apps::v1::Deployment>();
        assert_eq!(deployments.path(None), "/apis/apps/v1/deployments");
        assert_eq!(deployments.type_meta().to_string(), "apps/v1/Deployment");
    }
}
