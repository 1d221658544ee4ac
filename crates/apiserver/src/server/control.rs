//! Controlling a running server from a test: faults, compaction, restarts, and feeds.

use std::sync::atomic::Ordering;

use super::{Server, StartError};
use crate::faults::Faults;
use crate::storage::{Snapshot, Window};

/// A point in time that the server can be restored to. See [`Server::backup`].
#[derive(Clone, Debug)]
pub struct Backup(Snapshot);

/// What survives a restart.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Restart {
    /// The objects survive, their history does not: watches from earlier revisions are `Expired`.
    HistoryLost,
    /// Objects and revision are restored from the backup, as after restoring etcd.
    FromBackup(Backup),
}

impl Server {
    /// The server's faults.
    pub fn faults(&self) -> Faults {
        self.api.faults.clone()
    }

    /// Sends a bookmark with the current resourceVersion on every open watch that allows bookmarks, after the events before it. A
    /// client that has received it has received everything.
    pub fn send_bookmarks(&self) {
        self.api.bookmark_requests.fetch_add(1, Ordering::Relaxed);
        self.api.storage.wake_readers();
    }

    /// Compacts the history of all resources: lists and watches at older revisions are `Expired`. Open watches
    /// continue.
    pub fn compact(&self) {
        self.api.storage.compact(u64::MAX);
    }

    /// Compacts the history up to a revision.
    pub fn compact_to(&self, revision: u64) {
        self.api.storage.compact(revision);
    }

    /// Sets how many past events of each resource are available to lists at an old revision and to new watches.
    pub fn set_history(&self, events: usize) {
        let window = self.api.storage.window();
        self.api.storage.set_window(Window { history_events_max: events, ..window });
    }

    /// The current objects and revision.
    pub fn backup(&self) -> Backup {
        Backup(self.api.storage.snapshot())
    }

    /// Restarts the server in place: closes all connections, ends all watches, and continues at the same address with
    /// the state that survives the restart.
    pub fn restart(&self, restart: &Restart) {
        match restart {
            Restart::HistoryLost => self.api.storage.restart(None),
            Restart::FromBackup(backup) => self.api.storage.restart(Some(&backup.0)),
        }
        self.api.serve_definitions();
        self.connections.close_all();
    }

    /// Closes all connections. Without a socket, breaks all requests and streams of [`service`](Self::service) or
    /// [`client`](Self::client): they fail with [`ConnectionReset`](std::io::ErrorKind::ConnectionReset). New ones can
    /// be opened.
    pub fn disconnect_all(&self) {
        self.connections.close_all();
    }

    /// Closes all connections and refuses new ones until [`accept_connections`](Self::accept_connections) is called.
    /// Returns once the port is closed. Without a socket, requests fail with
    /// [`ConnectionRefused`](std::io::ErrorKind::ConnectionRefused).
    ///
    /// # Cancel safety
    /// The port closes even if the future is dropped.
    pub async fn refuse_connections(&self) {
        // Closing a port cannot fail.
        let _closed = self.connections.set_open(false).await;
        self.connections.close_all();
    }

    /// Accepts connections again, at the same address. Returns once the port is open.
    ///
    /// # Errors
    /// If another program has taken the port in the meantime. The port stays closed; the call can be retried.
    ///
    /// # Cancel safety
    /// The port opens even if the future is dropped.
    pub async fn accept_connections(&self) -> Result<(), StartError> {
        let opened = self.connections.set_open(true).await;
        opened.or_else(|source| match self.address {
            Some(address) => Err(StartError::Bind { address, source }),
            None => Ok(()),
        })
    }
}
