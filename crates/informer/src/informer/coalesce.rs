//! Changes coalesced per key, for a listener that has fallen behind.
//!
//! Each key has three values: the state that the listener received last, whether that object has been deleted since, and
//! the current state. These determine the changes to report, so memory is bounded by the number of received and stored keys.

use std::collections::{BTreeMap, HashMap};

use super::backlog::Notification;
use crate::Key;
use crate::object::StoredObject;
use crate::store::{Change, Origin};

/// Changes coalesced per key. A key keeps the position of its first change.
#[derive(Debug, Default)]
pub(super) struct Coalesced {
    pending: HashMap<Key, (u64, KeyPending)>,
    turns: BTreeMap<u64, Turn>,
    next_turn: u64,
}

#[derive(Debug)]
enum Turn {
    Of(Key),
    Synced,
}

/// What to report for one key.
#[derive(Debug, Default)]
struct KeyPending {
    /// The state received last; `None` if the listener has not received the object.
    received: Option<StoredObject>,
    /// The received object was deleted.
    gone: Option<Change>,
    /// The current state.
    now: Option<(StoredObject, Origin)>,
}

// === impl Coalesced ===

impl Coalesced {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The number of keys with something to report.
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// Marks the end of the initial list.
    pub(super) fn push_synced(&mut self) {
        self.turns.insert(self.next_turn, Turn::Synced);
        self.next_turn += 1;
    }

    pub(super) fn push(&mut self, change: &Change) {
        // The change may be pending for a long time, so hold its objects in the store's form.
        let change = change.as_stored();
        let key = change.object().key();
        let (turn, pending) = self.pending.entry(key.clone()).or_insert_with(|| {
            let turn = self.next_turn;
            self.next_turn += 1;
            self.turns.insert(turn, Turn::Of(key.clone()));
            (turn, KeyPending::unchanged(&change))
        });
        pending.add(change);
        if pending.is_empty() {
            self.turns.remove(turn);
            self.pending.remove(&key);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Notification> {
        let first = self.turns.first_entry()?;
        let Turn::Of(key) = first.get() else {
            first.remove();
            return Some(None);
        };
        let (_, pending) = self.pending.get_mut(key)?;
        let change = pending.pop()?;
        if pending.is_empty() {
            self.pending.remove(key);
            first.remove();
        }
        Some(Some(change))
    }
}

// === impl KeyPending ===

impl KeyPending {
    /// The state that the listener has received before a key's first coalesced change.
    fn unchanged(change: &Change) -> Self {
        let received = match change {
            Change::Updated { old, .. } => Some(old.clone()),
            // A deletion carries the final state, not the one that the listener received last.
            Change::Added { .. } | Change::Deleted { .. } => None,
        };
        Self { received, ..Self::default() }
    }

    fn add(&mut self, change: Change) {
        match &change {
            Change::Added { object, origin } => {
                let same = |gone: &Change| gone.object().uid() == object.uid();
                if self.received.is_some() && self.gone.as_ref().is_some_and(same) {
                    self.gone = None;
                }
                self.now = Some((object.clone(), *origin));
            }
            Change::Updated { old, new, origin } => {
                if deliberate_bug!("update-from-unreceived-state") && self.received.is_some() {
                    self.received = Some(old.clone());
                }
                // An object that is new to the listener keeps the origin of its addition, for example `Initial`.
                let before = self.now.as_ref().map(|(_, before)| *before);
                let keeps = *origin == Origin::Resync || self.is_new();
                let origin = before.filter(|_| keeps).unwrap_or(*origin);
                self.now = Some((new.clone(), origin));
            }
            Change::Deleted { final_state_known, .. } => {
                let unreported = self.is_new() && self.now.is_some();
                self.now = None;
                if !unreported && (self.gone.is_none() || *final_state_known) {
                    self.gone = Some(change);
                }
            }
        }
    }

    /// Whether the current object is not the one that the listener received.
    fn is_new(&self) -> bool {
        self.received.is_none() || self.gone.is_some()
    }

    fn is_empty(&self) -> bool {
        self.gone.is_none() && self.now.is_none()
    }

    fn pop(&mut self) -> Option<Change> {
        if let Some(gone) = self.gone.take() {
            self.received = None;
            return Some(gone);
        }
        let (now, origin) = self.now.take()?;
        Some(match self.received.take() {
            Some(received) => Change::Updated { old: received, new: now, origin },
            None => Change::Added { object: now, origin },
        })
    }
}

#[cfg(test)]
mod tests {
    use kube_wire::{Encoding, Limits, ObjectReader, Projection};

    use super::*;
    use crate::scope::Scope;

    /// An object `web/api` by uid and resourceVersion: `u1.7`.
    fn object(text: &str) -> StoredObject {
        let (uid, version) = text.split_once('.').unwrap();
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"web","name":"api","uid":"{uid}",
                "resourceVersion":"{version}"}}}}"#
        );
        let mut reader = ObjectReader::new(Projection::default(), Limits::default());
        StoredObject::new(Scope(0), reader.read(json.as_bytes(), Encoding::Json, None).unwrap()).unwrap()
    }

    /// `+u1.1` added, `u1.1>u1.2` updated, `-u1.2` deleted, `?u1.2` vanished; `initial`, `relist` or `resync` may follow.
    fn change(text: &str) -> Change {
        let (what, origin) = text.split_once(' ').unwrap_or((text, "live"));
        let origin = match origin {
            "initial" => Origin::Initial,
            "relist" => Origin::Relist,
            "resync" => Origin::Resync,
            _ => Origin::Live,
        };
        match what.split_at(1) {
            ("+", new) => Change::Added { object: object(new), origin },
            ("-", last) => Change::Deleted { last: object(last), final_state_known: true, origin },
            ("?", last) => Change::Deleted { last: object(last), final_state_known: false, origin },
            _ => {
                let (old, new) = what.split_once('>').unwrap();
                Change::Updated { old: object(old), new: object(new), origin }
            }
        }
    }

    fn print(change: &Change) -> String {
        let version = |object: &StoredObject| format!("{}.{}", object.uid(), object.resource_version());
        let what = match change {
            Change::Added { object, .. } => format!("+{}", version(object)),
            Change::Updated { old, new, .. } => format!("{}>{}", version(old), version(new)),
            Change::Deleted { last, final_state_known: true, .. } => format!("-{}", version(last)),
            Change::Deleted { last, .. } => format!("?{}", version(last)),
        };
        match change.origin() {
            Origin::Live => what,
            origin => format!("{what} {}", format!("{origin:?}").to_lowercase()),
        }
    }

    #[test]
    fn promise_6_changes_of_a_key_are_coalesced_to_their_net_effect() {
        for (changes, expected) in [
            ("+a.1, a.1>a.2", "+a.2"),
            ("+a.1 initial, a.1>a.2", "+a.2 initial"),
            ("+a.1, -a.2", ""),
            ("+a.1, a.1>a.2, -a.3", ""),
            ("a.1>a.2, a.2>a.3", "a.1>a.3"),
            ("a.1>a.2, -a.3", "-a.3"),
            ("-a.2, +a.3", "-a.2, +a.3"),
            ("a.1>a.2, -a.3, +a.4", "a.1>a.4"),
            ("-a.2, +b.3", "-a.2, +b.3"),
            ("?a.2 relist, +b.3 relist, b.3>b.4", "?a.2 relist, +b.4 relist"),
            ("-a.2, +b.3, -b.4", "-a.2"),
            ("-a.2, +b.3, -b.4, +c.5", "-a.2, +c.5"),
            ("a.1>a.2, ?a.2 relist, +b.3 relist, ?b.3 relist, +a.9 relist", "a.1>a.9 relist"),
            ("a.1>a.1 resync, a.1>a.2", "a.1>a.2"),
            ("a.1>a.2, a.2>a.2 resync", "a.1>a.2"),
            ("+a.1, a.1>a.1 resync", "+a.1"),
            ("?a.1 relist, -a.2", "-a.2"),
            ("-a.1, ?a.1 relist", "-a.1"),
            ("+a.1, -a.2, +b.3", "+b.3"),
        ] {
            let mut coalesced = Coalesced::default();
            changes.split(", ").for_each(|text| coalesced.push(&change(text)));
            let mut received = Vec::new();
            while let Some(Some(change)) = coalesced.pop() {
                received.push(print(&change));
            }
            assert_eq!(received.join(", "), expected, "{changes}");
            assert!(coalesced.is_empty() && coalesced.pending.is_empty(), "{changes}");
        }
    }
}
