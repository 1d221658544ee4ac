//! The faults of the server that a plan can choose.

use std::time::Duration;

use embedded_apiserver::{Action, Fault, FaultId, Match, Server, Verb};
use parking_lot::Mutex;

use crate::trace::Trace;

/// The prefix of the simulated clients' User-Agent. The oracle's connection does not have it.
pub(crate) const USER_AGENT: &str = "sim-";

/// The name of the fault that revokes a client's token.
pub(crate) const REVOKED: &str = "token revoked";

const INVALID_SHARD_SELECTOR: &str = "invalid shard selector: as planned";

/// A fault: its name, the requests that it affects, and its action after a number of events.
type Choice = (&'static str, Verb, fn(u64) -> Action);

const CHOICES: [Choice; 34] = [
    ("500 to a list", Verb::List, |_| status(500, "InternalError")),
    ("503 to a list", Verb::List, |_| status(503, "ServiceUnavailable")),
    ("429 to a list", Verb::List, |_| Action::Overloaded { retry_after_seconds: 2 }),
    ("410 to a list", Verb::List, |_| Action::Expired),
    ("403 to a list", Verb::List, |_| status(403, "Forbidden")),
    ("hanging list", Verb::List, |_| Action::Hang),
    ("slow list", Verb::List, |_| Action::Delay(Duration::from_secs(3))),
    ("500 to a watch", Verb::Watch, |_| status(500, "InternalError")),
    ("503 to a watch", Verb::Watch, |_| status(503, "ServiceUnavailable")),
    ("429 to a watch", Verb::Watch, |_| Action::Overloaded { retry_after_seconds: 1 }),
    ("410 to a watch", Verb::Watch, |_| status(410, "Expired")),
    ("403 to a watch", Verb::Watch, |_| status(403, "Forbidden")),
    ("hanging watch", Verb::Watch, |_| Action::Hang),
    ("410 in a watch", Verb::Watch, |_| Action::Expired),
    ("429 in a watch", Verb::Watch, |events| in_stream(events, 429, "TooManyRequests")),
    ("500 in a watch", Verb::Watch, |events| in_stream(events, 500, "InternalError")),
    ("504 in a watch", Verb::Watch, |events| in_stream(events, 504, "Timeout")),
    ("too large version in a watch", Verb::Watch, too_large),
    ("403 in a watch", Verb::Watch, |events| in_stream(events, 403, "Forbidden")),
    ("watch cut between events", Verb::Watch, Action::CutAfterEvents),
    ("watch ended between events", Verb::Watch, Action::EndAfterEvents),
    ("silent watch", Verb::Watch, Action::StallAfterEvents),
    ("repeated event", Verb::Watch, Action::DuplicateEvent),
    ("truncated event", Verb::Watch, Action::TruncateEvent),
    ("no bookmarks", Verb::Watch, |_| Action::SkipBookmarks),
    ("no end of the initial events", Verb::Watch, |_| Action::SkipInitialEventsEnd),
    ("503 to a create", Verb::Create, |_| status(503, "ServiceUnavailable")),
    ("500 to an update", Verb::Update, |_| status(500, "InternalError")),
    ("answer to an update lost", Verb::Update, |_| Action::CutAfterBytes(0)),
    ("400 in a watch", Verb::Watch, |events| in_stream(events, 400, "BadRequest")),
    ("invalid shard selector of a list", Verb::List, |_| invalid_shard_selector()),
    ("invalid shard selector of a watch", Verb::Watch, |_| invalid_shard_selector()),
    ("invalid shard selector in a watch", Verb::Watch, invalid_shard_selector_in_stream),
    ("web page for a list", Verb::List, |_| Action::Html { code: 200 }),
];

/// The number of faults.
pub(crate) const COUNT: u8 = CHOICES.len() as u8;

/// The name of a fault.
pub(crate) fn name(which: u8) -> &'static str {
    CHOICES[usize::from(which) % CHOICES.len()].0
}

/// The armed faults, recorded so that those that fire are counted.
#[derive(Default)]
pub(crate) struct ArmedFaults(Mutex<Vec<(FaultId, &'static str)>>);

impl ArmedFaults {
    /// Makes the next matching request fail.
    pub(crate) fn arm(&self, server: &Server, which: u8, events: u64) {
        let (name, verb, action) = CHOICES[usize::from(which) % CHOICES.len()];
        let fault = Fault::new(action(events)).on(Match::verb(verb).user_agent(USER_AGENT)).once();
        self.0.lock().push((server.faults().arm(fault), name));
    }

    /// Rejects all requests of a client with 401.
    pub(crate) fn revoke(&self, server: &Server, client: &str) -> FaultId {
        let on = Match::default().user_agent(format!("{USER_AGENT}{client}"));
        let id = server.faults().arm(Fault::new(status(401, "Unauthorized")).on(on));
        self.0.lock().push((id, REVOKED));
        id
    }

    /// Disarms one fault, or all, and counts those that fired.
    pub(crate) fn disarm(&self, server: &Server, only: Option<FaultId>, trace: &Trace) {
        let faults = server.faults();
        self.0.lock().retain(|(id, name)| {
            if only.is_some_and(|only| only != *id) {
                return true;
            }
            if faults.fired(*id).is_some_and(|times| times > 0) {
                trace.count("fault", *name);
            }
            faults.disarm(*id);
            false
        });
    }
}

fn status(code: u16, reason: &str) -> Action {
    let (reason, message) = (reason.to_owned(), "as planned".to_owned());
    Action::Status { code, reason, message, retry_after_seconds: 0 }
}

fn invalid_shard_selector() -> Action {
    let (reason, message) = ("InternalError".to_owned(), INVALID_SHARD_SELECTOR.to_owned());
    Action::Status { code: 500, reason, message, retry_after_seconds: 0 }
}

fn invalid_shard_selector_in_stream(events: u64) -> Action {
    let (reason, message) = ("InternalError".to_owned(), INVALID_SHARD_SELECTOR.to_owned());
    Action::ErrorAfterEvents { events, code: 500, reason, message }
}

fn too_large(events: u64) -> Action {
    let (reason, message) = ("Timeout".to_owned(), "Too large resource version: as planned".to_owned());
    Action::ErrorAfterEvents { events, code: 504, reason, message }
}

fn in_stream(events: u64, code: u16, reason: &str) -> Action {
    let (reason, message) = (reason.to_owned(), "as planned".to_owned());
    Action::ErrorAfterEvents { events, code, reason, message }
}
