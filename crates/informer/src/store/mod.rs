//! Objects by key, with indexes, in one moment at a time.
//!
//! [`Store`] has one writer and many readers. Objects *and* indexes hang under one root that readers take as a whole: a
//! [`Snapshot`] is one moment, costs a reference count, and the writer does not wait for it. Objects are held as bytes
//! ([`StoredObject`]); what an index needs is read from them.
//!
//! A new full state is compared with the known one as it comes in ([`Staging`]), and takes effect as one [`ChangeSet`];
//! what a watch tells is written in batches ([`Store::write`]). Both say what they changed, after the store shows it.
//!
//! ```
//! use kube_informer::queue::Scope;
//! use kube_informer::store::{Index, Store, StoreConfig, StoredObject, Write};
//! use kube_wire::{Encoding, Limits, ObjectReader, Projection};
//!
//! let by_node = Index::field("node", "spec.nodeName");
//! let store = Store::new(StoreConfig::default().index(by_node.clone()).projection(Projection::default()))?;
//!
//! let pod = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"web","name":"api","uid":"u1",
//!                "resourceVersion":"7"},"spec":{"nodeName":"node-7"}}"#;
//! let pod = ObjectReader::new(Projection::default(), Limits::default()).read(pod, Encoding::Json, None)?;
//! store.write([Write::Put(&StoredObject::new(Scope::default(), pod)?)]);
//!
//! let found = store.by_index(&by_node, "node-7")?;
//! assert_eq!(found[0].key().to_string(), "web/api");
//! assert_eq!(store.snapshot().resource_version(Scope::default()), "7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod change;
mod index;
mod indexer;
mod store;
mod memory;
mod object;
mod packing;
mod root;
mod snapshot;
mod replace;
mod table;
mod apply;
mod maintenance;
mod index_values;
mod wait;
mod commit;

pub use change::{Change, ChangeKind, ChangeSet, Origin};
pub use index::{Index, IndexError, IndexTrouble};
pub use indexer::Indexer;
pub use store::{Store, StoreConfig, StoreStats};
pub use memory::{Memory, Packing};
pub use object::{StoredObject, UnnamedObject};
pub use snapshot::{Objects, Snapshot};
pub use replace::Staging;
pub(crate) use table::Hashes;
pub use apply::Write;
pub use wait::WaitError;
