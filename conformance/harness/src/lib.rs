//! A real kube-apiserver and etcd for tests.
//!
//! [`RealServer`] starts the programs that `cargo xtask conformance` builds. Each server has its own temporary
//! directory, certificate authority, users and port, so any number of them run concurrently. A test can inject faults:
//! kill, restart and freeze a server, compact its history, restore a backup. No process outlives the test: a dropped
//! server is killed, and when the test's process dies, its servers see the end of their standard input and exit (see
//! `conformance/leash`).
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
