//! Checks a controller that mirrors objects, and replicas that elect a leader.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::history::History;
use crate::selection::{Selection, brief, key, text};
use crate::{Judged, broken};

/// A controller that keeps a mirror of every selected object, under the same key.
#[derive(Debug, Default)]
pub struct Controller {
    selection: Selection,
    running: BTreeSet<String>,
    /// Per key: the version of the mirror that a reconcile wrote last, and the deadline for the cache to show it.
    written: BTreeMap<String, (u64, u64)>,
}

impl Controller {
    /// The annotation of a mirror with the resourceVersion of its object.
    pub const VERSION_OF: &str = "version-of";

    /// A controller that has reconciled nothing yet.
    pub fn new(selection: Selection) -> Self {
        Self { selection, ..Self::default() }
    }

    /// Checks the start of a reconcile whose cache has the version `cached` of the key's mirror.
    pub fn begins(&mut self, key: &str, cached: u64, now: u64, history: &History) -> Judged {
        if !self.running.insert(key.to_owned()) {
            return broken("C2", format!("{key} is reconciled twice concurrently"));
        }
        match self.written.remove(key) {
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

    /// Checks at the end of a run: each selected object has a mirror of its last version, and no other mirror exists.
    pub fn converged(&self, mirrors: &[Value], history: &History) -> Judged {
        let mirrors = mirrors.iter().filter(|mirror| self.selection.selects(mirror));
        let mut mirrors = mirrors.map(|mirror| (key(mirror), mirror)).collect::<BTreeMap<_, _>>();
        for (key, object) in history.state(&self.selection) {
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
