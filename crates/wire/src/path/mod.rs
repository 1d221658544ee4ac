//! Field paths: `spec.nodeName`, `metadata.labels['app']`, read from the bytes.
//!
//! An index, a printed column or a wait for a condition needs one field of an object, not the object. A [`FieldPath`]
//! is parsed once, *compiled* once for a kind (names become field numbers in protobuf), and then read from the bytes
//! of either encoding: everything else is skipped, not decoded. The result equals that on the decoded value, including
//! Go's `omitempty`, timestamps, quantities and embedded JSON.
//!
//! | path | selects |
//! |---|---|
//! | `spec.nodeName` | a member |
//! | `metadata.labels['app.kubernetes.io/name']` | a member whose name needs quotes |
//! | `spec.containers[*].image` | the member of every list element |
//! | `spec.containers[0].image` | the member of one element |
//! | `status.conditions[?type=Ready].status` | the member of the elements whose other member has this text |
//!
//! kubectl's JSONPath notation is accepted too: a leading `.` or `$`, braces around the path, dots escaped with a
//! backslash, and `[?(@.type=="Ready")]`. A path always prints in the form shown in the table.
//!
//! Some input that no API server writes is read differently than by a decoder: in JSON, the first occurrence of a
//! repeated name counts; in protobuf, a message that is split into parts is an error.
//!
//! ```
//! use kube_wire::{Encoding, FieldPath};
//!
//! let path: FieldPath = "{.status.conditions[?(@.type==\"Ready\")].status}".parse()?;
//! assert_eq!(path.to_string(), "status.conditions[?type=Ready].status");
//!
//! let pod = br#"{"status":{"conditions":[{"type":"Initialized","status":"True"},{"type":"Ready","status":"False"}]}}"#;
//! let ready = path.compile(None)?.first(pod, Encoding::Json)?;
//! assert_eq!(ready.and_then(|value| value.text()).as_deref(), Some("False"));
//! # Ok::<(), kube_wire::Error>(())
//! ```

mod compile;
mod custom;
mod json;
mod parse;
mod proto;
mod reader;
mod value;
mod wire;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

pub use custom::CustomSchema;
pub use reader::{CompiledPath, PathReader};
pub use value::{FieldValue, Fragment};

/// A path to a field of an object. See the [module](self) for the syntax.
///
/// Cloning is cheap. Paths to the same field are equal, regardless of notation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath {
    segments: Arc<[Segment]>,
}

/// One segment of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Segment {
    /// The member of an object: a field, or a key of a map.
    Member(Box<str>),
    /// Every element of a list.
    Each,
    /// One element of a list, counted from 0.
    At(u32),
    /// The elements that have a member with this text.
    Where(Filter),
}

/// `[?key=text]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Filter {
    pub(crate) key: Box<str>,
    /// Strings are compared as they are, numbers and booleans in printed form.
    pub(crate) text: Box<str>,
}

// === impl FieldPath ===

impl FieldPath {
    /// A path from its segments; there is at least one.
    pub(crate) fn new(segments: impl Into<Arc<[Segment]>>) -> Self {
        Self { segments: segments.into() }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// apiVersion or kind of an object, if the path leads there: they are not in its bytes.
    fn type_member<'a>(&self, api_version: &'a str, kind: &'a str) -> Option<FieldValue<'a>> {
        let [Segment::Member(name)] = self.segments() else { return None };
        let text = match &**name {
            "apiVersion" => api_version,
            "kind" => kind,
            _ => return None,
        };
        Some(FieldValue::String(Cow::Borrowed(text)))
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Member(name) if is_word(name) => {
                    f.write_str(if at == 0 { "" } else { "." })?;
                    f.write_str(name)?;
                }
                Segment::Member(name) => write!(f, "[{}]", Quoted(name))?,
                Segment::Each => f.write_str("[*]")?,
                Segment::At(index) => write!(f, "[{index}]")?,
                Segment::Where(Filter { key, text }) => {
                    write!(f, "[?{}={}]", WordOrQuoted(key), WordOrQuoted(text))?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a name is printed without quotes.
fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

struct WordOrQuoted<'a>(&'a str);

impl fmt::Display for WordOrQuoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_word(self.0) { f.write_str(self.0) } else { Quoted(self.0).fmt(f) }
    }
}

struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'")?;
        for part in self.0.split_inclusive(['\'', '\\']) {
            match part.strip_suffix(['\'', '\\']) {
                Some(before) => write!(f, "{before}\\{}", &part[before.len()..])?,
                None => f.write_str(part)?,
            }
        }
        f.write_str("'")
    }
}
