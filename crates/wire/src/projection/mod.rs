//! Drops or keeps fields in the bytes before an object is stored.
//!
//! Half of a pod's bytes are `managedFields`, which no controller reads. A [`Projection`] defines the fields that an
//! object loses on arrival. It is applied to the bytes, in both encodings, so dropped fields are never decoded,
//! compared, hashed or stored.
//!
//! Its paths ([`path`](crate::path)) may contain members, map keys and all elements of lists (`[*]`), but not single
//! elements, because dropping an element would shift the indexes of the others.
//!
//! In protobuf:
//! - A dropped field reads as absent, or as its zero value if Go's JSON always shows it (`spec.containers: null`).
//! - Values that are not objects with named fields (JSON stored as text, as in a `RawExtension`; JSON-or-boolean of
//!   CRD schemas) are kept or dropped as a whole: a path into one keeps all of it.
//! - Fields that are not in the schema table are kept when dropping, and dropped when keeping.
//! - For kinds that are not in the table, only `metadata` is projected; everything else is kept.

mod proto;
mod tree;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub(crate) use proto::Plan;
pub(crate) use tree::{Fate, Node};

use crate::error::{Error, Result};
use crate::head::INITIAL_EVENTS_END;
use crate::path::{CustomSchema, FieldPath, Segment};
use crate::schema::Message;
use tree::Leaf;

/// The fields of an object to keep. The default drops `metadata.managedFields` and keeps everything else.
///
/// The head's fields (name, namespace, uid, resourceVersion, generation, deletionTimestamp, labels, owner references) are
/// always kept, and so are creationTimestamp and the annotation that marks the end of a watch-list's initial events.
///
/// Projections that keep the same fields are equal and print the same, regardless of notation. Cloning is cheap.
///
/// ```
/// use kube_wire::Projection;
///
/// let projection = Projection::dropping(["status", "status.phase", "spec.containers[*].env"])?;
/// assert_eq!(projection.to_string(), "dropping metadata.managedFields, spec.containers[*].env, status");
/// assert_eq!(projection, Projection::dropping([".spec.containers[*]['env']", "status"])?);
/// assert!(Projection::dropping(["metadata.name"]).is_err());
/// # Ok::<(), kube_wire::Error>(())
/// ```
#[derive(Clone)]
pub struct Projection(Arc<ProjectionRules>);

struct ProjectionRules {
    mode: Mode,
    /// Sorted; no path contains another.
    paths: Box<[FieldPath]>,
    root: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    Dropping,
    Keeping,
}

/// How much of a field a [`Projection`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// All of it.
    Whole,
    /// Part of it is dropped.
    Partly,
    /// Nothing: the field cannot be read.
    Dropped,
}

const MANAGED_FIELDS: &str = "metadata.managedFields";

/// Members of `metadata` that are always kept: those that make up the head, and creationTimestamp. An object's age is too useful
/// to lose it, but a cache does not need it, so the head does not have it.
const ALWAYS_KEPT: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
];

// === impl Projection ===

impl Projection {
    /// Keeps everything, including managedFields.
    pub fn everything() -> Self {
        Self::new(Mode::Dropping, Vec::new())
    }

    /// Drops these fields and `metadata.managedFields`.
    ///
    /// # Errors
    /// [`Error::Path`] if a path is invalid, names a field that is always kept, or selects single list elements.
    pub fn dropping<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self> {
        let paths = [MANAGED_FIELDS].into_iter().chain(paths).map(parse).collect::<Result<Vec<_>>>()?;
        match paths.iter().find(|path| touches_kept(path.segments())) {
            Some(path) => Err(Error::Path {
                path: path.to_string(),
                why: "projections always keep this field or a part of it".to_owned(),
            }),
            None => Ok(Self::new(Mode::Dropping, paths)),
        }
    }

    /// Keeps only these fields and those that are always kept.
    ///
    /// # Errors
    /// [`Error::Path`] if a path is invalid, or selects single list elements.
    pub fn keeping<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self> {
        let mut paths = paths.into_iter().map(parse).collect::<Result<Vec<_>>>()?;
        paths.retain(|path| !within_kept(path.segments()));
        Ok(Self::new(Mode::Keeping, paths))
    }

    /// How much of a field is kept. An index over a dropped field would always be empty.
    ///
    /// ```
    /// use kube_wire::projection::{Kept, Projection};
    ///
    /// let projection = Projection::dropping(["status.conditions[*].message"])?;
    /// assert_eq!(projection.keeps(&"spec.nodeName".parse()?), Kept::Whole);
    /// assert_eq!(projection.keeps(&"status".parse()?), Kept::Partly);
    /// assert_eq!(projection.keeps(&"status.conditions[?type=Ready].status".parse()?), Kept::Whole);
    /// assert_eq!(projection.keeps(&"status.conditions[?message=x].status".parse()?), Kept::Dropped);
    /// # Ok::<(), kube_wire::Error>(())
    /// ```
    pub fn keeps(&self, path: &FieldPath) -> Kept {
        let mut fate = Fate::Descend(self.root());
        for segment in path.segments() {
            let Fate::Descend(node) = fate else { break };
            fate = match segment {
                Segment::Member(name) => node.member(name),
                Segment::Each | Segment::At(_) | Segment::Where(_) => node.element(),
            };
            if let (Segment::Where(filter), Fate::Descend(element)) = (segment, fate)
                && matches!(element.member(&filter.key), Fate::Drop)
            {
                fate = Fate::Drop;
            }
        }
        match (fate, path.segments()) {
            // Removed from the bytes, and restored when they are decoded.
            (_, [Segment::Member(name)]) if is_type_meta(name) => Kept::Whole,
            (Fate::Keep, _) => Kept::Whole,
            (Fate::Descend(_), _) => Kept::Partly,
            (Fate::Drop, _) => Kept::Dropped,
        }
    }

    /// Checks that a kind has the named fields, so that a misspelled path does not silently drop nothing.
    ///
    /// # Errors
    /// [`Error::Path`] for the first path that does not exist.
    pub fn check(&self, message: &'static Message) -> Result<()> {
        self.0.paths.iter().try_for_each(|path| path.compile(Some(message)).map(drop))
    }

    /// The same for a custom resource, by the schema of its definition.
    ///
    /// # Errors
    /// [`Error::Path`] for the first path that does not exist.
    pub fn check_custom(&self, schema: &CustomSchema) -> Result<()> {
        self.0.paths.iter().try_for_each(|path| schema.check(path))
    }

    /// The tree of names for copying JSON.
    pub(crate) fn root(&self) -> &Node {
        &self.0.root
    }

    fn new(mode: Mode, mut paths: Vec<FieldPath>) -> Self {
        paths.sort();
        // After sorting, a path precedes those inside it.
        paths.dedup_by(|path, before| path.segments().starts_with(before.segments()));
        let mut root = Node::new(match mode {
            Mode::Dropping => Leaf::Keep,
            Mode::Keeping => Leaf::Drop,
        });
        match mode {
            Mode::Dropping => {
                for path in &paths {
                    root.set(path.segments(), Leaf::Drop);
                }
                root.spare(&["metadata", "annotations"], INITIAL_EVENTS_END);
            }
            Mode::Keeping => {
                for path in &paths {
                    root.set(path.segments(), Leaf::Keep);
                }
                let kept = ALWAYS_KEPT.iter().map(|name| vec!["metadata", name]);
                let marker = vec!["metadata", "annotations", INITIAL_EVENTS_END];
                for path in kept.chain([vec!["apiVersion"], vec!["kind"], marker]) {
                    let path: Vec<_> = path.into_iter().map(|name| Segment::Member(name.into())).collect();
                    root.set(&path, Leaf::Keep);
                }
            }
        }
        Self(Arc::new(ProjectionRules { mode, paths: paths.into(), root }))
    }
}

impl Default for Projection {
    fn default() -> Self {
        let managed_fields = ["metadata", "managedFields"].map(|name| Segment::Member(name.into()));
        Self::new(Mode::Dropping, vec![FieldPath::new(managed_fields)])
    }
}

impl PartialEq for Projection {
    fn eq(&self, other: &Self) -> bool {
        (self.0.mode, &self.0.paths) == (other.0.mode, &other.0.paths)
    }
}

impl Eq for Projection {}

impl Hash for Projection {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.mode, &self.0.paths).hash(state);
    }
}

impl fmt::Debug for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.mode {
            Mode::Dropping if self.0.paths.is_empty() => "everything",
            Mode::Keeping if self.0.paths.is_empty() => "keeping the head",
            Mode::Dropping => "dropping ",
            Mode::Keeping => "keeping ",
        })?;
        for (at, path) in self.0.paths.iter().enumerate() {
            write!(f, "{}{path}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// A path of names and `[*]`; a trailing `[*]` means the same as the list itself.
fn parse(text: &str) -> Result<FieldPath> {
    let path: FieldPath = text.parse()?;
    let mut segments = path.segments();
    let refuse = |why: &str| Err(Error::Path { path: text.to_owned(), why: why.to_owned() });
    if segments.iter().any(|segment| matches!(segment, Segment::At(_) | Segment::Where(_))) {
        return refuse("cannot select single list elements; use `[*]`");
    }
    while let [rest @ .., Segment::Each] = segments {
        segments = rest;
    }
    match segments.first() {
        Some(Segment::Member(_)) => Ok(FieldPath::new(segments)),
        _ => refuse("expected a member name first"),
    }
}

/// Whether the path leads to a field that is always kept, into one, or to a parent of one.
fn touches_kept(path: &[Segment]) -> bool {
    matches!(path, [Segment::Member(metadata)] if **metadata == *"metadata") || within_kept(path)
}

fn within_kept(path: &[Segment]) -> bool {
    match path {
        [Segment::Member(name), ..] if is_type_meta(name) => true,
        [Segment::Member(metadata), Segment::Member(name), rest @ ..] if **metadata == *"metadata" => {
            let marker = |key: &Segment| matches!(key, Segment::Member(key) if **key == *INITIAL_EVENTS_END);
            ALWAYS_KEPT.contains(&&**name) || (**name == *"annotations" && rest.first().is_some_and(marker))
        }
        _ => false,
    }
}

fn is_type_meta(name: &str) -> bool {
    name == "apiVersion" || name == "kind"
}
