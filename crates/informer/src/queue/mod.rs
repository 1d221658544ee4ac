//! The queues between the reflector and the store: deltas, in order, bounded.
//!
//! A reflector writes to a [`Sink`]. [`Fifo`] keeps strict order and is what informers use; [`DeltaFifo`] collects deltas
//! per key, like client-go's, for consumers that want a key's history together. Both apply back-pressure: when a queue is
//! full, its writer waits, and so does the socket behind it.
//!
//! A queue knows neither the store nor the listeners. Its reader applies the deltas and marks them as done. The building
//! blocks for client-go users are `Sink`, `Replace`, `Committed`, `Newest`, `SinkError`, `Delta`, `KnownObjects`,
//! `DeltaFifo` with `Popped`, and `Fifo` with `DeltaBatch`.

mod delta_fifo;
mod fifo;
mod key_deltas;
mod sink;
mod topic;
mod transform;

pub use delta_fifo::{DeltaFifo, DeltaFifoConfig, DeltaReplace, KnownObjects, Popped};
pub use fifo::{DeltaBatch, Fifo, FifoConfig};
pub use sink::{Committed, Newest, Replace, Sink, SinkError};
pub(crate) use transform::{Transform, TransformSink};

pub use crate::scope::Scope;
