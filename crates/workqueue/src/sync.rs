//! The lock. The model checker replaces this file with a lock of its own (see `tests/loom.rs`).

pub(crate) use parking_lot::{Mutex, MutexGuard};
