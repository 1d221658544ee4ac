//! Runs cargo as if from a shell. What `cargo run` says of us in the environment (our name, our version) would otherwise reach
//! build scripts that ask for it, and half of the dependencies would be built again each time a chore follows a plain build.

use std::env;
use std::process::Command;

use crate::go::root;

/// A cargo command in the repository's root.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    clean(&mut cargo);
    cargo
}

/// Removes from a command's environment what cargo says of us.
pub(crate) fn clean(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let ours = name.to_str().is_some_and(|name| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        });
        if ours {
            command.env_remove(name);
        }
    }
}
