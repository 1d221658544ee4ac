//! Translates paths of templates to field paths, which are read from the bytes of an object without decoding it.

use kube_wire::path::PathReader;
use kube_wire::schema::Schema;
use kube_wire::{FieldPath, TypeMeta};
use serde_json::Value;

use super::{Comparison, Operand, Step};

/// A path that can be read from the bytes of objects of this type with the same result as from the decoded object; `None`
/// if it cannot.
pub(super) fn reader(steps: &[Step], type_meta: &TypeMeta) -> Option<PathReader> {
    let reader = PathReader::new(&field_path(steps)?, type_meta).ok()?;
    // `[*]` of a template also means every value of a map. The schema table tells lists from maps.
    let has_schema = Schema::builtin().kind(type_meta.api_version(), type_meta.kind()).is_some();
    (has_schema || !steps.contains(&Step::Every)).then_some(reader)
}

/// The same path as a field path, if field paths have all of its steps.
pub(super) fn field_path(steps: &[Step]) -> Option<FieldPath> {
    let text = steps.iter().map(segment).collect::<Option<String>>()?;
    text.parse().ok()
}

fn segment(step: &Step) -> Option<String> {
    match step {
        Step::Field(name) => Some(format!("['{}']", escaped(name))),
        Step::Index(index) => u32::try_from(*index).ok().map(|index| format!("[{index}]")),
        Step::Every => Some("[*]".to_owned()),
        Step::Filter { left: Operand::Path(path), compare } => {
            let ([Step::Field(key)], Some((Comparison::Equal, Operand::Literal(Value::String(text))))) =
                (path.as_slice(), compare)
            else {
                return None;
            };
            // Field paths compare numbers and booleans by their text, templates do not.
            let is_scalar = serde_json::from_str::<Value>(text).is_ok();
            (!is_scalar).then(|| format!("[?'{}'='{}']", escaped(key), escaped(text)))
        }
        _ => None,
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

#[cfg(test)]
mod tests {
    use super::super::Path;
    use super::*;

    #[test]
    fn paths_are_translated_only_if_the_result_is_the_same() {
        for (template, field) in [
            (".metadata.name", Some("metadata.name")),
            (r".metadata.labels.app\.kubernetes\.io/name", Some("metadata.labels['app.kubernetes.io/name']")),
            (".spec.containers[0].image", Some("spec.containers[0].image")),
            (".spec.containers[*].image", Some("spec.containers[*].image")),
            (
                ".status.conditions[?(@.type==\"Ready\")].status",
                Some("status.conditions[?type=Ready].status"),
            ),
            (".spec.ports[?(@.port==80)].name", None),
            (".spec.ports[?(@.port==\"80\")].name", None),
            (".spec.containers[-1].image", None),
            (".spec.containers[0:2].image", None),
            ("..image", None),
            ("$.metadata.name", None),
        ] {
            let path = Path::parse(template).unwrap();
            assert_eq!(path.field_path().map(|path| path.to_string()).as_deref(), field, "{template}");
        }
    }

    #[test]
    fn every_value_of_a_map_is_not_read_as_every_element_of_a_list() {
        let (pod, widget) = (TypeMeta::new("v1", "Pod"), TypeMeta::new("example.com/v1", "Widget"));
        let reads = |path: &str, kind| Path::parse(path).unwrap().reader(kind).is_some();
        assert!(reads(".spec.containers[*].image", &pod));
        assert!(!reads(".metadata.labels.*", &pod));
        assert!(reads(".spec.size", &widget));
        assert!(!reads(".spec.sizes[*]", &widget));
        assert!(
            !reads(".spec.future", &pod),
            "a field that the table lacks is looked up in the decoded object"
        );
    }
}
