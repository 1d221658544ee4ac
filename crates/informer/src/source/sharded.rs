//! A source of a part of the objects, which can change.
//!
//! It sends `shardSelector` with its requests. The reflector also drops every other object on arrival, because a server without the
//! feature returns all objects, and lists of custom resources do not show whether they were filtered. The part is fixed for one
//! cycle of list and watch, so that all requests of a cycle agree.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, ready};
use futures::stream::{self, StreamExt};
use kube_wire::Head;
use parking_lot::Mutex;

use super::{ListOptions, ListPart, ListStream, ListerWatcher, SourceError, WatchOptions, WatchStream};
use crate::shard::{AssignedShard, Assignment, Shard};

/// Lists and watches the assigned shard of another source.
pub(crate) struct ShardedSource {
    source: Arc<dyn ListerWatcher>,
    assigned: AssignedShard,
    /// The assignment of the current cycle.
    fixed: Mutex<Assignment>,
}

impl ShardedSource {
    pub(crate) fn new(source: Arc<dyn ListerWatcher>, assigned: AssignedShard) -> Self {
        let fixed = Mutex::new(assigned.current());
        Self { source, assigned, fixed }
    }

    /// The text of `shardSelector`; `None` if the shard has no slots.
    fn selector(&self) -> Option<String> {
        let fixed = self.fixed.lock();
        let selector = fixed.shard.selector().map(|selector| selector.to_string());
        (!fixed.shard.is_empty()).then(|| selector.unwrap_or_default())
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
        let current = self.assigned.current();
        let generation = current.generation;
        *self.fixed.lock() = current;
        generation
    }

    fn selects(&self, head: &Head<'_>) -> bool {
        self.fixed.lock().shard.selects(head.namespace(), head.uid())
    }

    fn shard(&self) -> Option<Shard> {
        Some(self.fixed.lock().shard.clone())
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
