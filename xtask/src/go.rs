//! Runs the Go program in `xtask/schema`, and the repository's paths around it.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// What `go <args>` prints, run in `xtask/schema`. Its complaints go to our standard error as they come.
pub(crate) fn go<const N: usize>(args: [&str; N]) -> Result<Vec<u8>, String> {
    let mut command = Command::new("go");
    command.args(args).current_dir(root().join("xtask/schema")).stderr(std::process::Stdio::inherit());
    match command.output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(format!(
            "`go {}` failed ({}):\n{}",
            args.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stdout)
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err("Go is needed for this and was not found: install it and put `go` on the PATH".into())
        }
        Err(error) => Err(format!("`go {}` could not be started: {error}", args.join(" "))),
    }
}
