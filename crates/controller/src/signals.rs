//! Signals that terminate a program.

/// SIGINT and SIGTERM; on systems other than Unix, Ctrl-C. After [`listen`](Self::listen) they no longer kill the process.
#[derive(Debug)]
pub struct Signals {
    /// Registered once, so no signal is missed between two waits.
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// If the system does not allow it.
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

    /// Waits for the next one.
    ///
    /// # Errors
    /// If the system no longer delivers signals.
    ///
    /// # Cancel safety
    /// May be dropped at any point; no signal is lost.
    pub async fn next(&mut self) -> std::io::Result<()> {
        #[cfg(unix)]
        {
            tokio::select! {
                biased;
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
            }
            Ok(())
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await
    }
}
