//! Pages of a list, at the present revision or, out of history, at an earlier one.
//!
//! The past is not kept as a copy: what changed since the asked revision is undone in an overlay, from the newest event
//! back to the oldest, and the page is read through it. So a page costs its own length and the events since.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

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
    let mut objects = Vec::new();
    let mut more_after = None;
    let mut remaining = 0;
    for object in merged(collection, &overlay, query.prefix, query.start) {
        if query.filter.is_some_and(|filter| !filter(object)) {
            continue;
        }
        if objects.len() == limit {
            more_after = objects.last().map(|last: &Arc<Stored>| last.key.clone());
            remaining += 1;
            if query.filter.is_some() {
                break;
            }
            continue;
        }
        objects.push(object.clone());
    }
    let remaining = (more_after.is_some() && query.filter.is_none()).then_some(remaining);
    Ok(Page { objects, revision, more_after, remaining })
}

/// What the keys that changed after `revision` held at that revision.
fn undo(collection: &Collection, revision: u64) -> BTreeMap<&str, Option<&Arc<Stored>>> {
    let from = collection.history.partition_point(|event| event.revision <= revision);
    let later = collection.history.range(from..).rev();
    later.map(|event| (&*event.object.key, event.previous.as_ref())).collect()
}

/// The collection seen through the overlay, ascending by key.
fn merged<'a>(
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
