//! `cargo xtask vectors`: writes the test vectors of `kube-wire` for inspection, or runs the tests that need them. The
//! tests generate their own vectors with the same Go program.

use std::path::{Path, PathBuf};

use crate::cargo::cargo;
use crate::go::{go, root};

/// Writes the vectors to `dir`, or to `vectors` in the target directory.
pub(crate) fn write(dir: Option<&str>) -> Result<String, String> {
    let dir = match dir {
        Some(dir) => PathBuf::from(dir),
        None => std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root().join("target"), PathBuf::from)
            .join("vectors"),
    };
    let dir =
        std::path::absolute(&dir).map_err(|error| format!("cannot resolve {}: {error}", dir.display()))?;
    let Some(name) = dir.to_str() else { return Err(format!("{} is not Unicode", dir.display())) };
    go(["run", ".", "--vectors", name])?;
    let count = entries(&dir).flat_map(|origin| entries(&origin)).filter(|path| is_protobuf(path)).count();
    Ok(format!("{}: {count} vectors", dir.display()))
}

/// The test programs of kube-wire that read vectors.
const TESTS: [&str; 6] = ["paths", "projections", "schema", "serde_odd", "serde_typed", "serde_value"];

/// Runs the tests of kube-wire that read vectors.
pub(crate) fn test() -> Result<String, String> {
    let mut tests = cargo();
    // With the features of the whole workspace, so that nothing is built that `cargo test` has built.
    tests.args(["test", "--workspace", "--features", "kube-wire/go-vectors"]);
    for name in TESTS {
        tests.args(["--test", name]);
    }
    match tests.status() {
        Ok(status) if status.success() => Ok("the tests with vectors passed".to_owned()),
        Ok(_) => Err("the tests with vectors failed".to_owned()),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    dir.read_dir().into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_protobuf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pb")
}
