//! One-shot programs: runs them to completion and returns their output.

use std::process::Stdio;

use tokio::{io::AsyncWriteExt, process::Command};

use crate::Error;

/// Runs a command with `input` on its standard input. An error contains `name` and the standard error.
pub(crate) async fn output_of(mut command: Command, name: String, input: &str) -> Result<String, Error> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(Error::io(format!("start `{name}`")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ended without reading its input reports the reason on its standard error.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = child.wait_with_output().await.map_err(Error::io(format!("wait for `{name}`")))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Command { command: name, status: output.status, stderr });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
