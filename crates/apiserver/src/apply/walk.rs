//! Shared parts of the walks over typed values: what counts as a list or map, the path element of a list element, and
//! which of two values decides how a path is treated.

use serde_json::{Map, Value};

use super::{
    path::PathElement,
    types::{Atom, Elements, ListView, TypeView},
};

/// The list in a value; `None` for anything else, including null.
pub(crate) fn list(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array).map(Vec::as_slice)
}

/// The map in a value; `None` for anything else, including null.
pub(crate) fn map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// The atoms as which to process a path that has a left value, a right value or both. Usually there is one. If the values are
/// of different kinds, and the type allows both, the left value's atom comes first, then the right value's.
pub(crate) fn atoms<'a>(
    ty: TypeView<'a>,
    left: Option<&Value>,
    right: Option<&Value>,
) -> (Option<Atom<'a>>, Atom<'a>) {
    match (left, right) {
        (_, None) => (None, ty.atom(left)),
        (None, _) => (None, ty.atom(right)),
        (Some(_), Some(_)) => {
            let (a, b) = (ty.atom(left), ty.atom(right));
            let alike = matches!(
                (a, b),
                (Atom::Scalar(_), Atom::Scalar(_))
                    | (Atom::List(_), Atom::List(_))
                    | (Atom::Map(_), Atom::Map(_))
            );
            (if alike { None } else { Some(a) }, b)
        }
    }
}

/// The path element of an element of a list that is not atomic.
///
/// # Errors
///
/// Why the element has no path element, in the wording of a kube-apiserver.
pub(crate) fn step(list: ListView<'_>, item: &Value) -> Result<PathElement, String> {
    let keys = match list.elements {
        Elements::Atomic => return Err("invalid indexing of non-associative list".to_owned()),
        Elements::Set => return set_step(item),
        Elements::BuiltinKeys(_) | Elements::CustomKeys(..) => list.elements.keys(),
    };
    let object = match item {
        Value::Object(object) => object,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut found = Vec::with_capacity(keys.len());
    for (name, default) in &keys {
        if let Some(value) = object.get(*name).or(default.as_ref()) {
            found.push(((*name).to_owned(), value.clone()));
        }
    }
    if found.is_empty() {
        let names: Vec<_> = keys.iter().map(|(name, _)| super::go::quote(name)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] \
             (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(PathElement::key(found))
}

fn set_step(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        scalar => Ok(PathElement::Value(scalar.clone())),
    }
}

/// The type of a member; if the type does not declare it, its value decides.
pub(crate) fn member<'a>(map: super::types::MapView<'a>, name: &str) -> TypeView<'a> {
    map.field(name).map_or(TypeView::deduced(), |member| member.ty)
}
