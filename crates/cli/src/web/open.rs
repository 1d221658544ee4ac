//! `--open`: shows the page in the user's browser.

use std::process::{Command, Stdio};

/// Starts the system's opener for an address. Does not wait for it: some openers run as long as the browser.
///
/// # Errors
/// If there is no opener.
pub(crate) fn open(url: &str) -> std::io::Result<()> {
    let mut command = opener();
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}

#[cfg(target_os = "macos")]
fn opener() -> Command {
    Command::new("open")
}

#[cfg(windows)]
fn opener() -> Command {
    let mut command = Command::new("rundll32");
    command.arg("url.dll,FileProtocolHandler");
    command
}

#[cfg(not(any(target_os = "macos", windows)))]
fn opener() -> Command {
    Command::new("xdg-open")
}
