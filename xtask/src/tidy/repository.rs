//! The files that rules look at, read once: Rust, Markdown and manifests. Rules receive this instead of paths, so their tests
//! can hand in a few lines of text.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// Folders without sources of ours.
const SKIPPED: [&str; 3] = ["target", "captures", "node_modules"];

/// Texts by path, relative to the root and with `/` on every system.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    files: BTreeMap<String, String>,
}

impl Repository {
    pub(crate) fn load(root: &Path) -> io::Result<Self> {
        let mut repository = Self::default();
        repository.load_folder(root, "")?;
        Ok(repository)
    }

    fn load_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') && !SKIPPED.contains(&&*name) {
                    self.load_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else if name.ends_with(".rs") || name.ends_with(".md") || name == "Cargo.toml" {
                self.files.insert(path, fs::read_to_string(entry.path())?);
            }
        }
        Ok(())
    }

    /// A repository of these files.
    #[cfg(test)]
    pub(crate) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        Self { files: files.map(|(path, text)| (path.to_owned(), text.to_owned())).into() }
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Files with this ending, in order of their paths.
    pub(crate) fn ending_with(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .map(|(path, text)| (&**path, &**text))
    }
}
