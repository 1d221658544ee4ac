//! Waiting for a change of a queue's state, without missing one.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Waits until `check` gives something. Whoever changes what it looks at calls `changed.notify_waiters()` afterwards.
///
/// # Cancel safety
/// `check` is called between waits only: dropping the future while it waits leaves the state as it is.
pub(super) async fn wait_until<S, T>(
    state: &Mutex<S>,
    changed: &Notify,
    mut check: impl FnMut(&mut S) -> Option<T>,
) -> T {
    // Mostly there is nothing to wait for.
    if let Some(found) = check(&mut state.lock()) {
        return found;
    }
    loop {
        // Listening begins before looking, so that nothing is missed in between.
        let change = changed.notified();
        tokio::pin!(change);
        change.as_mut().enable();
        if let Some(found) = check(&mut state.lock()) {
            return found;
        }
        change.await;
    }
}
