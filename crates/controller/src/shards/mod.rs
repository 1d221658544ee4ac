//! Replicas that divide the objects of a kind among themselves.
//!
//! The hashes of all objects are divided into slots ([`Shard`](kube_informer::Shard)), and each slot has one owner.
//!
//! A [`ShardedLease`] coordinates any number of replicas through Leases:
//!
//! - A replica takes the lowest free *seat*, a Lease that it renews ([`seat`]). If the holder of a lower one leaves, it waits for that
//!   one ([`group`]). A renewal counts when its cache shows it. The taken seats determine which replica should own which slot
//!   ([`seats`]).
//! - The records of slots share a few other Leases ([`table`]). A record names the slot's owner and term, and is written only when the
//!   slot changes hands ([`steering`]).
//! - A slot changes hands when its owner has released it, or has lost its seat. Its next owner works on it when its caches have what
//!   the last one wrote.
//!
//! [`assign`] computes the owners from the list of replicas. It needs no server, so replicas whose number is fixed (those of a
//! StatefulSet) can use it alone:
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_informer::{Informer, Shard};
//! use kube_informer_controller::shards::{Replica, assign};
//!
//! # fn example(client: kube_client::Client, me: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let replicas = ["operator-0", "operator-1", "operator-2"].map(Replica::new);
//! let owners = assign(&replicas, &[None; Shard::SLOTS as usize]);
//! let mine = (0..).zip(owners).filter(|(_, owner)| *owner == Some(me)).map(|(slot, _)| slot);
//! let pods = Informer::<Pod>::builder(client).shard(Shard::new(mine, Shard::SLOTS)?).start()?;
//! # Ok(()) }
//! ```

mod assignment;
mod group;
mod lease;
mod replica;
mod seat;
mod seats;
mod slots;
mod status;
mod steering;
mod table;

pub use assignment::{Replica, assign};
pub use lease::ShardedLease;
pub(crate) use replica::share;
pub(crate) use slots::{NotAdmitted, SlotPermit, SlotTerm, Slots, WrittenVersions};
#[cfg(feature = "metrics")]
pub use status::ShardMetrics;
pub use status::ShardStatus;
