//! Faults between the server and the informers: `--chaos`.

use std::time::Duration;

use embedded_apiserver::{Action, Fault, Match, Server, Verb};

/// How many events the server keeps for watches to resume from: after it was shortened, and normally.
const HISTORY_SHORT: usize = 100;
const HISTORY: usize = 16_384;

/// Injects faults, of each kind in turn.
#[derive(Default)]
pub(super) struct Chaos {
    strikes: usize,
}

impl Chaos {
    /// Injects the next fault; returns its description.
    pub(super) fn strike(&mut self, server: &Server) -> &'static str {
        server.set_history(HISTORY);
        server.faults().clear();
        self.strikes += 1;
        let reported = match self.strikes % 5 {
            1 => "all connections cut",
            2 => {
                server.compact();
                "history compacted and all connections cut: watches cannot be resumed"
            }
            0 => {
                server.set_history(HISTORY_SHORT);
                "history shortened to 100 events and all connections cut"
            }
            3 => {
                server
                    .faults()
                    .arm(Fault::new(Action::Delay(Duration::from_secs(1))).on(Match::verb(Verb::Watch)));
                "the server stalls: watches are delayed by a second"
            }
            _ => {
                let overloaded = Action::Overloaded { retry_after_seconds: 1 };
                server.faults().arm(Fault::new(overloaded).on(Match::verb(Verb::Watch)).times(3));
                "the server is overloaded: 429 for the next three watches"
            }
        };
        server.disconnect_all();
        reported
    }
}
