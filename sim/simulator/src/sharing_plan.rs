//! The plans of runs with replicas that share the work.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::plan::{Action, InformerPlan, ObjectPlan, Plan, ReplicaPlan, SharingPlan, Step, fault};

impl Plan {
    /// The plan of a seed in which replicas share the work.
    pub(crate) fn of_sharing(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let informers = (0..u8::from(rng.random_bool(0.2))).map(|_| InformerPlan::draw(&mut rng)).collect();
        let sharing = SharingPlan::draw(&mut rng);
        let history_events = [3, 20, 1000][rng.random_range(0..3)];
        // Without faults, the time that a slot has no owner is limited.
        let faults_percent = [0, 0, 15, 45][rng.random_range(0..4)];
        let processes_percent = [3, 12, 30][rng.random_range(0..3)];
        let mut steps = Vec::new();
        let mut at = 0;
        for _ in 0..rng.random_range(15..100) {
            at += pause(&mut rng);
            let chance = rng.random_range(0..100);
            let action = if chance < faults_percent {
                match rng.random_bool(0.2) {
                    true => Action::HoldMaps { link: rng.random(), for_ms: rng.random_range(1_000..60_000) },
                    false => fault(&mut rng, u8::MAX, true),
                }
            } else if chance < faults_percent + processes_percent {
                // Many of them happen while replicas work.
                if rng.random_bool(0.6) {
                    steps.push(Step { at, action: burst(&mut rng) });
                    at += rng.random_range(0..4_000);
                }
                process_action(&mut rng)
            } else {
                work(&mut rng)
            };
            steps.push(Step { at, action });
        }
        if rng.random_bool(0.5) {
            // The last changes happen during a hand-over.
            at += pause(&mut rng);
            steps.push(Step { at, action: process_action(&mut rng) });
            for _ in 0..rng.random_range(1..10) {
                at += rng.random_range(0..4_000);
                steps.push(Step { at, action: Action::Put(ObjectPlan::draw(&mut rng)) });
            }
        }
        let initial = (0..rng.random_range(0..=12)).map(|_| ObjectPlan::draw(&mut rng)).collect();
        let (mirror, websites, replicas, sharing) = (None, None, Vec::new(), Some(sharing));
        Self { seed, informers, mirror, websites, replicas, sharing, initial, history_events, steps }
    }
}

impl SharingPlan {
    fn draw(rng: &mut StdRng) -> Self {
        Self {
            replicas: (0..rng.random_range(1..=4)).map(|_| ReplicaPlan::draw(rng)).collect(),
            slots: [2, 8, 8, 16][rng.random_range(0..4)],
            by_namespace: rng.random_bool(0.25),
            split: rng.random_bool(0.6),
            server_splits: rng.random_bool(0.5),
            concurrency: rng.random_range(1..=3),
            work_max_ms: [50, 800, 6_000][rng.random_range(0..3)],
            grace_ms: [500, 3_000, 30_000][rng.random_range(0..3)],
        }
    }
}

/// A pause, mostly short, sometimes longer than a lease.
fn pause(rng: &mut StdRng) -> u64 {
    match rng.random_range(0..20) {
        0..=8 => rng.random_range(0..50),
        9..=15 => rng.random_range(50..1_500),
        16..=18 => rng.random_range(1_500..20_000),
        _ => rng.random_range(20_000..110_000),
    }
}

fn process_action(rng: &mut StdRng) -> Action {
    let share = rng.random();
    match rng.random_range(0..100) {
        0..=29 => Action::StartShare(ReplicaPlan::draw(rng)),
        30..=47 => Action::StopShare { share },
        48..=66 => Action::CrashShare { share, restarts: rng.random_bool(0.5) },
        67..=91 => Action::SuspendShare { share, for_ms: rng.random_range(1_000..90_000) },
        _ => Action::RollingUpdate { pause_ms: rng.random_range(3_000..30_000) },
    }
}

fn work(rng: &mut StdRng) -> Action {
    let object = ObjectPlan::draw(rng);
    match rng.random_range(0..100) {
        0..=64 => Action::Put(object),
        65..=76 => Action::Delete(object),
        77..=86 => Action::Recreate(object),
        87..=93 => burst(rng),
        _ => Action::ForgetFaults,
    }
}

fn burst(rng: &mut StdRng) -> Action {
    Action::Burst { namespace: ObjectPlan::draw(rng).namespace, writes: rng.random_range(5..40) }
}
