//! The program as its users see it: its standard output, its errors, its exit codes and its behaviour on a terminal, against
//! an embedded API server in the test's own process.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // Tests, and functions that only tests call.

mod answers;
mod demo;
mod encodings;
mod errors;
mod gateway;
mod get;
mod others;
mod serve;
mod support;
mod terminal;
mod watch;
