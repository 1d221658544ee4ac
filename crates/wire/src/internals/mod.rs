//! What the embedded server, benchmarks and fuzz targets reach into. Not part of the crate's promises.

#[cfg(feature = "internals")]
mod benchmark;

#[cfg(feature = "internals")]
pub use benchmark::{ProtobufPlan, copy, copy_and_head, find_end, walk};

/// Serde from protobuf.
pub mod de {
    pub use crate::de::{Deserializer, UnknownFields, from_slice};
}

/// The envelope that every object in protobuf has.
pub mod envelope {
    pub use crate::envelope::{Envelope, MAGIC};
}

/// What is wrong with a name, in the words of a kube-apiserver.
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
