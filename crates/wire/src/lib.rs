//! Kubernetes objects as bytes.
