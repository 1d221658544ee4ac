//! A projection as a tree of names: whether each member of an object is kept, dropped, or projected further.

use crate::path::Segment;

/// How a value is treated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate<'p> {
    /// Keep it, with everything in it.
    Keep,
    /// Drop it.
    Drop,
    /// Keep it, and let the node decide about its content. A scalar is kept.
    Descend(&'p Node),
}

/// Decides about the members of one object, or the elements of one list.
#[derive(Debug)]
pub(crate) struct Node {
    /// Sorted by name.
    members: Vec<(Box<str>, Branch)>,
    elements: Option<Box<Branch>>,
    /// How all other members are treated.
    others: Leaf,
}

/// How a whole value is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    Keep,
    Drop,
}

#[derive(Debug)]
enum Branch {
    Leaf(Leaf),
    Node(Node),
}

// === impl Node ===

impl Node {
    /// A node without named members.
    pub(super) fn new(others: Leaf) -> Self {
        Self { members: Vec::new(), elements: None, others }
    }

    /// How an object's member is treated.
    #[inline]
    pub(crate) fn member(&self, name: &str) -> Fate<'_> {
        match self.members.binary_search_by(|(member, _)| (**member).cmp(name)) {
            Ok(at) => self.members[at].1.fate(),
            Err(_) => self.others.fate(),
        }
    }

    /// How each list element is treated.
    #[inline]
    pub(crate) fn element(&self) -> Fate<'_> {
        match &self.elements {
            Some(branch) => branch.fate(),
            None => self.others.fate(),
        }
    }

    /// How members not among [`named`](Self::named) are treated.
    pub(super) fn others(&self) -> Leaf {
        self.others
    }

    /// The members with a rule of their own.
    pub(super) fn named(&self) -> impl Iterator<Item = (&str, Fate<'_>)> {
        self.members.iter().map(|(name, branch)| (&**name, branch.fate()))
    }

    /// Sets the rule for the value at the end of `path`. Replaces rules for values inside it; a rule for a value
    /// around it takes precedence.
    pub(super) fn set(&mut self, path: &[Segment], leaf: Leaf) {
        let others = self.others;
        let Some((segment, rest)) = path.split_first() else { return };
        let branch = match segment {
            Segment::Member(name) => {
                let at = match self.members.binary_search_by(|(member, _)| member.cmp(name)) {
                    Ok(at) => at,
                    Err(at) => {
                        self.members.insert(at, (name.clone(), Branch::Node(Self::new(others))));
                        at
                    }
                };
                &mut self.members[at].1
            }
            _ => self.elements.get_or_insert_with(|| Box::new(Branch::Node(Self::new(others)))),
        };
        match branch {
            _ if rest.is_empty() => *branch = Branch::Leaf(leaf),
            Branch::Node(node) => node.set(rest, leaf),
            Branch::Leaf(_) => {}
        }
    }

    /// Keeps one member of a value that is otherwise dropped as a whole; does nothing if it is not dropped.
    pub(super) fn spare(&mut self, path: &[&str], member: &str) {
        let Some((name, rest)) = path.split_first() else { return };
        let Ok(at) = self.members.binary_search_by(|(member, _)| (**member).cmp(name)) else { return };
        let branch = &mut self.members[at].1;
        match branch {
            Branch::Node(node) => node.spare(rest, member),
            Branch::Leaf(Leaf::Drop) if rest.is_empty() => {
                let kept = (member.into(), Branch::Leaf(Leaf::Keep));
                *branch = Branch::Node(Self { members: vec![kept], elements: None, others: Leaf::Drop });
            }
            Branch::Leaf(_) => {}
        }
    }
}

// === impl Branch, Leaf ===

impl Branch {
    #[inline]
    fn fate(&self) -> Fate<'_> {
        match self {
            Self::Leaf(leaf) => leaf.fate(),
            Self::Node(node) => Fate::Descend(node),
        }
    }
}

impl Leaf {
    #[inline]
    fn fate(self) -> Fate<'static> {
        match self {
            Self::Keep => Fate::Keep,
            Self::Drop => Fate::Drop,
        }
    }
}
