//! The schema table: what protobuf alone does not say.
//!
//! A protobuf message carries field *numbers*; JSON carries names, and Go decides with `omitempty` which of them
//! appear. To read one as the other, somebody has to know, for each message and field number, the JSON name, the type,
//! whether the Go field is a pointer and when it is left out; and for patches and server-side apply how lists merge.
//! The table holds that for every kind built into the supported releases of Kubernetes: a kind or field that a later release
//! dropped is still there, because servers of the earlier one still send it. It is made by reflection over the Go types
//! (`cargo xtask schema`), committed as text so that a new Kubernetes version shows as a diff, and parsed a message at a
//! time when first asked for: a program that watches pods never pays for the other hundred and eighty kinds.
//!
//! # What it costs
//!
//! Measured in a release build on a small two-core machine: the first use of the table finds where its messages
//! stand, in 0.6 ms and 150 kB; the message `Pod` is then parsed in 5 µs, and all the 137 that a pod can be made of in
//! 0.2 ms and 190 kB. After that a kind is looked up in 0.2 µs (so look it up once for many objects), a field by its
//! JSON name in 0.1 µs and by its number in one step.
//!
//! # Example
//!
//! ```
//! use kube_wire::schema::Schema;
//!
//! let schema = Schema::builtin();
//! let pod = schema.kind("v1", "Pod").expect("pods are built in");
//! let spec = pod.field_named("spec").expect("pods have a spec").ty.message(schema).expect("which is a message");
//! assert_eq!(spec.name, "k8s.io.api.core.v1.PodSpec");
//! assert_eq!(spec.field(10).map(|field| field.name), Some("nodeName"));
//! ```

mod model;
mod parse;

use std::sync::{LazyLock, OnceLock};

pub use model::{
    Apply, Cardinality, Field, Kind, ListType, MapType, Message, Patch, PatchStrategy, Scalar, Shape, Type,
};

static BUILTIN: LazyLock<Schema> =
    LazyLock::new(|| Schema::index(include_str!("../../schema/kubernetes.txt")));

/// The table of all built-in kinds.
#[derive(Debug)]
pub struct Schema {
    version: &'static str,
    /// Sorted by apiVersion, then kind.
    kinds: Box<[Kind]>,
    /// Sorted by name.
    messages: Box<[Entry]>,
}

/// A message's lines in the table, and what they say once somebody has asked.
#[derive(Debug)]
struct Entry {
    name: &'static str,
    /// What follows the name on the first line.
    traits: &'static str,
    /// The lines of the fields.
    fields: &'static str,
    parsed: OnceLock<Message>,
}

impl Schema {
    /// The table that comes with this crate.
    pub fn builtin() -> &'static Schema {
        &BUILTIN
    }

    /// The newest Kubernetes version in the table, e.g. `1.37.1`.
    pub fn kubernetes_version(&self) -> &'static str {
        self.version
    }

    /// The message of a kind: `schema.kind("apps/v1", "Deployment")`. Lists (`PodList`) are kinds too, and so are
    /// `DeleteOptions`, `WatchEvent` and their like, which exist under every apiVersion.
    pub fn kind(&'static self, api_version: &str, kind: &str) -> Option<&'static Message> {
        let find =
            |api_version| self.kinds.binary_search_by_key(&(api_version, kind), |k| (k.api_version, k.kind));
        let at = find(api_version).or_else(|_| find(Kind::ANY_VERSION)).ok()?;
        Some(self.message_at(self.kinds[at].place))
    }

    /// All kinds, sorted by apiVersion and kind; those that exist under every apiVersion once, as [`Kind::ANY_VERSION`].
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = &Kind> {
        self.kinds.iter()
    }

    /// A message by its protobuf name: `k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta`.
    pub fn message(&'static self, name: &str) -> Option<&'static Message> {
        let at = self.messages.binary_search_by_key(&name, |entry| entry.name).ok()?;
        Some(self.messages[at].parsed(self))
    }

    /// A message by its place, as [`Scalar::Message`] names it.
    ///
    /// # Panics
    ///
    /// If `at` is not a place in the table; those of a [`Scalar::Message`] read from it always are.
    #[inline]
    pub fn message_at(&'static self, at: u16) -> &'static Message {
        self.messages[usize::from(at)].parsed(self)
    }

    /// All messages, sorted by name. Going through them parses the whole table.
    pub fn messages(&'static self) -> impl ExactSizeIterator<Item = &'static Message> {
        self.messages.iter().map(move |entry| entry.parsed(self))
    }
}

// === impl Entry ===

impl Entry {
    #[inline]
    fn parsed(&'static self, schema: &'static Schema) -> &'static Message {
        self.parsed.get_or_init(|| schema.parse(self))
    }
}

#[cfg(test)]
mod tests;
