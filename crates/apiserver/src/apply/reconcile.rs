//! Adjusts field sets after a schema change has made a list, map or object atomic: the owner of a part becomes the owner of the
//! whole.

use super::{
    path::PathElement,
    set::FieldSet,
    types::{Atom, Elements, TypeView},
};

/// The set with every path below an atomic list, map or object replaced by the path of that list, map or object.
pub(crate) fn reconcile(ty: TypeView<'_>, fields: &FieldSet) -> FieldSet {
    let mut atomic = FieldSet::default();
    find(ty, fields, &mut Vec::new(), &mut atomic);
    if atomic.is_empty() { fields.clone() } else { fields.recursive_difference(&atomic).union(&atomic) }
}

fn find(ty: TypeView<'_>, fields: &FieldSet, path: &mut Vec<PathElement>, atomic: &mut FieldSet) {
    let atom = ty.atom(None);
    let whole = match atom {
        Atom::Scalar(_) => return,
        Atom::List(list) => matches!(list.elements, Elements::Atomic),
        Atom::Map(map) => map.atomic,
    };
    if whole {
        atomic.insert(path);
        return;
    }
    for step in fields.steps() {
        let Some(below) = fields.below(step) else { continue };
        let inner = match (step, atom) {
            (PathElement::Field(name), Atom::Map(map)) => map.field(name).map(|field| field.ty),
            (PathElement::Key(_) | PathElement::Value(_), Atom::List(list)) => Some(list.element),
            _ => None,
        };
        if let Some(inner) = inner {
            path.push(step.clone());
            find(inner, below, path, atomic);
            path.pop();
        }
    }
}
