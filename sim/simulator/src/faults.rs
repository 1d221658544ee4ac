//! The server's own faults that a plan can choose from.

use embedded_apiserver::{Action, Fault, Match, Server, Verb};
use std::time::Duration;

/// Their names, as they are counted.
pub(crate) const NAMES: [&str; 20] = [
    "500 to a list",
    "503 to a list",
    "429 to a list",
    "410 to a list",
    "403 to a list",
    "hanging list",
    "slow list",
    "500 to a watch",
    "503 to a watch",
    "429 to a watch",
    "410 in a watch",
    "500 in a watch",
    "504 in a watch",
    "watch cut between events",
    "watch ended between events",
    "silent watch",
    "repeated event",
    "truncated event",
    "no bookmarks",
    "no end of the initial events",
];

/// Clients of the simulation begin their User-Agent with this; the oracle's connection does not.
pub(crate) const USER_AGENT: &str = "sim-";

/// Makes the next matching request fail.
pub(crate) fn arm(server: &Server, which: u8, events: u64) {
    let status = |code: u16, reason: &str| Action::Status {
        code,
        reason: reason.to_owned(),
        message: "as the plan says".to_owned(),
        retry_after_seconds: 0,
    };
    let in_stream = |code: u16, reason: &str| Action::ErrorAfterEvents {
        events,
        code,
        reason: reason.to_owned(),
        message: "as the plan says".to_owned(),
    };
    let (verb, action) = match usize::from(which) % NAMES.len() {
        0 => (Verb::List, status(500, "InternalError")),
        1 => (Verb::List, status(503, "ServiceUnavailable")),
        2 => (Verb::List, Action::Overloaded { retry_after_seconds: 2 }),
        3 => (Verb::List, Action::Expired),
        4 => (Verb::List, status(403, "Forbidden")),
        5 => (Verb::List, Action::Hang),
        6 => (Verb::List, Action::Delay(Duration::from_secs(3))),
        7 => (Verb::Watch, status(500, "InternalError")),
        8 => (Verb::Watch, status(503, "ServiceUnavailable")),
        9 => (Verb::Watch, Action::Overloaded { retry_after_seconds: 1 }),
        10 => (Verb::Watch, Action::Expired),
        11 => (Verb::Watch, in_stream(500, "InternalError")),
        12 => (Verb::Watch, in_stream(504, "Timeout")),
        13 => (Verb::Watch, Action::CutAfterEvents(events)),
        14 => (Verb::Watch, Action::EndAfterEvents(events)),
        15 => (Verb::Watch, Action::StallAfterEvents(events)),
        16 => (Verb::Watch, Action::DuplicateEvent(events)),
        17 => (Verb::Watch, Action::TruncateEvent(events)),
        18 => (Verb::Watch, Action::SkipBookmarks),
        _ => (Verb::Watch, Action::SkipInitialEventsEnd),
    };
    server.faults().arm(Fault::new(action).on(Match::verb(verb).user_agent(USER_AGENT)).once());
}
