//! Kubernetes objects as bytes: what a cache needs, without decoding the rest.
//!
//! Most clients decode every object into a large struct when it arrives. This crate keeps the bytes instead, extracts
//! what is needed immediately, and decodes on demand. It performs no I/O: push chunks, get objects.
//!
//! # Wire format
//!
//! An API server sends objects in two kinds of body and in two encodings.
//!
//! A **list** is one body with many items, often hundreds of megabytes. A **watch** is an endless sequence of
//! *frames*, each an event with one object. In JSON, a list is one object that contains an array, and a frame is a
//! line. In protobuf, a frame is a length of four bytes and a `WatchEvent`. Protobuf messages do not name their type,
//! so every object (and every list) has an **envelope**: the bytes `k8s\0` and a message that contains apiVersion,
//! kind and the object.
//!
//! [`WatchDecoder`] and [`ListDecoder`] ([`frame`]) split such bodies into objects, with any chunk sizes, in either
//! encoding, and never hold a whole body.
//!
//! ```
//! use kube_wire::{Encoding, Limits, ListDecoder, ObjectReader, Projection};
//!
//! let body = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
//!     {"metadata":{"namespace":"web","name":"api","labels":{"tier":"backend"},"managedFields":[]},
//!      "spec":{"nodeName":"node-7"}}]}"#;
//! let mut list = ListDecoder::new(Encoding::Json, ObjectReader::new(Projection::default(), Limits::default()));
//! for chunk in body.as_bytes().chunks(10) {
//!     list.push(chunk.to_vec().into());
//!     while let Some(item) = list.next_item() {
//!         let pod = item?;
//!         assert_eq!(pod.head().name(), "api");
//!         assert_eq!(pod.head().labels().get("tier").as_deref(), Some("backend"));
//!         let node = "spec.nodeName".parse::<kube_wire::FieldPath>()?.first(pod.head())?;
//!         assert_eq!(node.unwrap().text().as_deref(), Some("node-7"));
//!     }
//! }
//! assert_eq!(list.finish()?.resource_version, "7");
//! # Ok::<(), kube_wire::Error>(())
//! ```
//!
//! # Heads
//!
//! A cache needs an object's name, uid, resourceVersion, labels and owners, and little else. These are its **head**:
//! [`RawObject::head`]. Reading an object records their positions in the bytes and copies nothing. Finding a pod's
//! head takes less than a microsecond; decoding the pod takes about fifteen.
//!
//! Other fields are read by **field path** ([`path`]): `spec.nodeName`, `status.conditions[?type=Ready].status`, from
//! the bytes of either encoding, with the same result as from the decoded value. A **projection** ([`projection`])
//! drops unneeded fields on arrival; by default `metadata.managedFields`, half of many objects.
//!
//! # Values
//!
//! [`RawObject::decode`] produces any `serde` type: a `k8s_openapi` type, a `DynamicObject`, a `serde_json::Value`.
//! For protobuf it uses a **schema table** ([`schema`]), because protobuf has numbers where JSON has names.
//!
//! # Invalid input
//!
//! Every length from the network is checked against [`Limits`] before memory is allocated for it. An error in one
//! object leaves the others readable (except if [`Error::is_fatal`]) and identifies the object if possible
//! ([`Error::key`]). Every error response of a server, in any form, becomes a [`Status`].
#![cfg_attr(docsrs, feature(doc_cfg))]

mod de;
mod encoding;
mod envelope;
mod error;
pub mod frame;
pub mod head;
#[doc(hidden)]
pub mod internals;
mod json;
mod limits;
mod names;
mod object;
pub mod path;
pub mod projection;
mod proto;
pub mod schema;
mod selector;
mod ser;
pub mod shard;
mod status;
mod text;
mod type_meta;

pub use encoding::Encoding;
pub use error::{Error, Result};
pub use frame::{ListDecoder, ListHead, WatchDecoder, WatchEvent};
pub use head::{Head, Labels, OwnerReference, Owners};
pub use limits::{Limit, Limits};
pub use object::{KeptBytes, ObjectReader, RawObject};
pub use path::FieldPath;
pub use projection::Projection;
pub use selector::{FieldSelector, InvalidSelector, LabelSelector};
pub use status::{Status, StatusCause};
pub use text::time::Timestamp;
pub use type_meta::TypeMeta;
