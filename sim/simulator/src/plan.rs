//! What happens in a run: who takes part, and a list of steps, both drawn from the seed.
//!
//! The plan is data. A run follows it and nothing else, so a failing plan is shrunk by leaving steps out.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// The namespaces that objects are in.
pub(crate) const NAMESPACES: [&str; 3] = ["blue", "green", "red"];
/// The values of the label `team`.
pub(crate) const TEAMS: [&str; 3] = ["x", "y", "z"];
/// Objects in each namespace.
const NAMES: u8 = 5;

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) informers: Vec<InformerPlan>,
    /// How many events the server keeps for watches that resume.
    pub(crate) history_events: usize,
    pub(crate) steps: Vec<Step>,
}

/// One informer, on a network link of its own.
#[derive(Clone, Debug)]
pub(crate) struct InformerPlan {
    /// Empty: all.
    pub(crate) namespaces: Vec<&'static str>,
    pub(crate) team: Option<&'static str>,
    pub(crate) packed: bool,
    pub(crate) json: bool,
    pub(crate) page_size: Option<u32>,
    pub(crate) watch_list: bool,
    /// Drops `data`.
    pub(crate) projected: bool,
    pub(crate) listeners: Vec<ListenerPlan>,
}

/// One listener of an informer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenerPlan {
    pub(crate) kind: ListenerKind,
    /// Changes that may wait before they are coalesced.
    pub(crate) changes_max: usize,
    pub(crate) resync: bool,
}

/// How a listener behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    Fast,
    /// Takes this many milliseconds for each event.
    Slow(u16),
    /// Panics at every third event, after it has noted it.
    Panicking,
    /// Never returns from the call with this number.
    Hanging(u16),
    /// A subscription that is read with pauses of this many milliseconds.
    Subscription(u16),
}

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Milliseconds since the start.
    pub(crate) at: u64,
    pub(crate) action: Action,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    // Writes.
    Put { namespace: u8, name: u8, team: u8 },
    Delete { namespace: u8, name: u8 },
    Recreate { namespace: u8, name: u8, team: u8 },
    Burst { namespace: u8, writes: u8 },
    // The network of one informer.
    Latency { link: u8, max_ms: u16 },
    Refuse { link: u8, for_ms: u16 },
    Partition { link: u8, for_ms: u16 },
    HalfOpen { link: u8 },
    Reset { link: u8 },
    CutNext { link: u8, bytes: u16 },
    EndNext { link: u8, bytes: u16 },
    JunkNext { link: u8, bytes: u16 },
    Garbage { link: u8, which: u8 },
    // The server.
    Compact,
    RestartKeepingHistory,
    RestartLosingHistory,
    Backup,
    Restore,
    ServerFault { which: u8, events: u8 },
    ForgetFaults,
    // The clients.
    AddListener { informer: u8, plan: ListenerPlan },
    RemoveListener { informer: u8 },
    Look { informer: u8 },
}

impl PartialEq for ListenerPlan {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.changes_max == other.changes_max && self.resync == other.resync
    }
}

impl Action {
    /// The name under which it is counted.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Delete { .. } => "delete",
            Self::Recreate { .. } => "recreate",
            Self::Burst { .. } => "burst",
            Self::Latency { .. } => "latency",
            Self::Refuse { .. } => "refuse",
            Self::Partition { .. } => "partition",
            Self::HalfOpen { .. } => "half-open",
            Self::Reset { .. } => "reset",
            Self::CutNext { .. } => "cut",
            Self::EndNext { .. } => "end early",
            Self::JunkNext { .. } => "junk",
            Self::Garbage { .. } => "garbage with 200",
            Self::Compact => "compact",
            Self::RestartKeepingHistory => "restart, history kept",
            Self::RestartLosingHistory => "restart, history lost",
            Self::Backup => "backup",
            Self::Restore => "restart, rolled back",
            Self::ServerFault { which, .. } => {
                crate::faults::NAMES[usize::from(*which) % crate::faults::NAMES.len()]
            }
            Self::ForgetFaults => "forget faults",
            Self::AddListener { .. } => "add listener",
            Self::RemoveListener { .. } => "remove listener",
            Self::Look { .. } => "look",
        }
    }

    /// Whether something goes wrong.
    pub(crate) fn is_fault(&self) -> bool {
        !matches!(
            self,
            Self::Put { .. }
                | Self::Delete { .. }
                | Self::Recreate { .. }
                | Self::Burst { .. }
                | Self::Backup
                | Self::ForgetFaults
                | Self::AddListener { .. }
                | Self::RemoveListener { .. }
                | Self::Look { .. }
        )
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9} ms  {:?}", self.at, self.action)
    }
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let informers =
            (0..rng.random_range(1..=4)).map(|_| InformerPlan::draw(&mut rng)).collect::<Vec<_>>();
        let history_events = [3, 20, 1000][rng.random_range(0..3)];
        let mut steps = Vec::new();
        let mut at = 0;
        // A run is calm, mixed or rough.
        let faults_percent = [5, 25, 60][rng.random_range(0..3)];
        for _ in 0..rng.random_range(20..150) {
            at += pause(&mut rng);
            let action = if rng.random_range(0..100) < faults_percent {
                fault(&mut rng, informers.len() as u8)
            } else {
                work(&mut rng, informers.len() as u8)
            };
            steps.push(Step { at, action });
        }
        Self { seed, informers, history_events, steps }
    }

    /// When the last step happens.
    pub(crate) fn ends(&self) -> Duration {
        Duration::from_millis(self.steps.last().map_or(0, |step| step.at))
    }
}

/// Mostly short, sometimes long enough for time limits to pass.
fn pause(rng: &mut StdRng) -> u64 {
    match rng.random_range(0..20) {
        0..=8 => rng.random_range(0..50),
        9..=16 => rng.random_range(50..1_500),
        17..=18 => rng.random_range(1_500..12_000),
        _ => rng.random_range(12_000..400_000),
    }
}

fn work(rng: &mut StdRng, informers: u8) -> Action {
    let namespace = rng.random_range(0..NAMESPACES.len() as u8);
    let name = rng.random_range(0..NAMES);
    let team = rng.random_range(0..TEAMS.len() as u8);
    let informer = rng.random_range(0..informers);
    match rng.random_range(0..100) {
        0..=39 => Action::Put { namespace, name, team },
        40..=54 => Action::Delete { namespace, name },
        55..=61 => Action::Recreate { namespace, name, team },
        62..=66 => Action::Burst { namespace, writes: rng.random_range(5..40) },
        67..=86 => Action::Look { informer },
        87..=90 => Action::Backup,
        91..=93 => Action::ForgetFaults,
        94..=97 => Action::AddListener { informer, plan: ListenerPlan::draw(rng) },
        _ => Action::RemoveListener { informer },
    }
}

fn fault(rng: &mut StdRng, links: u8) -> Action {
    let link = rng.random_range(0..links);
    // Short cuts strike in heads and first frames, long ones in later objects.
    let bytes = if rng.random_bool(0.5) { rng.random_range(0..300) } else { rng.random_range(0..8_000) };
    match rng.random_range(0..100) {
        0..=7 => Action::Latency { link, max_ms: [0, 20, 400, 5_000][rng.random_range(0..4)] },
        8..=13 => Action::Refuse { link, for_ms: rng.random_range(10..40_000) },
        14..=19 => Action::Partition { link, for_ms: rng.random_range(10..60_000) },
        20..=23 => Action::HalfOpen { link },
        24..=31 => Action::Reset { link },
        32..=43 => Action::CutNext { link, bytes },
        44..=49 => Action::EndNext { link, bytes },
        50..=55 => Action::JunkNext { link, bytes },
        56..=60 => Action::Garbage { link, which: rng.random_range(0..4) },
        61..=66 => Action::Compact,
        67..=70 => Action::RestartKeepingHistory,
        71..=74 => Action::RestartLosingHistory,
        75..=78 => Action::Restore,
        _ => Action::ServerFault {
            which: rng.random_range(0..crate::faults::NAMES.len() as u8),
            events: rng.random_range(0..6),
        },
    }
}

impl InformerPlan {
    fn draw(rng: &mut StdRng) -> Self {
        let namespaces = match rng.random_range(0..4) {
            0 | 1 => Vec::new(),
            2 => vec![NAMESPACES[rng.random_range(0..3)]],
            _ => NAMESPACES[..2].to_vec(),
        };
        Self {
            namespaces,
            team: rng.random_bool(0.3).then(|| TEAMS[rng.random_range(0..3)]),
            packed: rng.random_bool(0.5),
            json: rng.random_bool(0.4),
            page_size: rng.random_bool(0.4).then(|| rng.random_range(1..5)),
            watch_list: rng.random_bool(0.5),
            projected: rng.random_bool(0.25),
            listeners: (0..rng.random_range(1..4)).map(|_| ListenerPlan::draw(rng)).collect(),
        }
    }
}

impl ListenerPlan {
    fn draw(rng: &mut StdRng) -> Self {
        let kind = match rng.random_range(0..10) {
            0..=3 => ListenerKind::Fast,
            4 | 5 => ListenerKind::Slow(rng.random_range(1..900)),
            6 => ListenerKind::Panicking,
            7 => ListenerKind::Hanging(rng.random_range(1..20)),
            _ => ListenerKind::Subscription(rng.random_range(0..700)),
        };
        Self { kind, changes_max: [1, 4, 10_000][rng.random_range(0..3)], resync: rng.random_bool(0.2) }
    }
}
