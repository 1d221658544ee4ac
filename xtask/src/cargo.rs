//! Runs cargo as if from a shell. `cargo run` sets variables such as the name and version of xtask. Build scripts that
//! read them would run again, and half of the dependencies would be rebuilt whenever a task follows an ordinary build.

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

/// Removes the variables that cargo sets for xtask from a command's environment.
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
