//! On what and with what was measured, in a line.

use std::fs;
use std::process::Command;

use crate::go::root;

/// The day, the machine and the versions.
pub(super) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let gigabytes = field("/proc/meminfo", "MemTotal:")
        .and_then(|text| text.trim_end_matches(" kB").parse::<f64>().ok())
        .map_or(0.0, |kilobytes| kilobytes * 1024.0 / 1e9);
    format!(
        "{}; {} × {}, {gigabytes:.0} GB; {}; {}; {}; client-go {}; kube-rs {}; ours {}",
        said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        cores,
        field("/proc/cpuinfo", "model name")
            .map_or_else(|| "an unknown core".into(), |name| name.trim_start_matches([':', ' ']).to_owned()),
        said("uname", &["-sr"]),
        said("rustc", &["--version"]).split(" (").next().unwrap_or_default(),
        said("go", &["version"]).replace("go version ", ""),
        version("peers/client-go/go.mod", "k8s.io/client-go "),
        version("peers/kube-rs/Cargo.lock", "name = \"kube\"\nversion = "),
        said("git", &["describe", "--always", "--dirty"]),
    )
}

/// What a program says; empty if it is not there.
fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(root()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// What follows a name in a file of the system, on the same line.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

/// The word that follows in a file of the repository.
fn version(file: &str, before: &str) -> String {
    let text = fs::read_to_string(root().join(file)).unwrap_or_default();
    let after = text.split(before).nth(1).unwrap_or_default();
    after.split_whitespace().next().unwrap_or_default().trim_matches('"').to_owned()
}
