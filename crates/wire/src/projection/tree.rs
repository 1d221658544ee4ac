//! A projection as a tree of names: for each member of an object, whether it is kept, dropped, or looked into.

/// What happens to a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate<'p> {
    /// It is kept as it is, with all that it holds.
    Keep,
    /// It is dropped.
    Drop,
    /// It is kept, and the node decides about what it holds.
    Descend(&'p Node),
}

/// Decides about the members of one object, or the elements of one list.
#[derive(Debug, Default)]
pub(crate) struct Node {
    _todo: (),
}

impl Node {
    /// The fate of an object's member.
    pub(crate) fn member(&self, name: &str) -> Fate<'_> {
        let _ = name;
        todo!()
    }

    /// The fate of each element of a list.
    pub(crate) fn element(&self) -> Fate<'_> {
        todo!()
    }
}
