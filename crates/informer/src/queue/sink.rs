//! What a reflector writes to: the interface between the list/watch loop and a queue.

use std::cmp::Ordering;
use std::future::Future;

use kube_wire::RawObject;

use crate::scope::Scope;
use crate::{Key, StoredObject, UnnamedObject};

/// A queue or store that receives what a reflector lists and watches. Every call names its scope.
///
/// Calls wait while the sink is full: that is how back-pressure reaches the socket.
pub trait Sink: Send + Sync + 'static {
    /// The transaction that [`begin_replace`](Sink::begin_replace) opens.
    type Replace: Replace;

    /// An object is new.
    ///
    /// # Errors
    /// If the sink refuses the object, or is closed.
    fn add(&self, scope: Scope, object: RawObject) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// An object has changed.
    ///
    /// # Errors
    /// If the sink refuses the object, or is closed.
    fn update(&self, scope: Scope, object: RawObject) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// An object is gone; `object` is its last state.
    ///
    /// # Errors
    /// If the sink refuses the object, or is closed.
    fn delete(&self, scope: Scope, object: RawObject) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Nothing changed in this scope up to `resource_version`.
    ///
    /// # Errors
    /// If the sink is closed.
    fn bookmark(
        &self,
        scope: Scope,
        resource_version: &str,
    ) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Deliver everything that is stored in this scope once more, as `Sync`.
    ///
    /// # Errors
    /// If the sink is closed.
    fn resync(&self, scope: Scope) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Begins to replace everything in this scope. Nothing can be seen of it until it is committed; dropping the transaction
    /// leaves everything as it was.
    ///
    /// # Errors
    /// If the sink is closed.
    fn begin_replace(&self, scope: Scope) -> impl Future<Output = Result<Self::Replace, SinkError>> + Send;

    /// The object of this scope with the highest resourceVersion, once everything before has been processed. A reflector
    /// compares it with the server after a broken connection.
    ///
    /// # Errors
    /// If the sink is closed.
    fn newest(&self, scope: Scope) -> impl Future<Output = Result<Newest, SinkError>> + Send {
        let _ = scope;
        std::future::ready(Ok(Newest::Unknown))
    }
}

/// The newest object that a sink holds of a scope.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Newest {
    /// The sink cannot tell.
    Unknown,
    /// There are no objects.
    Empty,
    /// This one.
    Object {
        /// The object.
        object: StoredObject,
        /// Whether its content is what was received, and not the result of a transform.
        as_received: bool,
    },
}

/// Objects that are compared between two turns of other tasks.
const COMPARED_AT_ONCE: usize = 10_000;

impl Newest {
    /// The newest of these objects. One without a comparable resourceVersion makes it unknown.
    pub(crate) async fn of(objects: impl Iterator<Item = &StoredObject>) -> Self {
        let mut newest: Option<&StoredObject> = None;
        for (count, object) in objects.enumerate() {
            if count % COMPARED_AT_ONCE == COMPARED_AT_ONCE - 1 {
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

/// A new state of one scope, as it is being received.
pub trait Replace: Send {
    /// An object of the new state. Of several with one key the last counts.
    ///
    /// # Errors
    /// If the sink refuses the object.
    fn put(&mut self, object: RawObject) -> Result<(), SinkError>;

    /// An object of this key is part of the new state, but cannot be put: what is known of it stays.
    fn keep(&mut self, key: &Key);

    /// An object put before is not part of the new state after all (it was deleted while the state was streamed).
    fn remove(&mut self, key: &Key);

    /// The state is complete, as of `resource_version`: it takes effect as a whole.
    ///
    /// # Errors
    /// If the sink is closed.
    fn commit(self, resource_version: &str) -> impl Future<Output = Result<Committed, SinkError>> + Send;
}

/// What a committed replace amounted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// The server has gone back in time (an etcd restored from a backup): a list or an object is older than what was
    /// seen before. What follows is a new epoch, in which resourceVersions begin anew.
    pub new_epoch: bool,
}

/// Why a sink did not take something.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SinkError {
    /// The object cannot be stored.
    #[error("object `{key}` was not stored: {why}")]
    Rejected {
        /// The object's key, as far as it has one.
        key: String,
        /// Why.
        why: String,
    },
    /// The queue is closed.
    #[error("the queue is closed")]
    Closed,
}

impl From<UnnamedObject> for SinkError {
    fn from(error: UnnamedObject) -> Self {
        Self::Rejected {
            key: format!("{}/{}", error.namespace, error.name),
            why: "it needs a name, and neither name nor namespace may hold a slash".to_owned(),
        }
    }
}

impl Committed {
    /// An ordinary replace, or one that begins a new epoch.
    pub fn new(new_epoch: bool) -> Self {
        Self { new_epoch }
    }
}
