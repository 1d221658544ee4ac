//! Stopping in two steps: the first lets running work finish, the second cancels it.

use tokio_util::sync::CancellationToken;

/// Stops a controller, or all controllers of a [`Manager`](crate::Manager). Clones share one state.
///
/// After the first stop no new reconcile starts, and running ones can finish within the grace period; the second stop cancels
/// them. A `Stop` converts from and into a [`CancellationToken`]:
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
    /// Creates a handle that is not stopped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests a stop. The second call cancels running reconciles.
    pub fn stop(&self) {
        if self.drain.is_cancelled() {
            self.abort.cancel();
        }
        self.drain.cancel();
    }

    /// Begins to stop, like the first `stop`; has no effect after it.
    pub(crate) fn drain(&self) {
        self.drain.cancel();
    }

    /// A handle that is stopped with this one. Stopping it does not stop this one.
    pub(crate) fn child(&self) -> Self {
        Self { drain: self.drain.child_token(), abort: self.abort.child_token() }
    }

    /// Whether a stop was requested.
    pub fn is_stopping(&self) -> bool {
        self.drain.is_cancelled()
    }

    /// Waits until a stop is requested.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn stopping(&self) {
        self.drain.cancelled().await;
    }

    /// Waits until a stop is requested for the second time.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn aborting(&self) {
        self.abort.cancelled().await;
    }

    /// Stops on SIGINT and SIGTERM (on systems other than Unix: on Ctrl-C). Completes only with an error, so run it next to the
    /// controller:
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
    /// Can be dropped at any point; signals then no longer stop it.
    #[cfg(feature = "signal")]
    pub async fn on_signals(&self) -> std::io::Error {
        let mut signals = match crate::Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return error,
        };
        loop {
            let signal = signals.next().await;
            tracing::info!(?signal, again = self.is_stopping(), "stopping on a signal");
            self.stop();
        }
    }
}

/// Cancelling the token is the first stop. The second one needs [`Stop::stop`].
impl From<CancellationToken> for Stop {
    fn from(token: CancellationToken) -> Self {
        Self { drain: token, abort: CancellationToken::new() }
    }
}

/// The first [`Stop::stop`] cancels the token, and cancelling the token is the first stop.
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
