//! The server's history: every state of every object.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::selection::{Selection, key, uid, version};

/// The server's full history, epoch by epoch.
#[derive(Debug, Default)]
pub struct History {
    epochs: Vec<Epoch>,
}

/// The time between two restores.
#[derive(Debug, Default)]
struct Epoch {
    /// The states of each key, oldest first.
    keys: BTreeMap<String, Vec<Version>>,
    /// The newest recorded revision.
    newest: u64,
}

/// The state of a key after a revision.
#[derive(Debug)]
struct Version {
    revision: u64,
    /// `None`: deleted.
    state: Option<Value>,
}

/// Objects by key.
pub(crate) type Objects<'a> = BTreeMap<&'a str, &'a Value>;

impl History {
    /// Begins an epoch. The server has exactly these objects, at this revision.
    pub fn begin_epoch(&mut self, objects: &[Value], revision: u64) {
        let mut epoch = Epoch { newest: revision, ..Epoch::default() };
        for object in objects {
            let first = Version { revision: version(object), state: Some(object.clone()) };
            epoch.keys.insert(key(object), vec![first]);
        }
        self.epochs.push(epoch);
    }

    /// Records an event of a watch that must not miss any event.
    pub fn record(&mut self, event_type: &str, object: &Value) {
        let Some(epoch) = self.epochs.last_mut() else { return };
        let revision = version(object);
        epoch.newest = epoch.newest.max(revision);
        if event_type == "BOOKMARK" {
            return;
        }
        let state = (event_type != "DELETED").then(|| object.clone());
        epoch.keys.entry(key(object)).or_default().push(Version { revision, state });
    }

    /// The current epoch and its newest revision.
    pub fn now(&self) -> (usize, u64) {
        (self.epoch(), self.epochs.last().map_or(0, |epoch| epoch.newest))
    }

    pub(crate) fn epoch(&self) -> usize {
        self.epochs.len().saturating_sub(1)
    }

    /// The current state of the selected objects.
    pub(crate) fn state(&self, selection: &Selection) -> Objects<'_> {
        self.state_at(self.epoch(), u64::MAX, selection)
    }

    /// The selected objects at a revision of an epoch.
    pub(crate) fn state_at(&self, epoch: usize, revision: u64, selection: &Selection) -> Objects<'_> {
        let Some(epoch) = self.epochs.get(epoch) else { return BTreeMap::new() };
        let states = epoch.keys.iter().filter_map(|(key, versions)| {
            let at = versions.iter().rfind(|version| version.revision <= revision)?;
            Some((&**key, at.state.as_ref()?))
        });
        states.filter(|(_, state)| selection.selects(state)).collect()
    }

    /// The revision of the first change to a selected object in the current epoch, strictly between two revisions.
    pub(crate) fn change_between(&self, after: u64, before: u64, selection: &Selection) -> Option<u64> {
        let selected =
            |version: &Version| version.state.as_ref().is_some_and(|state| selection.selects(state));
        let changes = self.epochs.last()?.keys.values().flat_map(|versions| {
            let previous = [None].into_iter().chain(versions.iter().map(Some));
            let concerned = versions.iter().zip(previous);
            concerned.filter(|(version, previous)| selected(version) || previous.is_some_and(selected))
        });
        let revisions = changes.map(|(version, _)| version.revision);
        revisions.filter(|revision| (after + 1..before).contains(revision)).min()
    }

    /// Whether the server had exactly this state of an object in an epoch.
    pub(crate) fn had(&self, epoch: usize, object: &Value, selection: &Selection) -> bool {
        self.versions(epoch, object)
            .iter()
            .filter_map(|version| version.state.as_ref())
            .any(|state| version(state) == version(object) && is_same_object(state, object, selection))
    }

    /// Whether an object left the selection (deleted, replaced, or no longer selected) after this state.
    pub(crate) fn left_after(&self, epoch: usize, object: &Value, selection: &Selection) -> bool {
        let mut later = self.versions(epoch, object).iter().filter(|later| later.revision > version(object));
        later.any(|later| !is_selected(later, uid(object), selection))
    }

    /// Whether an object left the selection at exactly this revision, and had this content before.
    pub(crate) fn left_at(&self, epoch: usize, object: &Value, selection: &Selection) -> bool {
        let versions = self.versions(epoch, object);
        let Some(at) = versions.iter().position(|found| found.revision == version(object)) else {
            return false;
        };
        let before = at.checked_sub(1).and_then(|before| versions[before].state.as_ref());
        !is_selected(&versions[at], uid(object), selection)
            && before.is_some_and(|before| is_same_object(before, object, selection))
    }

    fn versions(&self, epoch: usize, object: &Value) -> &[Version] {
        self.epochs.get(epoch).and_then(|epoch| epoch.keys.get(&key(object))).map_or(&[], Vec::as_slice)
    }
}

fn is_selected(version: &Version, of: &str, selection: &Selection) -> bool {
    version.state.as_ref().is_some_and(|state| uid(state) == of && selection.selects(state))
}

fn is_same_object(state: &Value, object: &Value, selection: &Selection) -> bool {
    uid(state) == uid(object) && selection.selects(state) && selection.same_content(state, object)
}
