//! A Kubernetes API server in your process.
