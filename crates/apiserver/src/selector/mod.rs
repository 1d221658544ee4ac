//! Which objects a list, a watch or a deletion is about.

mod fields;

use std::borrow::Cow;

pub(crate) use fields::selectable_fields;
use kube_wire::{FieldSelector, LabelSelector};

use crate::http::Status;
use crate::resources::Resource;
use crate::storage::{Attributes, Stored};

/// A label selector and a field selector, both possibly empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    namespaced: bool,
}

impl Selection {
    pub(crate) fn parse(resource: &Resource, labels: &str, fields: &str) -> Result<Self, Status> {
        let labels = labels.parse::<LabelSelector>();
        let labels = labels.map_err(|error| Status::bad_request(error.kubernetes_message()))?;
        let fields = fields::parse(resource, fields).map_err(Status::bad_request)?;
        Ok(Self { labels, fields, namespaced: resource.namespaced() })
    }

    /// Whether everything is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Stored) -> bool {
        let key = &*object.key;
        let (namespace, name) =
            if self.namespaced { key.split_once('/').unwrap_or(("", key)) } else { ("", key) };
        has_labels(&self.labels, &object.attributes)
            && fields::matches(&self.fields, namespace, name, &object.attributes)
    }
}

/// Whether a selector selects these labels.
pub(crate) fn has_labels(selector: &LabelSelector, attributes: &Attributes) -> bool {
    selector.matches_by(|label| attributes.label(label).map(Cow::Borrowed))
}
