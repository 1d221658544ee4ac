//! Objects that a server has from its start: from YAML or JSON files, from directories, or from typed values.
//!
//! Sources are read when the server starts, so a builder stays infallible and `start` reports the file that is wrong.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{Shown, Target, WriteOptions};
use crate::resources::Resource;

/// Objects for [`Builder::objects`](super::Builder::objects) and [`Builder::crds`](super::Builder::crds).
///
/// Converts from a path (`&str`, `&Path`, `PathBuf`) to a file or a directory, and from an array, a slice or a vector of values
/// that serialize to Kubernetes objects. Files end in `.yaml`, `.yml` or `.json` and can hold several documents. A directory is
/// read in the order of its file names, without its subdirectories.
#[derive(Clone, Debug)]
pub struct Manifests(Vec<ManifestSource>);

#[derive(Clone, Debug)]
enum ManifestSource {
    Path(PathBuf),
    /// A value, or why it does not serialize.
    Object(Result<Value, String>),
}

/// An object of [`Manifests`] that a server cannot start with.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("cannot load {origin}: {reason}")]
#[non_exhaustive]
pub struct ManifestError {
    /// The file or the object.
    pub origin: String,
    /// What is wrong with it.
    pub reason: String,
}

/// An object with the place it came from.
pub(super) struct Manifest {
    origin: String,
    object: Value,
}

/// The field manager of objects that a server starts with.
const MANAGER: &str = "manifests";

// === impl Manifests ===

impl Manifests {
    pub(super) fn read(&self) -> Result<Vec<Manifest>, ManifestError> {
        let mut manifests = Vec::new();
        for (number, source) in self.0.iter().enumerate() {
            match source {
                ManifestSource::Path(path) => read_path(path, &mut manifests)?,
                ManifestSource::Object(object) => {
                    let origin = format!("object {number}");
                    let object = object.clone().map_err(|reason| error(&origin, reason))?;
                    manifests.push(Manifest { origin, object });
                }
            }
        }
        Ok(manifests)
    }

    fn of_values<T: Serialize>(values: impl IntoIterator<Item = T>) -> Self {
        let object = |value: T| serde_json::to_value(value).map_err(|error| error.to_string());
        Self(values.into_iter().map(|value| ManifestSource::Object(object(value))).collect())
    }
}

impl From<&str> for Manifests {
    fn from(path: &str) -> Self {
        Self::from(PathBuf::from(path))
    }
}

impl From<&Path> for Manifests {
    fn from(path: &Path) -> Self {
        Self::from(path.to_owned())
    }
}

impl From<PathBuf> for Manifests {
    fn from(path: PathBuf) -> Self {
        Self(vec![ManifestSource::Path(path)])
    }
}

impl<T: Serialize, const N: usize> From<[T; N]> for Manifests {
    fn from(objects: [T; N]) -> Self {
        Self::of_values(objects)
    }
}

impl<T: Serialize> From<&[T]> for Manifests {
    fn from(objects: &[T]) -> Self {
        Self::of_values(objects)
    }
}

impl<T: Serialize> From<Vec<T>> for Manifests {
    fn from(objects: Vec<T>) -> Self {
        Self::of_values(objects)
    }
}

// === reading files ===

fn read_path(path: &Path, manifests: &mut Vec<Manifest>) -> Result<(), ManifestError> {
    if !path.is_dir() {
        return read_file(path, manifests);
    }
    let failed = |source: std::io::Error| error(path.display(), source);
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    files.retain(|file| file.is_file() && is_manifest(file));
    files.sort();
    files.iter().try_for_each(|file| read_file(file, manifests))
}

fn is_manifest(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}

fn read_file(path: &Path, manifests: &mut Vec<Manifest>) -> Result<(), ManifestError> {
    let text = std::fs::read_to_string(path).map_err(|source| error(path.display(), source))?;
    let documents =
        serde_saphyr::from_multiple::<Value>(&text).map_err(|source| error(path.display(), source))?;
    for document in documents {
        let items = match document {
            // An empty document, such as the one before a leading `---`.
            Value::Null => continue,
            // `kubectl get -o yaml` writes a list.
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                match list.remove("items") {
                    Some(Value::Array(items)) => items,
                    _ => Vec::new(),
                }
            }
            object => vec![object],
        };
        let origin = path.display().to_string();
        manifests.extend(items.into_iter().map(|object| Manifest { origin: origin.clone(), object }));
    }
    Ok(())
}

fn error(origin: impl fmt::Display, reason: impl fmt::Display) -> ManifestError {
    ManifestError { origin: origin.to_string(), reason: reason.to_string() }
}

// === creating objects ===

impl Manifest {
    /// Definitions come first, then namespaces, then everything else: so files can be in any order.
    pub(super) fn rank(&self) -> u8 {
        match self.text("kind") {
            "CustomResourceDefinition" => 0,
            "Namespace" => 1,
            _ => 2,
        }
    }

    pub(super) fn is_definition(&self) -> bool {
        self.rank() == 0
    }

    /// An error about this object.
    pub(super) fn error(&self, reason: impl fmt::Display) -> ManifestError {
        let (kind, name) = (self.text("kind"), self.object["metadata"]["name"].as_str().unwrap_or_default());
        error(format!("{} ({kind} {name})", self.origin), reason)
    }

    /// Creates the object, with its status. A namespace that does not exist is created first.
    pub(super) fn create(&self, api: &Api) -> Result<(), ManifestError> {
        let (api_version, kind) = (self.text("apiVersion"), self.text("kind"));
        let registry = api.registry();
        let resource = registry.find_kind(api_version, kind).cloned().ok_or_else(|| {
            self.error(format!("unknown kind {kind} of {api_version}; add its definition with `crds`"))
        })?;
        let namespace = match (resource.namespaced(), self.object["metadata"]["namespace"].as_str()) {
            (true, namespace) => namespace.unwrap_or("default"),
            (false, _) => "",
        };
        ensure_namespace(api, namespace);
        let mut target = Target {
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            name: String::new(),
            subresource: String::new(),
        };
        let options = WriteOptions { manager: MANAGER.to_owned(), ..WriteOptions::default() };
        let created = api.write(|writer| writer.create(&target, self.object.clone(), &options));
        let created = created.map_err(|status| self.error(status.message))?;
        if let Shown::Stored(stored) = created.shown
            && self.object.get("status").is_some()
            && has_status(&resource)
        {
            resource.split_key(&stored.key).1.clone_into(&mut target.name);
            target.subresource = "status".to_owned();
            let mut object = self.object.clone();
            object["metadata"]["name"] = target.name.clone().into();
            object["metadata"]["resourceVersion"] = stored.revision.to_string().into();
            let written = api.write(|writer| writer.replace(&target, &object, &options));
            written.map_err(|status| self.error(status.message))?;
        }
        Ok(())
    }

    fn text(&self, field: &str) -> &str {
        self.object[field].as_str().unwrap_or_default()
    }
}

/// Definitions get their status from the server.
fn has_status(resource: &Resource) -> bool {
    resource.has_status() && !resource.is("apiextensions.k8s.io", "customresourcedefinitions")
}

fn ensure_namespace(api: &Api, name: &str) {
    let registry = api.registry();
    let Some(resource) = registry.find("", "v1", "namespaces").filter(|_| !name.is_empty()) else { return };
    if api.storage.get(resource.collection, &resource.key("", name)).is_some() {
        return;
    }
    let object = json!({"metadata": {"name": name}});
    let target = Target {
        resource: resource.clone(),
        namespace: String::new(),
        name: String::new(),
        subresource: String::new(),
    };
    let options = WriteOptions { manager: MANAGER.to_owned(), ..WriteOptions::default() };
    // An invalid name is reported when the object itself is created.
    let _ = api.write(|writer| writer.create(&target, object, &options));
}
