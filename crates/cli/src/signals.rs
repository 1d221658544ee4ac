//! Ctrl-C and SIGTERM. The program's exit code depends on which of them arrived.

pub(crate) use kube_informer_controller::{Signal, Signals};

use crate::failure::Failure;

/// Listens from now on; the signals no longer kill the program.
pub(crate) fn listen() -> Result<Signals, Failure> {
    Signals::listen().map_err(|error| Failure::other("cannot listen for signals", &error))
}

/// The exit code of a command that the signal cut short: 128 and the number of the signal, as in a shell.
pub(crate) fn exit_code(signal: Signal) -> u8 {
    match signal {
        Signal::Terminate => 143,
        _ => 130,
    }
}
