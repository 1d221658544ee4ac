//! Runs every test of the store, the queues and the informers again, with every object packed from the first on and a new
//! dictionary every few objects: results must be identical.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod core_promises;
mod dynamic;
mod embedded;
mod factory;
mod listeners;
mod namespaces;
mod promises;
mod races;
mod reading;
mod shaping;
mod shards;
mod store_and_queues;
mod support;
