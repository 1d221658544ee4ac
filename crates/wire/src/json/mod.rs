//! JSON, scanned rather than parsed.
//!
//! A cache never reads most of an object's text: it is skipped, copied, or searched for one field. Therefore nothing
//! here builds a tree. [`Members`] and [`Elements`] iterate over one level of a value and return the text of what they
//! find; skipping looks at structure only.
//!
//! Bodies arrive in chunks: [`Finder`](finder::Finder) finds the end of a value across any number of them,
//! [`ListBody`] extracts the items of a list, [`Lines`] the events of a watch. A value within one chunk is returned as
//! a slice of it.
//!
//! **Validation.** At a level that is iterated: the grammar of that level (commas, colons, quoted names, its end) and
//! every returned string (UTF-8, escapes, no raw control characters). In a value that is skipped or kept as a whole:
//! matching brackets and terminated strings, at any depth. Its scalars and separators are not checked: `{"a" nul,,}`
//! is skipped like any other value, and is an error when it is decoded. A malformed object is therefore an error only
//! for that object, and the framing around it survives.

pub(crate) mod copy;
mod finder;
mod lines;
mod list;
mod pieces;
pub(crate) mod position;
mod scan;
mod skip;
pub(crate) mod string;
#[cfg(test)]
pub(crate) mod tests;
mod value;

#[cfg(any(test, feature = "internals"))]
pub(crate) use finder::Finder;
pub(crate) use lines::Lines;
pub(crate) use list::ListBody;
pub(crate) use scan::{Elements, Members, member};
pub(crate) use value::{JsonType, Value};

/// The name in errors.
const WHAT: &str = "JSON";
