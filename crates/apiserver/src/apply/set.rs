//! A set of fields that a manager owns, as a tree of path elements.
//!
//! An owned path differs from one that only leads to owned paths: `f:labels` with `f:app` below may or may not own the
//! map itself. FieldsV1 marks an owned map with a `.` next to its children.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    path::{BadPathElement, PathElement},
    types::{Atom, TypeView},
};

/// A set of paths in an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Invariant: every node is a member or has a member below it.
    nodes: BTreeMap<PathElement, SetNode>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SetNode {
    member: bool,
    below: FieldSet,
}

impl FieldSet {
    /// A set of these paths.
    pub fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.iter().map(|&name| PathElement::field(name)).collect::<Vec<_>>());
        }
        set
    }

    /// Parses the set from FieldsV1. Skips unknown kinds of path element.
    ///
    /// # Errors
    ///
    /// If a path element is malformed, or the tree contains anything other than objects.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, BadPathElement> {
        let mut set = Self::default();
        for (text, below) in object(fields)? {
            if text == "." {
                continue;
            }
            let Some(step) = PathElement::parse(text)? else { continue };
            let children = object(below)?;
            let below = Self::from_fields_v1(below)?;
            let member = below.is_empty() || children.contains_key(".");
            set.nodes.insert(step, SetNode { member, below });
        }
        Ok(set)
    }

    /// Writes the set as FieldsV1.
    pub fn to_fields_v1(&self) -> Value {
        let mut fields = Map::new();
        for (step, node) in &self.nodes {
            let mut below = Map::new();
            if node.member && !node.below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            if let Value::Object(children) = node.below.to_fields_v1() {
                below.extend(children);
            }
            fields.insert(step.encode(), Value::Object(below));
        }
        Value::Object(fields)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a path, without its parents. The root is never owned.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => self.nodes.entry(last.clone()).or_default().member = true,
            [first, rest @ ..] => self.nodes.entry(first.clone()).or_default().below.insert(rest),
        }
    }

    /// Whether this path is in the set.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.nodes.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.nodes.get(first).is_some_and(|node| node.below.contains(rest)),
        }
    }

    /// The paths below a path element.
    pub(crate) fn below(&self, step: &PathElement) -> Option<&FieldSet> {
        self.nodes.get(step).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// Whether the path consisting of this single element is in the set.
    pub(crate) fn has(&self, step: &PathElement) -> bool {
        self.nodes.get(step).is_some_and(|node| node.member)
    }

    /// The first elements of all paths.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &PathElement> {
        self.nodes.keys()
    }

    /// All paths, in order: those of a node before those below it.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    /// Paths in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        for (step, node) in &other.nodes {
            let mine = union.nodes.entry(step.clone()).or_default();
            mine.member |= node.member;
            mine.below = mine.below.union(&node.below);
        }
        union
    }

    /// Paths in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.filter(|step, node| {
            let theirs = other.nodes.get(step)?;
            Some(SetNode {
                member: node.member && theirs.member,
                below: node.below.intersection(&theirs.below),
            })
        })
    }

    /// Paths in this set that are not in the other; keeps paths below one of the other's.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.filter(|step, node| {
            let Some(theirs) = other.nodes.get(step) else { return Some(node.clone()) };
            Some(SetNode {
                member: node.member && !theirs.member,
                below: node.below.difference(&theirs.below),
            })
        })
    }

    /// Paths in this set that are neither in the other nor below one of its paths.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.filter(|step, node| {
            let Some(theirs) = other.nodes.get(step) else { return Some(node.clone()) };
            if theirs.member {
                return None;
            }
            Some(SetNode { member: node.member, below: node.below.recursive_difference(&theirs.below) })
        })
    }

    /// The set with every declared field that leads to a path added. Sets taken from a configuration do not contain
    /// those, because owning `spec.replicas` does not mean owning `spec`; comparisons need them.
    #[must_use]
    pub(crate) fn with_declared_fields(&self, ty: TypeView<'_>) -> Self {
        self.filter(|step, node| {
            let mut member = node.member;
            let below_ty = match (step, ty.atom(None)) {
                (PathElement::Field(name), Atom::Map(map)) => {
                    let field = map.field(name);
                    member |= !node.below.is_empty() && field.is_some_and(|field| field.declared);
                    field.map_or(TypeView::deduced(), |field| field.ty)
                }
                (PathElement::Key(_), Atom::List(list)) => list.element,
                _ => TypeView::deduced(),
            };
            Some(SetNode { member, below: node.below.with_declared_fields(below_ty) })
        })
    }

    fn filter(&self, map: impl Fn(&PathElement, &SetNode) -> Option<SetNode>) -> Self {
        let kept = self.nodes.iter().filter_map(|(step, node)| {
            let node = map(step, node)?;
            (node.member || !node.below.is_empty()).then(|| (step.clone(), node))
        });
        Self { nodes: kept.collect() }
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        // Members first, then the paths below them: the order of a kube-apiserver.
        for (step, node) in &self.nodes {
            if node.member {
                prefix.push(step.clone());
                paths.push(prefix.clone());
                prefix.pop();
            }
        }
        for (step, node) in &self.nodes {
            prefix.push(step.clone());
            node.below.collect(prefix, paths);
            prefix.pop();
        }
    }
}

fn object(value: &Value) -> Result<&Map<String, Value>, BadPathElement> {
    value.as_object().ok_or_else(|| BadPathElement {
        text: value.to_string(),
        reason: "expected a tree of objects".to_owned(),
    })
}
