//! A Kubernetes API server in your process.

mod api;
pub mod apply;
mod clock;
mod codec;
mod convert;
pub mod crd;
mod http;
mod objects;
pub mod patch;
mod resources;
mod selector;
mod server;
mod storage;
mod watch;

pub use clock::Clock;
pub use http::{ApiBody, ApiService, WatchListMode};
pub use server::{Builder, Server, StartError};
