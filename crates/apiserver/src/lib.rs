//! A Kubernetes API server in your process: for tests of controllers and clients, for demos, and for fault injection.
//!
//! It speaks the list/watch protocol of a kube-apiserver 1.37 over HTTP/1.1 and HTTP/2, with or without TLS, in JSON
//! and protobuf, or as a tower service without a socket. It stores objects in memory and processes writes like an API
//! server: names, uids, generations, conflicts, patches, server-side apply, finalizers, owners, namespaces, custom
//! resources. kubectl, kube-rs and client-go work against it. It starts in milliseconds and is gone when it is
//! dropped.
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
//! # Architecture
//!
//! | module | knows |
//! |---|---|
//! | `storage` | encoded objects by key, one revision counter, a window of events; synchronous, no I/O, no clock |
//! | `watch` | a cursor into that window as a stream of frames, each encoded once for all watchers |
//! | `codec` | values, stored bytes and wire forms: protobuf for built-in kinds, JSON for the rest |
//! | `resources` | the served resources, and discovery |
//! | `selector` | label and field selectors |
//! | `objects` | the semantics of writes, and their consequences |
//! | `apply`, `patch`, `crd` | the logic of server-side apply, patches and custom resources, as pure functions over JSON values |
//! | `http` | requests and responses, errors as `Status` in the wording of a kube-apiserver |
//! | `faults` | fault injection: what fails, for which requests, how often |
//! | `server` | sockets, TLS, tasks, clients |
//!
//! Three decisions shape the design. Objects are stored as **bytes**, with only labels, selectable fields, uid and
//! owners decoded: a million pods fit into memory, and a protobuf response is the stored bytes in an envelope. Watches
//! have **no queue**: each is a cursor into the shared window, so a watch costs a few kilobytes, and a slow one costs
//! no more until it falls out of the window and ends. Everything except sockets is **synchronous**: a write and all
//! its consequences are complete when it is answered, and with a [`Clock`] and a [seed](Builder::seed) a run is
//! reproducible.
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

/// The client that [`Server::client`] returns is of this version.
#[cfg(feature = "client")]
pub use kube_client;

pub use clock::Clock;
pub use faults::{Action, ArmedFault, Fault, FaultId, Faults, Match, Schedule, Verb};
pub use http::{ApiBody, ApiService, RequestCount, WatchListMode};
pub use objects::Unsupported;
#[cfg(feature = "client")]
pub use server::ClientError;
pub use server::{Backup, Builder, Feed, FeedError, ManifestError, Manifests, Restart, Server, StartError};
