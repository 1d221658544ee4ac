//! Limits of one list: a server that sends endless pages must not exhaust this program's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube_informer::building_blocks::SourceError;

/// The limits of one list. The defaults are far above the size of a large cluster.
#[derive(clap::Args, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListLimit {
    /// Maximum number of objects in one list; 0 means no limit. A longer list is an error.
    #[arg(long = "max-list-objects", value_name = "COUNT", default_value_t = ListLimit::default().objects)]
    objects: u64,
    /// Maximum size of one list in MiB, before compression; 0 means no limit. A longer list is an error.
    #[arg(long = "max-list-mib", value_name = "MIB", default_value_t = ListLimit::default().mib)]
    mib: u64,
}

/// The amount of a list that was read so far.
#[derive(Debug, Default)]
pub(crate) struct ListAmount {
    objects: AtomicU64,
    bytes: AtomicU64,
}

/// A list is longer than its limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ListTooLong {
    #[error("more than {0} objects; raise --max-list-objects if that is expected")]
    Objects(u64),
    #[error("more than {0} MiB; raise --max-list-mib if that is expected")]
    Mib(u64),
}

impl Default for ListLimit {
    fn default() -> Self {
        Self { objects: 1_000_000, mib: 4096 }
    }
}

impl ListAmount {
    /// Starts another list.
    pub(crate) fn reset(&self) {
        self.objects.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Counts more objects.
    ///
    /// # Errors
    /// If the list is longer than the limit.
    pub(crate) fn add(&self, objects: usize, bytes: usize, limit: ListLimit) -> Result<(), ListTooLong> {
        let objects = objects as u64 + self.objects.fetch_add(objects as u64, Ordering::Relaxed);
        let bytes = bytes as u64 + self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if limit.objects > 0 && objects > limit.objects {
            return Err(ListTooLong::Objects(limit.objects));
        }
        if limit.mib > 0 && bytes > limit.mib.saturating_mul(1 << 20) {
            return Err(ListTooLong::Mib(limit.mib));
        }
        Ok(())
    }
}

impl From<ListTooLong> for SourceError {
    fn from(error: ListTooLong) -> Self {
        Self::Other(Arc::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_bytes_are_limited_over_all_pages_of_one_list() {
        let limit = ListLimit { objects: 3, mib: 1 };
        let amount = ListAmount::default();
        assert_eq!(amount.add(3, 1 << 19, limit), Ok(()));
        assert_eq!(amount.add(1, 0, limit), Err(ListTooLong::Objects(3)));
        amount.reset();
        assert_eq!(amount.add(1, 1 << 20, limit), Ok(()));
        assert_eq!(amount.add(1, 1, limit), Err(ListTooLong::Mib(1)));
        assert_eq!(amount.add(1 << 40, 1 << 40, ListLimit { objects: 0, mib: 0 }), Ok(()));
    }
}
