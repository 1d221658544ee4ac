//! A work queue.
