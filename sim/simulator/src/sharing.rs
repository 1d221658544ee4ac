//! The replicas of a run that share the work, and what happens to their processes.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::link::Link;
use crate::ownership::Ownership;
use crate::plan::{Action, NAMESPACES, Plan, ReplicaPlan, SharingPlan};
use crate::run::later;
use crate::share::{Arbiter, LEASE, SHARE, Share};
use crate::wall_clock::WallClock;
use crate::world::World;

/// The number of replicas, except during a rolling update.
const REPLICAS_MAX: usize = 5;
/// The pause before a crashed replica restarts.
const RESTART_AFTER: Duration = Duration::from_secs(2);
/// A replica that has not stopped after this time is killed.
const KILL_AFTER: Duration = Duration::from_secs(60);
/// How often the slots that replicas work on are checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// In runs without faults of network and server, a slot has no working replica for at most the lease duration, 2.2 retry periods of a
/// replica whose clock is slow, and the time until a bookmark shows that a cache has caught up.
const IDLE_MAX: Duration = Duration::from_millis(15_000 + 4_900 + 70_000);

/// The replicas.
pub(crate) struct Sharing {
    crew: Arc<Crew>,
    looking: JoinHandle<()>,
    /// Whether network and server have no faults.
    is_calm: bool,
}

struct Crew {
    plan: SharingPlan,
    seed: u64,
    arbiter: Arc<Arbiter>,
    state: Mutex<CrewState>,
}

#[derive(Default)]
struct CrewState {
    shares: Vec<Share>,
    /// The number of processes that were started.
    started: u64,
    /// Rolling updates and restarts that are not finished.
    pending: usize,
}

impl Sharing {
    pub(crate) fn start(world: &Arc<World>, sharing: &SharingPlan, plan: &Plan) -> Self {
        let is_calm = !plan.steps.iter().any(|step| step.action.is_fault());
        let idle_max = is_calm.then_some(IDLE_MAX.as_millis() as u64);
        let table = format!("{}/{LEASE}-slots-0", NAMESPACES[0]);
        let ownership = Ownership::new(table, sharing.slots.into(), idle_max);
        let crew = Arc::new(Crew {
            plan: sharing.clone(),
            seed: plan.seed,
            arbiter: Arc::new(Arbiter::new(world.clone(), ownership)),
            state: Mutex::default(),
        });
        sharing.replicas.iter().for_each(|replica| crew.add(None, *replica));
        let looking = tokio::spawn(look(crew.clone()));
        Self { crew, looking, is_calm }
    }

    /// The links of all replicas that have not ended.
    pub(crate) fn links(&self) -> Vec<Link> {
        self.crew.state.lock().shares.iter().map(|share| share.link.clone()).collect()
    }

    /// The clocks of all replicas that have not ended.
    pub(crate) fn clocks(&self) -> Vec<WallClock> {
        self.crew.state.lock().shares.iter().map(|share| share.clock.clone()).collect()
    }

    /// Does something to a process.
    pub(crate) fn play(&self, action: &Action) {
        let crew = &self.crew;
        crew.prune();
        match *action {
            Action::StartShare(replica) if crew.state.lock().shares.len() < REPLICAS_MAX => {
                crew.add(None, replica);
            }
            Action::StopShare { share } => {
                let number = crew.choose(share, |share| !share.is_stopping());
                number.into_iter().for_each(|number| crew.terminate(number));
            }
            Action::CrashShare { share, restarts } => {
                let crashed = crew.choose(share, |_| true).and_then(|number| crew.kill(number));
                if let Some(crashed) = crashed.filter(|_| restarts) {
                    crew.clone().restart(crashed.name);
                }
            }
            Action::SuspendShare { share, for_ms } => {
                if let Some(number) = crew.choose(share, |share| !share.is_suspended) {
                    crew.suspend(number, Duration::from_millis(for_ms.into()));
                }
            }
            Action::RollingUpdate { pause_ms } => {
                tokio::spawn(crew.clone().replace_all(Duration::from_millis(pause_ms.into())));
            }
            _ => {}
        }
    }

    /// Resumes all processes. At least one runs.
    pub(crate) fn heal(&self) {
        self.crew.acts();
        self.crew.state.lock().shares.iter_mut().filter(|share| share.is_suspended).for_each(Share::resume);
        self.crew.ensure_one();
    }

    /// Describes what is not done; `None` if every slot has an owner that works, and all changes were reconciled.
    pub(crate) async fn differs(&self) -> io::Result<Option<String>> {
        let crew = &self.crew;
        let maps = crew.arbiter.world.maps().await?;
        crew.arbiter.catch_up();
        crew.ensure_one();
        if crew.state.lock().pending > 0 {
            return Ok(Some("a rolling update is not finished".to_owned()));
        }
        let working = crew.working().1.len();
        if working < usize::from(crew.plan.slots) {
            return Ok(Some(format!("promise C11 is broken: replicas work on {working} slots")));
        }
        Ok(crew.arbiter.ownership.lock().converged(&maps).err())
    }

    pub(crate) async fn stop(self) {
        self.looking.abort();
        let shares = std::mem::take(&mut self.crew.state.lock().shares);
        shares.iter().for_each(Share::terminate);
        let ended = async {
            while !shares.iter().all(Share::has_ended) {
                sleep(LOOK_EVERY).await;
            }
        };
        // A silent connection can delay it for minutes.
        if tokio::time::timeout(KILL_AFTER, ended).await.is_err() && self.is_calm {
            let name = shares.iter().find(|share| !share.has_ended()).map(|share| &share.name);
            self.crew.arbiter.world.trace.fail(&format!("promise C11 is broken: {name:?} does not stop"));
        }
        shares.iter().for_each(Share::kill);
    }
}

/// Checks that every slot has a replica that works on it.
async fn look(crew: Arc<Crew>) {
    loop {
        crew.arbiter.catch_up();
        let (is_attended, working) = crew.working();
        if !is_attended {
            crew.acts();
        }
        let now = crew.arbiter.now();
        match crew.arbiter.ownership.lock().works(&working, now) {
            Ok(gaps) => gaps.into_iter().for_each(|gap| crew.count_gap(gap)),
            Err(violation) => crew.arbiter.world.trace.fail(&violation),
        }
        sleep(LOOK_EVERY).await;
    }
}

impl Crew {
    /// Starts a replica. A restarted one has the name of the one that crashed.
    fn add(&self, name: Option<String>, replica: ReplicaPlan) {
        self.acts();
        let mut state = self.state.lock();
        state.started += 1;
        let number = state.started;
        let name = name.unwrap_or_else(|| format!("share-{number}"));
        let seed = self.seed.wrapping_mul(1_009).wrapping_add(number);
        let share = Share::start(&self.arbiter, (name, number), seed, replica, &self.plan);
        state.shares.push(share);
    }

    /// Something happens to a process.
    fn acts(&self) {
        let now = self.arbiter.now();
        self.arbiter.ownership.lock().excuse_idle(now);
    }

    fn prune(&self) {
        self.state.lock().shares.retain(|share| !share.has_ended());
    }

    /// One of the replicas.
    fn choose(&self, share: u8, which: impl Fn(&Share) -> bool) -> Option<u64> {
        let state = self.state.lock();
        let chosen = state.shares.iter().filter(|share| which(share)).collect::<Vec<_>>();
        (!chosen.is_empty()).then(|| chosen[usize::from(share) % chosen.len()].number)
    }

    /// Stops a replica, and kills it if it does not stop in time.
    fn terminate(self: &Arc<Self>, number: u64) {
        self.acts();
        self.state.lock().shares.iter().filter(|share| share.number == number).for_each(Share::terminate);
        let crew = self.clone();
        later(KILL_AFTER, move || drop(crew.kill(number)));
    }

    fn kill(&self, number: u64) -> Option<Share> {
        let mut state = self.state.lock();
        let at = state.shares.iter().position(|share| share.number == number)?;
        let share = state.shares.remove(at);
        drop(state);
        if !share.has_ended() {
            self.acts();
            share.kill();
        }
        Some(share)
    }

    fn restart(self: Arc<Self>, name: String) {
        self.state.lock().pending += 1;
        later(RESTART_AFTER, move || {
            self.add(Some(name), ReplicaPlan { clock_percent: 100 });
            self.state.lock().pending -= 1;
        });
    }

    fn suspend(self: &Arc<Self>, number: u64, time: Duration) {
        self.acts();
        let with = move |crew: &Self, change: fn(&mut Share)| {
            crew.state.lock().shares.iter_mut().filter(|share| share.number == number).for_each(change);
        };
        with(self, Share::suspend);
        let crew = self.clone();
        later(time, move || {
            crew.acts();
            with(&crew, |share| {
                if share.is_suspended {
                    share.resume();
                }
            });
        });
    }

    /// Starts a replica and stops an old one, until all are replaced.
    async fn replace_all(self: Arc<Self>, pause: Duration) {
        let old: Vec<u64> = {
            let mut state = self.state.lock();
            state.pending += 1;
            state.shares.iter().filter(|share| !share.is_stopping()).map(|share| share.number).collect()
        };
        for number in old {
            self.add(None, ReplicaPlan { clock_percent: 100 });
            sleep(pause).await;
            self.terminate(number);
        }
        self.state.lock().pending -= 1;
    }

    fn ensure_one(&self) {
        self.prune();
        if self.state.lock().shares.iter().all(Share::is_stopping) {
            self.add(None, ReplicaPlan { clock_percent: 100 });
        }
    }

    /// Whether a replica runs that is neither suspended nor stopping, and the slots that replicas work on.
    fn working(&self) -> (bool, BTreeSet<u64>) {
        let state = self.state.lock();
        let awake = || state.shares.iter().filter(|share| !share.is_suspended && !share.has_ended());
        let working = awake().flat_map(Share::working).map(u64::from).collect();
        (awake().any(|share| !share.is_stopping()), working)
    }

    fn count_gap(&self, gap: u64) {
        let limits = [1_000, 5_000, 20_000, 40_000, 60_000, 80_000];
        let gap = match limits.into_iter().find(|limit| gap <= *limit) {
            Some(limit) => format!("idle up to {:>2} s", limit / 1_000),
            None => "idle for longer".to_owned(),
        };
        self.arbiter.world.trace.count(SHARE, gap);
    }
}
