//! What a test does to a running server: faults, compaction, restarts, and feeding it from elsewhere.

use super::{Server, StartError};
use crate::faults::Faults;
use crate::storage::{Snapshot, Window};

/// A moment of the server to go back to. See [`Server::backup`].
#[derive(Clone, Debug)]
pub struct Backup(Snapshot);

/// What a restart does to what the server knows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Restart {
    /// The objects stay, their history is lost: watches from before are `Expired`.
    HistoryLost,
    /// Objects and revision are those of the backup, as after a restored etcd.
    FromBackup(Backup),
}

impl Server {
    /// The server's faults.
    pub fn faults(&self) -> Faults {
        self.api.faults.clone()
    }

    /// Forgets the past of all resources up to now: lists and watches at older revisions are `Expired`. Open watches
    /// go on.
    pub fn compact(&self) {
        self.api.storage.compact(u64::MAX);
    }

    /// Forgets the past up to a revision.
    pub fn compact_to(&self, revision: u64) {
        self.api.storage.compact(revision);
    }

    /// Changes how many events of each resource are kept for lists at an old revision and for new watches.
    pub fn set_history(&self, events: usize) {
        let window = self.api.storage.window();
        self.api.storage.set_window(Window { history_events_max: events, ..window });
    }

    /// The objects and the revision of this moment.
    pub fn backup(&self) -> Backup {
        Backup(self.api.storage.snapshot())
    }

    /// Restarts the server in place: all connections are closed, all watches end, and it goes on at the same address
    /// with what the restart leaves it.
    pub fn restart(&self, restart: &Restart) {
        match restart {
            Restart::HistoryLost => self.api.storage.restart(None),
            Restart::FromBackup(backup) => self.api.storage.restart(Some(&backup.0)),
        }
        self.api.serve_definitions();
        self.connections.close_all();
    }

    /// Closes all connections. Without a socket, breaks all requests and streams that came through
    /// [`service`](Self::service) or [`client`](Self::client): they end with
    /// [`ConnectionReset`](std::io::ErrorKind::ConnectionReset). New ones can be made.
    pub fn disconnect_all(&self) {
        self.connections.close_all();
    }

    /// Refuses connections from now on, and closes those that are open, until
    /// [`accept_connections`](Self::accept_connections). Returns once the port is closed. Without a socket, requests fail
    /// with [`ConnectionRefused`](std::io::ErrorKind::ConnectionRefused).
    ///
    /// # Cancel safety
    /// The port closes all the same if the future is dropped.
    pub async fn refuse_connections(&self) {
        // Closing a port cannot fail.
        let _closed = self.connections.set_open(false).await;
        self.connections.close_all();
    }

    /// Accepts connections again, at the same address. Returns once the port is open.
    ///
    /// # Errors
    /// If another program has taken the port meanwhile. It stays closed, and opening it can be tried again.
    ///
    /// # Cancel safety
    /// The port opens all the same if the future is dropped.
    pub async fn accept_connections(&self) -> Result<(), StartError> {
        let opened = self.connections.set_open(true).await;
        opened.or_else(|source| match self.address {
            Some(address) => Err(StartError::Bind { address, source }),
            None => Ok(()),
        })
    }
}
