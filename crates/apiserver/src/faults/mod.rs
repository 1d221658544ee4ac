//! Fault injection.
//!
//! A [`Fault`] defines *what* fails ([`Action`]), *for which requests* ([`Match`]) and *how often* ([`Schedule`]). The
//! [`Faults`] handle arms faults while the server runs; each request checks them once, when it arrives. Randomness
//! comes from a seed, so a failed run can be repeated.

mod fault;
mod script;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

pub(crate) use fault::RequestInfo;
pub use fault::{Action, Fault, Match, Schedule, Verb};
pub(crate) use script::{Script, Step};

use crate::http::Status;

/// A handle to a server's faults. Clones share them.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Mutex<FaultsState>>);

/// Identifies an armed fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultId(u64);

#[derive(Debug)]
struct FaultsState {
    armed: Vec<ArmedFault>,
    next: u64,
    random: StdRng,
}

/// A fault that is armed, with its counters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ArmedFault {
    /// The identifier.
    pub id: FaultId,
    /// The fault.
    pub fault: Fault,
    /// Requests matched so far.
    pub matched: u64,
    /// Requests affected so far.
    pub fired: u64,
}

/// The faults that fire for one request.
#[derive(Debug, Default)]
pub(crate) struct Fired {
    pub(crate) delay: Duration,
    /// The response to return instead of the server's.
    pub(crate) instead: Option<Instead>,
    pub(crate) skip_bookmarks: bool,
    pub(crate) skip_initial_events_end: bool,
    pub(crate) script: Option<Script>,
}

/// A response that replaces the server's.
#[derive(Debug)]
pub(crate) enum Instead {
    Status(Status),
    /// 410: as a status for lists, in the stream for watches.
    Expired,
    Overloaded {
        retry_after_seconds: u32,
    },
    Html {
        code: u16,
    },
    /// Break the connection.
    Disconnect,
    /// Never respond.
    Nothing,
}

// === impl Faults ===

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(FaultsState {
            armed: Vec::new(),
            next: 0,
            random: StdRng::seed_from_u64(seed),
        })))
    }

    /// Arms a fault for requests that arrive from now on.
    pub fn arm(&self, fault: Fault) -> FaultId {
        let mut state = self.0.lock();
        let id = FaultId(state.next);
        state.next += 1;
        state.armed.push(ArmedFault { id, fault, matched: 0, fired: 0 });
        id
    }

    /// Disarms one fault. Streams that it already affects are unchanged.
    pub fn disarm(&self, id: FaultId) {
        self.0.lock().armed.retain(|armed| armed.id != id);
    }

    /// Disarms all faults.
    pub fn clear(&self) {
        self.0.lock().armed.clear();
    }

    /// How many requests a fault has affected; `None` if it is not armed.
    pub fn fired(&self, id: FaultId) -> Option<u64> {
        self.0.lock().armed.iter().find(|armed| armed.id == id).map(|armed| armed.fired)
    }

    /// The armed faults.
    pub fn armed(&self) -> Vec<ArmedFault> {
        self.0.lock().armed.clone()
    }

    /// The faults that fire for this request.
    pub(crate) fn fire(&self, request: &RequestInfo) -> Fired {
        let mut state = self.0.lock();
        let FaultsState { armed, random, .. } = &mut *state;
        let mut fired = Fired::default();
        for armed in armed.iter_mut().filter(|armed| armed.fault.on.matches(request)) {
            armed.matched += 1;
            let strikes = match armed.fault.schedule {
                Schedule::Always => true,
                Schedule::Times(times) => armed.fired < times,
                Schedule::After { matches, times } => armed.matched > matches && armed.fired < times,
                Schedule::Probability(probability) => random.random::<f64>() < probability,
            };
            if strikes {
                armed.fired += 1;
                fired.add(&armed.fault.action);
            }
        }
        fired
    }
}

// === impl Fired ===

impl Fired {
    fn add(&mut self, action: &Action) {
        match action {
            Action::Delay(delay) => self.delay = self.delay.saturating_add(*delay),
            Action::Status { code, reason, message, retry_after_seconds } => {
                let status = Status::named(*code, reason, message, *retry_after_seconds);
                self.instead = Some(Instead::Status(status));
            }
            Action::Overloaded { retry_after_seconds } => {
                self.instead = Some(Instead::Overloaded { retry_after_seconds: *retry_after_seconds });
            }
            Action::Html { code } => self.instead = Some(Instead::Html { code: *code }),
            Action::Expired => self.instead = Some(Instead::Expired),
            Action::Disconnect => self.instead = Some(Instead::Disconnect),
            Action::Hang => self.instead = Some(Instead::Nothing),
            Action::SkipBookmarks => self.skip_bookmarks = true,
            Action::SkipInitialEventsEnd => self.skip_initial_events_end = true,
            stream => self.script.get_or_insert_default().add(stream),
        }
    }
}
