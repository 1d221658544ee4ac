//! Field paths: `spec.nodeName`, `metadata.labels['app']`, read from the bytes.
