//! The objects of one kind in the order of one column.
//!
//! Names and namespaces are in the heads of objects. Other columns are read from the bytes, and remembered until the object
//! changes.

use std::collections::HashMap;

use jiff::Timestamp;
use kube_informer::{Key, StoredObject};

use super::kinds::Kinds;
use crate::output::sort_key::SortKey;

/// The objects of the page.
#[derive(Default)]
pub(super) struct ObjectList {
    /// The titles of the columns, with the namespace first if the kind has namespaces.
    pub(super) titles: Vec<String>,
    /// The column that objects are sorted by.
    pub(super) column: usize,
    pub(super) reversed: bool,
    /// The objects that pass the filter, in order.
    pub(super) objects: Vec<StoredObject>,
    /// The sort keys of the column, with the resourceVersion that each was read at.
    keys: HashMap<Key, (Box<str>, SortKey)>,
}

impl ObjectList {
    /// The list of a kind, which is read later.
    pub(super) fn of(kinds: &Kinds, number: usize) -> Self {
        let namespace = kinds.mirror(number).selected.kind.namespaced.then(|| "NAMESPACE".to_owned());
        let titles = namespace.into_iter().chain(kinds.columns(number).0.titles(false)).collect();
        Self { titles, ..Self::default() }
    }

    /// Sorts by the next column, from the next read on.
    pub(super) fn sort_by_next(&mut self) {
        self.column = (self.column + 1) % self.titles.len().max(1);
        self.keys.clear();
    }

    pub(super) fn position(&self, key: &Key) -> Option<usize> {
        let is_it =
            |object: &StoredObject| object.name() == key.name() && object.namespace() == key.namespace();
        self.objects.iter().position(is_it)
    }

    /// Reads the objects of a kind whose name or namespace contains the filter.
    pub(super) fn read(&mut self, kinds: &Kinds, number: usize, filter: &str) {
        let view = kinds.mirror(number).informer.lister().view();
        let passes = |object: &&StoredObject| {
            filter.is_empty() || object.name().contains(filter) || object.namespace().contains(filter)
        };
        let mut objects = view.snapshot().iter().filter(passes).cloned().collect::<Vec<_>>();
        objects.sort_unstable_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
        // Stable: equal keys stay in the order of namespaces and names.
        match self.titles.get(self.column).map(String::as_str) {
            None | Some("NAMESPACE") => {}
            Some("NAME") => objects.sort_by(|a, b| a.name().cmp(b.name())),
            Some(_) => {
                if self.keys.len() > 2 * objects.len() {
                    self.keys.clear();
                }
                let mut keyed = objects
                    .into_iter()
                    .map(|object| (self.sort_key(kinds, number, &object), object))
                    .collect::<Vec<_>>();
                keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
                objects = keyed.into_iter().map(|(_, object)| object).collect();
            }
        }
        if self.reversed {
            objects.reverse();
        }
        self.objects = objects;
    }

    /// The key of an object in the current column: ages by time, the youngest first, and cells in natural order.
    fn sort_key(&mut self, kinds: &Kinds, number: usize, object: &StoredObject) -> SortKey {
        let name = object.key();
        if let Some((version, key)) = self.keys.get(&name)
            && **version == *object.resource_version()
        {
            return key.clone();
        }
        let (columns, reader) = kinds.columns(number);
        let fields = reader.fields(object);
        let key = if matches!(self.titles[self.column].as_str(), "AGE" | "LAST SEEN") {
            let time = columns.time(&fields);
            time.map_or(SortKey::Missing, |time| SortKey::Number(-(time.as_second() as f64)))
        } else {
            let at = self.column - (self.titles.len() - columns.titles(false).len());
            let mut cells = columns.cells(&fields, Timestamp::now(), false);
            SortKey::Text(cells.swap_remove(at).into())
        };
        self.keys.insert(name, (object.resource_version().into(), key.clone()));
        key
    }
}
