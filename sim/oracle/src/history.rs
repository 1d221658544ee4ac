//! Everything that ever happened on the server.

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
    /// The newest revision that was recorded.
    newest: u64,
}

/// What a revision made of a key.
#[derive(Debug)]
struct Version {
    revision: u64,
    /// `None`: deleted.
    state: Option<Value>,
}

impl History {
    /// Begins the first epoch, or a new one: the server has just these objects, at this revision.
    pub fn begin_epoch(&mut self, objects: &[Value], revision: u64) {
        let mut epoch = Epoch { newest: revision, ..Epoch::default() };
        for object in objects {
            let first = Version { revision: version(object), state: Some(object.clone()) };
            epoch.keys.insert(key(object), vec![first]);
        }
        self.epochs.push(epoch);
    }

    /// Records an event of a watch that misses nothing.
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

    /// The number of the current epoch.
    pub fn epoch(&self) -> usize {
        self.epochs.len().saturating_sub(1)
    }

    /// The newest recorded revision of the current epoch.
    pub fn newest(&self) -> u64 {
        self.epochs.last().map_or(0, |epoch| epoch.newest)
    }

    /// The selected objects at a revision of an epoch, by key.
    pub(crate) fn state_at<'a>(
        &'a self,
        epoch: usize,
        revision: u64,
        selection: &Selection,
    ) -> BTreeMap<&'a str, &'a Value> {
        let Some(epoch) = self.epochs.get(epoch) else { return BTreeMap::new() };
        let at = |versions: &'a [Version]| versions.iter().rfind(|version| version.revision <= revision);
        let states =
            epoch.keys.iter().filter_map(|(key, versions)| Some((&**key, at(versions)?.state.as_ref()?)));
        states.filter(|(_, state)| selection.selects(state)).collect()
    }

    /// Whether the server had this very state of an object in an epoch.
    pub(crate) fn had(&self, epoch: usize, object: &Value, selection: &Selection) -> bool {
        self.versions(epoch, object).iter().filter_map(|version| version.state.as_ref()).any(|state| {
            version(state) == version(object)
                && uid(state) == uid(object)
                && selection.selects(state)
                && selection.same_content(state, object)
        })
    }

    /// Whether an object left the selection (deleted, replaced, or no longer selected) after a revision.
    pub(crate) fn left_after(
        &self,
        epoch: usize,
        object: &Value,
        revision: u64,
        selection: &Selection,
    ) -> bool {
        self.versions(epoch, object)
            .iter()
            .filter(|version| version.revision > revision)
            .any(|version| !is_selected(version, uid(object), selection))
    }

    /// Whether an object left the selection at exactly this revision, and had this content before.
    pub(crate) fn left_at(&self, epoch: usize, object: &Value, selection: &Selection) -> bool {
        let versions = self.versions(epoch, object);
        let Some(at) = versions.iter().position(|found| found.revision == version(object)) else {
            return false;
        };
        let before = at.checked_sub(1).and_then(|before| versions[before].state.as_ref());
        !is_selected(&versions[at], uid(object), selection)
            && before.is_some_and(|before| {
                uid(before) == uid(object)
                    && selection.selects(before)
                    && selection.same_content(before, object)
            })
    }

    fn versions(&self, epoch: usize, object: &Value) -> &[Version] {
        self.epochs.get(epoch).and_then(|epoch| epoch.keys.get(&key(object))).map_or(&[], Vec::as_slice)
    }
}

fn is_selected(version: &Version, of: &str, selection: &Selection) -> bool {
    version.state.as_ref().is_some_and(|state| uid(state) == of && selection.selects(state))
}
