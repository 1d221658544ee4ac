//! Where objects come from: how to list and watch one resource.
//!
//! [`ListerWatcher`] is the seam between the network and everything else. A reflector knows nothing of URLs, headers or
//! connections: it asks a source for a list or a watch and reads objects. Sources know nothing of retries or stores: each
//! call is one request, and returns its error unchanged.

mod cluster;
mod connections;
mod credentials;
mod error;
mod functions;
mod json_switch;
pub(crate) mod list_type;
mod list_watch;
mod options;
#[cfg(feature = "http-proxy")]
mod proxy;
mod query;
mod resource;
mod response;
#[cfg(feature = "rustls-tls")]
mod self_signed;
mod server_memory;
#[cfg(feature = "rustls-tls")]
mod tls;
mod tracked_body;
mod unpack;

#[cfg(any(test, feature = "testing"))]
pub use cluster::STREAMS_PER_CONNECTION;
pub use cluster::{Cluster, ClusterConfig, IsList, Pings};
pub use error::SourceError;
pub use functions::FunctionSource;
pub use json_switch::JsonSwitch;
pub(crate) use list_watch::ServerIsNewer;
pub use list_watch::{EncodingPreference, ListWatch};
pub use options::{ListOptions, VersionMatch, WatchOptions};
pub use resource::{InvalidPathSegment, Resource};
pub use server_memory::ServerMemory;
pub use unpack::Compression;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use kube_wire::{ListHead, RawObject, TypeMeta, WatchEvent};

/// Something that can list and watch one resource in one scope (all namespaces, or one).
///
/// Used as `Arc<dyn ListerWatcher>`.
pub trait ListerWatcher: Send + Sync + 'static {
    /// Lists one page, or everything if `options` has no limit. The future is done when the server has answered with a
    /// list; its items come as they are received.
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ListStream, SourceError>>;

    /// Begins a watch. The future is done when the server has accepted it.
    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<WatchStream, SourceError>>;

    /// The type of the objects, where it is known: events of another kind are then refused.
    fn expected_type(&self) -> Option<TypeMeta> {
        None
    }

    /// Done when what was listed before should be listed anew, because the source would now give it differently. A
    /// reflector asks while it watches; most sources never want that.
    fn outdated(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }

    /// A watch-list of this source did not end. Sources of the same server need not try for a while
    /// ([`WatchOptions::initial_events_optional`]).
    fn watch_list_is_broken(&self) {}

    /// The switch by which a decoder that meets a protobuf field it does not know makes this source deliver JSON. Without
    /// one, such objects cannot be decoded. A source around another one forwards this and
    /// [`outdated`](Self::outdated).
    fn json_switch(&self) -> Option<JsonSwitch> {
        None
    }

    /// The resource that is listed and watched, where that is known: metrics name it. A source around another one forwards
    /// this.
    fn resource(&self) -> Option<Resource> {
        None
    }

    /// What is listed and watched, for messages: `pods in namespace web with labels tier=backend`.
    fn describe(&self) -> String;
}

/// The body of a list: items, then the end. An error about one item ([`SourceError::is_about_one_object`]) does not end
/// it; any other does.
pub type ListStream = BoxStream<'static, Result<ListPart, SourceError>>;

/// The events of a watch. An error about one event ([`SourceError::is_about_one_object`]) does not end it; any other
/// does. Its end without an error is a normal close.
pub type WatchStream = BoxStream<'static, Result<WatchEvent, SourceError>>;

/// A part of a list.
#[derive(Debug)]
pub enum ListPart {
    /// An item. Items may share blocks of memory: who holds one for long holds what [`RawObject::detached`] gives.
    Item(RawObject),
    /// The list is complete: what it says of itself. A source that is not an API server may leave kind and apiVersion
    /// empty; a reflector refuses a list that names another kind than [expected](ListerWatcher::expected_type).
    End(ListHead),
}
