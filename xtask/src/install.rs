//! Finds the programs that tasks need and installs those that are missing, as Debian's packages.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the first of these programs in `$PATH`. If all are missing and this is Debian, installs the packages.
pub(crate) fn find_or_install(programs: &[&str], packages: &[&str]) -> Result<PathBuf, String> {
    if let Some(found) = find_program(programs) {
        return Ok(found);
    }
    let Some(apt) = find_program(&["apt-get"]) else {
        return Err(format!("cannot find {}; install {}", programs[0], packages.join(" ")));
    };
    succeed(privileged(&apt).args(["update", "--quiet"]), "updating the list of packages")?;
    let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
    succeed(privileged(&apt).args(install).args(packages), &format!("installing {}", packages.join(" ")))?;
    find_program(programs).ok_or_else(|| format!("{} was installed, but is not in $PATH", programs[0]))
}

/// A command that runs as root, with sudo if it is installed.
fn privileged(program: &Path) -> Command {
    let mut command = match find_program(&["sudo"]) {
        Some(sudo) => {
            let mut command = Command::new(sudo);
            command.arg("--non-interactive").arg(program);
            command
        }
        None => Command::new(program),
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

pub(crate) fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let directories: Vec<_> = env::split_paths(&path).collect();
    let places = names.iter().flat_map(|name| directories.iter().map(move |directory| directory.join(name)));
    places.into_iter().find(|place| place.is_file())
}

/// Cargo's target directory.
pub(crate) fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Runs a command; an exit code other than 0 is an error.
pub(crate) fn succeed(command: &mut Command, doing: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{doing}: cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{doing} failed: {status}")) }
}
