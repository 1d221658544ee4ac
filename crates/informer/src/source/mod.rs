//! Where objects come from: how to list and watch one resource.
//!
//! [`ListerWatcher`] separates the network from everything else. A reflector does not know URLs, headers or connections: it
//! asks a source for a list or a watch, and reads objects. Sources do not know retries or stores: each call is one request,
//! and returns its error unchanged.

mod cluster;
mod connections;
mod credentials;
mod error;
mod functions;
mod json_switch;
pub(crate) mod list_type;
mod list_watch;
mod options;
mod pace;
#[cfg(feature = "http-proxy")]
mod proxy;
mod query;
mod resource;
mod response;
#[cfg(feature = "rustls-tls")]
mod self_signed;
mod server_memory;
mod sharded;
#[cfg(feature = "rustls-tls")]
mod tls;
mod tracked_body;
mod unpack;

#[cfg(any(test, feature = "testing"))]
pub use cluster::STREAMS_PER_CONNECTION;
pub use cluster::{Cluster, ClusterConfig, IsList};
pub use error::SourceError;
pub use functions::FunctionSource;
pub use json_switch::JsonSwitch;
pub(crate) use list_watch::ServerIsNewer;
pub use list_watch::{EncodingPreference, ListWatch};
pub use options::{ListOptions, VersionMatch, WatchOptions};
pub use resource::{InvalidPathSegment, Resource};
pub use server_memory::ServerMemory;
pub(crate) use sharded::ShardedSource;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use kube_wire::{ListHead, RawObject, TypeMeta, WatchEvent};

use crate::shard::Shard;

/// Lists and watches one resource in one scope (all namespaces, or one).
///
/// Used as `Arc<dyn ListerWatcher>`. A [`FunctionSource`] is the shortest one:
///
/// ```
/// use futures::{StreamExt, stream};
/// use kube_informer::building_blocks::{FunctionSource, ListOptions, ListPart, ListerWatcher};
/// use kube_informer::kube_wire::ListHead;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut head = ListHead::default();
/// head.resource_version = "7".into();
/// let source = FunctionSource::new(
///     "nothing",
///     move |_| { let end = ListPart::End(head.clone()); async { Ok(stream::iter([Ok(end)]).boxed()) } },
///     |_| async { Ok(stream::pending().boxed()) },
/// );
/// let mut parts = source.list(ListOptions::default()).await?;
/// assert!(matches!(parts.next().await, Some(Ok(ListPart::End(head))) if head.resource_version == "7"));
/// # Ok(()) }
/// ```
pub trait ListerWatcher: Send + Sync + 'static {
    /// Lists one page, or everything if `options` has no limit. The future completes when the server has answered with a
    /// list; the items follow in the stream.
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ListStream, SourceError>>;

    /// Starts a watch. The future completes when the server has accepted it.
    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<WatchStream, SourceError>>;

    /// The source that this one wraps, if it wraps one. The default methods of this trait forward to it.
    fn inner(&self) -> Option<&dyn ListerWatcher> {
        None
    }

    /// The type of the objects, if known: events of another kind are then rejected.
    fn expected_type(&self) -> Option<TypeMeta> {
        self.inner()?.expected_type()
    }

    /// The resource that is listed and watched, where that is known: metrics name it.
    fn resource(&self) -> Option<Resource> {
        self.inner()?.resource()
    }

    /// Called before each cycle of list and watch. A source whose selection can change fixes it until the next call, and
    /// returns a number that grows with each change.
    #[doc(hidden)]
    fn begin_cycle(&self) -> u64 {
        self.inner().map_or(0, |inner| inner.begin_cycle())
    }

    /// Whether an object belongs to the selection. A reflector drops others: the server may not support the selection.
    #[doc(hidden)]
    fn selects(&self, object: &RawObject) -> bool {
        self.inner().is_none_or(|inner| inner.selects(object))
    }

    /// Whether an object can change so that [`selects`](Self::selects) no longer returns the same.
    #[doc(hidden)]
    fn selects_by_state(&self) -> bool {
        self.inner().is_some_and(|inner| inner.selects_by_state())
    }

    /// The selection, if it is a shard, and an object's uid and namespace show whether the object has left it.
    #[doc(hidden)]
    fn shard(&self) -> Option<Shard> {
        self.inner()?.shard()
    }

    /// Completes when everything should be listed again, because the source would now return it differently. A reflector
    /// polls this while it watches; most sources never complete it.
    #[doc(hidden)]
    fn outdated(&self) -> BoxFuture<'_, ()> {
        self.inner().map_or_else(|| std::future::pending().boxed(), |inner| inner.outdated())
    }

    /// Called when a watch-list of this source did not end. Sources of the same server can skip watch-lists for a while
    /// ([`WatchOptions::initial_events_optional`]).
    #[doc(hidden)]
    fn watch_list_is_broken(&self) {
        self.inner().inspect(|inner| inner.watch_list_is_broken());
    }

    /// The switch with which a decoder that meets an unknown protobuf field makes this source return JSON. Without one,
    /// such objects cannot be decoded.
    #[doc(hidden)]
    fn json_switch(&self) -> Option<JsonSwitch> {
        self.inner()?.json_switch()
    }

    /// A description for messages: `pods in namespace web with labels tier=backend`.
    fn describe(&self) -> String;
}

/// The body of a list: items, then the end. An error about one item ([`SourceError::is_about_one_object`]) does not end the
/// stream; any other error does.
pub type ListStream = BoxStream<'static, Result<ListPart, SourceError>>;

/// The events of a watch. An error about one event ([`SourceError::is_about_one_object`]) does not end the stream; any
/// other error does. The end without an error is a normal close. A reflector continues after an error that has the event's
/// [type](kube_wire::Error::event_type) and the object's [key](kube_wire::Error::key); without them it opens another watch,
/// because it cannot know which object has changed.
pub type WatchStream = BoxStream<'static, Result<WatchEvent, SourceError>>;

/// A part of a list.
#[derive(Debug)]
pub enum ListPart {
    /// An item. Items may share blocks of memory: to hold one for a long time, call [`RawObject::detached`].
    Item(RawObject),
    /// The end of the list, and its head. A source other than an API server may leave kind and apiVersion empty; a
    /// reflector rejects a list of another kind than [expected](ListerWatcher::expected_type).
    End(ListHead),
}
