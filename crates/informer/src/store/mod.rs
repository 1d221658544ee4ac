//! Objects by key, with indexes, readable as of one moment.
//!
//! [`Store`] has one writer and many readers. Objects *and* indexes hang under one root that readers take as a whole: a
//! [`Snapshot`] is one moment, costs a reference count, and the writer does not wait for it. Objects are held as bytes
//! ([`StoredObject`]); indexes read values from them.
//!
//! [`Store::apply`] (`apply.rs`) compares deltas with what is stored, commits what they change (`commit.rs`) and returns the
//! [`Change`]s. A complete list is compared with the store as it arrives ([`Replacement`], `replace.rs`), and applied as one
//! delta. Packing and other upkeep are done alongside writes (`maintenance.rs`).
//!
//! ```
//! use kube_informer::{Index, Scope};
//! use kube_informer::building_blocks::{Delta, Store, StoreConfig, StoredObject};
//! use kube_wire::{Encoding, Limits, ObjectReader, Projection};
//!
//! let by_node = Index::field("node", "spec.nodeName");
//! let store = Store::new(StoreConfig::default().index(by_node.clone()).projection(Projection::default()))?;
//!
//! let pod = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"web","name":"api","uid":"u1",
//!                "resourceVersion":"7"},"spec":{"nodeName":"node-7"}}"#;
//! let pod = ObjectReader::new(Projection::default(), Limits::default()).read(pod, Encoding::Json, None)?;
//! let changes = store.apply(&[Delta::Added(StoredObject::new(Scope::default(), pod)?)]);
//! assert_eq!(changes.changes().len(), 1);
//!
//! let found = store.by_index(&by_node, "node-7")?;
//! assert_eq!(found[0].key().to_string(), "web/api");
//! assert_eq!(store.snapshot().resource_version(Scope::default()), "7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apply;
mod change;
mod commit;
mod index;
mod index_plan;
mod index_values;
mod indexer;
mod maintenance;
mod memory;
mod object;
mod packing;
mod replace;
mod root;
mod snapshot;
#[expect(clippy::module_inception, reason = "the file of the type that the module is named for")]
mod store;
mod table;
mod wait;

pub use change::{Change, ChangeBatch, FullList, Origin};
pub use index::{Index, IndexError, IndexFailure};
pub use indexer::Indexer;
pub use memory::{Memory, Packing};
pub use object::{StoredObject, UnnamedObject};
pub use replace::Replacement;
pub use snapshot::{Objects, Snapshot};
pub use store::{Store, StoreConfig, StoreStats};
pub use wait::ServerReset;
