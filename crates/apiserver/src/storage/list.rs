//! Pages of a list, at the present revision or, out of history, at an earlier one.
//!
//! The past is not kept as a copy: what changed since the asked revision is undone in an overlay, from the newest event
//! back to the oldest, and the page is read through it. So a page costs its own length and the events since.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use super::collection::Collection;
use super::{Compacted, Stored};

/// What to list.
pub(crate) struct ListQuery<'a> {
    /// Keys begin with this: `namespace/`, or nothing.
    pub(crate) prefix: &'a str,
    /// The first key that may appear; empty for all.
    pub(crate) start: &'a str,
    /// The most objects on the page; 0 for no limit.
    pub(crate) limit: usize,
    /// The state at exactly this revision; `None` for the present.
    pub(crate) at: Option<u64>,
    /// Which objects are wanted; `None` for all.
    pub(crate) filter: Option<&'a dyn Fn(&Stored) -> bool>,
}

/// A page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Stored>>,
    pub(crate) revision: u64,
    /// The last key on the page, if there may be more behind it.
    pub(crate) more_after: Option<Arc<str>>,
    /// Objects behind the page; unknown with a filter.
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
    let mut listed = merged(collection, &overlay, query.prefix, query.start).filter(|object| wanted(object));
    let objects: Vec<Arc<Stored>> = listed.by_ref().take(limit).cloned().collect();
    let more_after = listed.next().and(objects.last()).map(|last| last.key.clone());
    let remaining = more_after.as_ref().filter(|_| query.filter.is_none()).map(|last| {
        let known = collection.counts.take(revision, query.prefix, query.start);
        let remaining =
            known.map_or_else(|| 1 + listed.count(), |from_here| from_here.saturating_sub(objects.len()));
        collection.counts.put(revision, query.prefix, format!("{last}\0"), remaining);
        remaining
    });
    Ok(Page { objects, revision, more_after, remaining })
}

/// How many objects follow a place in a list, as far as it was counted: whoever asks for the next page need not have the
/// rest of a million objects counted again. What a list at one revision holds never changes.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<VecDeque<Count>>);

#[derive(Debug)]
struct Count {
    revision: u64,
    prefix: Box<str>,
    start: String,
    objects: usize,
}

/// Lists that are paged through at the same time.
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

    /// Forgets everything: revisions are about to mean something else.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// What the keys that changed after `revision` held at that revision.
pub(super) fn undo(collection: &Collection, revision: u64) -> BTreeMap<&str, Option<&Arc<Stored>>> {
    let from = collection.history.partition_point(|event| event.revision <= revision);
    let later = collection.history.range(from..).rev();
    later.map(|event| (&*event.object.key, event.previous.as_ref())).collect()
}

/// The collection seen through the overlay, ascending by key.
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
