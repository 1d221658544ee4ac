//! What an index is made of: a name, and a way to read values from an object.

use std::any::TypeId;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

use kube_wire::path::PathReader;
use kube_wire::projection::Kept;
use kube_wire::{FieldPath, Projection, TypeMeta};

use super::StoredObject;
use crate::Key;
use crate::panic::guarded;

/// A way to find objects by a value. An object may have several values, or none.
///
/// ```
/// use kube_informer::Index;
///
/// let by_node = Index::field("node", "spec.nodeName");          // read from the bytes
/// let by_app = Index::label("app", "app.kubernetes.io/name");
/// let by_owner = Index::owner("owner");                         // uids of the owners
/// let by_initial = Index::by("initial", |object| object.name().chars().next().map(String::from));
/// ```
///
/// An index sees an object as it is kept: what the projection drops cannot be indexed, and trying to is an error when
/// the index is added.
#[derive(Clone)]
pub struct Index {
    name: Arc<str>,
    source: IndexSource,
    /// The type of a function that captures nothing: two of one type are one function.
    function: Option<TypeId>,
}

type ValuesOf = dyn Fn(&StoredObject) -> Result<Vec<String>, Box<dyn Error + Send + Sync>> + Send + Sync;

#[derive(Clone)]
enum IndexSource {
    Namespace,
    OwnerUid,
    Label(Arc<str>),
    /// As written: whether it is a path is found out when the index is added.
    Field(Arc<str>),
    Function(Arc<ValuesOf>),
}

/// Why an index cannot be added or read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// There is one of that name.
    #[error("there is an index `{0}` already: give the new one another name")]
    Duplicate(Arc<str>),
    /// It has the name of the index over namespaces, and is another: what is listed by namespace would be wrong.
    #[error(
        "an index called `{0}` is the one over namespaces: take `Index::namespace()`, or give this one another name"
    )]
    Reserved(Arc<str>),
    /// There is none of that name.
    #[error("there is no index `{0}`: add it first")]
    Unknown(Arc<str>),
    /// The path is no path, or the kind has no such field.
    #[error("index `{index}`: {error}")]
    Path {
        /// The index.
        index: Arc<str>,
        /// What is wrong with the path.
        error: kube_wire::Error,
    },
    /// Nothing of the field is kept, so the index would be empty for ever.
    #[error("index `{index}`: the field `{path}` is dropped from every object; keep it, or index another")]
    Dropped {
        /// The index.
        index: Arc<str>,
        /// The field.
        path: FieldPath,
    },
}

/// An index cannot read an object, so it does not find it. The object is stored.
#[derive(Clone, Debug, thiserror::Error)]
#[error("index `{index}` cannot read object `{key}`, and will not find it: {why}")]
#[non_exhaustive]
pub struct IndexFailure {
    /// The index.
    pub index: Arc<str>,
    /// The object's key.
    pub key: Key,
    /// What the index said.
    pub why: String,
}

/// An index made ready for a store.
pub(super) struct CompiledIndex {
    pub(super) name: Arc<str>,
    reader: IndexReader,
}

enum IndexReader {
    Namespace,
    OwnerUid,
    Label(Arc<str>),
    /// CompiledIndex for the type of the first object, where the type is not known beforehand.
    Field {
        path: FieldPath,
        /// It goes through no list.
        single: bool,
        reader: OnceLock<PathReader>,
    },
    Function(Arc<ValuesOf>),
}

// === impl Index ===

impl Index {
    /// The name of the index over namespaces, by which readers find it: no other index may have it.
    pub const NAMESPACE: &'static str = "namespace";

    /// By namespace, so that listing one does not look at the others. Called [`NAMESPACE`](Self::NAMESPACE).
    pub fn namespace() -> Self {
        Self::new(Self::NAMESPACE, IndexSource::Namespace)
    }

    /// By the uids of an object's owners.
    pub fn owner(name: &str) -> Self {
        Self::new(name, IndexSource::OwnerUid)
    }

    /// By the value of one label.
    pub fn label(name: &str, label: &str) -> Self {
        Self::new(name, IndexSource::Label(label.into()))
    }

    /// By a field, read from the bytes: `spec.nodeName`, `spec.containers[*].image`. Numbers and booleans are found as
    /// they are printed. A path that is none is an error when the index is added.
    pub fn field(name: &str, path: &str) -> Self {
        Self::new(name, IndexSource::Field(path.into()))
    }

    /// By the values that a function gives. It is called for each state of an object while that is being listed or written:
    /// mostly once, but again where an index beside it cannot read what was listed. It may read from the store, but must
    /// neither write to it nor subscribe to its informer, which would wait for itself.
    pub fn by<V>(name: &str, values: impl Fn(&StoredObject) -> V + Send + Sync + 'static) -> Self
    where
        V: IntoIterator<Item = String>,
    {
        Self::try_by(name, move |object| Ok(values(object)))
    }

    /// By the values that a function gives, which may fail: then it is reported, and the index does not find the object.
    pub fn try_by<V>(
        name: &str,
        values: impl Fn(&StoredObject) -> Result<V, Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self
    where
        V: IntoIterator<Item = String>,
    {
        let identity = Self::identity_of(&values);
        let function = move |object: &StoredObject| Ok(values(object)?.into_iter().collect());
        Self::new(name, IndexSource::Function(Arc::new(function))).identified_by(identity)
    }

    /// What tells a function that captures nothing from all others; `None` for one that does.
    pub(crate) fn identity_of<F: 'static>(_: &F) -> Option<TypeId> {
        (size_of::<F>() == 0).then(TypeId::of::<F>)
    }

    /// Reads the same as every index whose function has this identity.
    pub(crate) fn identified_by(mut self, function: Option<TypeId>) -> Self {
        self.function = function;
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both read the same. Of two functions that is certain only if one index was cloned from the other, or both
    /// were made from one function that captures nothing.
    pub(crate) fn reads_as(&self, other: &Self) -> bool {
        match (&self.source, &other.source) {
            (IndexSource::Namespace, IndexSource::Namespace)
            | (IndexSource::OwnerUid, IndexSource::OwnerUid) => true,
            (IndexSource::Label(one), IndexSource::Label(other))
            | (IndexSource::Field(one), IndexSource::Field(other)) => one == other,
            (IndexSource::Function(one), IndexSource::Function(two)) => {
                Arc::ptr_eq(one, two) || self.function.is_some() && self.function == other.function
            }
            _ => false,
        }
    }

    fn new(name: &str, source: IndexSource) -> Self {
        Self { name: name.into(), source, function: None }
    }

    /// Makes the index ready, if what it reads is kept.
    pub(super) fn compile(
        &self,
        projection: Option<&Projection>,
        type_meta: Option<&TypeMeta>,
    ) -> Result<CompiledIndex, IndexError> {
        let name = self.name.clone();
        if *name == *Self::NAMESPACE && !matches!(self.source, IndexSource::Namespace) {
            return Err(IndexError::Reserved(name));
        }
        let reader = match &self.source {
            IndexSource::Namespace => IndexReader::Namespace,
            IndexSource::OwnerUid => IndexReader::OwnerUid,
            IndexSource::Label(label) => IndexReader::Label(label.clone()),
            IndexSource::Function(function) => IndexReader::Function(function.clone()),
            IndexSource::Field(text) => {
                let at_path = |error| IndexError::Path { index: name.clone(), error };
                let path: FieldPath = text.parse().map_err(at_path)?;
                if projection.is_some_and(|projection| projection.keeps(&path) == Kept::Dropped) {
                    return Err(IndexError::Dropped { index: name, path });
                }
                let reader = OnceLock::new();
                if let Some(type_meta) = type_meta {
                    let _ = reader.set(PathReader::new(&path, type_meta).map_err(at_path)?);
                }
                // Printed, a path shows its lists; a name that looks like one is no harm.
                let single = !path.to_string().contains(['*', '?']);
                IndexReader::Field { path, single, reader }
            }
        };
        Ok(CompiledIndex { name, reader })
    }
}

/// An index is named in queries by itself or by its name.
impl AsRef<str> for Index {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            IndexSource::Namespace => write!(f, "{} by namespace", self.name),
            IndexSource::OwnerUid => write!(f, "{} by owner uid", self.name),
            IndexSource::Label(label) => write!(f, "{} by label {label}", self.name),
            IndexSource::Field(path) => write!(f, "{} by field {path}", self.name),
            IndexSource::Function(_) => write!(f, "{} by function", self.name),
        }
    }
}

// === impl CompiledIndex ===

impl fmt::Debug for CompiledIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompiledIndex").field(&self.name).finish()
    }
}

impl CompiledIndex {
    /// Whether the values of an object must be remembered, to be taken out again: a function may give others when asked
    /// a second time. What is read from the bytes is the same for ever.
    pub(super) fn is_function(&self) -> bool {
        matches!(self.reader, IndexReader::Function(_))
    }

    /// Whether it reads more than the head, which is readable even of a packed object.
    pub(super) fn reads_body(&self) -> bool {
        matches!(self.reader, IndexReader::Field { .. } | IndexReader::Function(_))
    }

    /// Whether an object has one value at most.
    pub(super) fn is_single(&self) -> bool {
        match &self.reader {
            IndexReader::Namespace | IndexReader::Label(_) => true,
            IndexReader::Field { single, .. } => *single,
            IndexReader::OwnerUid | IndexReader::Function(_) => false,
        }
    }

    /// Hands the values of an object to `each`.
    ///
    /// # Errors
    /// What the index says if it cannot read the object; some values may have been handed out before.
    pub(super) fn values(&self, object: &StoredObject, mut each: impl FnMut(&str)) -> Result<(), String> {
        match &self.reader {
            IndexReader::Namespace if object.namespace().is_empty() => {}
            IndexReader::Namespace => each(object.namespace()),
            IndexReader::OwnerUid => object.owners().for_each(|owner| each(&owner.uid)),
            IndexReader::Label(label) => object.labels().get(label).iter().for_each(|value| each(value)),
            IndexReader::Function(function) => {
                // What an error says is its author's code, too.
                let values = guarded(|| function(object).map_err(|error| error.to_string())).flatten()?;
                values.iter().for_each(|value| each(value));
            }
            IndexReader::Field { path, reader, .. } => {
                let read = match reader.get() {
                    Some(reader) => reader,
                    None => {
                        let compiled =
                            PathReader::new(path, object.type_meta()).map_err(|error| error.to_string())?;
                        reader.get_or_init(|| compiled)
                    }
                };
                let each_text = |value: kube_wire::path::FieldValue<'_>| {
                    value.text().iter().for_each(|text| each(text));
                };
                object.for_each_field(read, each_text).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}
