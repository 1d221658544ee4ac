//! The etcd of a server: compaction on demand, and backup and restore as an operator would do them.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::process::Command;

use crate::{Error, Programs, RealServer, command::output_of, process::Process};

/// The time limit of a graceful shutdown.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);

/// A copy of etcd's data, for [`RealServer::restore`]. It is in the server's directory and is removed with it.
#[derive(Debug)]
pub struct Backup {
    directory: PathBuf,
}

impl RealServer {
    /// Stops etcd, copies its data and starts it again. kube-apiserver keeps running and reconnects.
    ///
    /// # Errors
    ///
    /// Returns an error if the data cannot be copied or etcd does not start again.
    pub async fn backup(&mut self) -> Result<Backup, Error> {
        self.etcd_mut().backup().await
    }

    /// Replaces etcd's data with a backup while kube-apiserver is stopped, as etcd's manual recommends. Resource
    /// versions regress to those of the backup.
    ///
    /// # Errors
    ///
    /// Returns an error if the data cannot be copied or the server does not start again.
    pub async fn restore(&mut self, backup: &Backup) -> Result<(), Error> {
        self.shut_down().await?;
        self.etcd_mut().restore(backup).await?;
        self.start_apiserver().await
    }
}

/// One member of etcd, listening on a socket in its directory.
#[derive(Debug)]
pub(crate) struct Etcd {
    process: Option<Process>,
    program: PathBuf,
    directory: PathBuf,
    backups: u32,
}

impl Etcd {
    pub(crate) fn start(programs: &Programs, parent: &Path) -> Result<Self, Error> {
        let directory = parent.join("etcd");
        fs::create_dir(&directory).map_err(Error::io(format!("create {}", directory.display())))?;
        let mut etcd = Self { process: None, program: programs.path("etcd"), directory, backups: 0 };
        etcd.serve()?;
        Ok(etcd)
    }

    /// The endpoint for kube-apiserver.
    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.directory.join("client.sock").display())
    }

    pub(crate) fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    pub(crate) async fn compact(&self, revision: Option<u64>) -> Result<u64, Error> {
        let mut command = Command::new(&self.program);
        command.arg("compact").arg(&self.directory);
        if let Some(revision) = revision {
            command.arg(revision.to_string());
        }
        let printed = output_of(command, "etcd compact".to_owned(), "").await?;
        printed.trim().parse().map_err(|error| {
            Error::io(format!("read the compacted revision {printed:?}"))(std::io::Error::other(error))
        })
    }

    async fn backup(&mut self) -> Result<Backup, Error> {
        let directory = self.directory.join(format!("backup-{}", self.backups));
        self.backups += 1;
        self.stop().await?;
        copy(&self.data(), &directory)?;
        self.serve()?;
        Ok(Backup { directory })
    }

    async fn restore(&mut self, backup: &Backup) -> Result<(), Error> {
        self.stop().await?;
        let data = self.data();
        fs::remove_dir_all(&data).map_err(Error::io(format!("remove {}", data.display())))?;
        copy(&backup.directory, &data)?;
        self.serve()
    }

    /// Starts etcd without waiting for it, because kube-apiserver waits for its etcd.
    fn serve(&mut self) -> Result<(), Error> {
        let args = ["serve".to_owned(), self.directory.display().to_string()];
        self.process = Some(Process::start("etcd", &self.program, &args, &self.directory)?);
        Ok(())
    }

    async fn stop(&mut self) -> Result<(), Error> {
        match self.process.take() {
            Some(process) => process.terminate(SHUTDOWN_LIMIT).await,
            None => Ok(()),
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }
}

/// Copies a directory recursively.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let context = || format!("copy {} to {}", from.display(), to.display());
    fs::create_dir(to).map_err(Error::io(context()))?;
    for entry in fs::read_dir(from).map_err(Error::io(context()))? {
        let entry = entry.map_err(Error::io(context()))?;
        let target = to.join(entry.file_name());
        if entry.file_type().map_err(Error::io(context()))?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).map_err(Error::io(context()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_every_file_of_every_level() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        fs::create_dir_all(from.join("member/snap")).unwrap();
        fs::write(from.join("member/snap/db"), "rows").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("member/snap/db")).unwrap(), "rows");
    }
}
