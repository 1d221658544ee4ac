//! Restricts a trigger to the objects of a class.

use std::fmt;
use std::sync::{Arc, OnceLock};

use kube_informer::kube_wire::path::PathReader;
use kube_informer::kube_wire::{FieldPath, LabelSelector};
use kube_informer::{Informer, LabelQuery, Object};

/// Restricts a [`Trigger`](crate::Trigger) to the objects of a class: by label, annotation, field, or your own function.
///
/// The controller ignores all other objects: an object that begins to pass counts as added, one that no longer passes as
/// deleted. On the main trigger, the controller reconciles a key only if its object passes, no longer exists, or has just stopped
/// passing. In that last case the lister still has the object: check it with [`passes`](Self::passes).
///
/// ```no_run
/// # use k8s_openapi::api::networking::v1::Ingress;
/// # use kube_informer::Informer;
/// # fn example(ingresses: Informer<Ingress>) {
/// use kube_informer_controller::{Controller, Filter, Trigger};
///
/// let ours = Filter::field("spec.ingressClassName", "ours");
/// let controller = Controller::builder("ingress", Trigger::on(&ingresses).only(ours.clone()));
/// # }
/// ```
pub struct Filter<K> {
    test: Arc<dyn Fn(&Object<K>) -> bool + Send + Sync>,
    /// The fields that it reads. The informer's kind must have them.
    paths: Vec<FieldPath>,
    /// Why the filter is invalid. Reported when the controller is built.
    invalid: Option<String>,
}

impl<K> Filter<K> {
    /// Objects that your function accepts. It runs for every change and must not block. If it panics, the object counts as passing. A
    /// key of the main kind is then not reconciled before the function has returned for its object; this is tried every 10 s.
    pub fn new(test: impl Fn(&Object<K>) -> bool + Send + Sync + 'static) -> Self {
        Self { test: Arc::new(test), paths: Vec::new(), invalid: None }
    }

    /// Objects with these labels: in the syntax of kubectl's `-l`, as kube's `Selector`, or as the `LabelSelector` of an object.
    pub fn labels(selector: impl LabelQuery) -> Self {
        match selector.into_text().parse::<LabelSelector>() {
            Ok(selector) => Self::new(move |object| selector.matches_by(|label| object.labels().get(label))),
            Err(error) => Self::invalid(error),
        }
    }

    /// Objects with this value of an annotation. If the informer drops annotations, the controller is not built.
    pub fn annotation(name: &str, value: &str) -> Self {
        Self::field(&format!("metadata.annotations[{name:?}]"), value)
    }

    /// Objects with this value in a field, or among the values of a path with `[*]`. A field that cannot be read does not match.
    ///
    /// If the kind has no such field, the controller is not built. For a custom resource this needs an informer that has its
    /// [definition](kube_informer::InformerBuilder::definition).
    pub fn field(path: &str, value: &str) -> Self {
        let value = value.to_owned();
        let path = match path.parse::<FieldPath>() {
            Ok(path) => path,
            Err(error) => return Self::invalid(error),
        };
        // The reader is created once: all objects of an informer have the same type.
        let (reader, paths) = (OnceLock::new(), vec![path.clone()]);
        let filter = Self::new(move |object| {
            let reader = reader.get_or_init(|| PathReader::new(&path, object.type_meta()).ok());
            let Some(reader) = reader else { return false };
            let mut found = false;
            let read =
                object.for_each_field(reader, |field| found |= field.text().as_deref() == Some(&*value));
            read.is_ok() && found
        });
        Self { paths, ..filter }
    }

    /// Objects that pass both.
    #[must_use]
    pub fn and(self, other: Self) -> Self
    where
        K: 'static,
    {
        let (one, two) = (self.test, other.test);
        let (paths, invalid) = ([self.paths, other.paths].concat(), self.invalid.or(other.invalid));
        Self { test: Arc::new(move |object: &Object<K>| one(object) && two(object)), paths, invalid }
    }

    /// Objects that do not pass.
    #[must_use]
    pub fn negated(self) -> Self
    where
        K: 'static,
    {
        let test = self.test.clone();
        Self { test: Arc::new(move |object: &Object<K>| !test(object)), ..self }
    }

    /// Whether an object passes.
    pub fn passes(&self, object: &Object<K>) -> bool {
        (self.test)(object)
    }

    fn invalid(error: impl fmt::Display) -> Self {
        Self { invalid: Some(error.to_string()), ..Self::new(|_| false) }
    }

    /// Why it is invalid for the objects of an informer.
    pub(super) fn check(&self, informer: &Informer<K>) -> Result<(), String>
    where
        K: Send + Sync + 'static,
    {
        self.invalid.clone().map_or(Ok(()), Err)?;
        self.paths.iter().try_for_each(|path| informer.check_field(path)).map_err(|error| error.to_string())
    }
}

impl<K> Clone for Filter<K> {
    fn clone(&self) -> Self {
        Self { test: self.test.clone(), paths: self.paths.clone(), invalid: self.invalid.clone() }
    }
}

impl<K> fmt::Debug for Filter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter")
            .field("paths", &self.paths)
            .field("invalid", &self.invalid)
            .finish_non_exhaustive()
    }
}
