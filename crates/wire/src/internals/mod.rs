//! Internals exposed to the embedded server, benchmarks and fuzz targets. Not covered by semantic versioning.

#[cfg(feature = "internals")]
mod benchmark;

#[cfg(feature = "internals")]
pub use benchmark::{ProtobufPlan, copy, copy_and_head, find_end, walk};

/// Serde from protobuf.
pub mod de {
    pub use crate::de::{Deserializer, UnknownFields, from_slice};
}

/// The envelope of protobuf objects.
pub mod envelope {
    pub use crate::envelope::{Envelope, MAGIC};
}

/// Validation of names, in the wording of a kube-apiserver.
pub mod names {
    pub use crate::names::{dns_1035_label, dns_label, dns_subdomain, label_key, label_value};
}

/// Reading and writing the fields of protobuf messages.
pub mod proto {
    pub use crate::proto::{Reader, Tag, WireType, Writer, varint_len};
}

/// Serde to protobuf.
pub mod ser {
    pub use crate::ser::{ObjectType, Serializer, to_vec};
}
