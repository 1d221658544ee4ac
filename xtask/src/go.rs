//! Runs the Go program in `xtask/schema`, and finds the repository's root.

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

/// Runs `go <args>` in `xtask/schema` and returns its output. Its standard error goes to the terminal.
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
            Err("cannot find Go; install it and add it to PATH".into())
        }
        Err(error) => Err(format!("cannot run `go {}`: {error}", args.join(" "))),
    }
}
