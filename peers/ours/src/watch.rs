//! Follows the changes of a replay: how fast, at what cost, how late.

use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use kube_informer::source::{Clients, EncodingPreference};
use kube_informer::{Event, Informer};
use tokio::sync::mpsc;

use crate::Outcome;
use crate::arguments::Arguments;
use crate::informer::checksum;
use crate::measure::{cpu_seconds, micros, peak, report};
use crate::replay::LAST;

/// `--changes N` says how many changes come after the first state.
pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let changes = arguments.option("--changes")?.ok_or("--changes is missing")?;
    let clients = Clients::from_config(arguments.config().await?)?;
    let mut builder = Informer::<Pod>::builder(&clients);
    if arguments.has("--json") {
        builder = builder.encoding(EncodingPreference::Json);
    }
    let pods = builder.start()?;
    let (told, mut ends) = mpsc::unbounded_channel();
    let mut lateness = Vec::with_capacity(changes as usize);
    let _handler = pods.add_handler(move |event: Event<Pod>| {
        match &event {
            Event::Synced => drop(told.send(Vec::new())),
            Event::Updated { new, .. } => match new.resource_version().parse() {
                Ok(LAST) => drop(told.send(std::mem::take(&mut lateness))),
                sent => lateness.push(micros().saturating_sub(sent.unwrap_or(LAST))),
            },
            _ => {}
        }
        std::future::ready(())
    })?;
    ends.recv().await.ok_or("the informer ended")?;
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let lateness = ends.recv().await.ok_or("the informer ended")?;
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    report("changes a second", changes as f64 / wall, "1/s");
    report("cpu a change", cpu / changes as f64 * 1e6, "µs");
    report_lateness(lateness);
    report("peak", peak()?, "B");
    checksum(&pods);
    Ok(())
}

/// From sending to the handler.
fn report_lateness(mut micros: Vec<u64>) {
    micros.sort_unstable();
    for (name, part) in [("late, median", 0.5), ("late, 99 of 100", 0.99), ("late, 999 of 1000", 0.999)] {
        report(name, micros[((micros.len() - 1) as f64 * part) as usize] as f64 / 1e3, "ms");
    }
}
