//! Prints a template over a `List` object by object, so that the objects are never decoded all together.
//!
//! The parts of a template that begin with `.items[*]`, `.items[N]` or `.items[?(…)]` are each printed in one pass over the
//! objects. A template with any other path, such as `{.items}` or `{..name}`, needs the whole list.

use kube_wire::{FieldPath, TypeMeta};

use super::{Node, Step, Template, eval, fields};
use crate::failure::Failure;
use crate::output::column::PathColumn;
use crate::output::record::Record;

/// A part of a template over a list.
pub(crate) enum ListPart<'t> {
    Text(&'t str),
    Items(Items<'t>),
}

/// A part that is printed for each object.
pub(crate) struct Items<'t> {
    choice: Choice<'t>,
    pieces: Vec<Piece<'t>>,
    /// Results of a path are separated by blanks; the bodies of a range are not.
    separated: bool,
    printed: bool,
}

/// The objects that a part is printed for.
enum Choice<'t> {
    All,
    At(usize),
    Where(&'t Step),
}

enum Piece<'t> {
    Text(&'t str),
    Path(PathColumn),
    /// Printed from the decoded object.
    Nested(&'t Node),
}

impl Template {
    /// The parts of the template for lists of objects of these types; `None` if it needs the whole list.
    pub(crate) fn list_parts(&self, types: &[TypeMeta]) -> Option<Vec<ListPart<'_>>> {
        self.0.iter().map(|node| ListPart::of(node, types)).collect()
    }

    /// The fields that the template reads of the objects of a list; `None` if it needs complete objects.
    pub(crate) fn list_fields(&self) -> Option<Vec<FieldPath>> {
        let mut found = Vec::new();
        for node in &self.0 {
            match node {
                Node::Text(_) => {}
                Node::Path(path) => {
                    let (choice, rest) = items(path)?;
                    choice.is_by_position().then_some(())?;
                    found.push(fields::field_path(rest)?);
                }
                Node::Range(path, body) => {
                    let (choice, rest) = items(path)?;
                    (choice.is_by_position() && rest.is_empty()).then_some(())?;
                    for node in body {
                        match node {
                            Node::Text(_) => {}
                            Node::Path(path) => found.push(fields::field_path(path)?),
                            Node::Range(..) => return None,
                        }
                    }
                }
            }
        }
        Some(found)
    }
}

impl<'t> ListPart<'t> {
    fn of(node: &'t Node, types: &[TypeMeta]) -> Option<Self> {
        if uses_root(node) {
            return None;
        }
        let column = |steps: &[Step]| Piece::Path(PathColumn::new(super::Path(steps.to_vec()), types));
        Some(match node {
            Node::Text(text) => Self::Text(text),
            Node::Path(path) => {
                let (choice, rest) = items(path)?;
                Self::Items(Items { choice, pieces: vec![column(rest)], separated: true, printed: false })
            }
            Node::Range(path, body) => {
                let (choice, rest) = items(path)?;
                if !rest.is_empty() {
                    return None;
                }
                let piece = |node: &'t Node| match node {
                    Node::Text(text) => Piece::Text(text),
                    Node::Path(path) => column(path),
                    Node::Range(..) => Piece::Nested(node),
                };
                let pieces = body.iter().map(piece).collect();
                Self::Items(Items { choice, pieces, separated: false, printed: false })
            }
        })
    }
}

impl Choice<'_> {
    fn is_by_position(&self) -> bool {
        !matches!(self, Self::Where(_))
    }
}

impl Items<'_> {
    /// Prints the part for the object at this position of the list.
    ///
    /// # Errors
    /// If the object cannot be read.
    pub(crate) fn print(&mut self, at: usize, record: &Record<'_>, out: &mut String) -> Result<(), Failure> {
        let chosen = match self.choice {
            Choice::All => true,
            Choice::At(chosen) => at == chosen,
            Choice::Where(step) => eval::passes(record.value(), step),
        };
        if !chosen {
            return Ok(());
        }
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Nested(node) => {
                    eval::Scope::new(record.value()).print(std::slice::from_ref(*node), out);
                }
                Piece::Path(column) => {
                    for (at, text) in column.texts(record)?.iter().enumerate() {
                        if at > 0 || (self.separated && self.printed) {
                            out.push(' ');
                        }
                        out.push_str(text);
                        self.printed = true;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Splits `.items[…]` from the rest of a path.
fn items(path: &[Step]) -> Option<(Choice<'_>, &[Step])> {
    let [Step::Field(name), choice, rest @ ..] = path else { return None };
    let choice = match choice {
        _ if name != "items" => return None,
        Step::Every => Choice::All,
        Step::Index(at) => Choice::At(usize::try_from(*at).ok()?),
        step @ Step::Filter { .. } => Choice::Where(step),
        _ => return None,
    };
    Some((choice, rest))
}

/// Whether a node has a path that begins at the list itself.
fn uses_root(node: &Node) -> bool {
    match node {
        Node::Text(_) => false,
        Node::Path(path) => path_uses_root(path),
        Node::Range(path, body) => path_uses_root(path) || body.iter().any(uses_root),
    }
}

fn path_uses_root(path: &[Step]) -> bool {
    let in_operand = |operand: &super::Operand| match operand {
        super::Operand::Path(path) => path_uses_root(path),
        super::Operand::Literal(_) => false,
    };
    path.iter().any(|step| match step {
        Step::Root => true,
        Step::Union(steps) => path_uses_root(steps),
        Step::Filter { left, compare } => {
            in_operand(left) || compare.as_ref().is_some_and(|(_, right)| in_operand(right))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use kube_informer::Scope;
    use kube_informer::StoredObject;
    use kube_wire::{Encoding, Limits, ObjectReader, Projection};
    use serde_json::{Value, json};

    use super::*;
    use crate::output::record::Decodes;

    fn pods() -> Vec<Value> {
        let pod = |name: &str, node: &str, images: &[&str]| {
            let containers =
                images.iter().map(|image| json!({"name": image, "image": image})).collect::<Vec<_>>();
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
                "spec": {"nodeName": node, "containers": containers}})
        };
        vec![pod("a", "n1", &["x", "y"]), pod("b", "n2", &["z"]), pod("c", "n1", &[])]
    }

    fn stored(object: &Value) -> StoredObject {
        let mut reader = ObjectReader::new(Projection::default(), Limits::default());
        let raw = reader.read(object.to_string().as_bytes(), Encoding::Json, None).unwrap();
        StoredObject::new(Scope::default(), raw).unwrap()
    }

    fn streamed(template: &str, decodes: &Decodes) -> Option<String> {
        let template = Template::parse(template).unwrap();
        let objects = pods().iter().map(stored).collect::<Vec<_>>();
        let mut out = String::new();
        for part in template.list_parts(&[TypeMeta::new("v1", "Pod")])? {
            match part {
                ListPart::Text(text) => out.push_str(text),
                ListPart::Items(mut items) => {
                    for (at, object) in objects.iter().enumerate() {
                        items.print(at, &Record::new(object, false, decodes), &mut out).unwrap();
                    }
                }
            }
        }
        Some(out)
    }

    #[test]
    fn a_streamed_template_prints_what_the_whole_list_prints() {
        let list = crate::output::list(pods());
        for (template, decoded) in [
            ("{.items[*].metadata.name}", 0),
            ("{.items[*].spec.containers[*].image}", 0),
            ("{.items[1].metadata.name}", 0),
            ("a{.items[*].spec.nodeName}b{.items[*].metadata.name}c", 0),
            (r#"{range .items[*]}{.metadata.name}={.spec.nodeName}{"\n"}{end}done"#, 0),
            (r#"{range .items[*]}{.spec.containers[*].image};{end}"#, 0),
            (r#"{.items[?(@.spec.nodeName=="n1")].metadata.name}"#, 3),
            (r#"{range .items[*]}{range .spec.containers[*]}{.image},{end};{end}"#, 3),
            ("{.items[*].metadata.labels.*}", 3),
            ("{.items[*].spec.containers[-1].image}", 3),
            ("{.items[*].nothing}", 3),
            ("{.items[*]['metadata','kind']}", 3),
            ("no paths", 0),
        ] {
            let decodes = Decodes::default();
            let whole = Template::parse(template).unwrap().print(&list);
            assert_eq!(streamed(template, &decodes).as_deref(), Some(whole.as_str()), "{template}");
            assert_eq!(decodes.count(), decoded, "{template}");
        }
        for template in
            ["{.items}", "{.kind}", "{..name}", "{.items[-1].kind}", "{range .items[*]}{$.kind}{end}"]
        {
            assert_eq!(streamed(template, &Decodes::default()), None, "{template}");
        }
    }

    #[test]
    fn a_template_names_the_fields_that_it_reads() {
        let fields = |template: &str| {
            let fields = Template::parse(template).unwrap().list_fields()?;
            Some(fields.iter().map(FieldPath::to_string).collect::<Vec<_>>())
        };
        let range = "{range .items[*]}{.metadata.name} {.spec.nodeName}{end}";
        assert_eq!(fields(range).unwrap(), ["metadata.name", "spec.nodeName"]);
        assert_eq!(fields("{.items[*].status.phase}").unwrap(), ["status.phase"]);
        assert_eq!(fields("{.items[*]}"), None);
        assert_eq!(fields(r#"{.items[?(@.kind=="Pod")].metadata.name}"#), None);
    }
}
