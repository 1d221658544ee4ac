//! A Kubernetes API server in your process: for tests of controllers and clients, for demos, for trouble on request.
//!
//! It speaks the list/watch protocol of a kube-apiserver 1.37 over HTTP/1.1 and HTTP/2, plain or TLS, in JSON and
//! protobuf, or without any socket as a tower service; it stores what it is sent in memory, and does to it what an API
//! server does: names, uids, generations, conflicts, patches, server-side apply, finalizers, owners, namespaces, custom
//! resources. kubectl, kube-rs and client-go work against it. It starts in milliseconds and is gone when it is dropped.
//!
//! ```
//! # #[cfg(feature = "client")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use embedded_apiserver::{Action, Fault, Match, Server, Verb};
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube_client::Api;
//!
//! let server = Server::start().await?;
//! let maps: Api<ConfigMap> = Api::default_namespaced(server.client()?);
//! let map = serde_json::from_str(r#"{"metadata": {"name": "settings"}, "data": {"colour": "red"}}"#)?;
//! maps.create(&Default::default(), &map).await?;
//!
//! // The next read fails; the one after that does not.
//! server.faults().arm(Fault::new(Action::Html { code: 404 }).on(Match::verb(Verb::Get)).once());
//! assert!(maps.get("settings").await.is_err());
//! assert_eq!(maps.get("settings").await?.data.unwrap_or_default()["colour"], "red");
//! server.shutdown().await;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "client"))]
//! # fn main() {}
//! ```
//!
//! # How it is built
//!
//! | module | knows |
//! |---|---|
//! | `storage` | encoded objects by key, one revision counter, a window of events; synchronous, no I/O, no clock |
//! | `watch` | a cursor into that window as a stream of frames, each encoded once for everybody |
//! | `codec` | values, stored bytes, and what goes over the wire: protobuf for built-in kinds, JSON for the rest |
//! | `resources` | which resources there are, and discovery |
//! | `selector` | label and field selectors |
//! | `objects` | what writes do to objects, and what follows from them |
//! | `apply`, `patch`, `crd` | the logic of server-side apply, patches and custom resources, as pure functions over JSON values |
//! | `http` | requests to calls, calls to answers, errors as `Status` in the words of a kube-apiserver |
//! | `faults` | what goes wrong, for whom, how often |
//! | `server` | sockets, TLS, tasks, clients |
//!
//! Three decisions carry the rest. Objects are kept as **bytes**, with only labels, selectable fields, uid and owners
//! beside them: a million pods fit into memory, and a protobuf answer is the stored bytes in an envelope. Watches keep
//! **no queue**: a cursor reads the shared window, so that a watch costs a few kilobytes and a slow one costs nothing more
//! until it is let go. And everything that is no socket is **synchronous**: a write is complete, with all that follows
//! from it, when it is answered, and with a [`Clock`] and a [seed](Builder::seed) a run repeats itself.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
mod apply;
mod clock;
mod codec;
mod convert;
mod crd;
mod faults;
mod http;
#[doc(hidden)]
pub mod internals;
mod objects;
mod patch;
mod resources;
mod selector;
mod server;
mod storage;
mod watch;

pub use clock::Clock;
pub use faults::{Action, ArmedFault, Fault, FaultId, Faults, Match, Schedule, Verb};
pub use http::{ApiBody, ApiService, WatchListMode};
pub use objects::Unsupported;
#[cfg(feature = "client")]
pub use server::ClientError;
pub use server::{Backup, Builder, Feed, FeedError, Restart, Server, StartError};
