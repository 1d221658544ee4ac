//! Ctrl-C and SIGTERM.

pub(crate) use kube_informer_controller::Signals;

use crate::failure::Failure;

/// Listens from now on; the signals no longer kill the program.
pub(crate) fn listen() -> Result<Signals, Failure> {
    Signals::listen().map_err(|error| Failure::other("cannot listen for signals", &error))
}
