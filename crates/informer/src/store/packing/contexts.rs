//! Room to pack and unpack in, used again and again: zstd's contexts and the buffers around them.
//!
//! A context takes about 100 KB and longer to make than to use. So a few are kept, those that are too many or too large are
//! let go, and nobody waits for one: where none is free, another is made.

use parking_lot::Mutex;
use zstd::zstd_safe::{CCtx, DCtx};

/// How many of each are kept.
const KEPT_MAX: usize = 4;
/// A buffer that has grown beyond this is let go.
const BUFFER_BYTES_MAX: usize = 256 << 10;

/// The rooms that are free.
#[derive(Default)]
pub(super) struct Contexts {
    packing: Mutex<Vec<Room<CCtx<'static>>>>,
    unpacking: Mutex<Vec<Room<DCtx<'static>>>>,
}

/// A context, and buffers that are empty between uses.
pub(super) struct Room<C> {
    pub(super) context: C,
    /// An object, packed or as it was.
    pub(super) buffer: Vec<u8>,
    /// Its skeleton, and the bytes of its digits.
    pub(super) skeleton: Vec<u8>,
    pub(super) digits: Vec<u8>,
}

impl Contexts {
    pub(super) fn pack<T>(&self, work: impl FnOnce(&mut Room<CCtx<'static>>) -> T) -> T {
        within(&self.packing, CCtx::create, work)
    }

    pub(super) fn unpack<T>(&self, work: impl FnOnce(&mut Room<DCtx<'static>>) -> T) -> T {
        within(&self.unpacking, DCtx::create, work)
    }
}

/// Works in a room. No lock is held meanwhile, so that the work may itself need another.
fn within<C, T>(free: &Mutex<Vec<Room<C>>>, make: fn() -> C, work: impl FnOnce(&mut Room<C>) -> T) -> T {
    let room = free.lock().pop();
    let empty = || Room { context: make(), buffer: Vec::new(), skeleton: Vec::new(), digits: Vec::new() };
    let mut room = room.unwrap_or_else(empty);
    let done = work(&mut room);
    for buffer in [&mut room.buffer, &mut room.skeleton, &mut room.digits] {
        buffer.clear();
        buffer.shrink_to(BUFFER_BYTES_MAX);
    }
    let mut free = free.lock();
    if free.len() < KEPT_MAX {
        free.push(room);
    }
    done
}
