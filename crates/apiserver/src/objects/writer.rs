//! The writes of one request, and their consequences.
//!
//! Each request has its own queue of follow-up work and is answered when that queue is empty. With one shared queue, a
//! request could be answered while another request still processes its follow-up work, and a client would see a
//! partial state.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Deref;

use super::Effect;
use crate::api::Api;

/// Performs a request's writes; see the module documentation.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    api: &'a Api,
    /// The request's bearer token.
    bearer: Option<&'a str>,
    /// Whether a client requested the current write. Feature checks skip the server's own writes and follow-up work.
    by_client: Cell<bool>,
    effects: RefCell<VecDeque<Effect>>,
}

impl Api {
    /// Performs writes on behalf of the server; returns when all their consequences are complete.
    pub(crate) fn write<T>(&self, request: impl FnOnce(&Writer<'_>) -> T) -> T {
        Writer::new(self, None, false).run(request)
    }

    /// Performs the writes of a request with this bearer token; returns when all their consequences are complete.
    pub(crate) fn write_as<T>(&self, bearer: Option<&str>, request: impl FnOnce(&Writer<'_>) -> T) -> T {
        Writer::new(self, bearer, true).run(request)
    }
}

impl<'a> Writer<'a> {
    fn new(api: &'a Api, bearer: Option<&'a str>, by_client: bool) -> Self {
        Self { api, bearer, by_client: Cell::new(by_client), effects: RefCell::default() }
    }

    fn run<T>(self, request: impl FnOnce(&Writer<'_>) -> T) -> T {
        let answer = request(&self);
        self.by_client.set(false);
        self.settle();
        answer
    }

    pub(super) fn is_clients(&self) -> bool {
        self.by_client.get()
    }

    /// Performs internal writes that carry out a client's request.
    pub(super) fn on_own_account<T>(&self, write: impl FnOnce() -> T) -> T {
        let by_client = self.by_client.replace(false);
        let written = write();
        self.by_client.set(by_client);
        written
    }

    pub(super) fn bearer(&self) -> Option<&str> {
        self.bearer
    }

    /// Queues follow-up work.
    pub(super) fn then(&self, effect: Effect) {
        self.effects.borrow_mut().push_back(effect);
    }

    /// Dequeues the next piece of follow-up work.
    pub(super) fn next_effect(&self) -> Option<Effect> {
        self.effects.borrow_mut().pop_front()
    }
}

impl Deref for Writer<'_> {
    type Target = Api;

    fn deref(&self) -> &Api {
        self.api
    }
}
