//! JSON, scanned rather than parsed.
//!
//! Most of an object's text is never looked at by a cache: it is skipped, copied, or searched for one field. So nothing
//! here builds a tree: [`Members`] and [`Elements`] walk over one level of a value and hand out the text of what they
//! find, and skipping looks at structure only.

pub(crate) mod copy;
mod scan;

pub(crate) use scan::{Elements, Members, Value};
