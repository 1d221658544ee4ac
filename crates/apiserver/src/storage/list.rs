//! Pages of a list, at the current revision or, from history, at an earlier one.
//!
//! Past states are not copied. An overlay undoes the changes since the requested revision, from newest to oldest, and
//! the page is read through it. A page therefore costs its own length plus the events since then.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use super::collection::Collection;
use super::{Compacted, Stored};

/// What to list.
pub(crate) struct ListQuery<'a> {
    /// The prefix of keys: `namespace/`, or empty.
    pub(crate) prefix: &'a str,
    /// The first key to return; empty for all.
    pub(crate) start: &'a str,
    /// Maximum number of objects on the page; 0 for no limit.
    pub(crate) limit: usize,
    /// The exact revision to list; `None` for the current one.
    pub(crate) at: Option<u64>,
    /// Selects objects; `None` for all.
    pub(crate) filter: Option<&'a dyn Fn(&Stored) -> bool>,
    /// Count the objects after the page.
    pub(crate) counted: bool,
}

/// A page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Stored>>,
    pub(crate) revision: u64,
    /// The last key on the page, if there may be more after it.
    pub(crate) more_after: Option<Arc<str>>,
    /// The number of objects from the start of the page, less those on it; `None` if not counted. With a filter, this
    /// includes the objects that were skipped.
    pub(crate) remaining: Option<usize>,
}

pub(super) fn page(collection: &Collection, newest: u64, query: &ListQuery<'_>) -> Result<Page, Compacted> {
    let revision = query.at.unwrap_or(newest);
    if revision < collection.compacted {
        return Err(Compacted { oldest: collection.compacted });
    }
    let overlay = undo(collection, revision);
    let limit = if query.limit == 0 { usize::MAX } else { query.limit };
    let wanted = |object: &Stored| query.filter.is_none_or(|filter| filter(object));
    let mut rest = merged(collection, &overlay, query.prefix, query.start);
    let mut passed = 0;
    let listed = rest.by_ref().inspect(|_| passed += 1).filter(|object| wanted(object));
    let objects: Vec<Arc<Stored>> = listed.take(limit).cloned().collect();
    // The next page may be empty: like a kube-apiserver, this does not look for another match.
    let more_after = rest.next().and(objects.last()).map(|last| last.key.clone());
    let remaining = more_after.as_ref().filter(|_| query.counted).map(|last| {
        let known = collection.counts.take(revision, query.prefix, query.start);
        let from_here = known.unwrap_or_else(|| passed + 1 + rest.count());
        let after = from_here.saturating_sub(passed);
        collection.counts.put(revision, query.prefix, format!("{last}\0"), after);
        from_here.saturating_sub(objects.len())
    });
    Ok(Page { objects, revision, more_after, remaining })
}

/// Cached counts of the objects after a position in a list, so that the next page of a million objects need not count
/// the rest again. A list at one revision never changes.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<VecDeque<Count>>);

#[derive(Debug)]
struct Count {
    revision: u64,
    prefix: Box<str>,
    start: String,
    objects: usize,
}

/// Maximum number of lists whose counts are cached.
const COUNTS_MAX: usize = 64;

impl Counts {
    fn take(&self, revision: u64, prefix: &str, start: &str) -> Option<usize> {
        let mut counts = self.0.lock();
        let is_it =
            |count: &Count| count.revision == revision && count.start == start && *count.prefix == *prefix;
        let at = counts.iter().position(is_it)?;
        counts.remove(at).map(|count| count.objects)
    }

    fn put(&self, revision: u64, prefix: &str, start: String, objects: usize) {
        let mut counts = self.0.lock();
        if counts.len() == COUNTS_MAX {
            counts.pop_front();
        }
        counts.push_back(Count { revision, prefix: prefix.into(), start, objects });
    }

    /// Clears the cache, because revisions are about to be reused.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// The objects at `revision` under the keys that changed after it.
pub(super) fn undo(collection: &Collection, revision: u64) -> BTreeMap<&str, Option<&Arc<Stored>>> {
    let from = collection.history.partition_point(|event| event.revision <= revision);
    let later = collection.history.range(from..).rev();
    later.map(|event| (&*event.object.key, event.previous.as_ref())).collect()
}

/// The collection seen through the overlay, in key order.
pub(super) fn merged<'a>(
    collection: &'a Collection,
    overlay: &'a BTreeMap<&'a str, Option<&'a Arc<Stored>>>,
    prefix: &'a str,
    start: &'a str,
) -> impl Iterator<Item = &'a Arc<Stored>> {
    let from = if start > prefix { start } else { prefix };
    let mut present = collection.range(prefix, start).peekable();
    let mut undone = overlay
        .range::<str, _>((Bound::Included(from), Bound::<&str>::Unbounded))
        .take_while(move |(key, _)| key.starts_with(prefix))
        .peekable();
    std::iter::from_fn(move || {
        loop {
            let undone_first = match (present.peek(), undone.peek()) {
                (None, None) => return None,
                (Some((key, _)), Some((other, _))) => **other <= &***key,
                (None, Some(_)) => true,
                (Some(_), None) => false,
            };
            if !undone_first {
                return present.next().map(|(_, object)| object);
            }
            let (key, object) = undone.next()?;
            present.next_if(|(other, _)| &***other == *key);
            if let Some(object) = object {
                return Some(object);
            }
        }
    })
}
