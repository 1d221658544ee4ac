//! One running program: started on a leash, its output in a file, killed when dropped. Each program is the leader of
//! its own process group, for two reasons. An interrupt at the terminal reaches only the test, whose end then ends the
//! program. And a *frozen* program whose test dies is an orphaned stopped group, which the kernel wakes with SIGHUP, so
//! it exits too.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::time::{Instant, sleep};

use crate::Error;

/// The number of bytes of a log in an error.
const LOG_TAIL_BYTES: usize = 4096;
/// The interval at which the state of a program is polled.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A child process that outlives neither this value nor this process.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program in `directory` and appends its output to `directory/NAME.log`.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        args: &[String],
        directory: &Path,
    ) -> Result<Self, Error> {
        let log = directory.join(format!("{name}.log"));
        let open = || File::options().create(true).append(true).open(&log);
        let output = open().map_err(Error::io(format!("open {}", log.display())))?;
        let errors = output.try_clone().map_err(Error::io(format!("open {}", log.display())))?;
        let child = Command::new(program)
            .args(args)
            .current_dir(directory)
            .env_clear()
            .env("HOME", directory)
            .env("KUBE_INFORMER_LEASH", "stdin")
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(Error::io(format!("start {}", program.display())))?;
        Ok(Self { name, child, log })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Error> {
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|errno| Error::io(format!("signal {}", self.name))(errno.into()))
    }

    /// Freezes the program. It has stopped when this returns.
    pub(crate) fn freeze(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)?;
        waitid(WaitId::Pid(Pid::from_child(&self.child)), WaitIdOptions::STOPPED)
            .map_err(|errno| Error::io(format!("freeze {}", self.name))(errno.into()))?;
        Ok(())
    }

    /// Returns an error if the program has exited.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(Error::Ended { program: self.name, status, log: self.log_tail() }),
        }
    }

    /// Asks the program to exit, and kills it after `limit`. A frozen program is thawed so that it receives the signal.
    pub(crate) async fn terminate(mut self, limit: Duration) -> Result<(), Error> {
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)?;
        let deadline = Instant::now() + limit;
        while self.ended()?.is_none() && Instant::now() < deadline {
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// An [`Error::NotReady`] of this program.
    pub(crate) fn not_ready(&self, waited: Duration, last: String) -> Error {
        Error::NotReady { program: self.name, waited, last, log: self.log_tail() }
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(Error::io(format!("wait for {}", self.name)))
    }

    fn log_tail(&self) -> String {
        match fs::read(&self.log) {
            Ok(log) => String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned(),
            Err(error) => format!("(no log: {error})"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the child has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, directory: &Path) -> Process {
        let args = ["-c".to_owned(), script.to_owned()];
        Process::start("shell", Path::new("/bin/sh"), &args, directory).unwrap()
    }

    fn wait_until_ended(process: &mut Process) -> Error {
        process.child.stdin.take();
        process.child.wait().unwrap();
        process.check().unwrap_err()
    }

    #[test]
    fn an_unexpected_exit_is_reported_with_the_end_of_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let message =
            wait_until_ended(&mut shell("echo out of luck >&2; exit 3", directory.path())).to_string();
        assert!(message.contains("exit status: 3"), "{message}");
        assert!(message.contains("out of luck"), "{message}");
    }

    #[test]
    fn a_program_sees_the_end_of_its_input_when_the_leash_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let message = wait_until_ended(&mut shell("cat; echo released", directory.path())).to_string();
        assert!(message.contains("released"), "{message}");
    }

    #[test]
    fn a_dropped_program_is_killed_even_if_it_is_frozen() {
        let directory = tempfile::tempdir().unwrap();
        let process = shell("cat", directory.path());
        let pid = Pid::from_child(&process.child);
        process.freeze().unwrap();
        drop(process);
        assert_eq!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH));
    }
}
