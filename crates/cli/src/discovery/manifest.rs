//! `-f FILE`: the objects that a manifest names.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::lookup::checked_name;
use super::{Catalogue, Selected};
use crate::failure::Failure;

/// Maximum number of bytes of a manifest.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// The part of an object that names it. A `List` has items.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ManifestObject {
    api_version: String,
    kind: String,
    metadata: ManifestMetadata,
    items: Vec<ManifestObject>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManifestMetadata {
    name: String,
    namespace: Option<String>,
}

impl Catalogue {
    /// The objects of manifests, in YAML or JSON, with several documents or lists.
    ///
    /// # Errors
    /// If a file cannot be read, or an object has no name or an unknown kind.
    pub(crate) async fn select_from_files(&self, files: &[PathBuf]) -> Result<Vec<Selected>, Failure> {
        let mut selected = Vec::new();
        for file in files {
            let text = read(file.clone()).await?;
            for object in parse(&text).map_err(|error| invalid(file, &error))? {
                self.add_named(object, &mut selected).map_err(|error| invalid(file, &error))?;
            }
        }
        Ok(selected)
    }

    fn add_named(&self, object: ManifestObject, selected: &mut Vec<Selected>) -> Result<(), String> {
        if object.kind.ends_with("List") && object.metadata.name.is_empty() {
            return object.items.into_iter().try_for_each(|item| self.add_named(item, selected));
        }
        let kind = self.kinds.iter().find(|kind| {
            let type_meta = kind.resource.type_meta();
            type_meta.kind() == object.kind && type_meta.api_version() == object.api_version
        });
        let kind = kind.ok_or_else(|| {
            format!(
                "unknown kind {:?} in {:?}: the server does not serve it",
                object.kind, object.api_version
            )
        })?;
        let name = checked_name(&object.metadata.name).map_err(|error| error.to_string())?;
        selected.push(Selected {
            kind: kind.clone(),
            name: Some(name),
            namespace: object.metadata.namespace,
        });
        Ok(())
    }
}

async fn read(file: PathBuf) -> Result<String, Failure> {
    let cannot = |file: &Path, error: std::io::Error| {
        Failure::Usage(format!("cannot read {}: {error}", file.display()))
    };
    // Reading a file or a terminal blocks.
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        let read = match file.to_str() {
            Some("-") => std::io::stdin().lock().take(MANIFEST_BYTES_MAX).read_to_string(&mut text),
            _ => std::fs::File::open(&file)
                .and_then(|opened| opened.take(MANIFEST_BYTES_MAX).read_to_string(&mut text)),
        };
        read.map_err(|error| cannot(&file, error))?;
        if text.len() as u64 == MANIFEST_BYTES_MAX {
            return Err(Failure::Usage(format!("cannot read {}: more than 64 MiB", file.display())));
        }
        Ok(text)
    });
    read.await.map_err(|error| Failure::other("cannot read a manifest", &error))?
}

/// JSON is YAML, too.
fn parse(text: &str) -> Result<Vec<ManifestObject>, String> {
    let documents = serde_saphyr::from_multiple::<Option<ManifestObject>>(text);
    // After its first line, a parser's error quotes the file, which may contain a Secret.
    let documents =
        documents.map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    Ok(documents.into_iter().flatten().collect())
}

fn invalid(file: &Path, error: &str) -> Failure {
    Failure::Usage(format!("invalid manifest {}: {error}", file.display()))
}
