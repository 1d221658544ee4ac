//! The replicas of a run: they compete for one lease, and act while they lead.

use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use kube_informer_controller::leader::Term;
use kube_informer_controller::{LeaderElection, LeaseTiming};
use kube_informer_oracle::Leadership;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::link::Link;
use crate::plan::{NAMESPACES, ReplicaPlan};
use crate::wall_clock::WallClock;
use crate::world::World;

/// One replica.
pub(crate) struct Replica {
    pub(crate) link: Link,
    pub(crate) clock: WallClock,
    running: JoinHandle<()>,
}

/// The checks that all replicas share.
pub(crate) type Judge = Arc<Mutex<Leadership>>;

impl Replica {
    pub(crate) fn start(
        world: &Arc<World>,
        number: usize,
        plan: ReplicaPlan,
        seed: u64,
        judge: &Judge,
    ) -> Self {
        let name = format!("replica-{number}");
        let seed = seed.wrapping_mul(31).wrapping_add(number as u64 + 100);
        let link = Link::new(world.server.service(), name.clone(), seed, world.trace.clone());
        let rate = f64::from(plan.clock_percent) / 100.0;
        let clock = WallClock::new(rate);
        let now = clock.clone();
        let mut election = LeaderElection::new(Client::new(link.clone(), "default"), NAMESPACES[0], "lease")
            .identity(&name)
            .seed(seed)
            .timing(timing(rate))
            .clock(move || now.now());
        let (world, judge) = (world.clone(), judge.clone());
        // The replica competes for the lease until it is stopped, after every outcome of a term.
        let running = tokio::spawn(async move {
            let mut chance = StdRng::seed_from_u64(seed);
            loop {
                let works_for = Duration::from_millis(chance.random_range(1_000..200_000));
                let outcome = election.lead(|term| act(&world, &judge, &name, term, works_for)).await;
                world.trace.note(format_args!("{name}: {outcome:?}"));
            }
        });
        Self { link, clock, running }
    }

    pub(crate) fn stop(&self) {
        self.running.abort();
    }
}

/// Scales deadlines by the speed of the clock: a slow clock reaches them later.
pub(crate) fn timing(rate: f64) -> LeaseTiming {
    let LeaseTiming { lease_duration, renew_deadline, retry_period } = LeaseTiming::default();
    let (renew_deadline, retry_period) = (renew_deadline.div_f64(rate), retry_period.div_f64(rate));
    LeaseTiming { lease_duration, renew_deadline, retry_period }
}

/// Acts as the leader for `works_for`, or until the term is cancelled.
async fn act(world: &World, judge: &Judge, name: &str, term: Term, works_for: Duration) {
    world.trace.note(format_args!("{name}: leads under {}", term.token()));
    world.trace.count("term", "begun");
    if let Err(violation) = judge.lock().begins(name, &term.token().to_string()) {
        world.trace.fail(&format!("{name}: {violation}"));
    }
    let _acting = Acting { judge: judge.clone(), name: name.to_owned() };
    sleep(works_for).await;
}

/// A replica that acts as the leader. Dropping this records the end.
struct Acting {
    judge: Judge,
    name: String,
}

impl Drop for Acting {
    fn drop(&mut self) {
        self.judge.lock().ends(&self.name);
    }
}
