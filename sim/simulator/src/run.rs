//! One run: follows the plan, heals everything, and waits until all clients agree with the server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::client::Subject;
use crate::faults;
use crate::link::BodyFault;
use crate::plan::{Action, Plan};
use crate::trace::{Recorded, Trace};
use crate::world::World;

/// How long after the last fault everything must have converged, in virtual time. A watch whose connection died silently
/// is noticed by the age of its bookmarks; back-off grows to half a minute; a hanging list has a time limit.
const CONVERGED_WITHIN: Duration = Duration::from_secs(30 * 60);

/// Runs a plan in virtual time on this thread.
pub(crate) fn run(plan: &Plan, lines: bool) -> Recorded {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // tokio's own choices (whom to wake first) come from the seed, too; only its unstable part can be told that.
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&plan.seed.to_le_bytes()));
    let runtime = match builder.enable_time().start_paused(true).build() {
        Ok(runtime) => runtime,
        Err(error) => return Recorded { failure: Some(error.to_string()), ..Recorded::default() },
    };
    runtime.block_on(async {
        let trace = Trace::new(lines);
        if let Err(error) = follow(plan, &trace).await {
            trace.fail(&format!("the simulator itself failed: {error}"));
        }
        trace.take()
    })
}

async fn follow(plan: &Plan, trace: &Trace) -> io::Result<()> {
    let world = Arc::new(World::start(plan.seed, plan.history_events, trace.clone()).await?);
    let subjects = (0..).zip(&plan.informers);
    let subjects = subjects.map(|(number, informer)| Subject::start(&world, number, informer, plan.seed));
    let subjects = subjects.collect::<io::Result<Vec<_>>>()?;
    let began = Instant::now();
    for (number, step) in (1..).zip(&plan.steps) {
        sleep_until(began + Duration::from_millis(step.at)).await;
        trace.note(format_args!("{:?}", step.action));
        trace.count(&format!("action: {}", step.action.kind()));
        play(&step.action, number, &world, &subjects).await?;
        if trace.has_failed() {
            return Ok(());
        }
    }
    count_pairs(plan, trace);
    heal(&world, &subjects);
    if let Some(why) = converge(&subjects, trace).await {
        trace.fail(&format!(
            "not converged {} minutes after the last fault: {why}",
            CONVERGED_WITHIN.as_secs() / 60
        ));
    }
    for subject in &subjects {
        subject.look();
    }
    for subject in subjects {
        subject.stop().await;
    }
    Ok(())
}

async fn play(action: &Action, number: u64, world: &Arc<World>, subjects: &[Subject]) -> io::Result<()> {
    let subject = |index: u8| &subjects[usize::from(index) % subjects.len()];
    let milliseconds = |ms: u16| Duration::from_millis(ms.into());
    match *action {
        Action::Put { namespace, name, team } => world.put(namespace, name, team, number).await?,
        Action::Delete { namespace, name } => world.delete(namespace, name).await?,
        Action::Recreate { namespace, name, team } => {
            world.delete(namespace, name).await?;
            world.put(namespace, name, team, number).await?;
        }
        Action::Burst { namespace, writes } => {
            for write in 0..writes {
                world.put(namespace, write % 5, write % 3, number * 1000 + u64::from(write)).await?;
            }
        }
        Action::Latency { link, max_ms } => subject(link).link.latency(milliseconds(max_ms)),
        Action::Refuse { link, for_ms } => {
            let link = subject(link).link.clone();
            link.refuse(true);
            later(milliseconds(for_ms), move || link.refuse(false));
        }
        Action::Partition { link, for_ms } => {
            let link = subject(link).link.clone();
            link.partition(true);
            later(milliseconds(for_ms), move || link.partition(false));
        }
        Action::HalfOpen { link } => subject(link).link.half_open(),
        Action::Reset { link } => subject(link).link.reset(),
        Action::CutNext { link, bytes } => subject(link).link.strike_next(BodyFault::Cut(bytes.into())),
        Action::EndNext { link, bytes } => subject(link).link.strike_next(BodyFault::End(bytes.into())),
        Action::JunkNext { link, bytes } => subject(link).link.strike_next(BodyFault::Junk(bytes.into())),
        Action::Garbage { link, which } => subject(link).link.strike_next(BodyFault::Garbage(which)),
        Action::Compact => world.server.compact(),
        Action::RestartKeepingHistory => world.restart_keeping_history().await?,
        Action::RestartLosingHistory => world.restart_losing_history().await?,
        Action::Backup => world.back_up(),
        Action::Restore => drop(world.restore().await?),
        Action::ServerFault { which, events } => faults::arm(&world.server, which, events.into()),
        Action::ForgetFaults => world.server.faults().clear(),
        Action::AddListener { informer, plan } => subject(informer).add_listener(plan)?,
        Action::RemoveListener { informer } => subject(informer).remove_listener(),
        Action::Look { informer } => subject(informer).look(),
    }
    Ok(())
}

fn later(after: Duration, then: impl FnOnce() + Send + 'static) {
    tokio::spawn(async move {
        sleep(after).await;
        then();
    });
}

fn heal(world: &World, subjects: &[Subject]) {
    world.server.faults().clear();
    for subject in subjects {
        subject.link.heal();
    }
}

async fn converge(subjects: &[Subject], trace: &Trace) -> Option<String> {
    let limit = Instant::now() + CONVERGED_WITHIN;
    loop {
        let differs = subjects.iter().find_map(Subject::differs);
        if differs.is_none() || trace.has_failed() || Instant::now() >= limit {
            return differs;
        }
        sleep(Duration::from_secs(15)).await;
    }
}

/// Faults of different kinds that strike within a few seconds of each other.
fn count_pairs(plan: &Plan, trace: &Trace) {
    let faults = plan.steps.iter().filter(|step| step.action.is_fault()).collect::<Vec<_>>();
    for (number, first) in faults.iter().enumerate() {
        for second in faults[number + 1..].iter().take_while(|second| second.at < first.at + 3_000) {
            let (mut one, mut two) = (first.action.kind(), second.action.kind());
            if one > two {
                (one, two) = (two, one);
            }
            trace.count(&format!("pair: {one} + {two}"));
        }
    }
}
