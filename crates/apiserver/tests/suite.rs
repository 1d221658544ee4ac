//! All tests of the embedded server in one program, which builds much faster than one per file. `memory.rs` is a program of its
//! own, because it counts the allocations of the process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod against_captures;
mod breaks;
mod concurrent_model;
mod concurrent_writes;
mod connections;
mod custom_resources;
mod debug_output;
mod faults;
mod feed;
mod hostile;
mod hostile_bodies;
mod hostile_connections;
mod hostile_numbers;
mod hostile_objects;
mod kube_api;
mod kube_runtime;
mod lifecycle;
mod manifests;
#[path = "support/replay.rs"]
mod replay;
mod shards;
mod single_writes;
mod support;
mod tokens;
mod unsupported;
mod watch_model;
mod writes;
