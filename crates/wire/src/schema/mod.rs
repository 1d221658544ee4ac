//! The schema table: what protobuf alone does not say.
//!
//! A protobuf message carries field *numbers*; JSON carries names, and Go decides with `omitempty` which of them
//! appear. To read one as the other, somebody has to know, for each message and field number, the JSON name, the type,
//! whether the Go field is a pointer and when it is left out; and for patches and server-side apply how lists merge.
//! The table holds that for every kind built into Kubernetes. It is made by reflection over the Go types
//! (`cargo xtask schema`), committed as text so that a new Kubernetes version shows as a diff, and parsed a message at a
//! time when first asked for: a program that watches pods never pays for the other hundred and eighty kinds.

mod model;

pub use model::{
    Apply, Cardinality, Field, ListType, MapType, Message, Patch, PatchStrategy, Scalar, Shape, Type,
};

/// The table of all built-in kinds.
#[derive(Debug)]
pub struct Schema {
    _private: (),
}

impl Schema {
    /// The table that comes with this crate.
    pub fn builtin() -> &'static Schema {
        todo!()
    }

    /// The Kubernetes version the table was made from, e.g. `1.36.3`.
    pub fn kubernetes_version(&self) -> &'static str {
        todo!()
    }

    /// The message of a kind: `schema.kind("apps/v1", "Deployment")`. Lists (`PodList`) are kinds too.
    pub fn kind(&'static self, api_version: &str, kind: &str) -> Option<&'static Message> {
        let _ = (api_version, kind);
        todo!()
    }

    /// A message by its protobuf name: `k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta`.
    pub fn message(&'static self, name: &str) -> Option<&'static Message> {
        let _ = name;
        todo!()
    }

    /// A message by its place, as [`Scalar::Message`] names it.
    pub fn message_at(&'static self, at: u16) -> &'static Message {
        let _ = at;
        todo!()
    }
}
