//! What several test files need. Each of them is a crate of its own and uses a part of it.
#![allow(dead_code, unused_imports, reason = "no test file uses everything")]

mod compare;
mod vectors;

pub(crate) use compare::difference;
pub(crate) use vectors::{Vector, object, origins, vectors};
