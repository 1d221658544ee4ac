//! The files that rules look at, read once: Rust, Markdown, manifests, API listings and the page. Rules receive this
//! instead of paths, so their tests can pass a few lines of text.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// Folders without our own sources: built, downloaded or recorded.
const SKIPPED: [&str; 5] = ["target", "captures", "recordings", "testdata", "node_modules"];

/// Hidden folders with our own sources.
const HIDDEN: [&str; 3] = [".cargo", ".ci", ".github"];

const ENDINGS: [&str; 9] = [".rs", ".md", ".go", ".js", ".html", ".sh", ".toml", ".yaml", ".yml"];

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
                let is_hidden = name.starts_with('.') && !HIDDEN.contains(&&*name);
                if !is_hidden && !SKIPPED.contains(&&*name) {
                    self.load_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else if path == ".ci/run"
                || (["api/", "docs/pictures/"].contains(&prefix) && name.ends_with(".txt"))
                || prefix == "crates/cli/assets/"
                || ENDINGS.iter().any(|ending| name.ends_with(ending))
            {
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
