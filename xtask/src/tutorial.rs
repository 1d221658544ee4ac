//! `cargo xtask tutorial`: follows docs/tutorial.md as a reader does. Files under `<!-- file NAME -->` are written and
//! commands under `<!-- run -->` are run, in the order of the page, in a package outside of the workspace with this
//! repository next to it. The package gets this repository's Cargo.lock, so it is built offline and with tested
//! versions, where a reader gets the newest ones.
//!
//! Commands under `<!-- cluster -->` need a cluster. `cargo xtask conformance` runs them, with a program that it builds as
//! `--build` does: see `conformance/harness/tests/conformance/tutorial.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use crate::cargo::clean;
use crate::go::root;

/// The page.
pub(crate) const PAGE: &str = "docs/tutorial.md";

/// The package that the reader creates with the first command.
const PACKAGE: &str = "page-operator";

/// The name under which `--build` keeps the program in the package.
const PROGRAM: &str = "operator";

/// One instruction of the page.
#[derive(Debug, PartialEq, Eq)]
enum Instruction<'a> {
    Write {
        file: &'a str,
        text: &'a str,
    },
    Run(&'a str),
    /// The conformance tests run them.
    Cluster(&'a str),
}

/// Follows the page.
pub(crate) fn check() -> Result<String, String> {
    let folder = TemporaryFolder::new();
    page().and_then(|page| follow(&instructions(&page)?, &folder.0))?;
    Ok(format!("the operator of {PAGE} builds, and its tests pass"))
}

/// Follows the page in a new folder, without its tests. The package stays, with its files and its program.
pub(crate) fn build(folder: &str) -> Result<String, String> {
    let folder = std::path::absolute(folder).map_err(|error| format!("invalid folder {folder}: {error}"))?;
    let program = package_in(&folder)?.join(PROGRAM);
    Ok(format!("the operator of {PAGE} is {}", program.display()))
}

/// Follows the page in a new folder, without its tests. Returns the folder of the package, with its files and its program.
pub(crate) fn package_in(folder: &Path) -> Result<PathBuf, String> {
    let page = page()?.replace("\ncargo test\n", "\n");
    follow(&instructions(&page)?, folder)?;
    let package = folder.join(PACKAGE);
    let built = target().join("debug").join(PACKAGE);
    fs::copy(&built, package.join(PROGRAM))
        .map_err(|error| format!("cannot copy {}: {error}", built.display()))?;
    Ok(package)
}

/// A folder outside of the workspace that is removed when this value is dropped.
pub(crate) struct TemporaryFolder(pub(crate) PathBuf);

impl TemporaryFolder {
    pub(crate) fn new() -> Self {
        Self(env::temp_dir().join(format!("kube-informer-tutorial-{}", process::id())))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // If this fails, only a few files remain.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn page() -> Result<String, String> {
    fs::read_to_string(root().join(PAGE)).map_err(|error| format!("cannot read {PAGE}: {error}"))
}

/// The target directory of the package. The workspace's own has programs with other features.
fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join("readme")
}

fn follow(instructions: &[Instruction<'_>], folder: &Path) -> Result<(), String> {
    let failed = |what: &str, error: std::io::Error| format!("cannot {what}: {error}");
    fs::create_dir_all(folder).map_err(|error| failed("create a folder", error))?;
    std::os::unix::fs::symlink(root(), folder.join("kube-informer"))
        .map_err(|error| failed("link the repository", error))?;
    let package = folder.join(PACKAGE);
    for instruction in instructions {
        match instruction {
            Instruction::Write { file, text } => {
                let path = package.join(file);
                let parent = path.parent().unwrap_or(&package);
                let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, text));
                written.map_err(|error| failed(&format!("write {file}"), error))?;
            }
            Instruction::Run(commands) if package.exists() => {
                // The lock file pins the versions that the workspace is tested with.
                let lock = package.join("Cargo.lock");
                if !lock.exists() {
                    fs::copy(root().join("Cargo.lock"), &lock)
                        .map_err(|error| failed("copy Cargo.lock", error))?;
                }
                run(commands, &package)?;
            }
            // The first command creates the package.
            Instruction::Run(commands) => run(commands, folder)?,
            Instruction::Cluster(_) => {}
        }
    }
    Ok(())
}

fn run(commands: &str, folder: &Path) -> Result<(), String> {
    let mut shell = Command::new("bash");
    clean(&mut shell);
    // The workspace's configuration selects a version of k8s-openapi. A reader's program does that itself.
    shell.env_remove("K8S_OPENAPI_ENABLED_VERSION").current_dir(folder);
    shell.env("CARGO_TARGET_DIR", target()).env("RUSTFLAGS", "-D warnings");
    shell.args(["-euc", commands]);
    match shell.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{PAGE}: these commands failed ({status}):\n{commands}")),
        Err(error) => Err(format!("cannot run bash: {error}")),
    }
}

/// The instructions of a page, in order.
fn instructions(page: &str) -> Result<Vec<Instruction<'_>>, String> {
    let mut instructions = Vec::new();
    for part in page.split("<!-- ").skip(1) {
        let (mark, rest) = part.split_once(" -->\n```").ok_or("a mark without a code block")?;
        let code = rest.split_once('\n').and_then(|(_, code)| code.split_once("```"));
        let (code, _) = code.ok_or_else(|| format!("the code block under `{mark}` does not end"))?;
        match mark.split_once(' ') {
            Some(("file", file)) => instructions.push(Instruction::Write { file, text: code }),
            None if mark == "run" => instructions.push(Instruction::Run(code)),
            None if mark == "cluster" => instructions.push(Instruction::Cluster(code)),
            _ => return Err(format!("unknown mark `{mark}`")),
        }
    }
    Ok(instructions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_list_of_files_and_commands() {
        let page = "text\n<!-- run -->\n```sh\ncargo new x\n```\n\n<!-- file src/main.rs -->\n```rust,file\nfn main() {}\n```\n";
        let expected = [
            Instruction::Run("cargo new x\n"),
            Instruction::Write { file: "src/main.rs", text: "fn main() {}\n" },
        ];
        assert_eq!(instructions(page), Ok(expected.into()));
        assert!(instructions("<!-- other -->\n```sh\n```\n").is_err());
    }

    #[test]
    fn the_tutorial_creates_its_package_and_tests_it() {
        let page = fs::read_to_string(root().join(PAGE)).unwrap();
        let instructions = instructions(&page).unwrap();
        assert_eq!(instructions[0], Instruction::Run("cargo new --lib page-operator\n"));
        let tests = |instruction: &Instruction<'_>| matches!(instruction, Instruction::Run(commands) if commands.contains("cargo test\n"));
        assert!(instructions.iter().any(tests));
        let in_cluster = |instruction: &Instruction<'_>| matches!(instruction, Instruction::Cluster(commands) if commands.contains("kubectl apply"));
        assert!(instructions.iter().any(in_cluster));
    }
}
