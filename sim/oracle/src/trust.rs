//! The exception to promise 1: an informer may trust a rolled-back server that agrees with it where it looks.
//!
//! An informer that resumes a watch compares its newest object, and the last deletion that it received, with the server
//! at its resourceVersion. If both agree, the rollback goes unnoticed. Exactly the keys that differ at that moment are
//! excused, in exactly the state that they had before, until a watch of the informer's selection reports a change.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::history::{History, Objects, is_same_object};
use crate::selection::{Selection, key, uid, version};

/// Keys of objects.
pub type Keys = BTreeSet<String>;

/// The lists and watches that the server has answered to one informer, and the keys that they excuse.
#[derive(Debug, Default)]
pub struct Trust {
    /// By namespace, or an empty name for all.
    scopes: BTreeMap<String, Scope>,
    excuses: Vec<Excuse>,
}

/// Epoch and revision of the last list, of the last watch, and of the one before it that resumed elsewhere.
#[derive(Clone, Copy, Debug, Default)]
struct Scope {
    listed: (usize, u64),
    resumed: (usize, u64),
    before: (usize, u64),
}

/// A key that an unnoticed restore leaves in an old state, from a revision of an epoch on.
#[derive(Debug)]
struct Excuse {
    since: (usize, u64),
    key: String,
    /// `None`: absent.
    stale: Option<Value>,
}

impl Trust {
    /// Records that the server has answered a list of a scope.
    pub fn listed(&mut self, scope: &str, history: &History) {
        let now = history.now();
        self.scopes.insert(scope.to_owned(), Scope { listed: now, resumed: now, before: now });
    }

    /// Records that the server has answered a watch that resumes at this revision, or the verification of its state there. Only
    /// the latter proves that the server has reached that revision. `None` is another page of the last list: after a restore,
    /// its objects are of different epochs. Returns the keys that this excuses.
    pub fn resumed(&mut self, scope: &str, at: Option<u64>, of: &Selection, history: &History) -> Keys {
        // Informers of all namespaces verify an object in its namespace.
        let scope = if self.scopes.contains_key("") { "" } else { scope };
        let (epoch, of) = (history.epoch(), of.of_scope(scope));
        let known = self.scopes.entry(scope.to_owned()).or_default();
        if let Some(at) = at.filter(|at| known.resumed != (epoch, *at)) {
            *known = Scope { resumed: (epoch, at), before: known.resumed, ..*known };
        }
        let (is_page, Scope { listed, before, .. }) = (at.is_none(), *known);
        let at = at.unwrap_or(listed.1);
        // It has followed the epoch of the watch before if its revision has advanced since.
        let first = if is_page || at == before.1 { listed.0 } else { before.0 };
        let server = history.state_at(epoch, at, &of);
        let mut excused = Keys::new();
        for earlier in (first..epoch).filter(|_| history.has(epoch, at)) {
            let cached = history.state_at(earlier, at, &of);
            // Deletions before its list, or before it followed this epoch, are unknown to it.
            let unknown = [listed, before].into_iter().find(|(epoch, _)| *epoch == earlier);
            let deleted = history.last_left(earlier, at, &of);
            let deleted = deleted.filter(|(left, _)| unknown.is_none_or(|(_, unknown)| *left > unknown));
            if !is_page && !agree(&cached, &server, deleted, &of) {
                continue;
            }
            for key in cached.keys().chain(server.keys()).filter(|key| !same(&cached, &server, key, &of)) {
                excused.insert((*key).to_owned());
                let (key, stale) = ((*key).to_owned(), cached.get(key).copied().cloned());
                self.excuses.push(Excuse { since: (epoch, at), key, stale });
            }
        }
        excused
    }

    /// Whether the informer may have this state of a key, or may lack the key, at a revision of an epoch.
    pub(crate) fn excuses(
        &self,
        (key, found): (&str, Option<&Value>),
        (epoch, revision): (usize, u64),
        selection: &Selection,
        history: &History,
    ) -> bool {
        let identity = |state: &Value| (uid(state).to_owned(), version(state));
        self.excuses.iter().any(|Excuse { since: (begun, since), key: of, stale }| {
            (*begun, &**of) == (epoch, key)
                && stale.as_ref().map(identity) == found.map(identity)
                && !history.changed(epoch, key, (*since, revision), selection)
        })
    }
}

/// Whether the server agrees with the cached state on the newest object and on the last deletion.
fn agree(cached: &Objects<'_>, server: &Objects<'_>, deleted: Option<(u64, &Value)>, of: &Selection) -> bool {
    let Some(newest) = cached.values().max_by_key(|object| version(object)) else { return false };
    same(cached, server, &key(newest), of)
        && deleted.is_none_or(|(at, last)| at <= version(newest) || !server.contains_key(&*key(last)))
}

fn same(cached: &Objects<'_>, server: &Objects<'_>, key: &str, of: &Selection) -> bool {
    match (cached.get(key), server.get(key)) {
        (Some(one), Some(other)) => version(one) == version(other) && is_same_object(one, other, of),
        (one, other) => one.is_none() && other.is_none(),
    }
}
