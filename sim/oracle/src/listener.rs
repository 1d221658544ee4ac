//! Judges the events that one handler or subscription receives.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::history::History;
use crate::selection::{Selection, brief, key, uid, version};
use crate::{Violation, broken};

/// What a listener received.
#[derive(Clone, Debug)]
pub enum Seen {
    /// An object is new.
    Added(Value),
    /// An object has another state, or the same if `resync`.
    Updated {
        /// The state that the listener received last.
        old: Value,
        /// The state now.
        new: Value,
        /// Nothing happened; the object is reported again.
        resync: bool,
    },
    /// An object is gone.
    Deleted {
        /// The last state.
        last: Value,
        /// Whether `last` is the state in which it was deleted.
        final_state_known: bool,
    },
    /// The initial state is complete.
    Synced,
}

/// One listener's view, built from its events alone.
#[derive(Debug)]
pub struct Listener {
    selection: Selection,
    view: BTreeMap<String, Value>,
    /// Epoch and version of the newest state ever received of each key, deleted ones included. A relist that notices a
    /// restore brings one key after the other into the new epoch.
    newest: BTreeMap<String, (usize, u64)>,
    synced: bool,
}

impl Listener {
    /// A listener that has received nothing yet.
    pub fn new(selection: Selection) -> Self {
        Self { selection, view: BTreeMap::new(), newest: BTreeMap::new(), synced: false }
    }

    /// How many objects the listener knows.
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Whether it knows no object.
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// Judges an event.
    ///
    /// # Errors
    /// If it breaks a promise.
    pub fn receive(&mut self, seen: &Seen, history: &History) -> Result<(), Violation> {
        match seen {
            Seen::Synced if self.synced => broken(9, "synced twice"),
            Seen::Synced => {
                self.synced = true;
                Ok(())
            }
            Seen::Added(object) => self.added(object, history),
            Seen::Updated { old, new, resync } => self.updated(old, new, *resync, history),
            Seen::Deleted { last, final_state_known } => self.deleted(last, *final_state_known, history),
        }
    }

    fn added(&mut self, object: &Value, history: &History) -> Result<(), Violation> {
        if let Some(known) = self.view.get(&key(object)) {
            return broken(3, format!("{} added, but {} was never deleted", brief(object), brief(known)));
        }
        self.moves_forward(object, history)?;
        self.view.insert(key(object), object.clone());
        Ok(())
    }

    fn updated(
        &mut self,
        old: &Value,
        new: &Value,
        resync: bool,
        history: &History,
    ) -> Result<(), Violation> {
        let Some(known) = self.view.get(&key(new)) else {
            return broken(3, format!("{} updated, but never added", brief(new)));
        };
        if (uid(known), version(known)) != (uid(old), version(old)) {
            return broken(
                5,
                format!("{} updated from {}, not from {}", brief(new), brief(old), brief(known)),
            );
        }
        if uid(old) != uid(new) {
            return broken(3, format!("{} replaced {} without a deletion", brief(new), brief(old)));
        }
        if resync {
            let same = version(old) == version(new);
            return if same { Ok(()) } else { broken(5, format!("a resync changed {}", brief(new))) };
        }
        self.moves_forward(new, history)?;
        self.view.insert(key(new), new.clone());
        Ok(())
    }

    fn deleted(&mut self, last: &Value, final_state_known: bool, history: &History) -> Result<(), Violation> {
        let Some(known) = self.view.remove(&key(last)) else {
            return broken(3, format!("{} deleted, but never added", brief(last)));
        };
        if uid(&known) != uid(last) {
            return broken(3, format!("{} deleted where {} was known", brief(last), brief(&known)));
        }
        let (known_in, _) = self.newest_of(last);
        let happened = |epoch: &usize| {
            if final_state_known {
                return history.left_at(*epoch, last, &self.selection);
            }
            // A later epoch may never have had the object.
            history.left_after(*epoch, last, version(last), &self.selection)
                || (*epoch > known_in && !history.had(*epoch, last, &self.selection))
        };
        if let Some(epoch) = (known_in..=history.epoch()).find(happened) {
            // Versions of an earlier epoch mean nothing in a later one.
            let version = if final_state_known || epoch == known_in { version(last) } else { 0 };
            self.newest.insert(key(last), (epoch, version));
            return Ok(());
        }
        let how = if final_state_known { "in this state" } else { "since" };
        broken(3, format!("{} reported as deleted; the server did not delete it {how}", brief(last)))
    }

    /// The state must be one that the server had: a newer one in the key's epoch, or any in a later epoch. (Epochs share
    /// the states that are older than the backup.)
    fn moves_forward(&mut self, object: &Value, history: &History) -> Result<(), Violation> {
        let (known_in, newest) = self.newest_of(object);
        let had = |epoch: &usize| history.had(*epoch, object, &self.selection);
        let in_order = |epoch: &usize| *epoch > known_in || version(object) > newest;
        if let Some(epoch) = (known_in..=history.epoch()).find(|epoch| had(epoch) && in_order(epoch)) {
            self.newest.insert(key(object), (epoch, version(object)));
            return Ok(());
        }
        if (known_in..=history.epoch()).any(|epoch| had(&epoch)) {
            return broken(2, format!("{} reported after version {newest}", brief(object)));
        }
        broken(1, format!("{} was reported; the server never had that state", brief(object)))
    }

    fn newest_of(&self, object: &Value) -> (usize, u64) {
        self.newest.get(&key(object)).copied().unwrap_or_default()
    }

    /// At the end, when the server has been quiet and reachable for long: the view equals the server's state.
    ///
    /// # Errors
    /// If it does not.
    pub fn converged(&self, history: &History) -> Result<(), Violation> {
        if !self.synced {
            return broken(9, "never synced");
        }
        equal(&self.view, history, &self.selection)
    }
}

/// Whether a set of objects equals the server's current state.
pub(crate) fn equal(
    view: &BTreeMap<String, Value>,
    history: &History,
    selection: &Selection,
) -> Result<(), Violation> {
    let served = history.state_at(history.epoch(), u64::MAX, selection);
    for (key, object) in view {
        let Some(expected) = served.get(&**key) else {
            return broken(1, format!("{} is known; the server does not have it", brief(object)));
        };
        if version(object) != version(expected) || !selection.same_content(object, expected) {
            return broken(1, format!("{} is known; the server has {}", brief(object), brief(expected)));
        }
    }
    match served.iter().find(|(key, _)| !view.contains_key(**key)) {
        Some((_, missing)) => broken(1, format!("{} is missing", brief(missing))),
        None => Ok(()),
    }
}
