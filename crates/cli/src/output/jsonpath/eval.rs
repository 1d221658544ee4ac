//! Evaluates templates on a decoded object.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Comparison, Node, Operand, Step};

/// Maximum number of results of one path: `..` in a large object could give very many.
const RESULTS_MAX: usize = 1_000_000;

/// The object, and the part of it at which paths begin.
#[derive(Clone, Copy)]
pub(super) struct Scope<'v> {
    root: &'v Value,
    current: &'v Value,
}

impl<'v> Scope<'v> {
    pub(super) fn new(root: &'v Value) -> Self {
        Self { root, current: root }
    }

    pub(super) fn print(self, nodes: &[Node], out: &mut String) {
        for node in nodes {
            match node {
                Node::Text(text) => out.push_str(text),
                Node::Path(path) => {
                    for (at, value) in self.find(path).into_iter().enumerate() {
                        if at > 0 {
                            out.push(' ');
                        }
                        out.push_str(&text(value));
                    }
                }
                Node::Range(path, body) => {
                    for current in self.find(path) {
                        Self { current, ..self }.print(body, out);
                    }
                }
            }
        }
    }

    pub(super) fn find(self, path: &[Step]) -> Vec<&'v Value> {
        let mut found = vec![self.current];
        for step in path {
            let mut next = Vec::new();
            for value in found {
                self.step(value, step, &mut next);
                next.truncate(RESULTS_MAX);
            }
            found = next;
        }
        found
    }

    fn step(self, value: &'v Value, step: &Step, found: &mut Vec<&'v Value>) {
        match step {
            Step::Root => found.push(self.root),
            Step::Field(name) => found.extend(value.get(name)),
            Step::Index(index) => {
                let list = value.as_array().map_or(&[][..], Vec::as_slice);
                found.extend(place(*index, list.len()).and_then(|place| list.get(place)));
            }
            Step::Slice { from, to, by } => {
                let list = value.as_array().map_or(&[][..], Vec::as_slice);
                let bound = |bound: Option<i64>, default: usize| match bound {
                    Some(bound) => place(bound, list.len()).unwrap_or(0).min(list.len()),
                    None => default,
                };
                let (from, to) = (bound(*from, 0), bound(*to, list.len()));
                let by = by.and_then(|by| usize::try_from(by).ok()).unwrap_or(1).max(1);
                found.extend(list.get(from..to).into_iter().flatten().step_by(by));
            }
            Step::Every => match value {
                Value::Array(list) => found.extend(list),
                Value::Object(map) => found.extend(map.values()),
                _ => {}
            },
            Step::Descend => descend(value, found),
            Step::Union(steps) => steps.iter().for_each(|step| self.step(value, step, found)),
            Step::Filter { left, compare } => {
                let list = value.as_array().map_or(&[][..], Vec::as_slice);
                let passes = |element: &&Value| {
                    Scope { root: self.root, current: element }.passes(left, compare.as_ref())
                };
                found.extend(list.iter().filter(passes));
            }
        }
    }

    /// Whether an element passes a filter.
    fn passes(self, left: &Operand, compare: Option<&(Comparison, Operand)>) -> bool {
        match (self.operand(left), compare) {
            (left, None) => left.is_some(),
            (Some(left), Some((comparison, right))) => {
                self.operand(right).is_some_and(|right| comparison.holds(left, right))
            }
            (None, Some(_)) => false,
        }
    }

    fn operand<'o>(self, operand: &'o Operand) -> Option<&'o Value>
    where
        'v: 'o,
    {
        match operand {
            Operand::Literal(value) => Some(value),
            Operand::Path(path) => self.find(path).first().copied(),
        }
    }
}

/// Whether an object passes a filter step.
pub(super) fn passes(object: &Value, step: &Step) -> bool {
    match step {
        Step::Filter { left, compare } => Scope::new(object).passes(left, compare.as_ref()),
        _ => false,
    }
}

/// The value and everything in it, parents first.
fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    if found.len() >= RESULTS_MAX {
        return;
    }
    found.push(value);
    match value {
        Value::Array(list) => list.iter().for_each(|inner| descend(inner, found)),
        Value::Object(map) => map.values().for_each(|inner| descend(inner, found)),
        _ => {}
    }
}

/// Counted from the end if negative.
fn place(index: i64, len: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

/// The printed form: strings without quotes, everything else as JSON.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => {
                left.as_f64().zip(right.as_f64()).and_then(|(left, right)| left.partial_cmp(&right))
            }
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (left, right) => (left == right).then_some(Ordering::Equal),
        };
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}
