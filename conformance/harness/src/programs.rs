//! Where the built programs are. Tests that need them are behind the feature `real-server`, which `cargo xtask conformance`
//! turns on: plain `cargo test` runs on a machine without Go, and a test that needs the programs fails without them.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::Error;

/// The variable that names the directory of the built programs.
const DIRECTORY: &str = "KUBE_INFORMER_CONFORMANCE_PROGRAMS";

/// The directory that holds kube-apiserver, etcd, kubectl and kube-controller-manager of one Kubernetes version.
#[derive(Clone, Debug)]
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// The programs that the environment points at (`KUBE_INFORMER_CONFORMANCE_PROGRAMS`).
    ///
    /// # Errors
    ///
    /// [`Error::Programs`] if the variable is not set, or a program is missing there.
    pub fn find() -> Result<Self, Error> {
        match env::var_os(DIRECTORY) {
            Some(directory) => Self::in_directory(directory),
            None => Err(Error::Programs(format!("{DIRECTORY} is not set"))),
        }
    }

    /// The programs in this directory.
    ///
    /// # Errors
    ///
    /// [`Error::Programs`] if one is missing there.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Result<Self, Error> {
        let programs = Self { directory: directory.into() };
        for name in ["kube-apiserver", "etcd", "kubectl", "kube-controller-manager"] {
            let path = programs.path(name);
            if !path.is_file() {
                return Err(Error::Programs(format!("{} is missing", path.display())));
            }
        }
        Ok(programs)
    }

    /// The programs that the environment points at, for a test.
    ///
    /// # Panics
    ///
    /// If a program is missing: a test that cannot run does not pass.
    pub fn required() -> Self {
        Self::find().unwrap_or_else(|missing| panic!("{missing}"))
    }

    /// The path of one program.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The directory they are in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_together_with_the_way_to_build_it() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("kube-apiserver"), "").unwrap();
        let message = Programs::in_directory(directory.path()).unwrap_err().to_string();
        assert!(message.contains("etcd is missing"), "{message}");
        assert!(message.contains("cargo xtask conformance --build-only"), "{message}");
    }
}
