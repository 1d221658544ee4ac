//! A path compiled for one protobuf message: names become field numbers, and missing fields are errors.

use super::{FieldPath, Segment};
use crate::error::{Error, Result};
use crate::schema::{Cardinality, Field, Message, Scalar, Schema, Shape};

/// One step through protobuf. Each starts at the value of the previous step; the outermost is a message.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Enter the message in this field, unless the other field is present (which wins of two alternatives).
    Into { field: &'static Field, unless: Option<u32> },
    /// Continue with elements of the list in this field.
    Elements { field: &'static Field, pick: Pick },
    /// Continue with the value of one entry of the map in this field.
    Entry { field: &'static Field, key: Box<str> },
    /// The message contains JSON: follow the rest of the path there. Last step.
    Json(Box<[Segment]>),
    /// The value of this field. Last step.
    Field(&'static Field),
    /// The value itself. Last step.
    This(Scalar),
    /// Nothing: apiVersion and kind of a nested object, which protobuf omits. Last step.
    Nothing,
}

/// Which elements of a list.
#[derive(Clone, Debug)]
pub(super) enum Pick {
    Each,
    At(u32),
    /// Elements for which the steps lead to this text.
    Where {
        steps: Box<[Step]>,
        text: Box<str>,
    },
}

/// Why a segment does not match the value before it: the same for built-in kinds and custom resources.
pub(super) mod misfit {
    pub(in crate::path) const SCALAR: &str = "is a scalar: it has neither members nor elements";
    pub(in crate::path) const OBJECT: &str = "is an object: name one of its members";
    pub(in crate::path) const MAP: &str = "is a map: name one of its keys";
    pub(in crate::path) const LIST: &str = "is a list: choose elements with `[*]`, `[0]` or `[?name=text]`";
}

/// The steps of `path` through a message.
///
/// # Errors
/// [`Error::Path`] if the message has no such field.
pub(super) fn compile(path: &FieldPath, message: &'static Message) -> Result<Box<[Step]>> {
    let mut compiler = Compiler { path, at: 0, steps: Vec::new() };
    compiler.message(message)?;
    Ok(compiler.steps.into())
}

struct Compiler<'p> {
    path: &'p FieldPath,
    /// The number of segments processed.
    at: usize,
    steps: Vec<Step>,
}

impl Compiler<'_> {
    /// Continues in a message; at least one segment is left.
    fn message(&mut self, message: &'static Message) -> Result<()> {
        match message.shape {
            Shape::Object => self.object(message),
            Shape::RawJson => {
                self.steps.push(Step::Json(self.rest().into()));
                Ok(())
            }
            Shape::StringList => self.alternative(message, 1),
            Shape::SchemaOrBool => self.alternative(message, 2),
            Shape::SchemaOrArray | Shape::SchemaOrStrings => {
                let single = matches!(self.rest().first(), Some(Segment::Member(_)));
                self.alternative(message, if single { 1 } else { 2 })
            }
            Shape::Time | Shape::MicroTime | Shape::Duration | Shape::Quantity | Shape::IntOrString => {
                Err(self.unfit(misfit::SCALAR))
            }
        }
    }

    fn object(&mut self, message: &'static Message) -> Result<()> {
        let Some(Segment::Member(name)) = self.rest().first() else {
            return Err(self.unfit(misfit::OBJECT));
        };
        if let Some(field) = message.field_towards(name) {
            return if field.inline { self.into(field, None) } else { self.field(field) };
        }
        if message.type_meta && matches!(&**name, "apiVersion" | "kind") && self.rest().len() == 1 {
            self.steps.push(Step::Nothing);
            return Ok(());
        }
        let version = Schema::builtin().kubernetes_version();
        Err(self.unfit(&format!("has no member `{name}` ({} of Kubernetes {version})", message.name)))
    }

    /// Continues in the one of two fields that is set, or in the only field.
    fn alternative(&mut self, message: &'static Message, number: u32) -> Result<()> {
        // The table has the fields of every special shape.
        let Some(field) = message.field(number) else { return Err(self.unfit("has no such form")) };
        match field.ty.cardinality {
            Cardinality::One => self.into(field, (message.shape != Shape::SchemaOrBool).then_some(2)),
            _ => self.repeated(field),
        }
    }

    /// Continues in a field whose name was the segment at `at`.
    fn field(&mut self, field: &'static Field) -> Result<()> {
        self.at += 1;
        if self.rest().is_empty() {
            self.steps.push(Step::Field(field));
            return Ok(());
        }
        match field.ty.cardinality {
            Cardinality::One => self.into(field, None),
            _ => self.repeated(field),
        }
    }

    fn into(&mut self, field: &'static Field, unless: Option<u32>) -> Result<()> {
        match field.ty.message(Schema::builtin()) {
            Some(message) => {
                self.steps.push(Step::Into { field, unless });
                self.message(message)
            }
            None => Err(self.unfit(misfit::SCALAR)),
        }
    }

    fn repeated(&mut self, field: &'static Field) -> Result<()> {
        let step = match (field.ty.cardinality, self.rest().first()) {
            (Cardinality::Map, Some(Segment::Member(key))) => Step::Entry { field, key: key.clone() },
            (Cardinality::Map, _) => return Err(self.unfit(misfit::MAP)),
            (_, Some(Segment::Each)) => Step::Elements { field, pick: Pick::Each },
            (_, Some(Segment::At(index))) => Step::Elements { field, pick: Pick::At(*index) },
            (_, Some(Segment::Where(filter))) => {
                let (steps, text) = (self.filter_key(&filter.key, field)?, filter.text.clone());
                Step::Elements { field, pick: Pick::Where { steps, text } }
            }
            _ => return Err(self.unfit(misfit::LIST)),
        };
        self.steps.push(step);
        self.at += 1;
        self.value(field.ty.scalar)
    }

    /// Continues in an element or a map's value.
    fn value(&mut self, scalar: Scalar) -> Result<()> {
        match scalar {
            _ if self.rest().is_empty() => {
                self.steps.push(Step::This(scalar));
                Ok(())
            }
            Scalar::Message(at) => self.message(Schema::builtin().message_at(at)),
            _ => Err(self.unfit(misfit::SCALAR)),
        }
    }

    /// The steps from a list element to the member that a filter compares.
    fn filter_key(&self, key: &str, field: &'static Field) -> Result<Box<[Step]>> {
        let segments: Vec<_> =
            self.path.segments()[..=self.at].iter().cloned().chain([Segment::Member(key.into())]).collect();
        let path = FieldPath::new(segments);
        let mut compiler = Compiler { path: &path, at: self.at + 1, steps: Vec::new() };
        compiler.value(field.ty.scalar)?;
        Ok(compiler.steps.into())
    }

    fn rest(&self) -> &[Segment] {
        &self.path.segments()[self.at..]
    }

    fn unfit(&self, why: &str) -> Error {
        unfit(self.path, self.at, why)
    }
}

/// The error for the segment `at`, which does not match the value before it.
pub(super) fn unfit(path: &FieldPath, at: usize, why: &str) -> Error {
    let behind = match at {
        0 => "the object".to_owned(),
        at => format!("`{}`", FieldPath::new(&path.segments()[..at])),
    };
    Error::Path { path: path.to_string(), why: format!("{behind} {why}") }
}
