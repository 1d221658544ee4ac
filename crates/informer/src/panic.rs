//! Catches panics of user functions, so that they do not end the caller.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Calls a function. Returns an error with the panic's message if it panics.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| format!("panicked: {}", panic_text(&*panic)))
}

/// Wakes a reader. A waker belongs to the reader's runtime; if it panics, the other readers are still woken.
pub(crate) fn wake(waker: Waker) {
    if let Err(why) = guarded(|| waker.wake()) {
        tracing::error!(why, "cannot wake a reader: its waker panicked");
    }
}

/// The message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
