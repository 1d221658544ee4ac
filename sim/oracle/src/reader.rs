//! Judges what one reader sees in a store.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::history::History;
use crate::listener::equal;
use crate::selection::{Selection, brief, key, version};
use crate::{Violation, broken};

/// One reader of one store. A store has a scope for each namespace of its selection, or one for all.
#[derive(Debug)]
pub struct Reader {
    selection: Selection,
    /// Epoch and revision of the newest view of each scope.
    seen: BTreeMap<String, (usize, u64)>,
}

impl Reader {
    /// A reader that has read nothing yet.
    pub fn new(selection: Selection, history: &History) -> Self {
        let scopes =
            if selection.namespaces.is_empty() { vec![String::new()] } else { selection.namespaces.clone() };
        let epoch = history.epoch().saturating_sub(1);
        Self { selection, seen: scopes.into_iter().map(|scope| (scope, (epoch, 0))).collect() }
    }

    /// Judges a view of one scope (a namespace, or an empty name for all): it must be the server's state at its
    /// resourceVersion, and not older than an earlier view.
    ///
    /// # Errors
    /// If it breaks a promise.
    pub fn view(
        &mut self,
        scope: &str,
        revision: u64,
        objects: &[Value],
        history: &History,
    ) -> Result<(), Violation> {
        let (epoch, last) = self.seen.get(scope).copied().unwrap_or_default();
        let mut selection = self.selection.clone();
        if !scope.is_empty() {
            selection.namespaces = vec![scope.to_owned()];
        }
        let mut why = String::new();
        for candidate in epoch..=history.epoch() {
            let went_back = candidate == epoch && revision < last;
            if went_back {
                why = format!("the view of {scope:?} went from version {last} to {revision}");
                continue;
            }
            match difference(&history.state_at(candidate, revision, &selection), objects, &selection) {
                None => {
                    self.seen.insert(scope.to_owned(), (candidate, revision));
                    return Ok(());
                }
                Some(found) => why = format!("the view of {scope:?} at version {revision}: {found}"),
            }
        }
        broken(8, why)
    }

    /// Judges what a store shows while a listener is notified of `event`, of which the store must be no older.
    ///
    /// # Errors
    /// If the store is behind the event.
    pub fn store_first(
        &self,
        event: &Value,
        stored: Option<&Value>,
        history: &History,
    ) -> Result<(), Violation> {
        match stored {
            Some(stored) if version(stored) >= version(event) => Ok(()),
            // After a restore versions begin anew.
            Some(_) if history.epoch() > 0 => Ok(()),
            Some(stored) => {
                broken(4, format!("{} is notified; the store has {}", brief(event), brief(stored)))
            }
            None => {
                let gone = (0..=history.epoch()).any(|epoch| {
                    history.left_after(epoch, event, version(event), &self.selection)
                        || history.left_at(epoch, event, &self.selection)
                        || (epoch > 0 && !history.had(epoch, event, &self.selection))
                });
                if gone {
                    Ok(())
                } else {
                    broken(4, format!("{} is notified; the store lacks it", brief(event)))
                }
            }
        }
    }

    /// At the end, when the server has been quiet and reachable for long: the store equals the server's state.
    ///
    /// # Errors
    /// If it does not.
    pub fn converged(&self, objects: &[Value], history: &History) -> Result<(), Violation> {
        let view = objects.iter().map(|object| (key(object), object.clone())).collect();
        equal(&view, history, &self.selection)
    }
}

fn difference(expected: &BTreeMap<&str, &Value>, objects: &[Value], selection: &Selection) -> Option<String> {
    let mut missing = expected.clone();
    for object in objects {
        match missing.remove(&*key(object)) {
            None => return Some(format!("has {}, which was not there", brief(object))),
            Some(expected) if version(expected) != version(object) => {
                return Some(format!("has {} instead of {}", brief(object), brief(expected)));
            }
            Some(expected) if !selection.same_content(expected, object) => {
                return Some(format!("has {} with other content", brief(object)));
            }
            Some(_) => {}
        }
    }
    missing.values().next().map(|object| format!("lacks {}", brief(object)))
}

/// Judges an index over a label: under `value` it must have exactly the objects of the view that have it.
///
/// # Errors
/// If an entry is missing, or too many.
pub fn check_index(label: &str, value: &str, found: &[Value], view: &[Value]) -> Result<(), Violation> {
    let keys = |objects: &mut dyn Iterator<Item = &Value>| {
        let mut keys = objects.map(key).collect::<Vec<_>>();
        keys.sort();
        keys
    };
    let mut with_label = view
        .iter()
        .filter(|object| object["metadata"]["labels"].get(label).is_some_and(|found| found == value));
    let (expected, found) = (keys(&mut with_label), keys(&mut found.iter()));
    if expected == found {
        return Ok(());
    }
    broken(8, format!("the index {label}={value} has {found:?}; the objects say {expected:?}"))
}
