//! kubectl's JSONPath templates: text with paths in braces, `{range}` and `{end}`.
//!
//! The language differs from standard JSONPath: paths are in braces, dots in names are escaped by a backslash, several results
//! are separated by blanks, and a missing field prints nothing.

mod eval;
mod fields;
// The fuzz target has this module alone.
#[cfg(not(fuzzing))]
mod list;
mod parse;

use kube_wire::path::PathReader;
use kube_wire::{FieldPath, TypeMeta};
use serde_json::Value;

#[cfg(not(fuzzing))]
pub(crate) use list::ListPart;

use eval::Scope;

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template(Vec<Node>);

/// A single path, as in custom columns and `--sort-by`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path(Vec<Step>);

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    Path(Vec<Step>),
    /// For each result of the path.
    Range(Vec<Step>, Vec<Node>),
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// `$`: back to the whole object.
    Root,
    /// `.name`, `['name']`
    Field(String),
    /// `[0]`, `[-1]`
    Index(i64),
    /// `[1:3]`, `[::2]`
    Slice { from: Option<i64>, to: Option<i64>, by: Option<i64> },
    /// `.*`, `[*]`
    Every,
    /// `..`: the value and everything in it.
    Descend,
    /// `['a','b']`, `[0,2]`
    Union(Vec<Step>),
    /// `[?(@.type=="Ready")]`
    Filter { left: Operand, compare: Option<(Comparison, Operand)> },
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// The reason why the template is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        parse::template(text).map(Self)
    }

    /// Prints an object by the template.
    pub(crate) fn print(&self, object: &Value) -> String {
        let mut out = String::new();
        Scope::new(object).print(&self.0, &mut out);
        out
    }
}

impl Path {
    /// Parses a path in any of kubectl's spellings: `{.metadata.name}`, `.metadata.name`, `metadata.name`.
    ///
    /// # Errors
    /// The reason why the path is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let dot = if bare.starts_with(['.', '[', '$', '@']) { "" } else { "." };
        parse::path(&format!("{dot}{bare}")).map(Self)
    }

    /// The texts of all values that the path leads to, as kubectl prints them.
    pub(crate) fn texts(&self, object: &Value) -> Vec<String> {
        Scope::new(object).find(&self.0).into_iter().map(eval::text).collect()
    }

    /// The path as a field path; `None` if it has steps that field paths lack.
    pub(crate) fn field_path(&self) -> Option<FieldPath> {
        fields::field_path(&self.0)
    }

    /// Whether the metadata of an object is enough to read the path.
    pub(crate) fn is_in_metadata(&self) -> bool {
        let begins = matches!(self.0.first(), Some(Step::Field(name)) if name == "metadata");
        // A field path cannot lead back to the whole object.
        begins && self.field_path().is_some()
    }

    /// Reads the path from the bytes of objects of this type; `None` if the result would differ from the decoded object's.
    pub(crate) fn reader(&self, type_meta: &TypeMeta) -> Option<PathReader> {
        fields::reader(&self.0, type_meta)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_print_what_kubectl_prints() {
        let object = json!({
            "kind": "List",
            "metadata": {"name": "api", "annotations": {"example.com/owner": "ann"}},
            "items": [{"name": "a", "n": 1, "ok": true}, {"name": "b", "n": 2}, {"name": "c", "n": 3, "ok": false}],
            "deep": {"x": {"name": "d"}},
            "list": [10, 20, 30, 40],
        });
        for (template, printed) in [
            ("{.metadata.name}", "api"),
            ("{$.metadata.name}", "api"),
            ("{@.metadata.name}", "api"),
            ("name={.metadata.name}!", "name=api!"),
            ("{.metadata['name']}", "api"),
            (r"{.metadata.annotations.example\.com/owner}", "ann"),
            ("{.metadata.annotations['example.com/owner']}", "ann"),
            ("{.items[*].name}", "a b c"),
            ("{.items[0].name}", "a"),
            ("{.items[-1].name}", "c"),
            ("{.items[0:2].name}", "a b"),
            ("{.items[1:].name}", "b c"),
            ("{.items[0,2].name}", "a c"),
            ("{.list[::2]}", "10 30"),
            ("{.items[0]['name','n']}", "a 1"),
            ("{.items[?(@.n>1)].name}", "b c"),
            ("{.items[?(@.n >= 2)].name}", "b c"),
            (r#"{.items[?(@.name=="b")].n}"#, "2"),
            (r#"{.items[?(@.name!="b")].n}"#, "1 3"),
            ("{.items[?(@.ok)].name}", "a c"),
            ("{.items[?(@.ok==true)].name}", "a"),
            ("{..name}", "d a b c api"),
            ("{.items[0]}", r#"{"n":1,"name":"a","ok":true}"#),
            ("{.list}", "[10,20,30,40]"),
            ("{.nothing.here}", ""),
            (r#"{range .items[*]}{.name}={.n}{"\n"}{end}done"#, "a=1\nb=2\nc=3\ndone"),
            (r#"{range .items[*]}{.name}{"\t"}{$.kind}{" "}{end}"#, "a\tList b\tList c\tList "),
            (r#"{range .items[0:2]}{range $.list[0:2]}{@}{" "}{end}{end}"#, "10 20 10 20 "),
            ("{.metadata.*}", r#"{"example.com/owner":"ann"} api"#),
            ("{'quoted'}", "quoted"),
            ("no braces", "no braces"),
            ("", ""),
        ] {
            let parsed = Template::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
            assert_eq!(parsed.print(&object), printed, "{template}");
        }
    }

    #[test]
    fn invalid_templates_are_rejected_with_a_reason() {
        for (template, why) in [
            ("{.a", "a brace is not closed"),
            ("{range .a}x", "{range} without {end}"),
            ("{end}", "{end} without {range}"),
            ("{.a[}", "expected"),
            ("{.a[?(@.b==)]}", "expected"),
            ("{\"x}", "a quote is not closed"),
            ("{.a[1:x]}", "expected"),
        ] {
            let error = Template::parse(template).unwrap_err();
            assert!(error.contains(why), "{template}: {error}");
        }
    }

    #[test]
    fn paths_that_metadata_is_enough_for_are_recognized() {
        for (path, is_enough) in [
            (".metadata.name", true),
            ("{.metadata.ownerReferences[0].uid}", true),
            (".metadata.labels['example.com/app']", true),
            (".spec.metadata.name", false),
            (".kind", false),
            ("..name", false),
            (".metadata.labels[?(@.app==$.kind)]", false),
        ] {
            assert_eq!(Path::parse(path).unwrap().is_in_metadata(), is_enough, "{path}");
        }
    }

    #[test]
    fn paths_of_columns_can_be_written_in_three_ways() {
        let object = json!({"metadata": {"name": "api", "finalizers": ["a", "b"]}});
        for text in ["{.metadata.name}", ".metadata.name", "metadata.name"] {
            assert_eq!(Path::parse(text).unwrap().texts(&object), ["api"]);
        }
        assert_eq!(Path::parse(".metadata.finalizers[*]").unwrap().texts(&object), ["a", "b"]);
        assert!(Path::parse(".spec.none").unwrap().texts(&object).is_empty());
    }
}
