//! The locks and atomics of the smallest concurrent parts, in one place: the model checker substitutes its own (see
//! `tests/loom.rs`).

pub(crate) use std::sync::atomic::AtomicUsize;

pub(crate) use parking_lot::Mutex;
