//! One request's writes, and what follows from them.
//!
//! Follow-up work belongs to the request that caused it: each request has a queue of its own, and is answered when that
//! queue is empty. With one queue for all, a request could be answered while another one still did its work, and a
//! client would see a half-done state.

use std::cell::RefCell;
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
    effects: RefCell<VecDeque<Effect>>,
}

impl Api {
    /// Makes writes on the server's own account; returns once everything that follows from them is done.
    pub(crate) fn write<T>(&self, request: impl FnOnce(&Writer<'_>) -> T) -> T {
        self.write_as(None, request)
    }

    /// Makes the writes of a request that came with this bearer token; returns once everything that follows from them
    /// is done.
    pub(crate) fn write_as<T>(&self, bearer: Option<&str>, request: impl FnOnce(&Writer<'_>) -> T) -> T {
        let writer = Writer { api: self, bearer, effects: RefCell::default() };
        let answer = request(&writer);
        writer.settle();
        answer
    }
}

impl Writer<'_> {
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
