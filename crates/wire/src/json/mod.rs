//! JSON, scanned rather than parsed.
//!
//! Most of an object's text is never looked at by a cache: it is skipped, copied, or searched for one field. So nothing
//! here builds a tree: [`Members`] and [`Elements`] walk over one level of a value and hand out the text of what they
//! find, and skipping looks at structure only.
//!
//! Bodies come in chunks: [`Finder`](finder::Finder) looks for the end of a value over any number of them, [`ListBody`]
//! takes the items of a list out of its body, [`Lines`] the events of a watch. What lies inside one chunk is handed out as
//! a slice of it.
//!
//! **What is checked.** At a level that is walked: the grammar of that level (commas, colons, quoted names, its end) and
//! every string that is handed out (UTF-8, escapes, no raw control characters). In a value that is skipped or kept whole:
//! brackets pair up by kind, strings end; it may be nested as deep as it likes. Its scalars and separators are not looked at:
//! `{"a" nul,,}` is skipped like any other value, and is an error when somebody decodes it. So a malformed object is that
//! object's error alone, and the framing around it survives.

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

/// What errors name.
const WHAT: &str = "JSON";
