//! A Kubernetes API server in your process.

mod api;
mod clock;
mod codec;
mod convert;
mod http;
mod objects;
mod resources;
mod selector;
mod server;
mod storage;
mod watch;

pub use clock::Clock;
pub use http::{ApiBody, ApiService, WatchListMode};
pub use server::{Builder, Server, StartError};
