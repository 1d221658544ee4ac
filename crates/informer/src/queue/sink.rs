//! The interface between the list/watch loop and a queue.

use std::cmp::Ordering;
use std::future::Future;

use kube_wire::{Head, RawObject};

use crate::budget::OverBudget;
use crate::scope::Scope;
use crate::shard::Shard;
use crate::{InvalidKey, Key, StoredObject};

/// A queue or store that receives the results of a reflector. Every call names its scope.
///
/// Calls wait while the sink is full: this is how back-pressure reaches the socket.
///
/// A program with a source of its own can write to a sink as a reflector does: a complete state first, then changes.
///
/// ```
/// use kube_informer::Scope;
/// use kube_informer::building_blocks::{DeltaFifo, DeltaFifoConfig, Replace, Sink};
/// # use kube_informer::testing::ScriptedSource;
/// # use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pods = ScriptedSource::new("v1", "Pod");
/// # let pod = |name, version| pods.object(&json!({"metadata": {"name": name, "resourceVersion": version}}));
/// let queue = DeltaFifo::new(DeltaFifoConfig::default());
/// let mut list = queue.begin_replace(Scope::default()).await?;
/// list.put(pod("api", "7"))?;
/// list.put(pod("db", "8"))?;
/// assert_eq!(queue.len(), 0, "nothing is visible before the commit");
/// list.commit("8").await?;
/// queue.update(Scope::default(), pod("api", "9")).await?;
/// assert_eq!(queue.len(), 2, "one entry per key");
/// # Ok(()) }
/// ```
pub trait Sink: Send + Sync + 'static {
    /// The transaction that [`begin_replace`](Sink::begin_replace) starts.
    type Replace: Replace;

    /// An object was added.
    ///
    /// # Errors
    /// Returns an error if the sink rejects the object or is closed.
    fn add(&self, scope: Scope, object: RawObject) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// An object was changed.
    ///
    /// # Errors
    /// Returns an error if the sink rejects the object or is closed.
    fn update(&self, scope: Scope, object: RawObject) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// An object was deleted; `object` is its final state.
    ///
    /// # Errors
    /// Returns an error if the sink rejects the object or is closed.
    fn delete(&self, scope: Scope, object: RawObject) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// An object was deleted, but its final state could not be read.
    ///
    /// # Errors
    /// Returns an error if the sink is closed.
    fn delete_unread(&self, scope: Scope, key: &Key) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Whether an object of this key may be in the sink. Asked only by the writer of the scope.
    #[doc(hidden)]
    fn may_have(&self, scope: Scope, head: &Head<'_>) -> bool {
        let _ = (scope, head);
        true
    }

    /// An object was changed, and its new state, `object`, is in another shard: it leaves, and may still exist.
    ///
    /// # Errors
    /// Returns an error if the sink rejects the object or is closed.
    #[doc(hidden)]
    fn leave(&self, scope: Scope, object: RawObject) -> impl Future<Output = Result<(), SinkError>> + Send {
        self.delete(scope, object)
    }

    /// Nothing changed in this scope up to `resource_version`.
    ///
    /// # Errors
    /// Returns an error if the sink is closed.
    fn bookmark(
        &self,
        scope: Scope,
        resource_version: &str,
    ) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Delivers all stored objects of this scope again, as `Sync`.
    ///
    /// # Errors
    /// Returns an error if the sink is closed.
    fn resync(&self, scope: Scope) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Begins to replace everything in this scope. Nothing is visible until the commit; dropping the transaction changes
    /// nothing.
    ///
    /// # Errors
    /// Returns an error if the sink is closed.
    fn begin_replace(&self, scope: Scope) -> impl Future<Output = Result<Self::Replace, SinkError>> + Send;

    /// The selection of this scope has changed: it is incomplete until the next replace, which may add objects that are older
    /// than the last one.
    ///
    /// # Errors
    /// Returns an error if the sink is closed.
    fn reselect(&self, scope: Scope) -> impl Future<Output = Result<(), SinkError>> + Send {
        let _ = scope;
        std::future::ready(Ok(()))
    }

    /// The object of this scope with the highest resourceVersion, after everything queued has been processed. A reflector
    /// compares it with the server after a broken connection.
    ///
    /// # Errors
    /// Returns an error if the sink is closed.
    fn newest(&self, scope: Scope) -> impl Future<Output = Result<Newest, SinkError>> + Send {
        let _ = scope;
        std::future::ready(Ok(Newest::Unknown))
    }
}

/// The newest object of a scope in a sink.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Newest {
    /// The sink does not know.
    Unknown,
    /// There are no objects.
    Empty,
    /// The newest object.
    Object {
        /// The object.
        object: StoredObject,
        /// Whether its content is as received, not the result of a transform.
        as_received: bool,
    },
}

/// How many objects are compared before other tasks get a turn.
const COMPARED_PER_TURN: usize = 10_000;

impl Newest {
    /// The newest of these objects; `Unknown` if one has no comparable resourceVersion.
    pub(crate) async fn of(objects: impl Iterator<Item = &StoredObject>) -> Self {
        let mut newest: Option<&StoredObject> = None;
        for (count, object) in objects.enumerate() {
            if count % COMPARED_PER_TURN == COMPARED_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            let before = newest.map_or("1", StoredObject::resource_version);
            match crate::version::compare_resource_versions(object.resource_version(), before) {
                None => return Self::Unknown,
                Some(Ordering::Less) => {}
                Some(_) => newest = Some(object),
            }
        }
        newest.map_or(Self::Empty, |object| Self::Object { object: object.clone(), as_received: true })
    }
}

/// A complete new state of one scope, while it is received. The documentation of [`Sink`] has an example.
pub trait Replace: Send {
    /// Adds an object of the new state. If a key appears several times, the last one counts.
    ///
    /// # Errors
    /// Returns an error if the sink rejects the object.
    fn put(&mut self, object: RawObject) -> Result<(), SinkError>;

    /// The new state contains this key, but the object could not be read: its cached state stays.
    fn keep(&mut self, key: &Key);

    /// The new state contains an object whose key could not be read. It may be any cached object, so all those that are not
    /// put stay.
    fn keep_unlisted(&mut self);

    /// The new state is that of a shard: objects of other shards have left it, and may still exist.
    #[doc(hidden)]
    fn within(&mut self, shard: Shard) {
        let _ = shard;
    }

    /// The new state contains this object, but in another shard: if it is cached, it has left.
    #[doc(hidden)]
    fn leave(&mut self, head: &Head<'_>) {
        let _ = head;
    }

    /// Removes an object again: it was deleted while the state was streamed.
    fn remove(&mut self, key: &Key);

    /// Completes the state, as of `resource_version`. It takes effect as a whole.
    ///
    /// # Errors
    /// Returns an error if the sink is closed.
    fn commit(self, resource_version: &str) -> impl Future<Output = Result<Committed, SinkError>> + Send;
}

/// The result of a committed replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// The server regressed to an earlier state (an etcd restored from a backup): the list or an object is older than what
    /// was received before. A new epoch begins, with its own resourceVersions.
    pub new_epoch: bool,
}

/// Why a sink rejected a call.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SinkError {
    /// The object cannot be stored.
    #[error("cannot store object `{key}`: {why}")]
    Rejected {
        /// The object's key, as far as it has one.
        key: String,
        /// The reason.
        why: String,
    },
    /// The object does not fit the memory budget.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The queue is closed.
    #[error("cannot queue change: the queue is closed")]
    Closed,
}

impl From<InvalidKey> for SinkError {
    fn from(InvalidKey(key): InvalidKey) -> Self {
        Self::Rejected {
            key,
            why: "it needs a name, and neither name nor namespace may contain a slash".to_owned(),
        }
    }
}

impl Committed {
    /// The result of an ordinary replace, or of one that begins a new epoch.
    pub fn new(new_epoch: bool) -> Self {
        Self { new_epoch }
    }
}
