//! One request's writes, and what follows from them.
//!
//! Follow-up work belongs to the request that caused it: each request has a queue of its own, and is answered when that
//! queue is empty. With one queue for all, a request could be answered while another one still did its work, and a
//! client would see a half-done state.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Deref;

use super::Effect;
use crate::api::Api;

/// Makes a request's writes. See the module's text.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    api: &'a Api,
    /// The bearer token that the request came with.
    bearer: Option<&'a str>,
    /// Whether a client asked for the present write: the server's own, and what follows, is not for features to judge.
    by_client: Cell<bool>,
    effects: RefCell<VecDeque<Effect>>,
}

impl Api {
    /// Makes writes on the server's own account; returns once everything that follows from them is done.
    pub(crate) fn write<T>(&self, request: impl FnOnce(&Writer<'_>) -> T) -> T {
        Writer::new(self, None, false).run(request)
    }

    /// Makes the writes of a request that came with this bearer token; returns once everything that follows from them
    /// is done.
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

    /// Makes writes that the client did not ask for as such, but that carry out what it asked for.
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

    /// Takes the next piece of follow-up work.
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
