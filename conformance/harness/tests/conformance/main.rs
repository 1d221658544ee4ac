//! The conformance tests, as one program: one link instead of fifteen, and each helper is used. `lists`, `watches`,
//! `writes` and `shards` check the protocol on the embedded server and, with the feature `real-server`, on a real
//! kube-apiserver too. All other tests need that feature, which `cargo xtask conformance` turns on.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
mod common;

#[cfg(feature = "real-server")]
mod client_go;
#[cfg(feature = "real-server")]
mod differential;
#[cfg(feature = "real-server")]
mod harness;
#[cfg(feature = "real-server")]
mod informer_faults;
#[cfg(feature = "real-server")]
mod informer_load;
#[cfg(feature = "real-server")]
mod informers;
#[cfg(feature = "real-server")]
mod kubectl;
mod lists;
#[cfg(feature = "real-server")]
mod operator;
#[cfg(feature = "real-server")]
mod program;
#[cfg(feature = "real-server")]
mod reflector;
mod shards;
#[cfg(feature = "real-server")]
mod sharing;
#[cfg(feature = "real-server")]
mod streams;
#[cfg(feature = "real-server")]
mod tutorial;
mod watches;
mod writes;
