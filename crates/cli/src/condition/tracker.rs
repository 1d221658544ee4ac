//! Tracks which of the selected objects meet a condition.

use std::collections::{BTreeMap, BTreeSet};

use kube_informer::Key;
use kube_informer::StoredObject;
use serde_json::Value;

use super::Condition;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::field_filter::FieldMatchers;
use crate::flags::SelectFlags;
use crate::mirror::Mirror;

/// Objects that a message names; the others are counted.
const NAMED_MAX: usize = 3;

/// The objects that do not meet a condition yet. The objects of a kind are known when its initial list is complete.
pub(crate) struct Tracker {
    condition: Condition,
    /// By the number of the mirror.
    pending: BTreeSet<(usize, String)>,
    unsynced: BTreeSet<usize>,
}

impl Tracker {
    /// Tracks the objects of this number of mirrors.
    pub(crate) fn new(condition: Condition, mirrors: usize) -> Self {
        Self { condition, pending: BTreeSet::new(), unsynced: (0..mirrors).collect() }
    }

    /// Takes the objects of a complete initial list that match the fields. Returns those that meet the condition.
    ///
    /// # Errors
    /// Returns an error if a named object does not exist, or if no object is selected, unless the condition is about creation or
    /// deletion.
    pub(crate) fn synced(
        &mut self,
        number: usize,
        mirror: &Mirror,
        cluster: &Cluster,
        select: &SelectFlags,
        fields: &FieldMatchers,
    ) -> Result<Vec<Key>, Failure> {
        if !self.unsynced.remove(&number) {
            return Ok(Vec::new());
        }
        let view = mirror.informer.lister().view();
        let mut matching = BTreeMap::new();
        for object in view.snapshot().iter() {
            if fields.match_all(object)? {
                matching.insert(object.key(), object);
            }
        }
        let keys = match &mirror.selected.name {
            Some(name) => {
                let namespaces = select.namespaces_of(cluster, &mirror.selected);
                namespaces
                    .into_iter()
                    .map(|namespace| Key::new(namespace.unwrap_or_default(), name))
                    .collect()
            }
            None => matching.keys().cloned().collect::<Vec<_>>(),
        };
        let with_fields = if fields.is_empty() { "" } else { " that match --field" };
        if keys.is_empty() && self.condition != Condition::Deleted {
            let what = select.describe(cluster, &mirror.selected);
            return Err(Failure::NotFound(format!("no {what}{with_fields} found")));
        }
        let mut met = Vec::new();
        for key in keys {
            let holds = match matching.get(&key) {
                Some(object) => self.condition.holds(&decoded(object)),
                None if self.condition == Condition::Deleted => true,
                None if self.condition == Condition::Created => false,
                None => {
                    let kind = mirror.selected.kind.qualified();
                    let why = match view.snapshot().get(&key) {
                        Some(_) => "does not match --field",
                        None => "not found",
                    };
                    return Err(Failure::NotFound(format!(
                        "cannot wait for {}: {kind} {:?} {why}",
                        mirror.objects,
                        key.name()
                    )));
                }
            };
            if holds {
                met.push(key);
            } else {
                self.pending.insert((number, key.as_str().to_owned()));
            }
        }
        Ok(met)
    }

    /// Takes a change of an object. Returns whether the object meets the condition for the first time.
    ///
    /// An object that no longer matches the fields counts as deleted, but other conditions are still tested: a field that selects
    /// objects may be the one that the condition waits for.
    ///
    /// # Errors
    /// If the object's bytes are malformed.
    pub(crate) fn changed(
        &mut self,
        number: usize,
        object: &StoredObject,
        deleted: bool,
        fields: &FieldMatchers,
    ) -> Result<bool, Failure> {
        let entry = (number, object.key().as_str().to_owned());
        if !self.pending.contains(&entry) {
            return Ok(false);
        }
        let holds = match &self.condition {
            Condition::Deleted => deleted || !fields.match_all(object)?,
            Condition::Created => !deleted && fields.match_all(object)?,
            condition => !deleted && condition.holds(&decoded(object)),
        };
        Ok(holds && self.pending.remove(&entry))
    }

    /// Whether the initial lists of all kinds are complete.
    pub(crate) fn is_synced(&self) -> bool {
        self.unsynced.is_empty()
    }

    /// Whether all objects of all kinds meet the condition.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.is_empty() && self.unsynced.is_empty()
    }

    /// The objects that are waited for: `pods/web and 3 more to be deleted`.
    pub(crate) fn describe(&self, mirrors: &[Mirror]) -> String {
        let mut names = Vec::new();
        for number in self.unsynced.iter().filter(|number| **number < mirrors.len()) {
            names.push(mirrors[*number].selected.kind.qualified());
        }
        for (number, key) in &self.pending {
            names.push(format!("{}/{key}", mirrors[*number].selected.kind.qualified()));
        }
        let more = names.len().saturating_sub(NAMED_MAX);
        names.truncate(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more} {}", names.join(", "), self.condition)
    }
}

/// An object that cannot be decoded meets no condition.
fn decoded(object: &StoredObject) -> Value {
    object.decode().unwrap_or_default()
}
