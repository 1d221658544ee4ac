//! Calls of functions that users hand in: one that panics must not end what called it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Calls it; what it said if it panicked.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| format!("it panicked: {}", panic_text(&*panic)))
}

/// Wakes a reader. Wakers belong to whichever runtime the reader uses: one that panics must not keep others from being woken.
pub(crate) fn wake(waker: Waker) {
    if let Err(why) = guarded(|| waker.wake()) {
        tracing::error!(why, "cannot wake a reader: its waker failed");
    }
}

/// The message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
