//! Checks the events that one handler or subscription receives.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::history::History;
use crate::reader::check_state;
use crate::selection::{Selection, brief, key, text, uid, version};
use crate::trust::Trust;
use crate::{Judged, broken};

/// An event that a listener received.
#[derive(Clone, Debug)]
pub enum Seen {
    /// An object is new.
    Added(Value),
    /// An object changed from the first state to the second.
    Updated(Value, Value),
    /// A resync reported an unchanged object again.
    Resynced(Value, Value),
    /// An object was deleted in this state.
    Deleted(Value),
    /// An object is gone. Its final state is unknown; this is the last cached state.
    Vanished(Value),
    /// The initial list is complete.
    Synced,
}

/// One listener's view, built from its events alone.
#[derive(Debug, Default)]
pub struct Listener {
    selection: Selection,
    view: BTreeMap<String, Value>,
    /// Epoch and version of the newest state received per key, including deleted keys. A relist that detects a restore
    /// moves the keys to the new epoch one by one.
    newest: BTreeMap<String, (usize, u64)>,
    synced: bool,
    /// Epoch and revision at the start of its informer.
    started: (usize, u64),
    /// The last version that a watch delivered, per scope.
    followed: BTreeMap<String, u64>,
}

impl Listener {
    /// A listener that has received nothing yet. Its informer started at this epoch and revision.
    pub fn new(selection: Selection, started: (usize, u64)) -> Self {
        Self { selection, started, ..Self::default() }
    }

    /// Checks a change from a watch, before [`receive`](Self::receive). Without coalescing and relists, a listener
    /// receives every change of a scope, in the server's order.
    pub fn follow(&mut self, object: &Value, history: &History) -> Judged {
        let selection = self.selection.of_scope(text(object, "/metadata/namespace"));
        let last = self.followed.insert(selection.namespaces.concat(), version(object));
        let Some(last) = last.filter(|_| history.epoch() == self.started.0) else { return Ok(()) };
        if last >= version(object) {
            return broken("5", format!("{} follows version {last}", brief(object)));
        }
        match history.change_between(last, version(object), &selection) {
            Some(missed) => broken("5", format!("{} follows {last}; {missed} is missing", brief(object))),
            None => Ok(()),
        }
    }

    /// Checks an event.
    pub fn receive(&mut self, seen: &Seen, history: &History) -> Judged {
        match seen {
            Seen::Synced if self.synced => broken("9", "synced twice"),
            Seen::Synced => {
                self.synced = true;
                self.has_initial_list(history)
            }
            Seen::Added(object) => match self.view.get(&key(object)) {
                Some(known) => broken("3", format!("{} added, but {} exists", brief(object), brief(known))),
                None => self.moves_forward(object, history),
            },
            Seen::Updated(old, new) => {
                self.knows(old, new)?;
                self.moves_forward(new, history)
            }
            Seen::Resynced(old, new) => {
                self.knows(old, new)?;
                let same = version(old) == version(new);
                if same { Ok(()) } else { broken("5", format!("a resync changed {}", brief(new))) }
            }
            Seen::Deleted(last) => self.deleted(last, true, history),
            Seen::Vanished(last) => {
                // At an unknown version.
                self.followed.clear();
                self.deleted(last, false, history)
            }
        }
    }

    /// Checks that the initial list has every object that has not changed since the informer started.
    fn has_initial_list(&self, history: &History) -> Judged {
        let (epoch, revision) = self.started;
        let then = history.state_at(epoch, revision, &self.selection);
        let unchanged =
            |(key, now): &(&str, &Value)| then.get(*key).is_some_and(|then| version(then) == version(now));
        let now = history.state_at(history.epoch(), u64::MAX, &self.selection);
        let mut now = now.into_iter().filter(unchanged);
        match now.find(|(key, _)| epoch == history.epoch() && !self.view.contains_key(*key)) {
            Some((_, missing)) => broken("9", format!("synced without {}", brief(missing))),
            None => Ok(()),
        }
    }

    /// Checks that an update starts from the state that the listener received last.
    fn knows(&self, old: &Value, new: &Value) -> Judged {
        let Some(known) = self.view.get(&key(new)) else {
            return broken("3", format!("{} updated, but never added", brief(new)));
        };
        if (uid(known), version(known)) != (uid(old), version(old)) {
            let what = format!("{} updated from {}, not from {}", brief(new), brief(old), brief(known));
            return broken("5", what);
        }
        if uid(old) != uid(new) {
            return broken("3", format!("{} replaced {} without a deletion", brief(new), brief(old)));
        }
        Ok(())
    }

    fn deleted(&mut self, last: &Value, final_state_known: bool, history: &History) -> Judged {
        let Some(known) = self.view.remove(&key(last)) else {
            return broken("3", format!("{} deleted, but never added", brief(last)));
        };
        if uid(&known) != uid(last) {
            return broken("3", format!("{} deleted, but {} exists", brief(last), brief(&known)));
        }
        let (known_in, _) = self.newest.get(&key(last)).copied().unwrap_or_default();
        let happened = |epoch: &usize| {
            if final_state_known {
                return history.left_at(*epoch, last, &self.selection);
            }
            // A later epoch may never have had the object.
            history.left_after(*epoch, last, &self.selection)
                || (*epoch > known_in && !history.had(*epoch, last, &self.selection))
        };
        if let Some(epoch) = (known_in..=history.epoch()).find(happened) {
            // Versions of different epochs are not comparable.
            let version = if final_state_known || epoch == known_in { version(last) } else { 0 };
            self.newest.insert(key(last), (epoch, version));
            return Ok(());
        }
        let how = if final_state_known { "in this state" } else { "since" };
        broken("3", format!("{} reported as deleted; the server did not delete it {how}", brief(last)))
    }

    /// Checks that the server had this state: a newer one in the key's epoch, or any in a later epoch. Epochs share the
    /// states that are older than the backup.
    fn moves_forward(&mut self, object: &Value, history: &History) -> Judged {
        let (known_in, newest) = self.newest.get(&key(object)).copied().unwrap_or_default();
        let had = |epoch: &usize| history.had(*epoch, object, &self.selection);
        let in_order = |epoch: &usize| *epoch > known_in || version(object) > newest;
        if let Some(epoch) = (known_in..=history.epoch()).find(|epoch| had(epoch) && in_order(epoch)) {
            self.newest.insert(key(object), (epoch, version(object)));
            self.view.insert(key(object), object.clone());
            return Ok(());
        }
        if (known_in..=history.epoch()).any(|epoch| had(&epoch)) {
            return broken("2", format!("{} reported after version {newest}", brief(object)));
        }
        broken("1", format!("{} was reported; the server never had that state", brief(object)))
    }

    /// Checks at the end of a run that the view equals the server's state.
    pub fn converged(&self, trust: &Trust, history: &History) -> Judged {
        let synced = if self.synced { Ok(()) } else { broken("9", "never synced") };
        synced.and_then(|()| check_state(self.view.values(), &self.selection, trust, history).map(drop))
    }
}
