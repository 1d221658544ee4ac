//! Events as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;

use super::Event;
use super::backlog::Backlog;
use super::core::Owner;
use super::decoder::Decoder;

/// The events of an informer, as a stream: the current state first, then what follows, without gap or repeat. It ends when the
/// informer is stopped.
///
/// It may be read slowly: past a limit, waiting events are coalesced per key, and the last state is never lost. Holding it keeps
/// the informer running; dropping it ends the subscription, as dropping the last [`HandlerHandle`](super::HandlerHandle) removes
/// a handler.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription<K> {
    owner: Arc<Owner>,
    decoder: Arc<Decoder<K>>,
    backlog: Arc<Backlog>,
}

impl<K> Subscription<K> {
    pub(super) fn new(owner: Arc<Owner>, decoder: Arc<Decoder<K>>, backlog: Arc<Backlog>) -> Self {
        Self { owner, decoder, backlog }
    }

    /// How many events are yet to be read, at most.
    pub fn lag(&self) -> usize {
        self.backlog.lag()
    }

    /// How often it was so far behind that its events were coalesced per key.
    pub fn coalesced_count(&self) -> u64 {
        self.backlog.coalesced_count()
    }
}

impl<K> Stream for Subscription<K> {
    type Item = Event<K>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<K>>> {
        self.backlog.poll_next(context, &self.decoder)
    }
}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.owner.0.listeners.leave(&self.backlog);
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("lag", &self.lag()).finish_non_exhaustive()
    }
}
