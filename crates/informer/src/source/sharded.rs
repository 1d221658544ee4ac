//! A source of a part of the objects, which can change.
//!
//! It sends `shardSelector` with its requests. The reflector also drops every other object on arrival, because a server without the
//! feature returns all objects, and lists of custom resources do not show whether they were filtered. The part is fixed for one
//! cycle of list and watch, so that all requests of a cycle agree.
//!
//! Servers select only by uid and namespace. For any other key, all objects are requested.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, FutureExt, ready};
use futures::stream::{self, StreamExt};
use kube_wire::RawObject;
use kube_wire::shard::ShardSelector;
use parking_lot::Mutex;

use super::{ListOptions, ListPart, ListStream, ListerWatcher, SourceError, WatchOptions, WatchStream};
use crate::shard::{AssignedShard, Assignment, Shard};

/// Lists and watches the assigned shard of another source.
pub(crate) struct ShardedSource {
    source: Arc<dyn ListerWatcher>,
    assigned: AssignedShard,
    /// The assignment of the current cycle.
    fixed: Mutex<FixedShard>,
    /// Whether this informer has reported that the server ignores the selector.
    reported: Arc<AtomicBool>,
}

struct FixedShard {
    generation: u64,
    shard: Shard,
    /// What requests select; `None` for everything.
    selector: Option<ShardSelector>,
}

impl ShardedSource {
    /// `reported` is shared by all sources of an informer.
    pub(crate) fn new(
        source: Arc<dyn ListerWatcher>,
        assigned: AssignedShard,
        reported: Arc<AtomicBool>,
    ) -> Self {
        let fixed = Mutex::new(FixedShard::of(&assigned));
        Self { source, assigned, fixed, reported }
    }

    /// The text of `shardSelector`; `None` if the shard has no slots.
    fn selector(&self) -> Option<String> {
        let fixed = self.fixed.lock();
        let selector = fixed.selector.as_ref().map(ToString::to_string);
        (!fixed.shard.is_empty()).then(|| selector.unwrap_or_default())
    }

    /// An object of another shard was received. If it was not requested, the server ignores the selector.
    fn received_foreign(&self, object: &RawObject, requested: Option<&ShardSelector>) {
        let head = object.head();
        let is_split = requested.is_none_or(|selector| selector.selects(head.namespace(), head.uid()));
        if !is_split && !self.reported.swap(true, Ordering::Relaxed) {
            let resource = self.source.describe();
            tracing::info!(
                resource,
                "the server ignores `shardSelector` and sends all objects; the informer drops those of other shards"
            );
        }
    }
}

impl FixedShard {
    fn of(assigned: &AssignedShard) -> Self {
        let Assignment { generation, shard } = assigned.current();
        let selector = shard.selector().filter(|_| !assigned.key().can_change());
        Self { generation, shard, selector }
    }
}

impl ListerWatcher for ShardedSource {
    fn list(&self, mut options: ListOptions) -> BoxFuture<'_, Result<ListStream, SourceError>> {
        if let Some(selector) = self.selector() {
            options.shard_selector = selector;
            return self.source.list(options);
        }
        // Without slots, the list only provides a resourceVersion, and shows whether the server allows it.
        options.limit = Some(1);
        let list = self.source.list(options);
        async move {
            let parts = list.await?.filter_map(|part| {
                ready(match part {
                    Ok(ListPart::Item(_)) => None,
                    Ok(ListPart::End(mut head)) => {
                        head.continue_token.clear();
                        Some(Ok(ListPart::End(head)))
                    }
                    Err(error) if error.is_about_one_object() => None,
                    Err(error) => Some(Err(error)),
                })
            });
            Ok(parts.boxed())
        }
        .boxed()
    }

    fn watch(&self, mut options: WatchOptions) -> BoxFuture<'_, Result<WatchStream, SourceError>> {
        match self.selector() {
            Some(selector) => {
                options.shard_selector = selector;
                self.source.watch(options)
            }
            None if options.send_initial_events => ready(Err(SourceError::NoWatchList)).boxed(),
            // A shard without slots receives nothing until the assignment changes.
            None => ready(Ok(stream::pending().boxed())).boxed(),
        }
    }

    fn inner(&self) -> Option<&dyn ListerWatcher> {
        Some(&*self.source)
    }

    fn begin_cycle(&self) -> u64 {
        let current = FixedShard::of(&self.assigned);
        let generation = current.generation;
        *self.fixed.lock() = current;
        generation
    }

    fn selects(&self, object: &RawObject) -> bool {
        let fixed = self.fixed.lock();
        let selects = self.assigned.key().selects(&fixed.shard, object);
        if !selects && !self.reported.load(Ordering::Relaxed) {
            self.received_foreign(object, fixed.selector.as_ref());
        }
        selects
    }

    fn selects_by_state(&self) -> bool {
        self.assigned.key().can_change()
    }

    fn shard(&self) -> Option<Shard> {
        let fixed = self.fixed.lock();
        // Without slots, every object has left.
        (!self.selects_by_state() || fixed.shard.is_empty()).then(|| fixed.shard.clone())
    }

    fn outdated(&self) -> BoxFuture<'_, ()> {
        let fixed = self.fixed.lock().generation;
        async move {
            tokio::select! {
                biased;
                () = self.assigned.changed_from(fixed) => {}
                () = self.source.outdated() => {}
            }
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.source.describe()
    }
}
