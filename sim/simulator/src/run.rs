//! One run: follows the plan, ends all faults, and waits until all clients agree with the server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::client::Subject;
use crate::link::{BodyFault, Link, Rejection};
use crate::mirror::Mirror;
use crate::plan::{Action, ObjectPlan, Plan};
use crate::replica::{Judge, Replica};
use crate::sharing::Sharing;
use crate::trace::{Recorded, Trace};
use crate::wall_clock::WallClock;
use crate::websites::Websites;
use crate::world::World;

/// The time limit for convergence after the last fault, in virtual time. A silent watch is detected by the age of its
/// bookmarks, back-off grows to half a minute, and a hanging list has a time limit.
const CONVERGED_WITHIN: Duration = Duration::from_secs(30 * 60);
/// The pause between two checks for convergence.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// Faults further apart than this are not a pair.
const PAIR_WITHIN_MS: u64 = 3_000;
/// The category of a pair of faults.
pub(crate) const PAIR: &str = "pair";

/// The server, the clients and the checks of a run.
struct Cast {
    world: Arc<World>,
    subjects: Vec<Subject>,
    mirror: Option<Mirror>,
    websites: Option<Websites>,
    replicas: Vec<Replica>,
    leadership: Judge,
    sharing: Option<Sharing>,
}

/// Runs a plan in virtual time on this thread.
pub(crate) fn run(plan: &Plan, lines: bool) -> Recorded {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // The seed also determines tokio's own choices, such as which waiter to wake first.
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&plan.seed.to_le_bytes()));
    let runtime = match builder.enable_time().start_paused(true).build() {
        Ok(runtime) => runtime,
        Err(error) => return Recorded { failure: Some(error.to_string()), ..Recorded::default() },
    };
    runtime.block_on(async {
        let trace = Trace::begin(lines);
        if let Err(error) = follow(plan, &trace).await {
            trace.fail(&format!("the simulator failed: {error}"));
        }
        trace.end()
    })
}

async fn follow(plan: &Plan, trace: &Trace) -> io::Result<()> {
    let cast = Cast::start(plan, trace).await?;
    let began = Instant::now();
    for (number, step) in (1..).zip(&plan.steps) {
        sleep_until(began + Duration::from_millis(step.at)).await;
        trace.note(format_args!("{:?}", step.action));
        trace.count(if step.action.strikes_now() { "fault" } else { "step" }, step.action.kind());
        cast.play(&step.action, number).await?;
        if trace.has_failed() {
            return Ok(());
        }
    }
    count_pairs(plan, trace);
    cast.heal();
    if let Some(why) = cast.converge().await? {
        let minutes = CONVERGED_WITHIN.as_secs() / 60;
        trace.fail(&format!("not converged {minutes} minutes after the last fault: {why}"));
    }
    cast.subjects.iter().for_each(Subject::look);
    cast.stop().await;
    Ok(())
}

impl Cast {
    async fn start(plan: &Plan, trace: &Trace) -> io::Result<Self> {
        let world = Arc::new(World::start(plan, trace.clone()).await?);
        let subjects = (0..).zip(&plan.informers);
        let subjects = subjects.map(|(number, informer)| Subject::start(&world, number, informer, plan.seed));
        let subjects = subjects.collect::<io::Result<Vec<_>>>()?;
        let mirror =
            plan.mirror.as_ref().map(|mirror| Mirror::start(&world, mirror, plan.seed)).transpose()?;
        let websites = match plan.websites {
            Some(websites) => Some(Websites::start(&world, websites, plan.seed).await?),
            None => None,
        };
        let leadership = Judge::default();
        let replicas = plan.replicas.iter().enumerate();
        let replicas = replicas
            .map(|(number, replica)| Replica::start(&world, number, *replica, plan.seed, &leadership))
            .collect();
        let sharing = plan.sharing.as_ref().map(|sharing| Sharing::start(&world, sharing, plan));
        Ok(Self { world, subjects, mirror, websites, replicas, leadership, sharing })
    }

    fn links(&self) -> Vec<Link> {
        let informers = self.subjects.iter().map(|subject| &subject.link);
        let mirror = self.mirror.iter().map(|mirror| &mirror.link);
        let replicas = self.replicas.iter().map(|replica| &replica.link);
        let websites = self.websites.iter().map(|websites| &websites.link);
        let fixed = informers.chain(mirror).chain(replicas).chain(websites).cloned();
        fixed.chain(self.sharing.iter().flat_map(Sharing::links)).collect()
    }

    /// The clocks of the server and of the replicas.
    fn clocks(&self) -> Vec<WallClock> {
        let replicas = self.replicas.iter().map(|replica| replica.clock.clone());
        let shares = self.sharing.iter().flat_map(Sharing::clocks);
        [self.world.clock.clone()].into_iter().chain(replicas).chain(shares).collect()
    }

    async fn play(&self, action: &Action, number: u64) -> io::Result<()> {
        let world = &self.world;
        let subject = |index: u8| &self.subjects[usize::from(index) % self.subjects.len()];
        let links = self.links();
        if links.is_empty() && action.is_fault() {
            // No client runs.
            return Ok(());
        }
        let link = |index: u8| links[usize::from(index) % links.len()].clone();
        let milliseconds = |ms: u16| Duration::from_millis(ms.into());
        match *action {
            Action::Put(object) => drop(world.put(object, number).await?),
            Action::Delete(object) => drop(world.delete(object).await?),
            Action::Recreate(object) => {
                world.delete(object).await?;
                world.put(object, number).await?;
            }
            Action::Burst { namespace, writes } => {
                for write in 0..writes {
                    let object = ObjectPlan { namespace, name: write % 5, team: write % 3 };
                    world.put(object, number * 1000 + u64::from(write)).await?;
                }
            }
            Action::PutAndWait { object, informer } => {
                subject(informer).wait_for(world.put(object, number).await?);
            }
            Action::DeleteAndWait { object, informer } => {
                if let Some(deleted) = world.delete(object).await? {
                    subject(informer).wait_deleted(&deleted);
                }
            }
            Action::BreakMirror { object, deletes } => {
                let key = world.break_mirror(object, deletes).await?;
                if let Some(mirror) = self.mirror.as_ref().filter(|_| deletes) {
                    mirror.was_deleted(&key);
                }
            }
            Action::RestartMirror => self.mirror.iter().for_each(Mirror::restart),
            Action::DamageWebsite { how } => {
                if let Some(websites) = &self.websites {
                    websites.damage(how).await?;
                }
            }
            Action::Latency { link: of, max_ms } => link(of).latency(milliseconds(max_ms)),
            Action::Refuse { link: of, for_ms } => {
                let link = link(of);
                link.refuse(true);
                later(milliseconds(for_ms), move || link.refuse(false));
            }
            Action::Partition { link: of, for_ms } => {
                let link = link(of);
                link.partition(true);
                later(milliseconds(for_ms), move || link.partition(false));
            }
            Action::HalfOpen { link: of } => link(of).half_open(),
            Action::Reset { link: of } => link(of).reset(),
            Action::CutNext { link: of, bytes } => link(of).strike_next(BodyFault::Cut(bytes.into())),
            Action::EndNext { link: of, bytes } => link(of).strike_next(BodyFault::End(bytes.into())),
            Action::JunkNext { link: of, bytes } => link(of).strike_next(BodyFault::Junk(bytes.into())),
            Action::Garbage { link: of, which } => link(of).strike_next(BodyFault::Garbage(which)),
            Action::Drip { link: of, bytes } => link(of).strike_next(BodyFault::Drip(bytes.into())),
            Action::Replay { link: of } => link(of).replay_older_event(),
            Action::RejectVersion { link: index, of, code } => {
                link(index).reject_version(Rejection { of, code });
            }
            Action::JumpClock { clock, seconds } => {
                let clocks = self.clocks();
                clocks[usize::from(clock) % clocks.len()].jump(seconds);
            }
            Action::Revoke { link: of, for_ms } => {
                let (link, world) = (link(of), world.clone());
                let id = world.faults.revoke(&world.server, link.name());
                link.reset();
                later(milliseconds(for_ms), move || {
                    world.faults.disarm(&world.server, Some(id), &world.trace);
                });
            }
            Action::HoldMaps { link: of, for_ms } => {
                let link = link(of);
                link.hold_maps(true);
                later(milliseconds(for_ms), move || link.hold_maps(false));
            }
            Action::Compact => world.server.compact(),
            Action::RestartKeepingHistory => world.restart_keeping_history().await?,
            Action::RestartLosingHistory => world.restart_losing_history().await?,
            Action::Backup => world.back_up(),
            Action::Restore => world.restore().await?,
            Action::RestoreAndOvertake => world.restore_and_overtake(number).await?,
            Action::ServerFault { which, events } => world.faults.arm(&world.server, which, events.into()),
            Action::ForgetFaults => world.faults.disarm(&world.server, None, &world.trace),
            Action::AddListener { informer, plan } => subject(informer).add_listener(plan)?,
            Action::RemoveListener { informer } => subject(informer).remove_listener(),
            Action::Look { informer } => subject(informer).look(),
            Action::StartShare(_)
            | Action::StopShare { .. }
            | Action::CrashShare { .. }
            | Action::SuspendShare { .. }
            | Action::RollingUpdate { .. } => self.sharing.iter().for_each(|sharing| sharing.play(action)),
        }
        Ok(())
    }

    fn heal(&self) {
        self.world.faults.disarm(&self.world.server, None, &self.world.trace);
        self.links().iter().for_each(Link::heal);
        self.sharing.iter().for_each(Sharing::heal);
    }

    /// Waits until all clients agree with the server. Returns the first difference if they do not in time.
    async fn converge(&self) -> io::Result<Option<String>> {
        let limit = Instant::now() + CONVERGED_WITHIN;
        loop {
            let differs = self.differs().await?;
            if differs.is_none() || self.world.trace.has_failed() || Instant::now() >= limit {
                return Ok(differs);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn differs(&self) -> io::Result<Option<String>> {
        if let Some(why) = self.subjects.iter().find_map(Subject::differs) {
            return Ok(Some(why));
        }
        if let Some(mirror) = &self.mirror
            && let Some(why) = mirror.differs().await?
        {
            return Ok(Some(why));
        }
        if let Some(websites) = &self.websites
            && let Some(why) = websites.differs().await?
        {
            return Ok(Some(why));
        }
        if let Some(sharing) = &self.sharing
            && let Some(why) = sharing.differs().await?
        {
            return Ok(Some(why));
        }
        let leads = self.replicas.is_empty() || self.leadership.lock().converged().is_ok();
        Ok((!leads).then(|| "promise C8 is broken: no replica leads".to_owned()))
    }

    async fn stop(self) {
        self.replicas.iter().for_each(Replica::stop);
        if let Some(sharing) = self.sharing {
            sharing.stop().await;
        }
        if let Some(mirror) = self.mirror {
            mirror.stop().await;
        }
        if let Some(websites) = self.websites {
            websites.stop().await;
        }
        for subject in self.subjects {
            subject.stop().await;
        }
    }
}

pub(crate) fn later(after: Duration, then: impl FnOnce() + Send + 'static) {
    tokio::spawn(async move {
        sleep(after).await;
        then();
    });
}

/// The name of a pair of faults.
pub(crate) fn pair(one: &str, two: &str) -> String {
    if one <= two { format!("{one} + {two}") } else { format!("{two} + {one}") }
}

/// Counts pairs of faults that take effect, or are armed, within a few seconds of each other.
fn count_pairs(plan: &Plan, trace: &Trace) {
    let faults = plan.steps.iter().filter(|step| step.action.is_fault()).collect::<Vec<_>>();
    for (number, first) in faults.iter().enumerate() {
        for second in faults[number + 1..].iter().take_while(|second| second.at < first.at + PAIR_WITHIN_MS) {
            trace.count(PAIR, pair(first.action.kind(), second.action.kind()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_seeds_pass() {
        for seed in 0..10 {
            assert_eq!(run(&Plan::new(seed), false).failure, None, "cargo xtask sim --seed {seed}");
        }
    }

    #[test]
    fn a_few_seeds_of_sharing_pass() {
        for seed in 0..10 {
            let found = run(&Plan::of_sharing(seed), false).failure;
            assert_eq!(found, None, "cargo xtask sim --sharing --seed {seed}");
        }
    }
}
