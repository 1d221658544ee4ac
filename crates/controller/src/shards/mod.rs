//! Replicas that divide the objects of a kind among themselves.
//!
//! The hashes of all objects are divided into slots ([`Shard`](kube_informer::Shard)), and each slot has one owner.
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

pub use assignment::{Replica, assign};
