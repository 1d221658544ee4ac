//! `cargo xtask readme`: builds the code that pages ask readers to copy, as a reader would. The dependencies under
//! `<!-- dependencies -->` and the program under `<!-- program -->` become a package outside of the workspace, with
//! this repository at the path that the dependencies name. Inside the workspace, features of other members would hide
//! missing features.

use std::path::Path;
use std::process::Command;
use std::{env, fs, process};

use crate::cargo::clean;
use crate::go::root;

/// The pages with dependencies to copy.
const PAGES: [&str; 3] = ["README.md", "docs/embedded-server.md", "docs/testing.md"];

/// The folder of the repository, next to the reader's package, as the pages name it.
const CLONE: &str = "kube-informer";

/// Checks the packages of all pages.
pub(crate) fn check() -> Result<String, String> {
    let folder = env::temp_dir().join(format!("kube-informer-readme-{}", process::id()));
    let checked = in_folder(&folder);
    // If this fails, only a few source files remain.
    let _ = fs::remove_dir_all(&folder);
    checked
}

fn in_folder(folder: &Path) -> Result<String, String> {
    let failed = |what: &str, error: std::io::Error| format!("cannot {what}: {error}");
    fs::create_dir_all(folder).map_err(|error| failed("create a folder for the packages", error))?;
    std::os::unix::fs::symlink(root(), folder.join(CLONE))
        .map_err(|error| failed("link the repository", error))?;
    for (number, page) in PAGES.iter().enumerate() {
        let text =
            fs::read_to_string(root().join(page)).map_err(|error| failed(&format!("read {page}"), error))?;
        let package = Package::of(&text).map_err(|why| format!("{page}: {why}"))?;
        let at = folder.join(format!("reader-{number}"));
        package.write(&at).map_err(|error| failed("write a package", error))?;
        package_builds(&at).map_err(|why| format!("{page}: {why}"))?;
    }
    Ok(format!("the dependencies and programs of {} build", PAGES.join(", ")))
}

/// The files that a page asks its reader to write.
#[derive(Debug, PartialEq, Eq)]
struct Package<'a> {
    dependencies: &'a str,
    program: &'a str,
}

impl<'a> Package<'a> {
    fn of(page: &'a str) -> Result<Self, String> {
        let dependencies =
            block(page, "dependencies").ok_or("no code block under `<!-- dependencies -->`")?;
        Ok(Self { dependencies, program: block(page, "program").unwrap_or("fn main() {}\n") })
    }

    /// Writes the package. The lock file pins the versions that the workspace is tested with.
    fn write(&self, folder: &Path) -> std::io::Result<()> {
        let manifest = format!(
            "[package]\nname = \"reader\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n{}",
            self.dependencies
        );
        fs::create_dir_all(folder.join("src"))?;
        fs::write(folder.join("Cargo.toml"), manifest)?;
        fs::write(folder.join("src/main.rs"), self.program)?;
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).map(drop)
    }
}

fn package_builds(folder: &Path) -> Result<(), String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    clean(&mut cargo);
    // The workspace's configuration selects a version of k8s-openapi. A reader's program does that itself.
    cargo.env_remove("K8S_OPENAPI_ENABLED_VERSION").current_dir(folder);
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    cargo.env("CARGO_TARGET_DIR", target.join("readme")).env("RUSTFLAGS", "-D warnings").args([
        "build",
        "--quiet",
        "--all-targets",
    ]);
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the program does not build with these dependencies".to_owned()),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

/// The code block under a mark.
fn block<'a>(page: &'a str, mark: &str) -> Option<&'a str> {
    let (_, after) = page.split_once(&format!("<!-- {mark} -->\n```"))?;
    let (_, code) = after.split_once('\n')?;
    let (code, _) = code.split_once("```")?;
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_parsed_into_the_package_that_its_reader_writes() {
        let page = "text\n<!-- dependencies -->\n```toml\n[dependencies]\n```\n\n<!-- program -->\n```rust,no_run\nuse x;\n```\n";
        let package = Package { dependencies: "[dependencies]\n", program: "use x;\n" };
        assert_eq!(Package::of(page), Ok(package));
        assert!(Package::of("```toml\n[dependencies]\n```").is_err());
    }

    #[test]
    fn every_page_has_its_marks() {
        for page in PAGES {
            let text = fs::read_to_string(root().join(page)).unwrap();
            assert!(Package::of(&text).unwrap().dependencies.contains(CLONE), "{page}");
        }
        let readme = fs::read_to_string(root().join("README.md")).unwrap();
        assert!(Package::of(&readme).unwrap().program.contains("kube_informer::"));
    }
}
