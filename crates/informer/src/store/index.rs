//! Indexes: a name, and a way to read values from an object.

use std::any::TypeId;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

use kube_wire::path::{CustomSchema, PathReader};
use kube_wire::projection::Kept;
use kube_wire::{FieldPath, Projection, TypeMeta};

use super::StoredObject;
use crate::Key;
use crate::panic::guarded;

/// Finds objects by a value. An object may have any number of values.
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
/// An index sees an object as stored: a field that the projection drops cannot be indexed, and adding such an index is an
/// error.
#[derive(Clone, Debug)]
pub struct Index {
    name: Arc<str>,
    source: IndexSource,
    /// The type of a function without captures: two of the same type are the same function.
    function: Option<TypeId>,
}

type ValuesOf = dyn Fn(&StoredObject) -> Result<Vec<String>, Box<dyn Error + Send + Sync>> + Send + Sync;

#[derive(Clone)]
enum IndexSource {
    Namespace,
    OwnerUid,
    Label(Arc<str>),
    /// As written; parsed when the index is added.
    Field(Arc<str>),
    Function(Arc<ValuesOf>),
}

/// Why an index cannot be added or read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// An index of that name exists. (`namespace` is the name of the index that every informer has.)
    #[error("cannot add index `{0}`: the name is taken; choose another")]
    Duplicate(Arc<str>),
    /// There is no index of that name.
    #[error("cannot read index `{0}`: no such index; add it first")]
    Unknown(Arc<str>),
    /// The path is invalid, or the kind has no such field.
    #[error("invalid index `{0}`: {1}")]
    Path(Arc<str>, kube_wire::Error),
    /// The field is dropped from every object, so the index would always be empty.
    #[error("invalid index `{0}`: the projection drops field `{1}`; keep it, or index another")]
    Dropped(Arc<str>, FieldPath),
}

/// An index cannot read an object, so it does not find it. The object is stored.
#[derive(Clone, Debug, thiserror::Error)]
#[error("index `{index}` cannot read object `{key}` and will not find it: {why}")]
#[non_exhaustive]
pub struct IndexFailure {
    /// The index.
    pub index: Arc<str>,
    /// The object's key.
    pub key: Key,
    /// The index's error.
    pub why: String,
}

/// An index prepared for a store.
pub(super) struct CompiledIndex {
    pub(super) name: Arc<str>,
    reader: IndexReader,
}

enum IndexReader {
    Namespace,
    OwnerUid,
    Label(Arc<str>),
    /// Compiled for the type of the first object, if the type is not known before.
    Field {
        path: FieldPath,
        /// The path goes through no list.
        single: bool,
        reader: OnceLock<PathReader>,
    },
    Function(Arc<ValuesOf>),
}

// === impl Index ===

impl Index {
    /// The reserved name of the index over namespaces.
    pub(crate) const NAMESPACE: &'static str = "namespace";

    /// By namespace, so that listing one does not scan the others. Its name is `namespace`. Every informer has it.
    #[cfg(feature = "building-blocks")]
    pub fn namespace() -> Self {
        Self::by_namespace()
    }

    pub(crate) fn by_namespace() -> Self {
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

    /// By a field, read from the bytes: `spec.nodeName`, `spec.containers[*].image`. Numbers and booleans are indexed in
    /// their printed form. Adding an index with an invalid path is an error.
    pub fn field(name: &str, path: &str) -> Self {
        Self::new(name, IndexSource::Field(path.into()))
    }

    /// By the values that a function returns. It is called for each state of an object that is listed or written:
    /// usually once, but again if another index could not read the object in a list. It may read from the store, but must neither
    /// write to it nor subscribe to its informer: that would deadlock.
    pub fn by<V>(name: &str, values: impl Fn(&StoredObject) -> V + Send + Sync + 'static) -> Self
    where
        V: IntoIterator<Item = String>,
    {
        Self::by_fallible(name, move |object| Ok(values(object)))
    }

    /// By the values that a function returns. If it fails, the error is reported, and the index does not find the object.
    #[cfg(feature = "building-blocks")]
    pub fn try_by<V>(
        name: &str,
        values: impl Fn(&StoredObject) -> Result<V, Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self
    where
        V: IntoIterator<Item = String>,
    {
        Self::by_fallible(name, values)
    }

    pub(crate) fn by_fallible<V>(
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

    /// Identifies a function without captures; `None` if it captures something.
    pub(crate) fn identity_of<F: 'static>(_: &F) -> Option<TypeId> {
        (size_of::<F>() == 0).then(TypeId::of::<F>)
    }

    /// Makes the index equal to every index whose function has this identity.
    pub(crate) fn identified_by(mut self, function: Option<TypeId>) -> Self {
        self.function = function;
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether both read the same values. For functions this is known only if one index is a clone of the other, or both
    /// use the same function without captures.
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

    /// Checks that a custom resource has the field.
    pub(crate) fn check(&self, schema: &CustomSchema) -> Result<(), IndexError> {
        let IndexSource::Field(text) = &self.source else { return Ok(()) };
        let checked = text.parse().and_then(|path| schema.check(&path));
        checked.map_err(|error| IndexError::Path(self.name.clone(), error))
    }

    /// Prepares the index, if the projection keeps its field.
    pub(super) fn compile(
        &self,
        projection: Option<&Projection>,
        type_meta: Option<&TypeMeta>,
    ) -> Result<CompiledIndex, IndexError> {
        let name = self.name.clone();
        if *name == *Self::NAMESPACE && !matches!(self.source, IndexSource::Namespace) {
            return Err(IndexError::Duplicate(name));
        }
        let reader = match &self.source {
            IndexSource::Namespace => IndexReader::Namespace,
            IndexSource::OwnerUid => IndexReader::OwnerUid,
            IndexSource::Label(label) => IndexReader::Label(label.clone()),
            IndexSource::Function(function) => IndexReader::Function(function.clone()),
            IndexSource::Field(text) => {
                let at_path = |error| IndexError::Path(name.clone(), error);
                let path: FieldPath = text.parse().map_err(at_path)?;
                if projection.is_some_and(|projection| projection.keeps(&path) == Kept::Dropped) {
                    return Err(IndexError::Dropped(name, path));
                }
                let reader = OnceLock::new();
                if let Some(type_meta) = type_meta {
                    let _ = reader.set(PathReader::new(&path, type_meta).map_err(at_path)?);
                }
                // A printed path shows its lists; a name that looks like one is harmless.
                let single = !path.to_string().contains(['*', '?']);
                IndexReader::Field { path, single, reader }
            }
        };
        Ok(CompiledIndex { name, reader })
    }
}

/// Queries name an index by itself or by its name.
impl AsRef<str> for Index {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for IndexSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace => f.write_str("namespace"),
            Self::OwnerUid => f.write_str("owner uid"),
            Self::Label(label) => write!(f, "label {label}"),
            Self::Field(path) => write!(f, "field {path}"),
            Self::Function(_) => f.write_str("function"),
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
    /// Whether the values of an object must be remembered to remove them later: a function may return different values the
    /// second time. Values read from the bytes never change.
    pub(super) fn is_function(&self) -> bool {
        matches!(self.reader, IndexReader::Function(_))
    }

    /// Whether it reads more than the head, which is readable even in a packed object.
    pub(super) fn reads_body(&self) -> bool {
        matches!(self.reader, IndexReader::Field { .. } | IndexReader::Function(_))
    }

    /// Whether an object has at most one value.
    pub(super) fn is_single(&self) -> bool {
        match &self.reader {
            IndexReader::Namespace | IndexReader::Label(_) => true,
            IndexReader::Field { single, .. } => *single,
            IndexReader::OwnerUid | IndexReader::Function(_) => false,
        }
    }

    /// Calls `each` with the values of an object.
    ///
    /// # Errors
    /// Returns an error if the index cannot read the object; `each` may have been called before.
    pub(super) fn values(&self, object: &StoredObject, mut each: impl FnMut(&str)) -> Result<(), String> {
        match &self.reader {
            IndexReader::Namespace if object.namespace().is_empty() => {}
            IndexReader::Namespace => each(object.namespace()),
            IndexReader::OwnerUid => object.owners().for_each(|owner| each(&owner.uid)),
            IndexReader::Label(label) => object.labels().get(label).iter().for_each(|value| each(value)),
            IndexReader::Function(function) => {
                // Formatting the error runs user code too.
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
