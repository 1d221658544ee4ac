//! Ctrl-C and SIGTERM.

pub(crate) use kube_informer_controller::Signals;

use crate::failure::Failure;

/// Listens from now on; the program no longer dies of them.
pub(crate) fn listen() -> Result<Signals, Failure> {
    Signals::listen().map_err(|error| Failure::other("listening for signals", &error))
}
