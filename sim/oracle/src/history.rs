//! The server's history: every state of every object.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::selection::{Selection, has_finalizer, key, uid, version};

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
    /// The first and the newest recorded revision.
    first: u64,
    newest: u64,
}

/// The state of a key after a revision, and before it. `None`: absent.
#[derive(Debug)]
struct Version {
    revision: u64,
    before: Option<Value>,
    state: Option<Value>,
}

/// Objects by key.
pub(crate) type Objects<'a> = BTreeMap<&'a str, &'a Value>;

impl History {
    /// Begins an epoch. The server has exactly these objects, at this revision.
    pub fn begin_epoch(&mut self, objects: &[Value], revision: u64) {
        let first =
            |object: &Value| Version { revision: version(object), before: None, state: Some(object.clone()) };
        let keys = objects.iter().map(|object| (key(object), vec![first(object)])).collect();
        self.epochs.push(Epoch { keys, first: revision, newest: revision });
    }

    /// Records an event of a watch that must not miss any event.
    pub fn record(&mut self, event_type: &str, object: &Value) {
        let Some(epoch) = self.epochs.last_mut() else { return };
        let revision = version(object);
        epoch.newest = epoch.newest.max(revision);
        if event_type != "BOOKMARK" {
            let versions = epoch.keys.entry(key(object)).or_default();
            let before = versions.last().and_then(|last| last.state.clone());
            let state = (event_type != "DELETED").then(|| object.clone());
            versions.push(Version { revision, before, state });
        }
    }

    /// The current epoch and its newest revision.
    pub fn now(&self) -> (usize, u64) {
        (self.epoch(), self.epochs.last().map_or(0, |epoch| epoch.newest))
    }

    /// The states of a key in the current epoch, oldest first, with their revisions. `None`: absent.
    pub fn states(&self, key: &str) -> impl DoubleEndedIterator<Item = (u64, Option<&Value>)> {
        let versions =
            self.epochs.last().and_then(|epoch| epoch.keys.get(key)).map_or(&[][..], Vec::as_slice);
        versions.iter().map(|version| (version.revision, version.state.as_ref()))
    }

    pub(crate) fn epoch(&self) -> usize {
        self.epochs.len().saturating_sub(1)
    }

    /// Whether an epoch has the states at a revision. It does not have those before its beginning.
    pub(crate) fn has(&self, epoch: usize, revision: u64) -> bool {
        self.epochs.get(epoch).is_some_and(|epoch| epoch.first <= revision)
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
        let changes = self.epochs.last()?.keys.values().flatten();
        let changes = changes.filter(|change| (after + 1..before).contains(&change.revision));
        changes.filter(|change| concerns(change, selection)).map(|change| change.revision).min()
    }

    /// Whether a selected object changed in an epoch, after one revision and up to another. No watch reports other changes.
    pub(crate) fn changed(&self, epoch: usize, key: &str, (after, upto): (u64, u64), of: &Selection) -> bool {
        let changes = self.epochs.get(epoch).and_then(|epoch| epoch.keys.get(key)).into_iter().flatten();
        let mut changes = changes.filter(|change| change.revision > after && change.revision <= upto);
        changes.any(|change| concerns(change, of))
    }

    /// Whether a key was deleted in the current epoch after a revision.
    pub(crate) fn deleted_after(&self, key: &str, revision: u64) -> bool {
        let changes = self.epochs.last().and_then(|epoch| epoch.keys.get(key));
        changes.into_iter().flatten().any(|change| change.revision > revision && change.state.is_none())
    }

    /// The last object that left the selection in an epoch up to a revision: when, and its state before.
    pub(crate) fn last_left(&self, epoch: usize, upto: u64, of: &Selection) -> Option<(u64, &Value)> {
        let left = self.epochs.get(epoch)?.keys.values().flatten().filter_map(|change| {
            let before = change.before.as_ref().filter(|state| of.selects(state))?;
            (!is_selected(change, uid(before), of)).then_some((change.revision, before))
        });
        left.filter(|(at, _)| *at <= upto).max_by_key(|(at, _)| *at)
    }

    /// The objects that lost a finalizer, or were deleted with it, in the current epoch. In their state before.
    pub(crate) fn released(&self, finalizer: &str) -> impl Iterator<Item = &Value> {
        let has = move |state: &&Value| has_finalizer(state, finalizer);
        let changes = self.epochs.last().into_iter().flat_map(|epoch| epoch.keys.values().flatten());
        let lost = changes.filter(move |change| !change.state.as_ref().is_some_and(|state| has(&state)));
        lost.filter_map(move |change| change.before.as_ref().filter(has))
    }

    /// Whether the server had exactly this state of an object in an epoch.
    pub(crate) fn had(&self, epoch: usize, object: &Value, selection: &Selection) -> bool {
        let at = version(object);
        let states = self.versions(epoch, object).iter().filter(|found| found.revision == at);
        states.filter_map(|found| found.state.as_ref()).any(|state| is_same_object(state, object, selection))
    }

    /// Whether an object left the selection (deleted, replaced, or no longer selected) after this state.
    pub(crate) fn left_after(&self, epoch: usize, object: &Value, selection: &Selection) -> bool {
        let at = version(object);
        let mut later = self.versions(epoch, object).iter().filter(|later| later.revision > at);
        later.any(|later| !is_selected(later, uid(object), selection))
    }

    /// Whether an object left the selection at exactly this revision, and had this content before.
    pub(crate) fn left_at(&self, epoch: usize, object: &Value, selection: &Selection) -> bool {
        let revision = version(object);
        let at = self.versions(epoch, object).iter().find(|found| found.revision == revision);
        let before = at.filter(|at| !is_selected(at, uid(object), selection));
        let before = before.and_then(|at| at.before.as_ref());
        before.is_some_and(|before| is_same_object(before, object, selection))
    }

    fn versions(&self, epoch: usize, object: &Value) -> &[Version] {
        self.epochs.get(epoch).and_then(|epoch| epoch.keys.get(&key(object))).map_or(&[], Vec::as_slice)
    }
}

/// Whether an object was selected before a change, or is afterwards.
fn concerns(change: &Version, selection: &Selection) -> bool {
    change.before.iter().chain(&change.state).any(|state| selection.selects(state))
}

fn is_selected(version: &Version, of: &str, selection: &Selection) -> bool {
    version.state.as_ref().is_some_and(|state| uid(state) == of && selection.selects(state))
}

pub(crate) fn is_same_object(state: &Value, object: &Value, selection: &Selection) -> bool {
    uid(state) == uid(object) && selection.selects(state) && selection.same_content(state, object)
}
