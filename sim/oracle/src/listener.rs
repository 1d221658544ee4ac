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
    /// The epoch of what was received last.
    epoch: usize,
    view: BTreeMap<String, Value>,
    /// The newest version ever received of each key in this epoch, deleted ones included.
    newest: BTreeMap<String, u64>,
    synced: bool,
}

impl Listener {
    /// A listener that has received nothing yet.
    pub fn new(selection: Selection, history: &History) -> Self {
        // An informer that has not noticed a restore yet delivers the state of an earlier epoch.
        let epoch = history.epoch().saturating_sub(1);
        Self { selection, epoch, view: BTreeMap::new(), newest: BTreeMap::new(), synced: false }
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
        self.enter_epoch_of(object, history)?;
        self.moves_forward(object)?;
        self.view.insert(key(object), object.clone());
        Ok(())
    }

    fn updated(&mut self, old: &Value, new: &Value, resync: bool, history: &History) -> Result<(), Violation> {
        let Some(known) = self.view.get(&key(new)) else {
            return broken(3, format!("{} updated, but never added", brief(new)));
        };
        if (uid(known), version(known)) != (uid(old), version(old)) {
            return broken(5, format!("{} updated from {}, not from {}", brief(new), brief(old), brief(known)));
        }
        if uid(old) != uid(new) {
            return broken(3, format!("{} replaced {} without a deletion", brief(new), brief(old)));
        }
        if resync {
            let same = version(old) == version(new);
            return if same { Ok(()) } else { broken(5, format!("a resync changed {}", brief(new))) };
        }
        self.enter_epoch_of(new, history)?;
        self.moves_forward(new)?;
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
        for epoch in self.epoch..=history.epoch() {
            let happened = if final_state_known {
                history.left_at(epoch, last, &self.selection)
            } else {
                // A later epoch may never have had the object.
                history.left_after(epoch, last, version(last), &self.selection)
                    || (epoch > self.epoch && !history.had(epoch, last, &self.selection))
            };
            if happened {
                self.enter(epoch);
                if final_state_known {
                    self.newest.insert(key(last), version(last));
                }
                return Ok(());
            }
        }
        let how = if final_state_known { "in this state" } else { "since" };
        broken(3, format!("{} reported as deleted; the server did not delete it {how}", brief(last)))
    }

    /// The state must be one that the server had, in the listener's epoch or a later one.
    fn enter_epoch_of(&mut self, object: &Value, history: &History) -> Result<(), Violation> {
        let found =
            (self.epoch..=history.epoch()).find(|epoch| history.had(*epoch, object, &self.selection));
        match found {
            Some(epoch) => {
                self.enter(epoch);
                Ok(())
            }
            None => broken(1, format!("{} was reported; the server never had that state", brief(object))),
        }
    }

    fn enter(&mut self, epoch: usize) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.newest.clear();
        }
    }

    fn moves_forward(&mut self, object: &Value) -> Result<(), Violation> {
        let newest = self.newest.entry(key(object)).or_default();
        if version(object) <= *newest {
            return broken(2, format!("{} reported after version {newest}", brief(object)));
        }
        *newest = version(object);
        Ok(())
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
