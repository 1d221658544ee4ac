//! Where the built programs are, and what a test does when there are none: plain `cargo test` must pass on a
//! machine without Go, but a run that promises conformance must not pass by skipping everything.

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Once,
};

use crate::Error;

/// The variable that names the directory of the built programs.
const DIRECTORY: &str = "KUBE_INFORMER_CONFORMANCE_PROGRAMS";
/// The variable that, set to `required`, turns skipping into failing.
const MODE: &str = "KUBE_INFORMER_CONFORMANCE";

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

    /// The programs, or `None` after saying once on standard error that this test binary skips its tests and why.
    ///
    /// # Panics
    ///
    /// If there are none and `KUBE_INFORMER_CONFORMANCE=required`.
    pub fn or_skip() -> Option<Self> {
        match Self::find() {
            Ok(programs) => Some(programs),
            Err(missing) if env::var(MODE).is_ok_and(|mode| mode == "required") => {
                panic!("{MODE}=required, but there are {missing}")
            }
            Err(missing) => {
                static SAID: Once = Once::new();
                // Written directly: the test runner hides what a passing test prints with the macros.
                SAID.call_once(|| drop(writeln!(io::stderr(), "conformance tests are SKIPPED: {missing}")));
                None
            }
        }
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
