//! A real kube-apiserver and etcd for tests.
//!
//! [`RealServer`] starts the programs that `cargo xtask conformance` builds, each server in its own throw-away
//! directory with its own certificate authority, users and port, so that any number of them run side by side.
//! It can do to them what befalls servers in real life: die, come back, freeze, forget their history, go back to
//! a backup. Nothing survives the test: a dropped server is killed, and when the test's process itself dies, its
//! servers see their standard input end and exit (see `conformance/leash`).
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kube_informer_conformance::{Programs, RealServer};
//!
//! let mut server = RealServer::builder(Programs::find()?).watch_list(false).start().await?;
//! server.kubectl(&["create", "namespace", "shop"]).await?;
//! let client = server.client().await?; // a `kube_client::Client` of the administrator
//! server.restart().await?;
//! # Ok(())
//! # }
//! ```

mod apiserver;
mod builder;
mod command;
mod credentials;
mod error;
mod etcd;
mod process;
mod programs;
mod proxy;
pub mod raw;
mod server;

pub use builder::Builder;
pub use error::Error;
pub use etcd::Backup;
pub use programs::Programs;
pub use proxy::Proxy;
pub use server::RealServer;
