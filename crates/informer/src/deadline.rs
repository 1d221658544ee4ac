//! Deadlines that may be infinite: `Duration::MAX` means "never".

use std::time::Duration;

use tokio::time::Instant;

/// The instant after `wait`; `None` means never.
pub(crate) fn after(wait: Duration) -> Option<Instant> {
    Instant::now().checked_add(wait)
}

/// Waits until the deadline.
pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
