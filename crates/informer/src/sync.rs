//! Locks and the like that the smallest concurrent parts are made of, named in one place: the model checker puts its own
//! here (see `tests/loom.rs`).

pub(crate) use std::sync::atomic::AtomicUsize;

pub(crate) use parking_lot::Mutex;
