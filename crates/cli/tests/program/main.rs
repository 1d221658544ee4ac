//! The program as its users see it: its standard output, its errors, its exit codes and its behaviour on a terminal, against
//! an embedded API server in the test's own process.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // Tests, and functions that only tests call.

mod answers;
mod cluster_flags;
mod demo;
mod encodings;
mod errors;
mod gateway;
mod get;
mod get_flags;
mod get_watch;
mod hostile;
mod hostile_clients;
mod others;
mod plugins;
mod raw_server;
mod secrets;
mod serve;
mod signals;
mod support;
mod terminal;
mod top;
mod wait;
mod watch;
mod watch_flags;
mod web;
