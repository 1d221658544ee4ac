//! Objects by key, with indexes, readable as of one moment.
//!
//! [`Store`] has one writer and many readers. Objects *and* indexes are under one root that readers take as a whole: a
//! [`Snapshot`] is one moment, costs a reference count, and does not block the writer. Objects are held as bytes
//! ([`StoredObject`]); indexes read values from them.
//!
//! [`Store::apply`] (`apply.rs`) compares deltas with the stored objects, commits the differences (`commit.rs`) and returns
//! the [`Change`]s. A complete list is compared with the store as it arrives ([`Replacement`], `replace.rs`), and applied
//! as one delta. Packing and other maintenance happen alongside writes (`maintenance.rs`).

mod apply;
mod change;
mod commit;
mod index;
mod index_plan;
mod index_values;
mod indexer;
mod maintenance;
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
pub use replace::Replacement;
pub use snapshot::{Objects, Snapshot};
pub(crate) use store::Definition;
pub use store::{Store, StoreConfig, StoreStats};
pub use wait::ServerReset;

use crate::object::StoredObject;
