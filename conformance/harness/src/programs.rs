//! The location of the built programs. Tests that need them are behind the feature `real-server`, so that `cargo test`
//! runs on a machine without Go. `cargo xtask conformance` turns the feature on. Then a test fails if a program is
//! missing.

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
    /// Finds the programs in the directory that the variable `KUBE_INFORMER_CONFORMANCE_PROGRAMS` names.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Programs`] if the variable is not set or a program is missing.
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
    /// Returns [`Error::Programs`] if a program is missing.
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

    /// Like [`find`](Self::find), for tests.
    ///
    /// # Panics
    ///
    /// Panics if a program is missing, because a test that cannot run must not pass.
    pub fn required() -> Self {
        Self::find().unwrap_or_else(|missing| panic!("{missing}"))
    }

    /// The path of one program.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The directory of the programs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_reported_with_the_command_that_builds_it() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("kube-apiserver"), "").unwrap();
        let message = Programs::in_directory(directory.path()).unwrap_err().to_string();
        assert!(message.contains("etcd is missing"), "{message}");
        assert!(message.contains("cargo xtask conformance --build-only"), "{message}");
    }
}
