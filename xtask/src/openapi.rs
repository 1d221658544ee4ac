//! `cargo xtask openapi`: tests the types of k8s-openapi against the test vectors, for each supported Kubernetes
//! version. k8s-openapi selects the version at compile time, so each version is a separate build, in a target directory
//! that ordinary builds do not use.

use std::env;
use std::path::PathBuf;

use crate::cargo::cargo;
use crate::go::root;
use crate::releases::{Release, releases};

/// Runs the typed tests of kube-wire with the types of one version (`1.33`), or of all supported versions.
pub(crate) fn run(asked: Option<&str>) -> Result<String, String> {
    let minors: Vec<&str> = releases().map(Release::minor).collect();
    let chosen: Vec<&str> = match asked {
        None => minors,
        Some(asked) if minors.contains(&asked) => vec![asked],
        Some(asked) => {
            return Err(format!("unknown Kubernetes version {asked}; use one of {}", minors.join(", ")));
        }
    };
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    for minor in &chosen {
        let mut test = cargo();
        test.args([
            "test",
            "--quiet",
            "-p",
            "kube-wire",
            "--features",
            "go-vectors",
            "--test",
            "serde_typed",
        ]);
        test.env("K8S_OPENAPI_ENABLED_VERSION", minor).env("CARGO_TARGET_DIR", target.join("openapi"));
        match test.status() {
            Ok(status) if status.success() => {}
            Ok(_) => return Err(format!("the tests failed with the types of Kubernetes {minor}")),
            Err(error) => return Err(format!("cannot run cargo: {error}")),
        }
    }
    Ok(format!("the types of Kubernetes {} agree with the test vectors", chosen.join(", ")))
}
