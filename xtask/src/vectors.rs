//! `cargo xtask vectors`: the test vectors of `kube-wire`, to look at. Its tests make their own, by the same Go program.

use std::path::{Path, PathBuf};

use crate::go::{go, root};

/// Writes the vectors into `dir`, or into `vectors` in the target directory.
pub(crate) fn write(dir: Option<&str>) -> Result<String, String> {
    let dir = match dir {
        Some(dir) => PathBuf::from(dir),
        None => std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root().join("target"), PathBuf::from)
            .join("vectors"),
    };
    let dir = std::path::absolute(&dir)
        .map_err(|error| format!("cannot make {} absolute: {error}", dir.display()))?;
    let Some(name) = dir.to_str() else { return Err(format!("{} is not Unicode", dir.display())) };
    go(["run", ".", "--vectors", name])?;
    Ok(format!("{}: {} vectors", dir.display(), count(&dir.join("module")) + count(&dir.join("made"))))
}

fn count(dir: &Path) -> usize {
    let names = dir.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "pb")).count()
}
