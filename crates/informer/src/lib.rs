//! A live, local mirror of Kubernetes objects, and what is made of its changes.
//!
//! An [`Informer`] lists and watches one resource, keeps it in an indexed store, and tells those who listen:
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
//! The root of this crate is what most programs need. The pieces an informer is made of (`Reflector`, `DeltaFifo`, `Store` and
//! others, as client-go has them) can be used by themselves: see [`building_blocks`].
//!
//! A typed value is created when [`Object::decode`] is called. Keys, labels, owners, generations and fields that an [`Index`]
//! reads need no decoding.
//!
//! # Features
//!
//! `rustls-tls` (with `ring` or `aws-lc-rs`) or `openssl-tls` choose TLS, `http-proxy`, `socks5`, `oidc` and `oauth` are handed
//! on to kube. `metrics` gives `InformerMetrics`, `kube-runtime` keys to and from kube's `ObjectRef`, and `testing` the scripted
//! source of the module `testing`. The application chooses the version feature of `k8s-openapi`.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod building_blocks;
mod deadline;
mod delta;
mod hashes;
mod informer;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod internals;
mod key;
mod lister;
#[cfg(feature = "metrics")]
mod metrics;
mod panic;
mod queue;
mod reflector;
mod scope;
mod source;
mod store;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod version;
mod waiters;

// Types of these crates are part of signatures here, so a program must use the same versions. Taken from here, they are.
pub use kube_client;
pub use kube_core;

pub use informer::DecodeError;
pub use informer::Event;
pub use informer::EventHandler;
pub use informer::HandlerHandle;
pub use informer::Informer;
pub use informer::InformerBuilder;
pub use informer::InformerFactory;
pub use informer::InformerState;
pub use informer::ListenerConfig;
pub use informer::NotSynced;
pub use informer::Object;
pub use informer::ScopeStatus;
pub use informer::Selectors;
pub use informer::StartError;
pub use informer::Stopped;
pub use informer::Subscription;
pub use informer::SyncError;
pub use informer::Unsynced;
pub use informer::WaitError;
pub use key::InvalidKey;
pub use key::Key;
pub use kube_wire::FieldSelector;
pub use kube_wire::InvalidSelector;
pub use kube_wire::LabelSelector;
pub use lister::Lister;
pub use lister::View;
#[cfg(feature = "metrics")]
pub use metrics::InformerMetrics;
#[doc(hidden)]
pub use panic::panic_text;
pub use reflector::WatchList;
pub use scope::Scope;
pub use source::Cluster;
pub use source::ClusterConfig;
pub use source::Compression;
pub use source::EncodingPreference;
pub use source::Pings;
pub use store::Index;
pub use store::IndexError;
pub use store::Memory;
pub use store::Origin;
pub(crate) use store::{StoredObject, UnnamedObject};
