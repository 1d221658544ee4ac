//! Signals that terminate a program.

/// A signal that asks the program to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// SIGINT; on systems other than Unix, Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// SIGINT and SIGTERM; on systems other than Unix, Ctrl-C. After [`listen`](Self::listen) they no longer kill the process.
#[derive(Debug)]
pub struct Signals {
    /// Registered once, so that no signal is missed between two calls of `next`.
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Starts to listen.
    ///
    /// # Errors
    /// Returns an error if the system does not allow it.
    pub fn listen() -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
            Ok(Self { interrupt: signal(interrupt)?, terminate: signal(terminate)? })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for the next signal. If the system no longer delivers signals, this never completes.
    ///
    /// # Cancel safety
    /// May be dropped at any point; no signal is lost.
    pub async fn next(&mut self) -> Signal {
        #[cfg(unix)]
        {
            tokio::select! {
                biased;
                _ = self.interrupt.recv() => Signal::Interrupt,
                _ = self.terminate.recv() => Signal::Terminate,
            }
        }
        #[cfg(not(unix))]
        {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
            Signal::Interrupt
        }
    }
}
