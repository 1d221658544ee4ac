//! Stopping in two steps: first no new work is begun and what runs may finish, then it may not.

use tokio_util::sync::CancellationToken;

/// Tells a controller, or all of a [`Manager`](crate::Manager)'s, to stop. A handle: clones share one.
///
/// Told once, no new reconcile begins and those that run may finish within the grace period; told twice, they are cut
/// short.
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
    /// May be dropped at any point; signals are heard no longer then.
    #[cfg(feature = "signal")]
    pub async fn on_signals(&self) -> std::io::Error {
        let mut signals = match Signals::new() {
            Ok(signals) => signals,
            Err(error) => return error,
        };
        loop {
            if let Err(error) = signals.next().await {
                return error;
            }
            tracing::info!(again = self.is_stopping(), "told to stop by a signal");
            self.stop();
        }
    }
}

/// Registered once, so that no signal between two is missed.
#[cfg(all(feature = "signal", unix))]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(all(feature = "signal", unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> std::io::Result<()> {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        Ok(())
    }
}

#[cfg(all(feature = "signal", not(unix)))]
struct Signals;

#[cfg(all(feature = "signal", not(unix)))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> std::io::Result<()> {
        tokio::signal::ctrl_c().await
    }
}
