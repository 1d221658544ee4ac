//! The servers that programs run against. They are separate processes, so that a client's figures are its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::Outcome;
use super::figures;
use super::load::Load;
use super::programs::Programs;

/// A running server. Dropping this value stops it.
pub(super) struct Server {
    process: Child,
    /// The directory of our own servers; empty for the real one, which has its own.
    directory: PathBuf,
    kubeconfig: PathBuf,
    /// Kept open, because a program that cannot print may exit.
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// A server with `count` objects. A real one is filled with pods only.
    pub(super) fn of(programs: &Programs, load: Load, count: u64) -> Outcome<Self> {
        if let Some((starter, built)) = &programs.real {
            let mut command = Command::new(starter);
            command.env("KUBE_INFORMER_CONFORMANCE_PROGRAMS", built);
            let server = Self::start(&mut command, |line, _| {
                let path = line.split("\"kubeconfig\":\"").nth(1)?.split('"').next()?;
                Some(PathBuf::from(path))
            })?;
            let mut fill = Command::new(&programs.client_go);
            fill.args(["pods", "--count", &count.to_string(), "--kubeconfig"]).arg(&server.kubeconfig);
            figures::of(&mut fill)?;
            return Ok(server);
        }
        let mut command = Command::new(&programs.ours);
        command.arg("serve").arg(directory()?).arg(count.to_string()).args(load.options());
        Self::start(&mut command, ready)
    }

    /// A server that sends `count` pods and then `changes` changes to every watch.
    pub(super) fn of_changes(
        programs: &Programs,
        count: u64,
        changes: u64,
        rate: Option<u64>,
    ) -> Outcome<Self> {
        let mut command = Command::new(&programs.ours);
        command.arg("replay").arg(directory()?).args([count.to_string(), changes.to_string()]);
        if let Some(rate) = rate {
            command.args(["--rate".to_owned(), rate.to_string()]);
        }
        Self::start(&mut command, ready)
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Makes every client relist.
    pub(super) fn relist(&mut self) -> Outcome {
        let input = self.process.stdin.as_mut().ok_or("the server has no standard input")?;
        Ok(writeln!(input, "relist")?)
    }

    /// Starts a server, and waits for the line that reports the kubeconfig.
    fn start(command: &mut Command, ready: impl Fn(&str, &Path) -> Option<PathBuf>) -> Outcome<Self> {
        let directory = command.get_args().nth(1).map(PathBuf::from).unwrap_or_default();
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut output = BufReader::new(process.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let Some(kubeconfig) = ready(&line, &directory) else {
            return Err(format!("{command:?} did not start: {line:?}").into());
        };
        Ok(Self { process, directory, kubeconfig, _output: output })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Our servers exit at the end of their input, the real one on a signal.
        drop(self.process.stdin.take());
        if self.directory.as_os_str().is_empty() {
            let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        }
        let _ = self.process.wait();
        if !self.directory.as_os_str().is_empty() {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

fn ready(line: &str, directory: &Path) -> Option<PathBuf> {
    line.starts_with("ready\t").then(|| directory.join("kubeconfig"))
}

/// A directory for one server.
fn directory() -> Outcome<PathBuf> {
    let name = format!("kube-informer-bench-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}
