//! The resource: the constant part of the URL.

use kube_core::{ApiResource, DynamicResourceScope, Resource as KubeResource};
use kube_wire::TypeMeta;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A resource of the API, with the names in its URL and its objects.
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

    /// The same resource as kube names it.
    pub(crate) fn to_kube(&self) -> ApiResource {
        let Self { group, version, plural, kind } = self.clone();
        ApiResource { group, version, api_version: self.api_version(), kind, plural }
    }

    fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The URL path of the collection, in one namespace or in all, or of one object in it.
    ///
    /// # Errors
    /// Returns an error if a part is not a valid path segment: it is empty, `.` or `..`, or contains `/` or `%`. Other
    /// characters that are special in a URL are escaped.
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> Result<String, InvalidPathSegment> {
        let mut path = String::from(if self.group.is_empty() { "/api" } else { "/apis" });
        let group = Some(self.group.as_str()).filter(|group| !group.is_empty());
        let namespaces = namespace.map(|_| "namespaces");
        let segments = [group, Some(&self.version), namespaces, namespace, Some(&self.plural), name];
        for segment in segments.into_iter().flatten() {
            if matches!(segment, "" | "." | "..") || segment.contains(['/', '%']) {
                return Err(InvalidPathSegment { segment: segment.to_owned() });
            }
            path.push('/');
            path.extend(utf8_percent_encode(segment, ESCAPED));
        }
        Ok(path)
    }
}

/// A name that is not a valid segment of a URL path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid name {segment:?}: it must not be empty, `.` or `..`, or contain `/` or `%`")]
pub struct InvalidPathSegment {
    segment: String,
}

/// Characters that must be escaped in a path segment.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

impl From<&ApiResource> for Resource {
    fn from(resource: &ApiResource) -> Self {
        Self::new(&resource.group, &resource.version, &resource.plural, &resource.kind)
    }
}

/// Resources that are known only at run time.
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
    fn paths_follow_the_kubernetes_api() {
        let pods = Resource::of::<k8s_openapi::api::core::v1::Pod>();
        let path = |resource: &Resource, namespace, name| resource.path(namespace, name).unwrap();
        assert_eq!(path(&pods, None, None), "/api/v1/pods");
        assert_eq!(path(&pods, Some("web"), None), "/api/v1/namespaces/web/pods");
        assert_eq!(path(&pods, Some("web"), Some("api")), "/api/v1/namespaces/web/pods/api");
        let deployments = Resource::of::<k8s_openapi::api::apps::v1::Deployment>();
        assert_eq!(path(&deployments, None, None), "/apis/apps/v1/deployments");
        assert_eq!(deployments.type_meta().to_string(), "apps/v1/Deployment");
    }

    #[test]
    fn names_cannot_leave_their_segment_of_the_path() {
        let pods = Resource::new("", "v1", "pods", "Pod");
        for name in ["", ".", "..", "x/y", "../secrets", "%2e%2e"] {
            assert!(pods.path(Some(name), None).is_err() && pods.path(None, Some(name)).is_err(), "{name}");
        }
        let path = pods.path(Some("a?watch=1"), Some("system:x y#é")).unwrap();
        assert_eq!(path, "/api/v1/namespaces/a%3Fwatch%3D1/pods/system:x%20y%23%C3%A9");
    }
}
