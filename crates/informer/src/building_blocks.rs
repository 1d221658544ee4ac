//! The pieces an informer is made of, for programs that put them together themselves. Readers who know client-go's
//! `tools/cache` find its parts here under their names.
//!
//! Objects move one way: a [`ListerWatcher`] lists and watches, a [`Reflector`] follows it and writes to a [`Sink`], the queue's
//! reader takes deltas and writes to a [`Store`]. The example `reflector_to_indexer` runs all of them together.
//!
//! # ListerWatcher
//!
//! Lists and watches one resource; each call is one request. [`ListWatch`] sends it to an API server, [`FunctionSource`] calls two
//! functions.
//!
//! ```
//! use futures::{StreamExt, stream};
//! use kube_informer::building_blocks::{FunctionSource, ListOptions, ListPart, ListerWatcher, kube_wire::ListHead};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut head = ListHead::default();
//! head.resource_version = "7".into();
//! let source = FunctionSource::new(
//!     "nothing",
//!     move |_| { let end = ListPart::End(head.clone()); async { Ok(stream::iter([Ok(end)]).boxed()) } },
//!     |_| async { Ok(stream::pending().boxed()) },
//! );
//! let mut parts = source.list(ListOptions::default()).await?;
//! assert!(matches!(parts.next().await, Some(Ok(ListPart::End(head))) if head.resource_version == "7"));
//! # Ok(())
//! # }
//! ```
//!
//! # Reflector and DeltaFifo
//!
//! A [`Reflector`] keeps one scope of a sink equal to its source. A [`DeltaFifo`] is a sink that coalesces deltas per key:
//!
//! ```
//! use std::sync::Arc;
//! use kube_informer::Scope;
//! use kube_informer::building_blocks::{Delta, DeltaFifo, DeltaFifoConfig, Reflector, ReflectorConfig};
//! use kube_informer::testing::ScriptedSource;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ScriptedSource::new("v1", "Pod");
//! server.put(json!({"metadata": {"namespace": "web", "name": "api"}}));
//!
//! let queue = Arc::new(DeltaFifo::new(DeltaFifoConfig::default()));
//! let reflector =
//!     Reflector::new(Arc::new(server), queue.clone(), Scope::default(), ReflectorConfig::default());
//! let reflecting = tokio::spawn(reflector.run());
//!
//! let popped = queue.pop().await.ok_or("the queue is open")?;
//! assert_eq!(popped.key().to_string(), "web/api");
//! assert!(matches!(popped.deltas()[0], Delta::Replaced(_)));
//! popped.done();
//! reflecting.abort();
//! # Ok(())
//! # }
//! ```
//!
//! # Fifo
//!
//! The queue that informers use: deltas in strict order, in batches. A [`StoreSink`] writes to it, for a reflector or for anything
//! else; its reader applies the deltas to the [`Store`], which returns the changes.
//!
//! ```
//! use std::sync::Arc;
//! use kube_informer::Scope;
//! use kube_informer::building_blocks::{Change, Fifo, FifoConfig, Sink, Store, StoreSink};
//! # use kube_informer::testing::ScriptedSource;
//! # use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pod = ScriptedSource::new("v1", "Pod").object(&json!({"metadata": {"name": "api", "resourceVersion": "7"}}));
//! let (queue, store) = (Fifo::new(FifoConfig::default()), Arc::new(Store::default()));
//! StoreSink::new(queue.clone(), store.clone()).add(Scope::default(), pod).await?;
//!
//! let deltas = queue.take().await.ok_or("the queue is closed")?;
//! let changes = store.apply(deltas.deltas());
//! assert!(matches!(changes.changes(), [Change::Added { object, .. }] if object.name() == "api"));
//! deltas.done();
//! # Ok(())
//! # }
//! ```
//!
//! # Store, Snapshot and Indexer
//!
//! A [`Store`] holds objects by key, with indexes. A [`Snapshot`] is one moment of it. An [`Indexer`] is the same store behind the
//! methods of client-go's `Indexer`:
//!
//! ```
//! use std::sync::Arc;
//! use kube_informer::{Index, Scope};
//! use kube_informer::building_blocks::{Indexer, Store, StoreConfig, StoredObject};
//! # use kube_informer::testing::ScriptedSource;
//! # use serde_json::json;
//!
//! # let pod = json!({"metadata": {"namespace": "web", "name": "api", "resourceVersion": "7"}, "spec": {"nodeName": "node-7"}});
//! # let pod = ScriptedSource::new("v1", "Pod").object(&pod);
//! let by_node = Index::field("node", "spec.nodeName");
//! let store = Arc::new(Store::new(StoreConfig::default().index(by_node.clone()))?);
//! let indexer = Indexer::new(store.clone());
//! let pod = StoredObject::new(Scope::default(), pod)?;
//! indexer.add(&pod);
//!
//! let moment = store.snapshot();
//! indexer.delete(&pod);
//! assert_eq!(moment.len(), 1, "a snapshot does not change");
//! assert!(indexer.by_index(&by_node, "node-7")?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Objects as bytes, and everything read from them without decoding, are this crate's types.
pub use kube_wire;

pub use crate::delta::Delta;
pub use crate::informer::Filtered;
pub use crate::informer::StoreReplace;
pub use crate::informer::StoreSink;
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
pub use crate::reflector::ErrorReport;
pub use crate::reflector::LastVersion;
pub use crate::reflector::NextStep;
pub use crate::reflector::Reflector;
pub use crate::reflector::ReflectorConfig;
pub use crate::reflector::ReflectorError;
pub use crate::reflector::ReflectorState;
pub use crate::reflector::ReflectorStatus;
pub use crate::source::FunctionSource;
pub use crate::source::IsList;
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
pub use crate::store::Indexer;
pub use crate::store::Packing;
pub use crate::store::Replacement;
pub use crate::store::ServerReset;
pub use crate::store::Snapshot;
pub use crate::store::Store;
pub use crate::store::StoreConfig;
pub use crate::store::StoreStats;
pub use crate::store::StoredObject;
pub use crate::store::UnnamedObject;
pub use crate::version::compare_resource_versions;
