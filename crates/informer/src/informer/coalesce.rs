//! What a listener that has fallen behind will hear: per key, what its changes amount to.
//!
//! Of each key three things are remembered: the state that was heard last, whether its object is gone since, and the
//! state it has now. Whatever happens in between, that is all there is to tell; so no table of pairs is needed, and the
//! room taken is bounded by the keys that were heard of and the keys stored.

use std::collections::{BTreeMap, HashMap};

use super::backlog::Heard;
use crate::Key;
use crate::store::{Change, ChangeKind, Origin, StoredObject};

/// Changes gathered per key; a key is told in the turn in which it first changed.
#[derive(Debug, Default)]
pub(super) struct Folded {
    pending: HashMap<Key, (u64, Pending)>,
    turns: BTreeMap<u64, Turn>,
    next_turn: u64,
}

#[derive(Debug)]
enum Turn {
    Of(Key),
    Synced,
}

/// What is to be told of one key.
#[derive(Debug, Default)]
struct Pending {
    /// The state that was heard last; none if the key has not been heard of.
    heard: Option<StoredObject>,
    /// The object that was heard of is gone.
    gone: Option<Change>,
    /// The state that is there now.
    now: Option<(StoredObject, Origin)>,
}

// === impl Folded ===

impl Folded {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// How many keys have something to be told.
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// The initial state ends here.
    pub(super) fn push_synced(&mut self) {
        self.turns.insert(self.next_turn, Turn::Synced);
        self.next_turn += 1;
    }

    pub(super) fn push(&mut self, change: Change) {
        // It may wait for long.
        let change = change.kept();
        let key = change.key();
        let (turn, pending) = self.pending.entry(key.clone()).or_insert_with(|| {
            let turn = self.next_turn;
            self.next_turn += 1;
            self.turns.insert(turn, Turn::Of(key.clone()));
            (turn, Pending::unchanged(&change))
        });
        pending.fold(change);
        if pending.is_empty() {
            self.turns.remove(turn);
            self.pending.remove(&key);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Heard> {
        let first = self.turns.first_entry()?;
        let Turn::Of(key) = first.get() else {
            first.remove();
            return Some(Heard::Synced);
        };
        let (_, pending) = self.pending.get_mut(key)?;
        let change = pending.pop()?;
        if pending.is_empty() {
            self.pending.remove(key);
            first.remove();
        }
        Some(Heard::Change(change))
    }
}

// === impl Pending ===

impl Pending {
    /// What was heard of a key before this change, its first that is gathered.
    fn unchanged(change: &Change) -> Self {
        let heard = match &change.kind {
            ChangeKind::Added { .. } => None,
            ChangeKind::Updated { old, .. } => Some(old.clone()),
            ChangeKind::Deleted { last, .. } => Some(last.clone()),
        };
        Self { heard, ..Self::default() }
    }

    fn fold(&mut self, change: Change) {
        let origin = change.origin;
        match &change.kind {
            ChangeKind::Added { object } => {
                if self.gone.as_ref().is_some_and(|gone| gone.object().uid() == object.uid()) {
                    self.gone = None;
                }
                self.now = Some((object.clone(), origin));
            }
            ChangeKind::Updated { new, .. } => {
                // What is told as new stays what it was when it came: a part of the initial state, for example.
                let before = self.now.as_ref().map(|(_, before)| *before);
                let keeps = origin == Origin::Resync || self.is_new();
                let origin = before.filter(|_| keeps).unwrap_or(origin);
                self.now = Some((new.clone(), origin));
            }
            ChangeKind::Deleted { final_state_known, .. } => {
                let unheard = self.is_new() && self.now.is_some();
                self.now = None;
                if !unheard && (self.gone.is_none() || *final_state_known) {
                    self.gone = Some(change);
                }
            }
        }
    }

    /// Whether the present object is another than the one that was heard of.
    fn is_new(&self) -> bool {
        self.heard.is_none() || self.gone.is_some()
    }

    fn is_empty(&self) -> bool {
        self.gone.is_none() && self.now.is_none()
    }

    fn pop(&mut self) -> Option<Change> {
        if let Some(gone) = self.gone.take() {
            self.heard = None;
            return Some(gone);
        }
        let (now, origin) = self.now.take()?;
        Some(match self.heard.take() {
            Some(heard) => Change::updated(heard, now, origin),
            None => Change::added(now, origin),
        })
    }
}

#[cfg(test)]
mod tests {
    use kube_wire::{Encoding, Limits, ObjectReader, Projection};

    use super::*;
    use crate::queue::Scope;

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
            ("+", new) => Change::added(object(new), origin),
            ("-", last) => Change::deleted(object(last), true, origin),
            ("?", last) => Change::deleted(object(last), false, origin),
            _ => {
                let (old, new) = what.split_once('>').unwrap();
                Change::updated(object(old), object(new), origin)
            }
        }
    }

    fn print(change: &Change) -> String {
        let version = |object: &StoredObject| format!("{}.{}", object.uid(), object.resource_version());
        let what = match &change.kind {
            ChangeKind::Added { object } => format!("+{}", version(object)),
            ChangeKind::Updated { old, new } => format!("{}>{}", version(old), version(new)),
            ChangeKind::Deleted { last, final_state_known: true } => format!("-{}", version(last)),
            ChangeKind::Deleted { last, .. } => format!("?{}", version(last)),
        };
        match change.origin {
            Origin::Live => what,
            origin => format!("{what} {}", format!("{origin:?}").to_lowercase()),
        }
    }

    #[test]
    fn promise_6_a_keys_changes_are_told_as_what_they_amount_to() {
        for (changes, told) in [
            ("+a.1, a.1>a.2", "+a.2"),
            ("+a.1 initial, a.1>a.2", "+a.2 initial"),
            ("+a.1, -a.2", ""),
            ("+a.1, a.1>a.2, -a.3", ""),
            ("a.1>a.2, a.2>a.3", "a.1>a.3"),
            ("a.1>a.2, -a.3", "-a.3"),
            ("-a.2, +a.3", "a.2>a.3"),
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
            let mut folded = Folded::default();
            changes.split(", ").for_each(|text| folded.push(change(text)));
            let mut heard = Vec::new();
            while let Some(Heard::Change(change)) = folded.pop() {
                heard.push(print(&change));
            }
            assert_eq!(heard.join(", "), told, "{changes}");
            assert!(folded.is_empty() && folded.pending.is_empty(), "{changes}");
        }
    }
}
