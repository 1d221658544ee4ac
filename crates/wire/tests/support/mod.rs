//! What several test files need. Each of them is a crate of its own and uses a part of it.
#![allow(dead_code, unused_imports, reason = "no test file uses everything")]

mod vectors;

pub(crate) use vectors::{Skipped, Vector, vectors};
