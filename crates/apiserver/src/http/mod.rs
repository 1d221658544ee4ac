//! HTTP: maps requests to operations, and their results to responses.

mod accept;
mod access;
mod admin;
mod body;
mod errors;
mod list;
mod meta;
mod path;
mod query;
mod read;
mod respond;
mod service;
mod status;
mod tally;

pub(crate) use accept::{Projection, Representation};
pub(crate) use access::Arrival;
pub use body::ApiBody;
pub use query::WatchListMode;
pub use service::ApiService;
pub(crate) use status::Status;
pub use tally::RequestCount;
pub(crate) use tally::Tally;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
