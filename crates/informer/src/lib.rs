//! A live, local mirror of Kubernetes objects.
//!
//! An [`Informer`] lists and watches one resource, keeps it in an indexed store, and notifies its listeners of every
//! change:
//!
//! ```no_run
//! use futures::StreamExt;
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_informer::{Cluster, Event, Informer};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let pods = Informer::<Pod>::builder(Cluster::infer().await?).labels("tier=backend").start()?;
//! pods.synced().await?;
//! println!("{} pods", pods.lister().count());
//! let mut events = pods.subscribe();
//! while let Some(event) = events.next().await {
//!     if let Event::Updated { old, new, .. } = event {
//!         println!("{}: generation {} → {}", new.key(), old.generation(), new.generation());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Most programs need only the root of this crate. The parts of an informer (`Reflector`, `DeltaFifo`, `Store` and others,
//! named as in client-go) can be used separately: see [`building_blocks`], with the feature of that name.
//!
//! A typed value is created when [`Object::decode`] is called. Keys, labels, owners, generations and fields that an [`Index`]
//! reads need no decoding.
//!
//! # Features
//!
//! `rustls-tls` (with `ring` or `aws-lc-rs`) or `openssl-tls` selects TLS. `http-proxy`, `socks5`, `oidc` and `oauth` are
//! passed on to kube. `metrics` enables `InformerMetrics`, `kube-runtime` enables the module `runtime`, `shards` enables
//! informers over a part of the objects, `building-blocks` enables the parts of an informer, and `testing` enables those and
//! the scripted source in the module `testing`. The application selects the version feature of `k8s-openapi`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(feature = "building-blocks", feature = "shards")),
    allow(dead_code, reason = "informers use a part of the building blocks, and of shards")
)]

#[macro_use]
mod deliberate_bug;

mod budget;
#[cfg(feature = "building-blocks")]
pub mod building_blocks;
// Documentation links to it.
#[cfg(not(feature = "building-blocks"))]
#[allow(unused_imports)]
mod building_blocks;
mod deadline;
mod delta;
mod hashes;
mod informer;
#[doc(hidden)]
pub mod internals;
mod key;
mod lister;
mod memory;
#[cfg(feature = "metrics")]
mod metrics;
mod object;
mod packing;
mod panic;
mod process;
mod queue;
mod reflector;
#[cfg(feature = "kube-runtime")]
pub mod runtime;
mod scope;
mod shard;
mod source;
mod store;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod version;
mod waiters;

// Types of these crates appear in public signatures. Use these re-exports to get the matching versions.
pub use k8s_openapi;
pub use kube_client;
pub use kube_core;
pub use kube_wire;

pub use informer::DecodeError;
pub use informer::Event;
pub use informer::EventHandler;
pub use informer::HandlerHandle;
pub use informer::Informer;
pub use informer::InformerBuilder;
pub use informer::InformerFactory;
pub use informer::InformerState;
#[doc(hidden)]
pub use informer::LabelQuery;
pub use informer::ListenerConfig;
pub use informer::NotSynced;
pub use informer::Object;
pub use informer::ScopeStatus;
pub use informer::Selectors;
pub use informer::StartError;
pub use informer::Stopped;
pub use informer::Subscription;
pub use informer::SyncError;
pub use informer::WaitError;
pub use key::InvalidKey;
pub use key::Key;
pub use lister::Lister;
pub use lister::View;
pub use memory::Memory;
#[cfg(feature = "metrics")]
pub use metrics::InformerMetrics;
pub use object::StoredObject;
#[doc(hidden)]
pub use panic::panic_text;
pub use reflector::ErrorReport;
pub use reflector::WatchError;
#[cfg(feature = "building-blocks")]
pub use reflector::WatchList;
#[cfg(feature = "building-blocks")]
pub use scope::Scope;
#[cfg(feature = "shards")]
pub use shard::AssignedShard;
#[cfg(feature = "shards")]
pub use shard::InvalidShard;
#[cfg(feature = "shards")]
pub use shard::Shard;
pub use source::Cluster;
pub use source::ClusterConfig;
#[cfg(feature = "building-blocks")]
pub use source::EncodingPreference;
pub use source::InvalidPathSegment;
pub use store::Index;
pub use store::IndexError;
pub use store::Origin;
pub use store::ServerReset;
