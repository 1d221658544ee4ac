//! The machine and the versions of a measurement, in one line.

use std::fs;
use std::process::Command;

use crate::go::root;

/// The time, the machine and the versions.
pub(super) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let gigabytes = field("/proc/meminfo", "MemTotal:")
        .and_then(|text| text.trim_end_matches(" kB").parse::<f64>().ok())
        .map_or(0.0, |kilobytes| kilobytes * 1024.0 / 1e9);
    format!(
        "{}; {} × {}, {gigabytes:.0} GB; {}; {}; {}; client-go {}; kube-rs {}; \
         kubectl and kube-apiserver {}; ours {}",
        output_of("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        cores,
        field("/proc/cpuinfo", "model name")
            .map_or_else(|| "unknown CPU".into(), |name| name.trim_start_matches([':', ' ']).to_owned()),
        output_of("uname", &["-sr"]),
        output_of("rustc", &["--version"]).split(" (").next().unwrap_or_default(),
        output_of("go", &["version"]).replace("go version ", ""),
        version("peers/client-go/go.mod", "k8s.io/client-go "),
        version("peers/kube-rs/Cargo.lock", "name = \"kube\"\nversion = "),
        version("conformance/go.mod", "k8s.io/kubernetes "),
        commit(),
    )
}

/// Bytes of memory that are available now; unlimited if the system does not report it.
pub(super) fn available() -> u64 {
    let kilobytes = field("/proc/meminfo", "MemAvailable:")
        .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map_or(u64::MAX, |kilobytes| kilobytes << 10)
}

/// The commit that was measured; `-dirty` if anything but the figures has changed since.
fn commit() -> String {
    let commit = output_of("git", &["describe", "--always"]);
    let changed = output_of("git", &["status", "--porcelain", "--untracked-files=no"]);
    if changed.lines().any(matters) { commit + "-dirty" } else { commit }
}

/// Whether a line of `git status --porcelain` names a file that figures could depend on. The leading space of
/// the first line is trimmed.
fn matters(line: &str) -> bool {
    let path = line.trim_start().split_once(' ').map_or("", |(_, path)| path.trim_start());
    path != "docs/benchmarks.md" && !path.starts_with("docs/plots/")
}

/// The output of a program; empty if it is not installed.
fn output_of(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(root()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// The text after a name in a system file, on the same line.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

/// The word after `before` in a file of the repository.
fn version(file: &str, before: &str) -> String {
    let text = fs::read_to_string(root().join(file)).unwrap_or_default();
    let after = text.split(before).nth(1).unwrap_or_default();
    after.split_whitespace().next().unwrap_or_default().trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_were_just_written_do_not_make_the_commit_dirty() {
        for figures in [
            "M docs/benchmarks.md",
            " M docs/benchmarks.md",
            "AM docs/plots/watch.svg",
            "D  docs/plots/old.svg",
        ] {
            assert!(!matters(figures), "{figures}");
        }
        for work in [
            " M README.md",
            "M xtask/src/main.rs",
            "R  docs/benchmarks.md -> docs/other.md",
            "MM docs/benchmarks.md.rs",
        ] {
            assert!(matters(work), "{work}");
        }
    }
}
