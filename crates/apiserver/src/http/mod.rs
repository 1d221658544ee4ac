//! HTTP: from requests to what they ask for, and from what was done to answers.

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

pub(crate) use accept::{Projection, Representation};
pub(crate) use access::Arrival;
pub use body::ApiBody;
pub use query::WatchListMode;
pub use service::ApiService;
pub(crate) use status::Status;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
