//! `cargo xtask soak`: builds the soak test with optimisations and runs it.

use std::process::Command;

use crate::cargo::cargo;
use crate::go::root;

const PROGRAM: &str = "kube-informer-soak";

/// Builds the soak test and runs it with these arguments.
pub(crate) fn run(args: &[&str]) -> Result<String, String> {
    let mut command: Command = cargo();
    command.args(["run", "--release", "--quiet", "--package", PROGRAM, "--"]).args(args).current_dir(root());
    match command.status() {
        Ok(status) if status.success() => Ok(String::new()),
        Ok(status) => Err(format!("the soak test failed: {status}")),
        Err(error) => Err(format!("cannot run {command:?}: {error}")),
    }
}
