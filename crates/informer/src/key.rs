//! The key of an object in a store.

use std::sync::Arc;

use kube_core::Resource as KubeResource;
use kube_wire::Head;

/// Namespace and name of an object. The namespace of a cluster-scoped object is empty. Prints as `namespace/name`, or
/// `name`. Cloning is cheap.
///
/// Keys from informers and stores name no cluster. A program that follows several clusters can prefix one: `east//web/api`,
/// or `east//node-7` for a cluster-scoped object.
///
/// ```
/// use kube_informer::Key;
///
/// let key = Key::new("web", "api").in_cluster("east");
/// assert_eq!(key.to_string(), "east//web/api");
/// assert_eq!((key.cluster(), key.namespace(), key.name()), (Some("east"), "web", "api"));
/// assert_eq!("east//web/api".parse(), Ok(key));
/// ```
#[derive(Clone, derive_more::Debug, derive_more::Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[debug("{text}")]
#[display("{text}")]
pub struct Key {
    /// `[cluster//][namespace/]name`, in one allocation. Keys sort in the order of the server's lists. Neither a namespace nor a
    /// name can contain a slash, so parsing from the end is unambiguous for any cluster name.
    text: Arc<str>,
}

/// The text is not a valid object key, or the object has no valid key.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "invalid object key `{0}`: expected `name` or `namespace/name`, with or without `cluster//` in front"
)]
pub struct InvalidKey(pub(crate) String);

// === impl Key ===

impl Key {
    /// A key from a namespace (empty for cluster-scoped objects) and a name.
    pub fn new(namespace: &str, name: &str) -> Self {
        let text =
            if namespace.is_empty() { Arc::from(name) } else { Arc::from([namespace, "/", name].concat()) };
        Self { text }
    }

    /// The key of a typed object.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube_informer::Key;
    ///
    /// let mut pod = Pod::default();
    /// (pod.metadata.namespace, pod.metadata.name) = (Some("web".into()), Some("api".into()));
    /// assert_eq!(Key::of(&pod), Key::new("web", "api"));
    /// ```
    pub fn of(object: &impl KubeResource) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    /// The key of an object whose head was read.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn of_head(head: &Head<'_>) -> Self {
        Self::new(head.namespace(), head.name())
    }

    /// The key with this cluster instead of its own. An empty cluster removes it.
    #[must_use]
    pub fn in_cluster(&self, cluster: &str) -> Self {
        let within = self.cluster().map_or(&*self.text, |named| &self.text[named.len() + "//".len()..]);
        let text = if cluster.is_empty() { within.into() } else { [cluster, "//", within].concat().into() };
        Self { text }
    }

    /// The cluster, if the key names one.
    pub fn cluster(&self) -> Option<&str> {
        let (before, _) = self.text.rsplit_once('/')?;
        before.strip_suffix('/').or_else(|| before.rsplit_once('/')?.0.strip_suffix('/'))
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        let before = self.text.rsplit_once('/').map_or("", |(before, _)| before);
        before.rsplit_once('/').map_or(before, |(_, namespace)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.text.rsplit_once('/').map_or(&*self.text, |(_, name)| name)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// It hashes as its text does, so maps can be queried with a `&str`.
#[doc(hidden)]
impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl std::str::FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let key = Self { text: text.into() };
        // The rest is `name` or `namespace/name`.
        let within = key.cluster().map_or(text, |cluster| &text[cluster.len() + "//".len()..]);
        let is_valid = key.cluster() != Some("")
            && within.split('/').count() <= 2
            && within.split('/').all(|part| !part.is_empty());
        if is_valid { Ok(key) } else { Err(InvalidKey(text.to_owned())) }
    }
}

#[cfg(feature = "kube-runtime")]
impl<K: kube_runtime::reflector::Lookup> From<&kube_runtime::reflector::ObjectRef<K>> for Key {
    fn from(object: &kube_runtime::reflector::ObjectRef<K>) -> Self {
        Self::new(object.namespace.as_deref().unwrap_or_default(), &object.name)
    }
}

#[cfg(feature = "kube-runtime")]
/// The cluster is dropped: an `ObjectRef` cannot name one.
impl<K: kube_runtime::reflector::Lookup> From<&Key> for kube_runtime::reflector::ObjectRef<K>
where
    K::DynamicType: Default,
{
    fn from(key: &Key) -> Self {
        let object = Self::new(key.name());
        if key.namespace().is_empty() { object } else { object.within(key.namespace()) }
    }
}

#[cfg(all(test, feature = "kube-runtime"))]
mod tests {
    use super::*;

    #[test]
    fn a_key_converts_to_an_object_ref_and_back() {
        use k8s_openapi::api::core::v1::{Node, Pod};
        use kube_runtime::reflector::ObjectRef;

        let key = Key::new("web", "api");
        let object = ObjectRef::<Pod>::from(&key);
        assert_eq!((object.namespace.as_deref(), &*object.name), (Some("web"), "api"));
        assert_eq!(Key::from(&object), key);
        let node = ObjectRef::<Node>::from(&Key::new("", "node-7"));
        assert_eq!((node.namespace.as_deref(), Key::from(&node).as_str()), (None, "node-7"));
    }
}
