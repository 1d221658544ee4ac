//! A live, local mirror of Kubernetes objects, and what is made of its changes.
//!
//! An [`Informer`] lists and watches one resource, keeps it in an indexed store, and tells those who listen:
//!
//! ```no_run
//! use futures::StreamExt;
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_informer::source::Clients;
//! use kube_informer::{Event, Informer};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let pods = Informer::<Pod>::builder(Clients::infer().await?).labels("tier=backend").start()?;
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
//! Inside, an object travels one way, as bytes: a [`source`] gives it, a [`reflector`] follows the source and writes to a
//! [`queue`], whose deltas are applied to a [`store`]; listeners hear of it afterwards. Each of these can be used by itself:
//! `Reflector` → `DeltaFifo` → `Indexer`, as in client-go, is the example `reflector_to_indexer`.
//!
//! The typed value is made when somebody calls [`Object::decode`]. Keys, labels, owners, generations and whatever an
//! [`Index`] reads cost no decoding.
//!
//! # Features
//!
//! `rustls-tls` (with `ring` or `aws-lc-rs`) or `openssl-tls` choose TLS, `http-proxy`, `socks5`, `oidc` and `oauth` are handed
//! on to kube. `metrics` gives `InformerMetrics`, `kube-runtime` keys to and from kube's `ObjectRef`, and `testing` the scripted
//! source of the module `testing`. The application chooses the version feature of `k8s-openapi`.

mod calls;
mod deadline;
mod delta;
mod hashes;
mod informer;
mod key;
mod lister;
#[cfg(feature = "metrics")]
mod metrics;
pub mod queue;
pub mod reflector;
mod scope;
mod selector;
pub mod source;
pub mod store;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod version;
mod waiters;

pub use informer::{
    DecodeError, Event, EventHandler, Filtered, HandlerHandle, Informer, InformerBuilder, InformerFactory,
    InformerState, ListenerConfig, NotSynced, Object, ScopeStatus, Selectors, StartError, Stopped,
    StoreReplace, StoreSink, Subscription, SyncError, Unsynced, WaitError,
};
pub use key::{InvalidKey, Key};
pub use lister::{Lister, View};
#[cfg(feature = "metrics")]
pub use metrics::InformerMetrics;
pub use scope::Scope;
pub use selector::{FieldSelector, InvalidSelector, LabelSelector};
pub(crate) use store::UnnamedObject;
pub use store::{Index, Memory, Origin, StoredObject};
pub use version::compare_resource_versions;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
