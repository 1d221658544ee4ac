//! Runs every test of the store, the queues and the informers again, with every object packed from the first on and a new
//! dictionary every few objects: results must be identical.
#![allow(clippy::duplicate_mod, reason = "each includes its own support")]

#[path = "core_promises.rs"]
mod core_promises;
#[path = "dynamic.rs"]
mod dynamic;
#[path = "embedded.rs"]
mod embedded;
#[path = "factory.rs"]
mod factory;
#[path = "listeners.rs"]
mod listeners;
#[path = "namespaces.rs"]
mod namespaces;
#[path = "promises.rs"]
mod promises;
#[path = "races.rs"]
mod races;
#[path = "reading.rs"]
mod reading;
#[path = "shaping.rs"]
mod shaping;
#[path = "shards.rs"]
mod shards;
#[path = "store_and_queues/main.rs"]
mod store_and_queues;
