//! Judges a controller that mirrors objects, and replicas of which one leads.

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
    /// The version of the mirror that each key has written, and until when the cache is waited for.
    written: BTreeMap<String, (u64, u64)>,
}

impl Controller {
    /// The annotation of a mirror that has the version of its object.
    pub const VERSION_OF: &str = "version-of";

    /// A controller that has reconciled nothing yet.
    pub fn new(selection: Selection) -> Self {
        Self { selection, ..Self::default() }
    }

    /// Judges the beginning of a reconcile whose cache has this version of the key's mirror.
    pub fn begins(&mut self, key: &str, cached: u64, now: u64, history: &History) -> Judged {
        if !self.running.insert(key.to_owned()) {
            return broken("C2", format!("{key} is reconciled twice concurrently"));
        }
        match self.written.remove(key) {
            // After a restore versions begin anew.
            Some((written, until)) if cached < written && now < until && history.epoch() == 0 => {
                broken("C6", format!("{key} wrote its mirror at {written}, and is reconciled with {cached}"))
            }
            _ => Ok(()),
        }
    }

    /// The reconcile has written the key's mirror at a version; 0: the mirror is deleted, by this or another client.
    pub fn wrote(&mut self, key: &str, version: u64, until: u64) {
        self.written.insert(key.to_owned(), (version, until));
    }

    /// The reconcile has ended.
    pub fn ends(&mut self, key: &str) {
        self.running.remove(key);
    }

    /// At the end: every selected object has its mirror, as of its last version.
    pub fn converged(&self, mirrors: &[Value], history: &History) -> Judged {
        let mirrors = mirrors.iter().filter(|mirror| self.selection.selects(mirror));
        let mut mirrors = mirrors.map(|mirror| (key(mirror), mirror)).collect::<BTreeMap<_, _>>();
        for (key, object) in history.state(&self.selection) {
            let of = mirrors.remove(key).map(|mirror| &mirror["metadata"]["annotations"][Self::VERSION_OF]);
            if of.and_then(Value::as_str) != Some(text(object, "/metadata/resourceVersion")) {
                return broken("C1", format!("{} has the mirror of version {of:?}", brief(object)));
            }
        }
        match mirrors.values().next() {
            Some(mirror) => broken("C1", format!("{} mirrors nothing", brief(mirror))),
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
    /// Judges the beginning of a term.
    pub fn begins(&mut self, replica: &str, token: &str) -> Judged {
        self.acting.insert(replica.to_owned());
        if self.acting.len() > 1 {
            return broken("C8", format!("these lead at the same time: {:?}", self.acting));
        }
        let is_new = self.tokens.insert(token.to_owned());
        if is_new { Ok(()) } else { broken("C8", format!("{token} is issued a second time, to {replica}")) }
    }

    /// The term of a replica has ended.
    pub fn ends(&mut self, replica: &str) {
        self.acting.remove(replica);
    }

    /// At the end: one replica leads.
    pub fn converged(&self) -> Judged {
        if self.acting.is_empty() { broken("C8", "no replica leads") } else { Ok(()) }
    }
}
