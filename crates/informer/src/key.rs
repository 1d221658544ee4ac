//! The name under which an object is stored.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kube_wire::Head;

/// Namespace and name of an object; the namespace is empty for a cluster-scoped one. Prints as `namespace/name`, or
/// `name`. Cloning is cheap.
///
/// Keys made by informers and stores name no cluster. A program that follows several clusters can put one in front:
/// `east//web/api`, or `east//node-7` for a cluster-scoped object.
///
/// ```
/// use kube_informer::Key;
///
/// let key = Key::new("web", "api").in_cluster("east");
/// assert_eq!(key.to_string(), "east//web/api");
/// assert_eq!((key.cluster(), key.namespace(), key.name()), (Some("east"), "web", "api"));
/// assert_eq!("east//web/api".parse(), Ok(key));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `[cluster//][namespace/]name`: one allocation, ordered as the server orders. Neither a namespace nor a name can
    /// hold a slash, so reading from the end is unambiguous whatever the cluster is called.
    text: Arc<str>,
}

/// The text is not the key of an object.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid object key `{0}`: write `name` or `namespace/name`, with or without `cluster//` in front")]
pub struct InvalidKey(String);

// === impl Key ===

impl Key {
    /// From a namespace (empty for cluster-scoped objects) and a name.
    pub fn new(namespace: &str, name: &str) -> Self {
        let text =
            if namespace.is_empty() { Arc::from(name) } else { Arc::from([namespace, "/", name].concat()) };
        Self { text }
    }

    /// The key of an object.
    pub fn of(head: &Head<'_>) -> Self {
        Self::new(head.namespace(), head.name())
    }

    /// The same object's key in this cluster, in place of the one it names. An empty text names none.
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

/// Hashes as its text does, so that maps can be asked with a `&str`.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl std::str::FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let key = Self { text: text.into() };
        // Whatever is not a cluster is `name` or `namespace/name`.
        let within = key.cluster().map_or(text, |cluster| &text[cluster.len() + "//".len()..]);
        let is_valid = key.cluster() != Some("")
            && within.split('/').count() <= 2
            && within.split('/').all(|part| !part.is_empty());
        if is_valid { Ok(key) } else { Err(InvalidKey(text.to_owned())) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(feature = "kube-runtime")]
impl<K: kube_runtime::reflector::Lookup> From<&kube_runtime::reflector::ObjectRef<K>> for Key {
    fn from(object: &kube_runtime::reflector::ObjectRef<K>) -> Self {
        Self::new(object.namespace.as_deref().unwrap_or_default(), &object.name)
    }
}

#[cfg(feature = "kube-runtime")]
/// The cluster is left out: an `ObjectRef` cannot name one.
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
    fn a_key_is_an_object_ref_and_back() {
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
