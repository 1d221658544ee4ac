//! The objects that a list, a watch or a deletion selects.

mod fields;

use std::borrow::Cow;

pub(crate) use fields::selectable_fields;
use kube_wire::shard::{InvalidShardSelector, ShardSelector};
use kube_wire::{FieldSelector, LabelSelector};

use crate::http::Status;
use crate::resources::Resource;
use crate::storage::{Attributes, Stored};

/// A label selector and a field selector, both possibly empty, and a range of hashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    shard: Option<ShardSelector>,
    namespaced: bool,
}

impl Selection {
    /// Parses selectors; those that are empty select everything.
    pub(crate) fn parse(
        resource: &Resource,
        labels: &str,
        fields: &str,
        shard: &str,
    ) -> Result<Self, Status> {
        let labels = labels.parse::<LabelSelector>();
        let labels = labels.map_err(|error| Status::bad_request(error.kubernetes_message()))?;
        let fields = fields::parse(resource, fields).map_err(Status::bad_request)?;
        let shard = (!shard.is_empty()).then(|| shard.parse()).transpose();
        let shard = shard.map_err(|error: InvalidShardSelector| Status::internal(error.to_string()))?;
        Ok(Self { labels, fields, shard, namespaced: resource.namespaced() })
    }

    /// Whether all objects are selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.is_any_content() && self.shard.is_none()
    }

    /// Whether objects are selected regardless of their labels and fields.
    pub(crate) fn is_any_content(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The selected hashes; `None` for all.
    pub(crate) fn shard(&self) -> Option<&ShardSelector> {
        self.shard.as_ref()
    }

    pub(crate) fn matches(&self, object: &Stored) -> bool {
        let key = &*object.key;
        let (namespace, name) =
            if self.namespaced { key.split_once('/').unwrap_or(("", key)) } else { ("", key) };
        let attributes = &object.attributes;
        self.shard.as_ref().is_none_or(|shard| shard.selects(namespace, attributes.uid()))
            && has_labels(&self.labels, attributes)
            && fields::matches(&self.fields, namespace, name, attributes)
    }
}

/// Whether a selector matches these labels.
pub(crate) fn has_labels(selector: &LabelSelector, attributes: &Attributes) -> bool {
    selector.matches_by(|label| attributes.label(label).map(Cow::Borrowed))
}
