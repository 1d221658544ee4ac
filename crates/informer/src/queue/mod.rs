//! Between the reflector and the store: deltas, in order, bounded.
//!
//! A reflector writes to a [`Sink`]; two queues implement it. [`Fifo`] keeps strict order and is what informers use;
//! [`DeltaFifo`] gathers deltas per key, as client-go's does, for consumers that want to see a key's history at once.
//! Both push back: when a queue is full, its writer waits, and so does the socket behind it.

mod apply;
mod delta_fifo;
mod deltas;
mod fifo;
mod sink;
mod topic;
mod transform;

pub use apply::Applied;
pub use delta_fifo::{DeltaFifo, DeltaFifoConfig, Popped};
pub use deltas::{DeltaKind, KeyDelta};
pub use fifo::{Batch, Delta, Fifo, FifoConfig};
pub use sink::{Committed, Newest, Replace, Scope, Sink, SinkError};
pub use transform::{Transform, Transformed};
