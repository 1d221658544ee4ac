//! The tests of the library in one program, which builds much faster than one per file. Programs of their own are `packed.rs`, which
//! runs most of these again, and the tests that count allocations or replace the lock.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod core_promises;
mod credentials;
mod debug_output;
mod dynamic;
mod embedded;
mod factory;
mod key;
mod listeners;
mod memory_budget;
mod metrics;
mod namespaces;
mod promises;
mod races;
mod reading;
mod reflector_list;
mod reflector_resume;
mod reflector_versions;
mod reflector_watch;
mod reflector_watch_list;
mod runtime;
mod shaping;
mod shards;
mod source_http;
mod store_and_queues;
mod support;
mod tls;
