//! kubectl's JSONPath templates: text with paths in braces, `{range}` and `{end}`.
//!
//! It is a language of its own, not the JSONPath that became a standard: paths stand in braces, dots in names are escaped
//! by a backslash, several results are printed with blanks between them, and a field that is not there prints nothing.

mod eval;
mod parse;

use serde_json::Value;

use eval::Scope;

/// A template, ready to be printed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template(Vec<Node>);

/// A single path, as in custom columns and `--sort-by`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path(Vec<Step>);

/// What a template consists of.
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
    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong with it, in words.
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
    /// Reads a path in any of kubectl's spellings: `{.metadata.name}`, `.metadata.name`, `metadata.name`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let dot = if bare.starts_with(['.', '[', '$', '@']) { "" } else { "." };
        parse::path(&format!("{dot}{bare}")).map(Self)
    }

    /// What stands there, as kubectl prints it in a column; none if nothing does.
    pub(crate) fn print(&self, object: &Value) -> Option<String> {
        let found = Scope::new(object).find(&self.0);
        let texts = found.iter().map(|value| eval::text(value)).collect::<Vec<_>>();
        (!texts.is_empty()).then(|| texts.join(","))
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
    fn what_is_no_template_is_refused_with_a_reason() {
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
    fn paths_of_columns_may_be_written_in_three_ways() {
        let object = json!({"metadata": {"name": "api", "finalizers": ["a", "b"]}});
        for text in ["{.metadata.name}", ".metadata.name", "metadata.name"] {
            assert_eq!(Path::parse(text).unwrap().print(&object).as_deref(), Some("api"));
        }
        assert_eq!(Path::parse(".metadata.finalizers[*]").unwrap().print(&object).as_deref(), Some("a,b"));
        assert_eq!(Path::parse(".spec.none").unwrap().print(&object), None);
    }
}
