//! Which informers have, or will have, a write: the places where a key expects it.

use std::collections::BTreeSet;

use kube_core::{ApiResource, ObjectMeta, Resource};
use kube_informer::{Key, WaitError};

use super::expected::{Expected, Place, Progress};
use super::request::WriteTarget;
use super::tools::Tools;
use super::trigger::{is_current, is_met};

/// How a write names its resource: objects have a kind, requests a plural.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    Kind { group: String, kind: String },
    Plural { group: String, plural: String },
}

/// The informers, by number, of an object's resource.
#[derive(Default)]
struct Shown {
    /// Informers that have the object.
    now: Vec<usize>,
    /// Informers that do not have the object yet, although it is in their scope.
    later: Vec<usize>,
    /// The reason why another informer will never have it.
    excluded: Option<WaitError>,
}

// === impl Tools ===

impl Tools {
    /// Whether an informer of this controller watches the resource.
    pub(super) fn watches(&self, named: &Named) -> bool {
        self.watched.iter().any(|watched| named.is(watched.resource()))
    }

    /// Defers `key` until the cache has a write: this state of an object or, with `gone`, its deletion. Returns whether an informer
    /// has, or will have, the object.
    pub(super) fn expect(&self, key: &Key, named: &Named, meta: &ObjectMeta, gone: bool) -> bool {
        if gone {
            self.intake.writes.expect_gone(key, meta.uid.as_deref().unwrap_or_default());
        }
        let Shown { now, later, excluded } = self.shown(named, meta);
        let object = key_of(meta);
        // If a deleted object is not cached, and several informers could have had it, do not wait for any of them.
        let (each, any_of) = match (now.is_empty(), gone && later.len() > 1) {
            (true, true) => (Vec::new(), Vec::new()),
            (true, false) => (Vec::new(), later.clone()),
            (false, _) => (now.clone(), Vec::new()),
        };
        let groups = each.into_iter().map(|number| vec![number]).chain([any_of]);
        for numbers in groups.filter(|numbers| !numbers.is_empty()) {
            let expected = expected(meta, &object, &numbers, gone);
            self.intake.writes.expect(key, expected, |expected| self.progress(expected));
        }
        let is_shown = !now.is_empty() || !later.is_empty();
        if !is_shown {
            let why = excluded.map_or("its kind is not watched".to_owned(), |error| error.to_string());
            tracing::debug!(resource = ?named, %object, why, "no informer of this controller has the written object; not waiting for it");
        }
        is_shown
    }

    /// Remembers that the cleanup for a finalizer succeeded, as long as an informer has the object.
    pub(super) fn cleaned_up(&self, named: &Named, meta: &ObjectMeta, finalizer: &str) {
        let object = key_of(meta);
        for number in self.shown(named, meta).now {
            let expected = expected(meta, &object, &[number], true);
            let is_met = |expected: &Expected| self.progress(expected) == Progress::Done;
            self.intake.writes.cleaned((number, object.clone()), expected, finalizer, is_met);
        }
    }

    /// Whether the cleanup for a finalizer of this object succeeded before.
    pub(super) fn is_cleaned_up(&self, named: &Named, meta: &ObjectMeta, finalizer: &str) -> bool {
        let (object, uid) = (key_of(meta), meta.uid.as_deref().unwrap_or_default());
        let shown = self.shown(named, meta).now;
        shown
            .into_iter()
            .any(|number| self.intake.writes.is_cleaned(&(number, object.clone()), uid, finalizer))
    }

    /// The cleanups of the key's object that have succeeded: its uid and the finalizers.
    pub(super) fn cleanups(&self, key: &Key) -> Vec<(String, BTreeSet<String>)> {
        let object = key.in_cluster("");
        let numbers = self.first..self.first + self.watched.len();
        numbers.filter_map(|number| self.intake.writes.cleanups(&(number, object.clone()))).collect()
    }

    /// Forgets the cleanups of an object that is not being deleted.
    pub(super) fn forget_cleanups(&self, named: &Named, meta: &ObjectMeta) {
        for number in self.shown(named, meta).now {
            self.intake.writes.forget_cleaned(&(number, key_of(meta)));
        }
    }

    /// The objects of this name that the controller's informers have, or that `key` expects: namespace, name and uid. Empty for a
    /// collection.
    pub(super) fn known(&self, key: &Key, target: &WriteTarget) -> Vec<ObjectMeta> {
        let Some(name) = &target.name else { return Vec::new() };
        let object = Key::new(target.namespace.as_deref().unwrap_or_default(), name);
        let named = Named::of(target);
        let watched = self.watched.iter().filter(|watched| named.is(watched.resource()));
        let cached = watched.filter_map(|watched| watched.uid(&object));
        let expected = self.expected(key, &named).into_iter().filter(|(other, _)| *other == object);
        cached.chain(expected.map(|(_, uid)| uid)).map(|uid| last_known(&object, uid)).collect()
    }

    /// The objects of a resource, with their uids, that `key` expects in the cache.
    pub(super) fn expected(&self, key: &Key, named: &Named) -> Vec<(Key, String)> {
        let of_resource =
            |place: &&Place| self.has_number(place.0) && named.is(self.informer(place.0).resource());
        let expected = self.intake.writes.expected(key).into_iter();
        let object =
            |expected: Expected| Some((expected.places.iter().find(of_resource)?.1.clone(), expected.uid));
        expected.filter_map(object).collect()
    }

    /// Whether every informer of a resource has everything up to this resourceVersion of the server.
    pub(super) fn has_reached(&self, named: &Named, revision: &str) -> bool {
        let mut watched = self.watched.iter().filter(|watched| named.is(watched.resource()));
        watched.all(|watched| watched.has_reached(revision))
    }

    /// The cached objects of a resource, in one namespace or in all.
    pub(super) fn cached(&self, named: &Named, namespace: Option<&str>) -> Vec<ObjectMeta> {
        let watched = self.watched.iter().filter(|watched| named.is(watched.resource()));
        watched.flat_map(|watched| watched.cached(namespace)).collect()
    }

    /// Which informers have an object, or will have it.
    fn shown(&self, named: &Named, meta: &ObjectMeta) -> Shown {
        let (object, uid) = (key_of(meta), meta.uid.as_deref().unwrap_or_default());
        let mut shown = Shown::default();
        for (number, watched) in (self.first..).zip(&self.watched) {
            if !named.is(watched.resource()) {
                continue;
            }
            match watched.key_in_scope(meta) {
                // Without a uid, any object of this name may be meant: wait for each of them.
                Ok(_) if uid.is_empty() => shown.now.push(number),
                _ if watched.shows(&object, uid) => shown.now.push(number),
                Ok(_) => shown.later.push(number),
                Err(error) => shown.excluded = Some(error),
            }
        }
        shown
    }

    /// Whether an informer that should receive what a key waits for fails to reach the server.
    pub(super) fn fails_to_receive(&self, expected: &Expected) -> bool {
        let mut places = expected.places.iter().filter(|place| self.has_number(place.0));
        places.any(|place| self.informer(place.0).is_cut_off())
    }

    /// Whether the caches have what a key waits for. After the cluster was removed, no key waits.
    pub(super) fn progress(&self, expected: &Expected) -> Progress {
        let mut places = expected.places.iter().filter(|place| self.has_number(place.0));
        let is_met = |(number, object): &Place| is_met(self.informer(*number), object, None, expected);
        // If every informer has reached the write and none has the object, none will receive it.
        let has_reached = |(number, object): &Place| {
            let watched = self.informer(*number);
            is_current(watched, object, expected) && !(expected.gone && watched.shows(object, &expected.uid))
        };
        // A field selector may exclude the object. That is no loss.
        let is_lost = |(number, object): &Place| {
            let watched = self.informer(*number);
            let is_older = |cached: String| expected.is_newer_than(&cached);
            watched.is_in_scope(object)
                && watched.version(object).is_none_or(is_older)
                && !watched.selects_by_field(object)
        };
        if self.removed.is_cancelled() {
            Progress::Done
        } else if !(places.clone().any(is_met) || places.clone().all(has_reached)) {
            Progress::Pending
        } else if !expected.gone && places.clone().next().is_some() && places.all(is_lost) {
            Progress::Lost
        } else {
            Progress::Done
        }
    }
}

/// The key of an object.
pub(crate) fn key_of(meta: &ObjectMeta) -> Key {
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// An object of which only the key and the uid are known.
pub(super) fn last_known(object: &Key, uid: String) -> ObjectMeta {
    let namespace = Some(object.namespace().to_owned()).filter(|namespace| !namespace.is_empty());
    ObjectMeta { name: Some(object.name().to_owned()), namespace, uid: Some(uid), ..ObjectMeta::default() }
}

fn expected(meta: &ObjectMeta, object: &Key, numbers: &[usize], gone: bool) -> Expected {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Expected {
        places: numbers.iter().map(|number| (*number, object.clone())).collect(),
        uid: text(&meta.uid),
        version: text(&meta.resource_version),
        gone,
    }
}

// === impl Named ===

impl Named {
    /// The resource of a type.
    pub(super) fn kind<K: Resource>(dynamic: &K::DynamicType) -> Self {
        Self::Kind { group: K::group(dynamic).into_owned(), kind: K::kind(dynamic).into_owned() }
    }

    /// The resource of a request.
    pub(super) fn of(target: &WriteTarget) -> Self {
        Self::Plural { group: target.group.clone(), plural: target.plural.clone() }
    }

    pub(super) fn is(&self, resource: &ApiResource) -> bool {
        match self {
            Self::Kind { group, kind } => resource.group == *group && resource.kind == *kind,
            Self::Plural { group, plural } => resource.group == *group && resource.plural == *plural,
        }
    }
}
