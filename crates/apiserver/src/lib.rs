//! A Kubernetes API server in your process.

pub mod apply;
pub mod crd;
pub mod patch;
