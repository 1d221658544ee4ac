//! The difference between two objects as field sets: added, removed and modified fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    path::{PathElement, same},
    set::FieldSet,
    types::{Atom, Elements, ListView, MapView, TypeView},
    walk,
};

/// The difference between two objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Comparison {
    pub(crate) added: FieldSet,
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
}

impl Comparison {
    /// Added and modified fields.
    pub(crate) fn changed(&self) -> FieldSet {
        self.modified.union(&self.added)
    }

    /// The comparison without these fields and everything below them.
    pub(crate) fn excluding(&self, fields: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(fields),
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
        }
    }
}

/// Compares two values of a type. Skips list elements that have no path element (in a malformed list).
pub(crate) fn compare(ty: TypeView<'_>, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk { path: Vec::new(), found: Comparison::default() };
    walk.value(ty, Some(old), Some(new));
    walk.found
}

struct Walk {
    path: Vec<PathElement>,
    found: Comparison,
}

impl Walk {
    fn value(&mut self, ty: TypeView<'_>, old: Option<&Value>, new: Option<&Value>) {
        let (first, last) = walk::atoms(ty, old, new);
        if let Some(first) = first {
            self.atom(first, old, new);
        }
        let leaf = self.atom(last, old, new);
        if !leaf {
            match (old, new) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Compares as one kind of value; true if it was compared as a whole.
    fn atom(&mut self, atom: Atom<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        match atom {
            Atom::Scalar(_) => self.leaf(old, new),
            Atom::List(list) => {
                let (a, b) = (walk::list(old).unwrap_or_default(), walk::list(new).unwrap_or_default());
                // Two empty lists are compared as wholes, which distinguishes null from [].
                if matches!(list.elements, Elements::Atomic) || (a.is_empty() && b.is_empty()) {
                    return self.leaf(old, new);
                }
                self.list(list, a, b);
                false
            }
            Atom::Map(map) => {
                let (a, b) = (walk::map(old), walk::map(new));
                if map.atomic || (a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty)) {
                    return self.leaf(old, new);
                }
                self.map(map, a, b);
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !same(old, new) => self.found.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn map(&mut self, ty: MapView<'_>, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) {
        let names: BTreeSet<_> = old.into_iter().chain(new).flat_map(Map::keys).collect();
        for name in names {
            self.path.push(PathElement::field(name));
            self.value(
                walk::member(ty, name),
                old.and_then(|old| old.get(name)),
                new.and_then(|new| new.get(name)),
            );
            self.path.pop();
        }
    }

    fn list(&mut self, ty: ListView<'_>, old: &[Value], new: &[Value]) {
        let mut elements: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old {
            if let Ok(step) = walk::step(ty, item) {
                elements.entry(step).or_default().0.push(item);
            }
        }
        for item in new {
            if let Ok(step) = walk::step(ty, item) {
                elements.entry(step).or_default().1.push(item);
            }
        }
        for (step, (old, new)) in elements {
            self.path.push(step);
            self.element(ty, &old, &new);
            self.path.pop();
        }
    }

    /// Compares elements with the same path element: usually one old, one new. Duplicates are owned as one item.
    fn element(&mut self, ty: ListView<'_>, old: &[&Value], new: &[&Value]) {
        match (old, new) {
            ([] | [_], [] | [_]) => {
                self.value(ty.element, old.first().copied(), new.first().copied());
            }
            ([_, _, ..], [_, _, ..]) => {
                if old.len() != new.len() || old.iter().zip(new).any(|(a, b)| !same(a, b)) {
                    self.found.modified.insert(&self.path);
                }
            }
            ([_, _, ..], _) => {
                if let Some(new) = new.first() {
                    self.value(ty.element, None, Some(new));
                }
                self.found.removed.insert(&self.path);
            }
            (_, _) => {
                if let Some(old) = old.first() {
                    self.value(ty.element, Some(old), None);
                }
                self.found.added.insert(&self.path);
            }
        }
    }
}
