//! Helpers shared by several test files. Each file is a crate of its own and uses a part of them.
#![allow(dead_code, unused_imports, reason = "no test file uses everything")]

mod compare;
mod vectors;

pub(crate) use compare::difference;
pub(crate) use vectors::{Vector, object, origins, vectors};
