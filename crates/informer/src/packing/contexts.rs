//! Reusable zstd contexts, with their buffers.
//!
//! A context takes about 100 KB, and longer to create than to use. So a few are kept; excess or oversized ones are freed.
//! No caller waits for one: if all are in use, a new one is created.

use parking_lot::Mutex;
use zstd::zstd_safe::{CCtx, DCtx};

/// How many of each are kept.
const KEPT_MAX: usize = 4;
/// Larger buffers are freed.
const BUFFER_BYTES_MAX: usize = 256 << 10;

/// The free contexts.
#[derive(Default)]
pub(super) struct Contexts {
    packing: Mutex<Vec<Scratch<CCtx<'static>>>>,
    unpacking: Mutex<Vec<Scratch<DCtx<'static>>>>,
}

/// A context, and buffers that are empty between uses.
pub(super) struct Scratch<C> {
    pub(super) context: C,
    /// An object, packed or unpacked.
    pub(super) buffer: Vec<u8>,
    /// Its skeleton, and the bytes of its digits.
    pub(super) skeleton: Vec<u8>,
    pub(super) digits: Vec<u8>,
}

impl Contexts {
    pub(super) fn pack<T>(&self, work: impl FnOnce(&mut Scratch<CCtx<'static>>) -> T) -> T {
        within(&self.packing, CCtx::create, work)
    }

    pub(super) fn unpack<T>(&self, work: impl FnOnce(&mut Scratch<DCtx<'static>>) -> T) -> T {
        within(&self.unpacking, DCtx::create, work)
    }
}

/// Runs `work` with a context. No lock is held, so that the work may need another one.
fn within<C, T>(
    free: &Mutex<Vec<Scratch<C>>>,
    make: fn() -> C,
    work: impl FnOnce(&mut Scratch<C>) -> T,
) -> T {
    let scratch = free.lock().pop();
    let empty = || Scratch { context: make(), buffer: Vec::new(), skeleton: Vec::new(), digits: Vec::new() };
    let mut scratch = scratch.unwrap_or_else(empty);
    let done = work(&mut scratch);
    for buffer in [&mut scratch.buffer, &mut scratch.skeleton, &mut scratch.digits] {
        buffer.clear();
        buffer.shrink_to(BUFFER_BYTES_MAX);
    }
    let mut free = free.lock();
    if free.len() < KEPT_MAX {
        free.push(scratch);
    }
    done
}
