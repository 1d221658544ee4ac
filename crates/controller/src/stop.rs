//! Stopping in two steps: first no new work is begun and what runs may finish, then it may not.

use tokio_util::sync::CancellationToken;

/// Tells a controller, or all of a [`Manager`](crate::Manager)'s, to stop. A handle: clones share one.
///
/// Stopped once, no new reconcile begins and those that run may finish within the grace period; stopped twice, they are cut
/// short. A program that has a [`CancellationToken`] of its own makes a `Stop` of it, and the other way round:
///
/// ```
/// # use kube_informer_controller::Stop;
/// use tokio_util::sync::CancellationToken;
///
/// let token = CancellationToken::new();
/// let stop = Stop::from(token.clone());
/// token.cancel();
/// assert!(stop.is_stopping());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop {
    drain: CancellationToken,
    abort: CancellationToken,
}

impl Stop {
    /// Not told yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells to stop; a second call tells to stop at once.
    pub fn stop(&self) {
        if self.drain.is_cancelled() {
            self.abort.cancel();
        }
        self.drain.cancel();
    }

    /// Whether it was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.drain.is_cancelled()
    }

    /// Waits until it is told to stop.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn stopping(&self) {
        self.drain.cancelled().await;
    }

    /// Waits until it is told to stop at once.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn aborting(&self) {
        self.abort.cancelled().await;
    }

    /// Stops at SIGINT and SIGTERM (elsewhere: Ctrl-C). It never completes otherwise, so it goes beside what is to be
    /// stopped:
    ///
    /// ```no_run
    /// # async fn example(controller: kube_informer_controller::Controller) -> Result<(), Box<dyn std::error::Error>> {
    /// # use kube_informer_controller::Stop;
    /// let stop = Stop::new();
    /// tokio::select! {
    ///     ended = controller.run(&stop) => ended?,
    ///     error = stop.on_signals() => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// May be dropped at any point; signals no longer stop it then.
    #[cfg(feature = "signal")]
    pub async fn on_signals(&self) -> std::io::Error {
        let mut signals = match crate::Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return error,
        };
        loop {
            if let Err(error) = signals.next().await {
                return error;
            }
            tracing::info!(again = self.is_stopping(), "stopping because of a signal");
            self.stop();
        }
    }
}

/// Cancelling the token stops once. A second step needs [`Stop::stop`].
impl From<CancellationToken> for Stop {
    fn from(token: CancellationToken) -> Self {
        Self { drain: token, abort: CancellationToken::new() }
    }
}

/// The token is cancelled by the first [`Stop::stop`]; cancelling it is the same as that.
impl From<&Stop> for CancellationToken {
    fn from(stop: &Stop) -> Self {
        stop.drain.clone()
    }
}

impl From<Stop> for CancellationToken {
    fn from(stop: Stop) -> Self {
        stop.drain
    }
}
