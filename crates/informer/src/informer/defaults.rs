//! The settings that every informer of a factory begins with.

use std::fmt;
use std::sync::Arc;

use kube_core::DynamicObject;

use super::builder::InformerBuilder;

/// A function that makes settings on a builder. Equal only to its clones.
#[derive(Clone)]
pub(super) struct Defaults(Arc<SetDefaults>);

type SetDefaults = dyn Fn(InformerBuilder<DynamicObject>) -> InformerBuilder<DynamicObject> + Send + Sync;

/// Which settings of an informer are a factory's defaults. The builder's own call replaces them.
#[derive(Debug, Default)]
pub(super) struct Defaulted {
    pub(super) namespaces: bool,
    /// The projection. Its fields need not exist in every kind.
    pub(super) fields: bool,
    /// The transform. It is the same for all informers with the same defaults, so such informers can be shared.
    pub(super) transform: Option<Defaults>,
}

impl Defaults {
    pub(super) fn new(
        set: impl Fn(InformerBuilder<DynamicObject>) -> InformerBuilder<DynamicObject> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(set))
    }

    pub(super) fn set(&self, builder: InformerBuilder<DynamicObject>) -> InformerBuilder<DynamicObject> {
        (self.0)(builder)
    }
}

impl PartialEq for Defaults {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Defaults {}

impl fmt::Debug for Defaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Defaults")
    }
}
