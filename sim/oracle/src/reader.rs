//! Checks what one reader reads from a store.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::history::{History, Objects};
use crate::selection::{Selection, brief, key, version};
use crate::{Judged, broken};

/// One reader of one store. A store has one scope per namespace of its selection, or one for all.
#[derive(Debug)]
pub struct Reader {
    selection: Selection,
    /// Epoch and revision of the newest view of each scope.
    seen: BTreeMap<String, (usize, u64)>,
}

impl Reader {
    /// A reader that has read nothing yet.
    pub fn new(selection: Selection) -> Self {
        Self { selection, seen: BTreeMap::new() }
    }

    /// Checks a view of one scope (a namespace, or an empty name for all). It must equal the server's state at its
    /// resourceVersion, and must not be older than an earlier view.
    pub fn view(&mut self, scope: &str, revision: u64, objects: &[Value], history: &History) -> Judged {
        let (epoch, last) = self.seen.get(scope).copied().unwrap_or_default();
        let selection = self.selection.of_scope(scope);
        let mut why = format!("regressed from version {last}");
        for candidate in epoch..=history.epoch() {
            if candidate == epoch && revision < last {
                continue;
            }
            match difference(history.state_at(candidate, revision, &selection), objects, &selection) {
                None => {
                    self.seen.insert(scope.to_owned(), (candidate, revision));
                    return Ok(());
                }
                Some(found) => why = found,
            }
        }
        broken("8", format!("the view of {scope:?} at version {revision} {why}"))
    }
}

/// Checks that a store is not older than a state that a listener is notified of (promise 4), or that a caller has
/// waited for (promise 11).
pub fn check_current(
    promise: &str,
    (state, stored): (&Value, Option<&Value>),
    selection: &Selection,
    history: &History,
) -> Judged {
    let is_gone = |epoch| {
        history.left_after(epoch, state, selection)
            || history.left_at(epoch, state, selection)
            || (epoch > 0 && !history.had(epoch, state, selection))
    };
    match stored {
        Some(stored) if version(stored) >= version(state) => Ok(()),
        // A restore resets versions.
        Some(_) if history.epoch() > 0 => Ok(()),
        Some(stored) => broken(promise, format!("expected {}; store has {}", brief(state), brief(stored))),
        None if (0..=history.epoch()).any(is_gone) => Ok(()),
        None => broken(promise, format!("expected {}; store lacks it", brief(state))),
    }
}

/// Checks an index over a label. Under `value` it must have exactly the objects of the view with this label value.
pub fn check_index(label: &str, value: &str, found: &[Value], view: &[Value]) -> Judged {
    let has_label =
        |object: &&Value| object["metadata"]["labels"].get(label).is_some_and(|found| found == value);
    let expected = view.iter().filter(has_label).map(key).collect::<BTreeSet<_>>();
    let keys = found.iter().map(key).collect::<BTreeSet<_>>();
    if expected == keys && found.len() == keys.len() {
        return Ok(());
    }
    broken("8", format!("the index {label}={value} has {keys:?}; expected {expected:?}"))
}

/// Checks at the end of a run that the objects equal the server's. The server was idle and reachable long enough.
pub fn check_state<'a>(
    objects: impl IntoIterator<Item = &'a Value>,
    history: &History,
    selection: &Selection,
) -> Judged {
    match difference(history.state(selection), objects, selection) {
        Some(found) => broken("1", format!("the state {found}")),
        None => Ok(()),
    }
}

/// The first difference between objects and the expected ones.
fn difference<'a>(
    mut missing: Objects<'_>,
    objects: impl IntoIterator<Item = &'a Value>,
    selection: &Selection,
) -> Option<String> {
    for object in objects {
        match missing.remove(&*key(object)) {
            None => return Some(format!("has {}, which did not exist", brief(object))),
            Some(expected) if version(expected) != version(object) => {
                return Some(format!("has {} instead of {}", brief(object), brief(expected)));
            }
            Some(expected) if !selection.same_content(expected, object) => {
                return Some(format!("has {} with different content", brief(object)));
            }
            Some(_) => {}
        }
    }
    missing.values().next().map(|object| format!("lacks {}", brief(object)))
}
