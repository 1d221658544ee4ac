//! The name under which an object is stored.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kube_wire::Head;

/// Namespace and name of an object; the namespace is empty for a cluster-scoped one. Prints as `namespace/name`, or
/// `name`. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `namespace/name`, or `name`: one allocation, ordered as the server orders.
    text: Arc<str>,
}

/// The text is no key.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no object key: write `name`, or `namespace/name`")]
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

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        // Neither a namespace nor a name can hold a slash.
        self.text.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.text.split_once('/').map_or(&*self.text, |(_, name)| name)
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
        let parts = text.split('/').collect::<Vec<_>>();
        if parts.len() > 2 || parts.iter().any(|part| part.is_empty()) {
            return Err(InvalidKey(text.to_owned()));
        }
        Ok(Self { text: text.into() })
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
impl<K: kube_runtime::reflector::Lookup> From<&Key> for kube_runtime::reflector::ObjectRef<K>
where
    K::DynamicType: Default,
{
    fn from(key: &Key) -> Self {
        let object = Self::new(key.name());
        if key.namespace().is_empty() { object } else { object.within(key.namespace()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "kube-runtime")]
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

    #[test]
    fn a_key_is_namespace_and_name_or_name() {
        let key: Key = "web/api".parse().unwrap();
        assert_eq!((key.namespace(), key.name()), ("web", "api"));
        assert_eq!(key, Key::new("web", "api"));
        let key: Key = "node-7".parse().unwrap();
        assert_eq!((key.namespace(), key.name(), key.to_string().as_str()), ("", "node-7", "node-7"));
        for bad in ["", "/", "a/", "/b", "a/b/c"] {
            assert!(bad.parse::<Key>().unwrap_err().to_string().contains("namespace/name"), "{bad}");
        }
    }
}
