//! Kubernetes objects as bytes.

pub mod schema;
