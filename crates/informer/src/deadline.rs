//! Points in time that may never come: `Duration::MAX` is how many say "never".

use std::time::Duration;

use tokio::time::Instant;

/// When so much time will have passed; `None`: never.
pub(crate) fn after(wait: Duration) -> Option<Instant> {
    Instant::now().checked_add(wait)
}

/// Waits until then.
pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
