//! The plan of a run: its clients and a list of steps, both drawn from the seed.
//!
//! The plan is data, and a run depends on nothing else. So a failing plan can be shrunk by removing steps.
//! [`sharing_plan`](crate::sharing_plan) draws the plans of the other scenario.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// The namespaces of the objects.
pub(crate) const NAMESPACES: [&str; 3] = ["blue", "green", "red"];
/// The values of the label `team`.
pub(crate) const TEAMS: [&str; 3] = ["x", "y", "z"];
/// The number of objects per namespace.
const NAMES: u8 = 5;

/// What a run is about. The same seed has another plan in each scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Informers, one controller, and replicas that elect a leader.
    Informers,
    /// Replicas that share the work.
    Sharing,
}

impl Scenario {
    /// The plan of a seed.
    pub(crate) fn plan(self, seed: u64) -> Plan {
        match self {
            Self::Informers => Plan::new(seed),
            Self::Sharing => Plan::of_sharing(seed),
        }
    }

    /// The argument that chooses it.
    pub(crate) fn argument(self) -> Option<&'static str> {
        (self == Self::Sharing).then_some("--sharing")
    }
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) informers: Vec<InformerPlan>,
    /// A controller.
    pub(crate) mirror: Option<MirrorPlan>,
    /// The website operator.
    pub(crate) websites: Option<WebsitePlan>,
    /// Replicas that compete for a lease.
    pub(crate) replicas: Vec<ReplicaPlan>,
    /// Replicas that share the work.
    pub(crate) sharing: Option<SharingPlan>,
    /// The objects on the server before the first informer starts.
    pub(crate) initial: Vec<ObjectPlan>,
    /// The number of events that the server keeps for watches that resume.
    pub(crate) history_events: usize,
    pub(crate) steps: Vec<Step>,
}

/// One informer, with its own network link.
#[derive(Clone, Debug)]
pub(crate) struct InformerPlan {
    /// All if empty.
    pub(crate) namespaces: Vec<&'static str>,
    pub(crate) team: Option<&'static str>,
    pub(crate) packed: bool,
    pub(crate) json: bool,
    pub(crate) page_size: Option<u32>,
    pub(crate) watch_list: bool,
    /// Whether it drops `data`.
    pub(crate) projected: bool,
    pub(crate) listeners: Vec<ListenerPlan>,
}

/// A controller that mirrors objects, with its own network link.
#[derive(Clone, Debug)]
pub(crate) struct MirrorPlan {
    /// All if empty.
    pub(crate) namespaces: Vec<&'static str>,
    pub(crate) concurrency: u8,
    /// Whether its objects have a finalizer.
    pub(crate) finalizes: bool,
}

/// The website operator, with its own network link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebsitePlan {
    pub(crate) sites: u8,
    pub(crate) concurrency: u8,
}

/// A replica, with its own network link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReplicaPlan {
    /// The speed of its clock.
    pub(crate) clock_percent: u8,
}

/// Replicas of a controller that share the work, each with its own process and network link.
#[derive(Clone, Debug)]
pub(crate) struct SharingPlan {
    /// The replicas at the start.
    pub(crate) replicas: Vec<ReplicaPlan>,
    pub(crate) slots: u8,
    pub(crate) by_namespace: bool,
    /// Whether an informer has only the objects of its replica's slots.
    pub(crate) split: bool,
    /// Whether the server can split lists and watches.
    pub(crate) server_splits: bool,
    pub(crate) concurrency: u8,
    /// How long a reconcile can take before its write.
    pub(crate) work_max_ms: u16,
    /// How long a running reconcile delays a hand-over.
    pub(crate) grace_ms: u16,
}

/// One listener of an informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerPlan {
    pub(crate) kind: ListenerKind,
    /// The number of changes that may be pending before they are coalesced.
    pub(crate) changes_max: usize,
    pub(crate) resync: bool,
}

/// How a listener behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    Fast,
    /// Takes this many milliseconds per event.
    Slow(u16),
    /// Panics at every third event, after recording it.
    Panicking,
    /// Never returns from the call with this number.
    Hanging(u16),
    /// A subscription whose reader pauses for this many milliseconds after each event.
    Subscription(u16),
}

/// A request of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collection {
    List,
    WatchList,
    Watch,
}

/// An object and its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectPlan {
    pub(crate) namespace: u8,
    pub(crate) name: u8,
    pub(crate) team: u8,
}

/// An action and its time.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Milliseconds since the start.
    pub(crate) at: u64,
    pub(crate) action: Action,
}

/// One action of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    // Writes.
    Put(ObjectPlan),
    Delete(ObjectPlan),
    Recreate(ObjectPlan),
    Burst {
        namespace: u8,
        writes: u8,
    },
    /// Writes an object, and has a caller wait for the write.
    PutAndWait {
        object: ObjectPlan,
        informer: u8,
    },
    DeleteAndWait {
        object: ObjectPlan,
        informer: u8,
    },
    BreakMirror {
        object: ObjectPlan,
        deletes: bool,
    },
    /// Stops the controller of the mirrors, which starts again.
    RestartMirror,
    /// Changes or deletes a website or one of its children.
    DamageWebsite {
        how: u16,
    },
    // The network of one client.
    Latency {
        link: u8,
        max_ms: u16,
    },
    Refuse {
        link: u8,
        for_ms: u16,
    },
    Partition {
        link: u8,
        for_ms: u16,
    },
    HalfOpen {
        link: u8,
    },
    Reset {
        link: u8,
    },
    CutNext {
        link: u8,
        bytes: u16,
    },
    EndNext {
        link: u8,
        bytes: u16,
    },
    JunkNext {
        link: u8,
        bytes: u16,
    },
    Garbage {
        link: u8,
        which: u8,
    },
    Revoke {
        link: u8,
        for_ms: u16,
    },
    /// The next list or watch arrives one byte at a time after this many bytes.
    Drip {
        link: u8,
        bytes: u16,
    },
    /// A watch sends an older state again.
    Replay {
        link: u8,
    },
    /// The server rejects the resourceVersion of a request.
    RejectVersion {
        link: u8,
        of: Collection,
        code: u16,
    },
    /// A network that delays only watches of ConfigMaps. Only where replicas share the work.
    HoldMaps {
        link: u8,
        for_ms: u16,
    },
    // The server.
    Compact,
    RestartKeepingHistory,
    RestartLosingHistory,
    Backup,
    Restore,
    /// The rolled-back server passes its old revision before any client reconnects.
    RestoreAndOvertake,
    ServerFault {
        which: u8,
        events: u8,
    },
    ForgetFaults,
    /// The wall clock of the server or of a replica jumps forwards, or back.
    JumpClock {
        clock: u8,
        seconds: i32,
    },
    // The clients.
    AddListener {
        informer: u8,
        plan: ListenerPlan,
    },
    RemoveListener {
        informer: u8,
    },
    Look {
        informer: u8,
    },
    // The processes of replicas that share the work.
    StartShare(ReplicaPlan),
    /// As on SIGTERM.
    StopShare {
        share: u8,
    },
    /// As on SIGKILL. If it restarts, it keeps its name.
    CrashShare {
        share: u8,
        restarts: bool,
    },
    /// As on SIGSTOP, with SIGCONT later.
    SuspendShare {
        share: u8,
        for_ms: u32,
    },
    /// Replaces all replicas, one after another.
    RollingUpdate {
        pause_ms: u16,
    },
}

impl Action {
    /// The name under which it is counted.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Put(_) => "put",
            Self::Delete(_) => "delete",
            Self::Recreate(_) => "recreate",
            Self::Burst { .. } => "burst",
            Self::PutAndWait { .. } => "put and wait",
            Self::DeleteAndWait { .. } => "delete and wait",
            Self::BreakMirror { .. } => "break a mirror",
            Self::RestartMirror => "restart the controller",
            Self::DamageWebsite { .. } => "damage a website",
            Self::Latency { .. } => "latency",
            Self::Refuse { .. } => "refuse",
            Self::Partition { .. } => "partition",
            Self::HalfOpen { .. } => "half-open",
            Self::Reset { .. } => "reset",
            Self::CutNext { .. } => "cut",
            Self::EndNext { .. } => "end early",
            Self::JunkNext { .. } => "junk",
            Self::Garbage { .. } => "garbage with 200",
            Self::Revoke { .. } => crate::faults::REVOKED,
            Self::Drip { .. } => "dripping list or watch",
            Self::Replay { .. } => "older event",
            Self::RejectVersion { of: Collection::List, .. } => "rejected version of a list",
            Self::RejectVersion { of: Collection::WatchList, .. } => "rejected version of a watch-list",
            Self::RejectVersion { of: Collection::Watch, .. } => "rejected version of a watch",
            Self::HoldMaps { .. } => "held watch",
            Self::Compact => "compact",
            Self::RestartKeepingHistory => "restart, history kept",
            Self::RestartLosingHistory => "restart, history lost",
            Self::Backup => "backup",
            Self::Restore => "restart, rolled back",
            Self::RestoreAndOvertake => "restart, rolled back and overtaken",
            Self::ServerFault { which, .. } => crate::faults::name(*which),
            Self::ForgetFaults => "forget faults",
            Self::JumpClock { .. } => "clock jump",
            Self::AddListener { .. } => "add listener",
            Self::RemoveListener { .. } => "remove listener",
            Self::Look { .. } => "look",
            Self::StartShare(_) => "start a replica",
            Self::StopShare { .. } => "stop a replica",
            Self::CrashShare { .. } => "crash a replica",
            Self::SuspendShare { .. } => "suspend a replica",
            Self::RollingUpdate { .. } => "rolling update",
        }
    }

    /// Whether it is a fault that takes effect immediately. Others affect the next body or request and count there.
    pub(crate) fn strikes_now(&self) -> bool {
        self.is_fault() && !self.is_armed()
    }

    fn is_armed(&self) -> bool {
        matches!(
            self,
            Self::CutNext { .. }
                | Self::EndNext { .. }
                | Self::JunkNext { .. }
                | Self::Garbage { .. }
                | Self::Drip { .. }
                | Self::Replay { .. }
                | Self::RejectVersion { .. }
                | Self::Revoke { .. }
                | Self::ServerFault { .. }
        )
    }

    /// The names of all faults.
    pub(crate) fn fault_kinds() -> Vec<&'static str> {
        let (link, bytes) = (0, 0);
        let single = [
            Self::Latency { link, max_ms: 0 },
            Self::Refuse { link, for_ms: 0 },
            Self::Partition { link, for_ms: 0 },
            Self::HalfOpen { link },
            Self::Reset { link },
            Self::CutNext { link, bytes },
            Self::EndNext { link, bytes },
            Self::JunkNext { link, bytes },
            Self::Garbage { link, which: 0 },
            Self::Revoke { link, for_ms: 0 },
            Self::Drip { link, bytes },
            Self::Replay { link },
            Self::RejectVersion { link, of: Collection::List, code: 0 },
            Self::RejectVersion { link, of: Collection::WatchList, code: 0 },
            Self::RejectVersion { link, of: Collection::Watch, code: 0 },
            Self::Compact,
            Self::RestartKeepingHistory,
            Self::RestartLosingHistory,
            Self::Restore,
            Self::RestoreAndOvertake,
            Self::JumpClock { clock: 0, seconds: 0 },
        ];
        let of_server = (0..crate::faults::COUNT).map(crate::faults::name);
        single.iter().map(Self::kind).chain(of_server).collect()
    }

    /// Whether it is a fault.
    pub(crate) fn is_fault(&self) -> bool {
        !matches!(
            self,
            Self::Put(_)
                | Self::Delete(_)
                | Self::Recreate(_)
                | Self::Burst { .. }
                | Self::PutAndWait { .. }
                | Self::DeleteAndWait { .. }
                | Self::BreakMirror { .. }
                | Self::RestartMirror
                | Self::DamageWebsite { .. }
                | Self::Backup
                | Self::ForgetFaults
                | Self::AddListener { .. }
                | Self::RemoveListener { .. }
                | Self::Look { .. }
                | Self::StartShare(_)
                | Self::StopShare { .. }
                | Self::CrashShare { .. }
                | Self::SuspendShare { .. }
                | Self::RollingUpdate { .. }
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
        // A generator of its own: the choices of the other one do not depend on it.
        let mut extra = StdRng::seed_from_u64(!seed);
        let informers =
            (0..rng.random_range(1..=4)).map(|_| InformerPlan::draw(&mut rng)).collect::<Vec<_>>();
        let mirror = rng.random_bool(0.3).then(|| MirrorPlan::draw(&mut rng, extra.random_bool(0.5)));
        let websites = (mirror.is_none() && extra.random_bool(0.15)).then(|| WebsitePlan::draw(&mut extra));
        let replicas = if rng.random_bool(0.25) { rng.random_range(2..=3) } else { 0 };
        let replicas = (0..replicas).map(|_| ReplicaPlan::draw(&mut rng)).collect::<Vec<_>>();
        let controllers = usize::from(mirror.is_some()) + usize::from(websites.is_some());
        let links = (informers.len() + controllers + replicas.len()) as u8;
        let leases = websites.is_some() || !replicas.is_empty();
        let history_events = [3, 20, 1000][rng.random_range(0..3)];
        let mut steps = Vec::new();
        let mut at = 0;
        // A run is calm, mixed or rough.
        let faults_percent = [5, 25, 60][rng.random_range(0..3)];
        for _ in 0..rng.random_range(20..150) {
            at += pause(&mut rng);
            let action = if rng.random_range(0..100) < faults_percent {
                fault(&mut rng, links, leases)
            } else if websites.is_some() && extra.random_bool(0.25) {
                Action::DamageWebsite { how: extra.random() }
            } else {
                work(&mut rng, informers.len() as u8, mirror.is_some())
            };
            steps.push(Step { at, action });
        }
        let objects = rng.random_range(0..=12);
        let initial = (0..objects).map(|_| ObjectPlan::draw(&mut rng)).collect();
        let sharing = None;
        Self { seed, informers, mirror, websites, replicas, sharing, initial, history_events, steps }
    }

    /// The scenario of this plan.
    pub(crate) fn scenario(&self) -> Scenario {
        if self.sharing.is_some() { Scenario::Sharing } else { Scenario::Informers }
    }

    /// The time of the last step.
    pub(crate) fn ends(&self) -> Duration {
        Duration::from_millis(self.steps.last().map_or(0, |step| step.at))
    }
}

/// A pause, mostly short, sometimes long enough to exceed time limits.
fn pause(rng: &mut StdRng) -> u64 {
    match rng.random_range(0..20) {
        0..=8 => rng.random_range(0..50),
        9..=16 => rng.random_range(50..1_500),
        17..=18 => rng.random_range(1_500..12_000),
        _ => rng.random_range(12_000..400_000),
    }
}

fn work(rng: &mut StdRng, informers: u8, mirrors: bool) -> Action {
    let object = ObjectPlan::draw(rng);
    if mirrors && rng.random_bool(0.08) {
        return Action::BreakMirror { object, deletes: rng.random_bool(0.5) };
    }
    if mirrors && rng.random_bool(0.03) {
        return Action::RestartMirror;
    }
    let informer = rng.random_range(0..informers);
    match rng.random_range(0..100) {
        0..=34 => Action::Put(object),
        35..=46 => Action::Delete(object),
        47..=53 => Action::Recreate(object),
        54..=58 => Action::Burst { namespace: object.namespace, writes: rng.random_range(5..40) },
        59..=63 => Action::PutAndWait { object, informer },
        64..=66 => Action::DeleteAndWait { object, informer },
        67..=86 => Action::Look { informer },
        87..=90 => Action::Backup,
        91..=93 => Action::ForgetFaults,
        94..=97 => Action::AddListener { informer, plan: ListenerPlan::draw(rng) },
        _ => Action::RemoveListener { informer },
    }
}

/// `leases`: whether there is a lease. Then the server is not rolled back, because no promise covers that.
pub(crate) fn fault(rng: &mut StdRng, links: u8, leases: bool) -> Action {
    let link = rng.random_range(0..links);
    // Small offsets are in headers and first frames, large ones in later objects.
    let bytes = if rng.random_bool(0.5) { rng.random_range(0..300) } else { rng.random_range(0..8_000) };
    match rng.random_range(0..118) {
        0..=6 => Action::Latency { link, max_ms: [0, 20, 400, 5_000][rng.random_range(0..4)] },
        7..=11 => Action::Refuse { link, for_ms: rng.random_range(10..40_000) },
        12..=16 => Action::Partition { link, for_ms: rng.random_range(10..60_000) },
        17..=20 => Action::HalfOpen { link },
        21..=26 => Action::Reset { link },
        27..=36 => Action::CutNext { link, bytes },
        37..=41 => Action::EndNext { link, bytes },
        42..=46 => Action::JunkNext { link, bytes },
        47..=50 => Action::Garbage { link, which: rng.random_range(0..4) },
        51..=53 => Action::Revoke { link, for_ms: rng.random_range(10..40_000) },
        54..=58 => Action::Compact,
        65..=71 if leases => Action::RestartKeepingHistory,
        59..=61 => Action::RestartKeepingHistory,
        62..=64 => Action::RestartLosingHistory,
        65..=68 => Action::Restore,
        69..=71 => Action::RestoreAndOvertake,
        100..=102 => Action::Drip { link, bytes },
        103..=105 => Action::Replay { link },
        106..=113 => {
            let of = [Collection::List, Collection::WatchList, Collection::Watch][rng.random_range(0..3)];
            Action::RejectVersion { link, of, code: [400, 422, 500][rng.random_range(0..3)] }
        }
        114..=117 => Action::JumpClock { clock: rng.random(), seconds: clock_jump(rng) },
        _ => Action::ServerFault {
            which: rng.random_range(0..crate::faults::COUNT),
            events: rng.random_range(0..6),
        },
    }
}

/// A jump of a clock: by less than a lease, by more, or by years.
fn clock_jump(rng: &mut StdRng) -> i32 {
    let distance = [5, 60, 3_600, 40_000_000][rng.random_range(0..4)];
    let distance = rng.random_range(1..=distance);
    if rng.random_bool(0.5) { distance } else { -distance }
}

impl ObjectPlan {
    pub(crate) fn draw(rng: &mut StdRng) -> Self {
        Self {
            namespace: rng.random_range(0..NAMESPACES.len() as u8),
            name: rng.random_range(0..NAMES),
            team: rng.random_range(0..TEAMS.len() as u8),
        }
    }
}

impl InformerPlan {
    pub(crate) fn draw(rng: &mut StdRng) -> Self {
        Self {
            namespaces: draw_namespaces(rng),
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

fn draw_namespaces(rng: &mut StdRng) -> Vec<&'static str> {
    match rng.random_range(0..4) {
        0 | 1 => Vec::new(),
        2 => vec![NAMESPACES[rng.random_range(0..3)]],
        _ => NAMESPACES[..2].to_vec(),
    }
}

impl MirrorPlan {
    fn draw(rng: &mut StdRng, finalizes: bool) -> Self {
        Self { namespaces: draw_namespaces(rng), concurrency: rng.random_range(1..4), finalizes }
    }
}

impl WebsitePlan {
    fn draw(rng: &mut StdRng) -> Self {
        Self { sites: rng.random_range(1..6), concurrency: rng.random_range(1..4) }
    }
}

impl ReplicaPlan {
    pub(crate) fn draw(rng: &mut StdRng) -> Self {
        Self { clock_percent: [90, 100, 110][rng.random_range(0..3)] }
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
