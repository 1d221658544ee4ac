//! The lock, named in one place: the model checker puts its own here (see `tests/loom.rs`).

pub(crate) use parking_lot::{Mutex, MutexGuard};
