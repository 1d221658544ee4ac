//! Checks what one reader reads from a store.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::history::History;
use crate::selection::{Selection, brief, key, version};
use crate::trust::Trust;
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

    /// Checks a view of one scope (a namespace, or an empty name for all) at a revision. It must equal the server's
    /// state at that revision, and must not be older than an earlier view.
    pub fn view(&mut self, at: (&str, u64), view: &[Value], trust: &Trust, history: &History) -> Judged {
        let (scope, revision) = at;
        let (epoch, last) = self.seen.get(scope).copied().unwrap_or_default();
        let selection = self.selection.of_scope(scope);
        let mut why = format!("regressed from version {last}");
        for candidate in (epoch..=history.epoch()).filter(|one| *one > epoch || revision >= last) {
            match compare(view, (candidate, revision), &selection, trust, history) {
                Ok(_) => {
                    self.seen.insert(scope.to_owned(), (candidate, revision));
                    return Ok(());
                }
                Err(found) => why = found,
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
        // A restore resets versions.
        Some(stored) if version(stored) >= version(state) || history.epoch() > 0 => Ok(()),
        Some(stored) => broken(promise, format!("expected {}; store has {}", brief(state), brief(stored))),
        None if (0..=history.epoch()).any(is_gone) => Ok(()),
        None => broken(promise, format!("expected {}; store lacks it", brief(state))),
    }
}

/// Checks an index over a label. Under `value` it must have exactly the objects of the view with this label value.
pub fn check_index(label: &str, value: &str, found: &[Value], view: &[Value]) -> Judged {
    let has_label = |object: &&Value| object["metadata"]["labels"].get(label).is_some_and(|is| is == value);
    let expected = view.iter().filter(has_label).map(key).collect::<BTreeSet<_>>();
    let keys = found.iter().map(key).collect::<BTreeSet<_>>();
    if expected == keys && found.len() == keys.len() {
        return Ok(());
    }
    broken("8", format!("the index {label}={value} has {keys:?}; expected {expected:?}"))
}

/// Checks at the end of a run that the objects equal the server's. The server was idle and reachable long enough. Returns
/// the keys that differ and are excused.
pub fn check_state<'a>(
    objects: impl IntoIterator<Item = &'a Value>,
    selection: &Selection,
    trust: &Trust,
    history: &History,
) -> Judged<BTreeSet<String>> {
    let compared = compare(objects, (history.epoch(), u64::MAX), selection, trust, history);
    compared.or_else(|found| broken("1", format!("the state {found}")))
}

/// Compares objects with the server's at a revision of an epoch. Returns the excused keys, or the first other difference.
fn compare<'a>(
    objects: impl IntoIterator<Item = &'a Value>,
    at: (usize, u64),
    selection: &Selection,
    trust: &Trust,
    history: &History,
) -> Judged<BTreeSet<String>> {
    let (mut missing, mut excused) = (history.state_at(at.0, at.1, selection), BTreeSet::new());
    let mut excuse = |key: &str, found: Option<&Value>, why: String| {
        excused.insert(key.to_owned());
        if trust.excuses((key, found), at, selection, history) { Ok(()) } else { Err(why) }
    };
    for object in objects {
        let key = key(object);
        match missing.remove(&*key) {
            None => excuse(&key, Some(object), format!("has {}, which did not exist", brief(object)))?,
            Some(expected)
                if version(expected) == version(object) && selection.same_content(expected, object) => {}
            Some(expected) => {
                let why = format!("has {} instead of {}, or other content", brief(object), brief(expected));
                excuse(&key, Some(object), why)?;
            }
        }
    }
    missing.iter().try_for_each(|(key, object)| excuse(key, None, format!("lacks {}", brief(object))))?;
    Ok(excused)
}
