//! Which objects a list, a watch or a deletion is about.

mod fields;
mod labels;

pub(crate) use fields::{FieldSelector, selectable_fields};
pub(crate) use labels::LabelSelector;

use crate::http::Status;
use crate::resources::Resource;
use crate::storage::Stored;

/// A label selector and a field selector, both possibly empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    namespaced: bool,
}

impl Selection {
    pub(crate) fn parse(resource: &Resource, labels: &str, fields: &str) -> Result<Self, Status> {
        let labels = LabelSelector::parse(labels).map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(fields).and_then(|fields| fields.resolve(resource));
        let fields = fields.map_err(Status::bad_request)?;
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
        self.labels.matches(&object.attributes) && self.fields.matches(namespace, name, &object.attributes)
    }
}
