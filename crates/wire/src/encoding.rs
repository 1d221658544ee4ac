//! The two supported encodings of the Kubernetes API, and their media types.

use std::fmt;

/// How an object's bytes are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// JSON text.
    Json,
    /// Kubernetes protobuf.
    Protobuf,
}

impl Encoding {
    /// The encoding of a `Content-Type` header, with any parameters; `None` for anything else (plain text, HTML, CBOR,
    /// YAML).
    ///
    /// ```
    /// use kube_wire::Encoding;
    /// assert_eq!(Encoding::from_content_type("application/json"), Some(Encoding::Json));
    /// assert_eq!(
    ///     Encoding::from_content_type("application/vnd.kubernetes.protobuf;stream=watch"),
    ///     Some(Encoding::Protobuf)
    /// );
    /// assert_eq!(Encoding::from_content_type("text/html"), None);
    /// ```
    pub fn from_content_type(content_type: &str) -> Option<Self> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case(Self::Json.media_type()) {
            Some(Self::Json)
        } else if media_type.eq_ignore_ascii_case(Self::Protobuf.media_type()) {
            Some(Self::Protobuf)
        } else {
            None
        }
    }

    /// The media type, without parameters.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::Protobuf => "protobuf",
        })
    }
}
