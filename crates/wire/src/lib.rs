//! Kubernetes objects as bytes: what a cache needs of them, without decoding what nobody asked for.
//!
//! Most clients turn every object into a large struct the moment it arrives. This crate is for the other way: keep the
//! bytes, find in them what must be known at once, and decode when somebody looks. It does no I/O and knows no state; it is
//! fed chunks and gives objects.
//!
//! # What comes over the wire
//!
//! An API server sends objects in two bodies and two encodings.
//!
//! A **list** is one body with many items, often hundreds of megabytes. A **watch** is an endless row of *frames*, each an
//! event with one object. In JSON a list is one object with an array in it, and a frame is a line. In protobuf a frame is a
//! length of four bytes and a `WatchEvent`; and because protobuf messages do not say what they are, every object (and every
//! list) stands in an **envelope**: the bytes `k8s\0` and a message that names apiVersion and kind and holds the object.
//!
//! [`WatchDecoder`] and [`ListDecoder`] ([`frame`]) take such bodies apart, over any chunking, in either encoding, and never
//! hold one whole.
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
//! A cache has to know an object's name, its uid and resourceVersion, its labels and owners, and little else. That is its
//! **head**: [`RawObject::head`]. Reading an object notes where in the bytes those stand; nothing is copied, and a pod's head
//! is found in less than a microsecond, where decoding the pod takes about fifteen.
//!
//! Anything beyond the head is read by **field path** ([`path`]): `spec.nodeName`, `status.conditions[?type=Ready].status`,
//! from the bytes of either encoding, with the same result as from the decoded value. What nobody will ever read is dropped on
//! arrival by a **projection** ([`projection`]); `metadata.managedFields`, half of many objects, always is.
//!
//! # Values
//!
//! [`RawObject::decode`] makes any `serde` type: a `k8s_openapi` type, a `DynamicObject`, a `serde_json::Value`. For protobuf
//! bytes that takes a **schema table** ([`schema`]), because they carry numbers where JSON carries names.
//!
//! # Bad input
//!
//! Bytes come from a network. Every length is checked against [`Limits`] before memory is set aside for it; an error about one
//! object leaves the others readable ([`Error::is_fatal`] says when it does not) and says which object it was if that can be
//! seen ([`Error::key`]); and a server's refusal, in whatever form it
//! comes, becomes one [`Status`].
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
