//! Checks a controller that mirrors objects, and replicas that elect a leader.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::history::History;
use crate::selection::{Selection, brief, has_finalizer, key, text, uid};
use crate::{Judged, broken};

/// A controller that keeps a mirror of every selected object, under the same key.
#[derive(Debug, Default)]
pub struct Controller {
    selection: Selection,
    running: BTreeSet<String>,
    /// Per key: the version of the mirror that a reconcile wrote last, and the deadline for the cache to show it.
    written: BTreeMap<String, (u64, u64)>,
    /// The uids of the objects that were cleaned up, and not applied since.
    cleaned: BTreeSet<String>,
    /// Epoch and uid of each of these cleanups since the controller started.
    cleanups: BTreeSet<(usize, String)>,
}

impl Controller {
    /// The annotation of a mirror with the resourceVersion of its object.
    pub const VERSION_OF: &str = "version-of";
    /// The finalizer of objects that the controller cleans up.
    pub const FINALIZER: &str = "example.com/mirror";

    /// A controller that has reconciled nothing yet.
    pub fn new(selection: Selection) -> Self {
        Self { selection, ..Self::default() }
    }

    /// Records that the controller starts again. It may repeat cleanups, and does not wait for its earlier writes.
    pub fn starts(&mut self) {
        self.cleanups.clear();
        self.written.clear();
    }

    /// Checks the start of a reconcile whose cache has the version `cached` of the key's mirror; 0 if it has none. The
    /// history is that of the mirrors.
    pub fn begins(&mut self, key: &str, cached: u64, now: u64, history: &History) -> Judged {
        if !self.running.insert(key.to_owned()) {
            return broken("C2", format!("{key} is reconciled twice concurrently"));
        }
        match self.written.remove(key) {
            // Another client may delete the mirror before the answer to its write arrives.
            Some((written, _)) if cached == 0 && history.deleted_after(key, written) => Ok(()),
            // A restore resets versions.
            Some((written, until)) if cached < written && now < until && history.epoch() == 0 => {
                broken("C6", format!("{key} wrote its mirror at {written}, but its reconcile reads {cached}"))
            }
            _ => Ok(()),
        }
    }

    /// Records that a reconcile wrote the key's mirror at `version`; 0 if this or another client deleted the mirror.
    pub fn wrote(&mut self, key: &str, version: u64, until: u64) {
        self.written.insert(key.to_owned(), (version, until));
    }

    /// Records the end of a reconcile.
    pub fn ends(&mut self, key: &str) {
        self.running.remove(key);
    }

    /// Checks that an object is applied under its finalizer.
    pub fn applies(&mut self, object: &Value, history: &History) -> Judged {
        // A controller that has started again may not know yet that an object was released.
        if !history.released(Self::FINALIZER).any(|released| uid(released) == uid(object)) {
            self.cleaned.remove(uid(object));
        }
        self.cleanups.retain(|(_, of)| of != uid(object));
        let is_kept = has_finalizer(object, Self::FINALIZER);
        if is_kept { Ok(()) } else { broken("C9", format!("{} has no finalizer", brief(object))) }
    }

    /// Checks a successful cleanup: the first one, while the object still has its finalizer.
    pub fn cleans_up(&mut self, object: &Value, history: &History) -> Judged {
        self.check_released(history)?;
        self.cleaned.insert(uid(object).to_owned());
        let is_first = self.cleanups.insert((history.epoch(), uid(object).to_owned()));
        if is_first { Ok(()) } else { broken("C9", format!("{} was cleaned up twice", brief(object))) }
    }

    /// Checks that every object whose finalizer is gone was cleaned up.
    fn check_released(&self, history: &History) -> Judged {
        match history.released(Self::FINALIZER).find(|object| !self.cleaned.contains(uid(object))) {
            Some(object) => broken("C9", format!("{} was released without a cleanup", brief(object))),
            None => Ok(()),
        }
    }

    /// Checks at the end of a run: each selected object has a mirror of its last version, and no other mirror exists,
    /// except under the excused keys. No object waits for its cleanup.
    pub fn converged(&self, mirrors: &[Value], excused: &BTreeSet<String>, history: &History) -> Judged {
        self.check_released(history)?;
        let is_excused = |key: &str| excused.contains(key);
        let judged = |mirror: &&Value| self.selection.selects(mirror) && !is_excused(&key(mirror));
        let mirrors = mirrors.iter().filter(judged);
        let mut mirrors = mirrors.map(|mirror| (key(mirror), mirror)).collect::<BTreeMap<_, _>>();
        let objects = history.state_at(history.epoch(), u64::MAX, &self.selection);
        for (key, object) in objects.into_iter().filter(|(key, _)| !is_excused(key)) {
            if !object["metadata"]["deletionTimestamp"].is_null() {
                return broken("C1", format!("{} is still being deleted", brief(object)));
            }
            let of = mirrors.remove(key).map(|mirror| &mirror["metadata"]["annotations"][Self::VERSION_OF]);
            if of.and_then(Value::as_str) != Some(text(object, "/metadata/resourceVersion")) {
                return broken("C1", format!("the mirror of {} copies version {of:?}", brief(object)));
            }
        }
        match mirrors.values().next() {
            Some(mirror) => broken("C1", format!("mirror {} has no object", brief(mirror))),
            None => Ok(()),
        }
    }
}

/// Replicas that compete for one lease.
#[derive(Debug, Default)]
pub struct Leadership {
    acting: BTreeSet<String>,
    tokens: BTreeSet<String>,
}

impl Leadership {
    /// Checks the start of a term.
    pub fn begins(&mut self, replica: &str, token: &str) -> Judged {
        self.acting.insert(replica.to_owned());
        if self.acting.len() > 1 {
            return broken("C8", format!("concurrent leaders: {:?}", self.acting));
        }
        let is_new = self.tokens.insert(token.to_owned());
        if is_new { Ok(()) } else { broken("C8", format!("token {token} was issued again, to {replica}")) }
    }

    /// Records the end of a replica's term.
    pub fn ends(&mut self, replica: &str) {
        self.acting.remove(replica);
    }

    /// Checks at the end of a run that a replica leads.
    pub fn converged(&self) -> Judged {
        if self.acting.is_empty() { broken("C8", "no replica leads") } else { Ok(()) }
    }
}
