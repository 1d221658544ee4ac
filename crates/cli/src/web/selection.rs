//! Selects the objects of a request: by namespace, label selector, field, index and text.
//!
//! | parameter | selects objects |
//! |---|---|
//! | `namespace=NAME` | in this namespace |
//! | `labels=SELECTOR` | that match this label selector, in the syntax of kubectl's `-l` |
//! | `field=TEST` | whose field passes a test, as `get --field`; may be repeated |
//! | `index=NAME&value=VALUE` | that have this value in an index |
//! | `text=TEXT` | whose namespace or name contains this text, in upper or lower case |

use kube_informer::StoredObject;
use kube_informer::building_blocks::Snapshot;
use kube_wire::{InvalidSelector, LabelSelector, TypeMeta};

use super::params::Params;
use super::{Refusal, check_field};
use crate::field_filter::{FieldFilter, FieldMatcher};
use crate::mirror::Mirror;

/// The selected objects.
#[derive(Default)]
pub(super) struct Selection {
    pub(super) namespace: Option<String>,
    labels: Option<LabelSelector>,
    fields: Vec<FieldFilter>,
    /// Name and value.
    pub(super) index: Option<(String, String)>,
    /// In lower case.
    pub(super) text: Option<String>,
}

/// A [`Selection`] compiled for objects of one type.
pub(super) struct Selector<'s> {
    selection: &'s Selection,
    fields: Vec<FieldMatcher>,
}

impl Selection {
    /// Takes its parameters and checks them against every requested mirror.
    pub(super) fn take(params: &mut Params, mirrors: &[(usize, &Mirror)]) -> Result<Self, Refusal> {
        let selection = Self::parse(params)?;
        mirrors.iter().try_for_each(|(_, mirror)| selection.check(mirror))?;
        Ok(selection)
    }

    /// Takes its parameters.
    pub(super) fn parse(params: &mut Params) -> Result<Self, Refusal> {
        let labels = params.one("labels")?.map(|text| text.parse()).transpose();
        let labels = labels.map_err(|error: InvalidSelector| Refusal::bad_request(error.to_string()))?;
        let index = match (params.one("index")?, params.one("value")?) {
            (Some(index), Some(value)) => Some((index, value)),
            (None, None) => None,
            _ => return Err(Refusal::bad_request("give index and value together")),
        };
        Ok(Self {
            namespace: params.one("namespace")?,
            labels,
            fields: params.all("field").iter().map(|text| parse_field(text)).collect::<Result<_, _>>()?,
            index,
            text: params.one("text")?.map(|text| text.to_lowercase()),
        })
    }

    /// Whether it selects every object.
    pub(super) fn is_everything(&self) -> bool {
        let Self { namespace, labels, fields, index, text } = self;
        namespace.is_none() && labels.is_none() && fields.is_empty() && index.is_none() && text.is_none()
    }

    /// Refuses a test that does not apply to the objects of a mirror.
    pub(super) fn check(&self, mirror: &Mirror) -> Result<(), Refusal> {
        for filter in &self.fields {
            check_field(mirror, &filter.path().to_string())?;
        }
        if let Some((index, _)) = &self.index {
            check_field(mirror, index)?;
        }
        self.selector(&mirror.selected.kind.resource.type_meta()).map(drop)
    }

    /// Compiles it for objects of this type.
    ///
    /// # Errors
    /// If the type is built in and lacks a field.
    pub(super) fn selector(&self, type_meta: &TypeMeta) -> Result<Selector<'_>, Refusal> {
        let fields = self.fields.iter().map(|filter| filter.matcher(type_meta)).collect::<Result<_, _>>();
        let fields = fields.map_err(|error| Refusal::bad_request(error.to_string()))?;
        Ok(Selector { selection: self, fields })
    }

    /// The objects of a snapshot that may match: those of an index if one was named, those of a namespace, or all.
    pub(super) fn candidates(
        &self,
        snapshot: &Snapshot,
    ) -> Result<Box<dyn Iterator<Item = StoredObject> + Send>, Refusal> {
        let Some((index, value)) = &self.index else {
            return Ok(match &self.namespace {
                Some(namespace) => {
                    Box::new(snapshot.namespace(namespace).cloned().collect::<Vec<_>>().into_iter())
                }
                None => Box::new(snapshot.clone().into_objects()),
            });
        };
        let found = snapshot.by_index(index, value).map_err(|_| {
            let names: Vec<_> = snapshot.indexes().collect();
            let known = match names.as_slice() {
                [] => "the mirror has no indexes".to_owned(),
                names => format!("indexes: {}", names.join(", ")),
            };
            Refusal::bad_request(format!(
                "unknown index {index:?}; {known}; use field={index}={value} instead"
            ))
        })?;
        Ok(Box::new(found.cloned().collect::<Vec<_>>().into_iter()))
    }
}

impl Selector<'_> {
    /// Whether an object is selected. One whose bytes cannot be read is not.
    pub(super) fn selects(&self, object: &StoredObject) -> bool {
        let Selection { namespace, labels, text, .. } = self.selection;
        namespace.as_deref().is_none_or(|namespace| namespace == object.namespace())
            && text.as_deref().is_none_or(|text| key_contains(object, text))
            && labels.as_ref().is_none_or(|labels| labels.matches_by(|label| object.labels().get(label)))
            && self.fields.iter().all(|field| field.matches(object).unwrap_or(false))
    }
}

/// Whether `namespace/name` contains a text in lower case.
pub(super) fn key_contains(object: &StoredObject, text: &str) -> bool {
    // Most names are in lower case, but those of some kinds (RBAC) need not be.
    object.key().as_str().to_lowercase().contains(text)
}

fn parse_field(text: &str) -> Result<FieldFilter, Refusal> {
    text.parse().map_err(|error| Refusal::bad_request(format!("invalid field test {text:?}: {error}")))
}
