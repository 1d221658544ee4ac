//! A Kubernetes API server in your process.

mod api;
pub mod apply;
mod clock;
mod codec;
mod convert;
pub mod crd;
mod faults;
mod http;
mod objects;
pub mod patch;
mod resources;
mod selector;
mod server;
mod storage;
mod watch;

pub use clock::Clock;
pub use faults::{Action, Fault, FaultId, Faults, Match, RequestInfo, Schedule, Verb};
pub use http::{ApiBody, ApiService, WatchListMode};
#[cfg(feature = "client")]
pub use server::ClientError;
pub use server::{Backup, Builder, Feed, FeedError, Restart, Server, StartError};
