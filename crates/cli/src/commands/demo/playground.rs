//! The demo's server on the page: its figures, faults that can be switched on and off, and faults that strike once. One of the
//! switches stops a replica of the demo's controller instead.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use embedded_apiserver::{Action, Fault, FaultId, Faults, Match, RequestCount, Server, Verb};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::armed_faults;
use super::controller::{SWITCHED, USER_AGENT};
use crate::web::{FaultRefusal, Playground};

/// Maximum number of rows of the table of clients.
const CLIENTS_MAX: usize = 32;
/// Maximum number of strikes that wait to be carried out; further ones are ignored.
const STRIKES_MAX: usize = 16;

/// Faults that last until they are switched off: name and description.
const SWITCHES: [(&str, &str); 5] = [
    ("overloaded", "Answer 429 to lists and watches"),
    ("unavailable", "Answer 503 to lists and watches"),
    ("slow", "Delay lists and watches by a second"),
    ("expired", "Answer 410 to watches, so that informers list again"),
    ("failing", "Answer 500 to the controller's writes, so that its reconciles fail"),
];

/// The switch that stops a replica.
const REPLICA: &str = "replica";

/// Faults that strike once: name and description.
const STRIKES: [(&str, &str); 2] =
    [("disconnect", "Cut all connections"), ("compact", "Compact the history and cut all connections")];

/// A fault that strikes once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strike {
    Disconnect,
    Compact,
}

/// The parts of the server that the page can show and disturb.
pub(super) struct Stage {
    faults: Faults,
    /// The faults that each switch has armed, by the number of the switch.
    armed: Mutex<[Vec<FaultId>; SWITCHES.len()]>,
    strikes: mpsc::Sender<Strike>,
    /// Whether the replica that can be stopped should run.
    replica: watch::Sender<bool>,
    started: Instant,
    /// The server's time, in milliseconds since 1970.
    clock: AtomicI64,
    revision: AtomicU64,
    /// Changes that the simulation has made. The revision counts every write, of any client.
    simulated_changes: AtomicU64,
    clients: Mutex<Vec<RequestCount>>,
}

impl Strike {
    pub(super) fn carry_out(self, server: &Server) {
        if self == Self::Compact {
            server.compact();
        }
        server.disconnect_all();
    }
}

impl Stage {
    /// The strikes are carried out by the owner of the server.
    pub(super) fn new(server: &Server) -> (Self, mpsc::Receiver<Strike>) {
        let (strikes, struck) = mpsc::channel(STRIKES_MAX);
        let stage = Self {
            faults: server.faults(),
            armed: Mutex::default(),
            strikes,
            replica: watch::Sender::new(true),
            started: Instant::now(),
            clock: AtomicI64::new(clock(server)),
            revision: AtomicU64::new(server.revision()),
            simulated_changes: AtomicU64::new(0),
            clients: Mutex::default(),
        };
        (stage, struck)
    }

    /// Whether the replica that can be stopped should run.
    pub(super) fn replica(&self) -> watch::Receiver<bool> {
        self.replica.subscribe()
    }

    /// Updates the figures of the server.
    pub(super) fn note(&self, server: &Server, simulated_changes: u64) {
        self.clock.store(clock(server), Ordering::Relaxed);
        self.revision.store(server.revision(), Ordering::Relaxed);
        self.simulated_changes.store(simulated_changes, Ordering::Relaxed);
        *self.clients.lock().unwrap_or_else(PoisonError::into_inner) = by_client(server.requests());
    }

    fn clients(&self) -> Vec<Value> {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = clients.iter().take(CLIENTS_MAX);
        shown
            .map(
                |client| json!({"name": client.user_agent, "verb": client.verb, "requests": client.requests}),
            )
            .collect()
    }

    /// How often an armed switch has struck; `None` if it is off. `--chaos` disarms every fault.
    fn fired(&self, switch: usize) -> Option<u64> {
        let armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed[switch].iter().filter_map(|id| self.faults.fired(*id)).reduce(|a, b| a + b)
    }

    /// All faults that are armed on the server, whether by a switch or by `--chaos`.
    fn armed(&self) -> Vec<Value> {
        let switches = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let by_switch = |id: FaultId| switches.iter().flatten().any(|known| *known == id);
        self.faults.armed().iter().map(|fault| armed_faults::row(fault, by_switch(fault.id))).collect()
    }

    fn strike(&self, strike: Strike) {
        // If the queue is full, one more strike makes no difference.
        let _ = self.strikes.try_send(strike);
    }
}

impl Playground for Stage {
    fn report(&self) -> Value {
        let switches = SWITCHES.iter().enumerate().map(|(number, (name, title))| {
            let fired = self.fired(number);
            json!({"name": name, "title": title, "switch": true, "armed": fired.is_some(), "fired": fired})
        });
        let title = format!("Stop {SWITCHED} of the controller, so that the others take its slots");
        let is_stopped = !*self.replica.borrow();
        let replica =
            json!({"name": REPLICA, "title": title, "switch": true, "armed": is_stopped, "fired": null});
        let strikes =
            STRIKES.iter().map(|(name, title)| json!({"name": name, "title": title, "switch": false}));
        json!({
            "clock": self.clock.load(Ordering::Relaxed),
            "uptimeSeconds": self.started.elapsed().as_secs(),
            "revision": self.revision.load(Ordering::Relaxed),
            "simulatedChanges": self.simulated_changes.load(Ordering::Relaxed),
            "clients": self.clients(),
            "faults": switches.chain([replica]).chain(strikes).collect::<Vec<_>>(),
            "armed": self.armed(),
        })
    }

    fn arm(&self, name: &str) -> Result<(), FaultRefusal> {
        match name {
            "disconnect" => self.strike(Strike::Disconnect),
            "compact" => self.strike(Strike::Compact),
            REPLICA => {
                self.replica.send_replace(false);
            }
            name => {
                let number =
                    switch(name).ok_or_else(|| FaultRefusal::Unknown(names(&[&SWITCHES, &STRIKES])))?;
                if self.fired(number).is_some() {
                    return Ok(());
                }
                let armed = faults(name).into_iter().map(|fault| self.faults.arm(fault)).collect();
                self.armed.lock().unwrap_or_else(PoisonError::into_inner)[number] = armed;
                // A fault does not affect watches that are open already.
                if name != "failing" {
                    self.strike(Strike::Disconnect);
                }
            }
        }
        Ok(())
    }

    fn disarm(&self, name: &str) -> Result<(), FaultRefusal> {
        if name == REPLICA {
            self.replica.send_replace(true);
            return Ok(());
        }
        if STRIKES.iter().any(|(strike, _)| *strike == name) {
            return Err(FaultRefusal::HappensOnce);
        }
        let number = switch(name).ok_or_else(|| FaultRefusal::Unknown(names(&[&SWITCHES])))?;
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed[number].drain(..).for_each(|id| self.faults.disarm(id));
        Ok(())
    }
}

/// The server's time, in milliseconds since 1970.
fn clock(server: &Server) -> i64 {
    Timestamp::try_from(server.now()).unwrap_or_default().as_millisecond()
}

/// The number of a switch.
fn switch(name: &str) -> Option<usize> {
    SWITCHES.iter().position(|(known, _)| *known == name)
}

/// The names of these faults, and of the switch that stops a replica.
fn names(faults: &[&[(&'static str, &str)]]) -> Vec<&'static str> {
    faults.iter().copied().flatten().map(|(name, _)| *name).chain([REPLICA]).collect()
}

/// The clients with the most requests first; the verbs of one client follow each other, the most frequent first.
fn by_client(mut counts: Vec<RequestCount>) -> Vec<RequestCount> {
    let mut totals = HashMap::<_, u64>::new();
    for count in &counts {
        *totals.entry(count.user_agent.clone()).or_default() += count.requests;
    }
    // The names order rows with equal numbers, which would otherwise change places.
    counts.sort_by_cached_key(|count| {
        let total = totals.get(&count.user_agent).copied();
        (Reverse(total), count.user_agent.clone(), Reverse(count.requests), format!("{:?}", count.verb))
    });
    counts
}

/// The faults that a switch arms: one per verb. They do not affect the simulation.
fn faults(name: &str) -> Vec<Fault> {
    let action = match name {
        "overloaded" => Action::Overloaded { retry_after_seconds: 1 },
        "unavailable" => refusal(503, "ServiceUnavailable"),
        "failing" => {
            let writes = Match::verb(Verb::Patch).user_agent(USER_AGENT);
            return vec![Fault::new(refusal(500, "InternalError")).on(writes)];
        }
        "slow" => Action::Delay(Duration::from_secs(1)),
        _ => Action::Expired,
    };
    let verbs =
        if matches!(action, Action::Expired) { &[Verb::Watch][..] } else { &[Verb::Watch, Verb::List] };
    verbs.iter().map(|verb| Fault::new(action.clone()).on(Match::verb(*verb))).collect()
}

fn refusal(code: u16, reason: &str) -> Action {
    let message = "injected by the demo's page".to_owned();
    Action::Status { code, reason: reason.to_owned(), message, retry_after_seconds: 0 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::UNIX_EPOCH;

    use bytes::Bytes;
    use embedded_apiserver::Clock;
    use http::header::USER_AGENT as USER_AGENT_HEADER;
    use http_body_util::Full;
    use tower::Service;

    use super::*;
    use crate::commands::demo::chaos::Chaos;

    #[tokio::test]
    async fn switches_arm_and_disarm_faults_and_strikes_are_handed_to_the_server() {
        let server = Server::builder().without_socket().start().await.unwrap();
        let (stage, mut struck) = Stage::new(&server);
        stage.arm("overloaded").unwrap();
        stage.arm("overloaded").unwrap();
        assert_eq!(server.faults().armed().len(), 2, "one per verb, and once");
        assert_eq!(stage.report()["faults"][0]["armed"], true);
        assert_eq!(struck.try_recv().unwrap(), Strike::Disconnect);
        assert!(struck.try_recv().is_err());
        stage.disarm("overloaded").unwrap();
        assert!(server.faults().armed().is_empty());
        stage.arm("failing").unwrap();
        assert_eq!(server.faults().armed().len(), 1);
        stage.disarm("failing").unwrap();
        stage.arm("slow").unwrap();
        server.faults().clear();
        assert_eq!(stage.report()["faults"][2]["armed"], false, "the server knows best");
        let replica = stage.replica();
        stage.arm("replica").unwrap();
        assert!(server.faults().armed().is_empty() && !*replica.borrow());
        assert_eq!(stage.report()["faults"][5]["armed"], true);
        stage.disarm("replica").unwrap();
        assert!(*replica.borrow());
        let unknown = |refused: Result<(), FaultRefusal>| match refused {
            Err(FaultRefusal::Unknown(names)) => names.join(" "),
            other => panic!("{other:?}"),
        };
        let switches = "overloaded unavailable slow expired failing";
        assert_eq!(unknown(stage.arm("nothing")), format!("{switches} disconnect compact replica"));
        assert_eq!(unknown(stage.disarm("nothing")), format!("{switches} replica"));
        for strike in ["disconnect", "compact"] {
            assert!(matches!(stage.disarm(strike), Err(FaultRefusal::HappensOnce)), "{strike}");
        }
        server.shutdown().await;
    }

    #[tokio::test]
    async fn requests_are_grouped_by_client() {
        let server = Server::builder().without_socket().start().await.unwrap();
        let mut service = server.service();
        let maps = "/api/v1/namespaces/default/configmaps";
        let requests =
            [("b", maps, 3), ("a", maps, 2), ("c", maps, 2), ("a", "/healthz", 2), ("b", "/healthz", 2)];
        for (client, path, times) in requests {
            for _ in 0..times {
                let request = http::Request::get(path).header(USER_AGENT_HEADER, client);
                service.call(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
            }
        }
        let (stage, _struck) = Stage::new(&server);
        stage.note(&server, 0);
        let rows = stage.report()["clients"].as_array().unwrap().clone();
        let rows = rows.iter().map(|row| {
            (row["name"].as_str().unwrap(), row["verb"].as_str(), row["requests"].as_u64().unwrap())
        });
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [
                ("b", Some("list"), 3),
                ("b", None, 2),
                ("a", None, 2),
                ("a", Some("list"), 2),
                ("c", Some("list"), 2)
            ]
        );
        server.shutdown().await;
    }

    #[tokio::test]
    async fn the_clock_is_the_servers() {
        let time = Arc::new(AtomicU64::new(1_893_456_000_000));
        let now = time.clone();
        let clock = Clock::new(move || UNIX_EPOCH + Duration::from_millis(now.load(Ordering::Relaxed)));
        let server = Server::builder().without_socket().clock(clock).start().await.unwrap();
        let (stage, _struck) = Stage::new(&server);
        assert_eq!(stage.report()["clock"], 1_893_456_000_000_i64);
        time.store(1_893_456_001_500, Ordering::Relaxed);
        stage.note(&server, 0);
        assert_eq!(stage.report()["clock"], 1_893_456_001_500_i64);
        server.shutdown().await;
    }

    #[tokio::test]
    async fn faults_of_chaos_are_listed_next_to_those_of_switches() {
        let server = Server::builder().without_socket().start().await.unwrap();
        let (stage, _struck) = Stage::new(&server);
        assert_eq!(stage.report()["armed"], json!([]));
        let mut chaos = Chaos::default();
        let overloaded = loop {
            if chaos.strike(&server).contains("429") {
                break stage.report()["armed"].clone();
            }
        };
        let by_chaos = json!({"effect": "429 Too Many Requests", "requests": "watch", "fired": 0, "times": 3, "switch": false});
        assert_eq!(overloaded, json!([by_chaos]));
        stage.arm("failing").unwrap();
        let by_switch = json!({"effect": "500 InternalError", "requests": "patch by controller", "fired": 0, "times": null, "switch": true});
        assert_eq!(stage.report()["armed"], json!([by_chaos, by_switch]));
        server.shutdown().await;
    }
}
