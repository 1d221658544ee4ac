//! The parts of an informer, for programs that assemble them themselves. They have the names of client-go's `tools/cache`.
//! Available with the feature `building-blocks`. This module may change faster than the root of the crate.
//!
//! Objects move one way: a [`ListerWatcher`] lists and watches, a [`Reflector`] follows it and writes to a [`Sink`], the queue's
//! reader takes deltas and applies them to a [`Store`]. The documentation of each part in the table has an example that uses it alone
//! (for [`FunctionSource`], that of [`ListerWatcher`]); the example `reflector_to_indexer` connects a source, a [`Reflector`], a
//! [`DeltaFifo`] and an [`Indexer`]. The other types are what the parts exchange, their options and their errors.
//!
//! | part | client-go |
//! |---|---|
//! | [`ListerWatcher`]: [`ListWatch`] over an API server, [`FunctionSource`] over two functions | `ListerWatcher`, `ListWatch` |
//! | [`Reflector`] | `Reflector` |
//! | [`Sink`]: what a reflector writes to | `ReflectorStore` |
//! | [`DeltaFifo`]: deltas per key | `DeltaFIFO` |
//! | [`Fifo`] with [`StoreSink`]: deltas in strict order, which informers use | `RealFIFO` |
//! | [`Store`]: objects by key, with indexes; [`Snapshot`]: one moment of it | `ThreadSafeStore` |
//! | [`Indexer`]: the store behind client-go's methods | `Indexer`, `Store` |
//! | [`Filtered`]: a handler for the objects that pass a test | `FilteringResourceEventHandler` |

pub use crate::budget::OverBudget;
pub use crate::delta::Delta;
pub use crate::informer::Filtered;
pub use crate::informer::StoreReplace;
pub use crate::informer::StoreSink;
pub use crate::memory::Packing;
pub use crate::queue::Committed;
pub use crate::queue::DeltaBatch;
pub use crate::queue::DeltaFifo;
pub use crate::queue::DeltaFifoConfig;
pub use crate::queue::DeltaReplace;
pub use crate::queue::Fifo;
pub use crate::queue::FifoConfig;
pub use crate::queue::KnownObjects;
pub use crate::queue::Newest;
pub use crate::queue::Popped;
pub use crate::queue::Replace;
pub use crate::queue::Sink;
pub use crate::queue::SinkError;
pub use crate::reflector::BackoffConfig;
pub use crate::reflector::LastVersion;
pub use crate::reflector::NextStep;
pub use crate::reflector::Reflector;
pub use crate::reflector::ReflectorConfig;
pub use crate::reflector::ReflectorError;
pub use crate::reflector::ReflectorState;
pub use crate::reflector::ReflectorStatus;
pub use crate::source::FunctionSource;
pub use crate::source::IsList;
#[doc(hidden)]
pub use crate::source::JsonSwitch;
pub use crate::source::ListOptions;
pub use crate::source::ListPart;
pub use crate::source::ListStream;
pub use crate::source::ListWatch;
pub use crate::source::ListerWatcher;
pub use crate::source::Resource;
pub use crate::source::SourceError;
pub use crate::source::VersionMatch;
pub use crate::source::WatchOptions;
pub use crate::source::WatchStream;
pub use crate::store::Change;
pub use crate::store::ChangeBatch;
pub use crate::store::FullList;
pub use crate::store::IndexFailure;
pub use crate::store::Indexer;
pub use crate::store::Objects;
pub use crate::store::Replacement;
pub use crate::store::Snapshot;
pub use crate::store::Store;
pub use crate::store::StoreConfig;
pub use crate::store::StoreStats;
pub use crate::version::compare_resource_versions;
