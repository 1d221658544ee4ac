//! Events as a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use educe::Educe;
use futures::Stream;

use super::backlog::Backlog;
use super::core::Owner;
use super::decoder::Decoder;
use super::handler::{Filtered, Registration};
use super::listeners::ListenerConfig;
use super::{Event, Object};

/// The events of an informer as a stream: the current state first, then the changes, without gap or repeat. It ends when
/// the informer stops.
///
/// It may be read slowly: past a limit, waiting events are coalesced per key, and the last state is never lost. Holding it keeps
/// the informer running; dropping it ends the subscription, as dropping the last [`HandlerHandle`](super::HandlerHandle) removes
/// a handler.
#[derive(Educe)]
#[educe(Debug)]
#[must_use = "dropping it ends the subscription"]
pub struct Subscription<K> {
    registration: Registration,
    #[educe(Debug(ignore))]
    decoder: Arc<Decoder<K>>,
    /// Selects the objects of this subscription; `None` for all.
    only: Option<Filtered<Test<K>, ()>>,
}

type Test<K> = Box<dyn FnMut(&Object<K>) -> bool + Send + Sync>;

impl<K> Subscription<K> {
    pub(crate) fn new(owner: Arc<Owner>, decoder: Arc<Decoder<K>>, config: &ListenerConfig) -> Self {
        let backlog = owner.0.listeners.join(config);
        Self { registration: Registration::new(owner, backlog), decoder, only: None }
    }

    /// Only events of objects that pass a test. An object that begins to pass is reported as added; one that no longer passes is
    /// reported as deleted. With several calls, all tests must pass. To select by labels, namespace or a field, see
    /// [`Lister::subscribe`](crate::Lister::subscribe).
    pub fn only(mut self, mut test: impl FnMut(&Object<K>) -> bool + Send + Sync + 'static) -> Self
    where
        K: 'static,
    {
        match &mut self.only {
            Some(only) => {
                let mut earlier: Test<K> = std::mem::replace(&mut only.test, Box::new(|_| true));
                only.test = Box::new(move |object| earlier(object) && test(object));
            }
            None => self.only = Some(Filtered::new(Box::new(test), ())),
        }
        self
    }

    pub(super) fn backlog(&self) -> &Arc<Backlog> {
        &self.registration.backlog
    }

    /// The number of pending events, at most.
    pub fn lag(&self) -> usize {
        self.registration.backlog.lag()
    }

    /// How often its events were coalesced per key because it fell behind.
    pub fn coalesced_count(&self) -> u64 {
        self.registration.backlog.coalesced_count()
    }
}

impl<K> Stream for Subscription<K> {
    type Item = Event<K>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<K>>> {
        let Self { registration, decoder, only } = self.get_mut();
        loop {
            match (ready!(registration.backlog.poll_next(context, decoder)), &mut *only) {
                (Some(event), Some(only)) => {
                    if let Some(event) = only.filter(event) {
                        return Poll::Ready(Some(event));
                    }
                }
                (event, _) => return Poll::Ready(event),
            }
        }
    }
}
