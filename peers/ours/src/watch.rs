//! Follows the changes of a replay, or of a real server's pods: how fast, at what cost, with what lag. All is counted from the
//! first change on.

use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Cluster, EncodingPreference, Event, Informer, Object};
use tokio::sync::mpsc;

use crate::Outcome;
use crate::arguments::Arguments;
use crate::informer::checksum;
use crate::measure::{cpu_seconds, micros, peak, report};
use crate::replay::LAST;

/// The label that says when a change was sent, where the resourceVersion is the server's.
const SENT: &str = "sent";

/// `--changes N` says how many changes come after the first state; `--decode`: each is decoded once; `--label`: the label `sent` tells when, instead of the
/// resourceVersion.
pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let changes = arguments.option("--changes")?.ok_or("--changes is missing")?;
    let (by_label, decoding) = (arguments.has("--label"), arguments.has("--decode"));
    let cluster = Cluster::from_config(arguments.config().await?)?;
    let mut builder = Informer::<Pod>::builder(&cluster);
    if arguments.has("--json") {
        builder = builder.encoding(EncodingPreference::Json);
    }
    let pods = builder.start()?;
    let (told, mut steps) = mpsc::unbounded_channel();
    let mut lateness = Vec::with_capacity(changes as usize);
    let mut begun = None;
    let handler = pods.add_handler(move |event: Event<Pod>| {
        if let Event::Updated { new, .. } = &event {
            let begun = *begun.get_or_insert_with(|| (Instant::now(), cpu_seconds()));
            if decoding {
                drop(std::hint::black_box(new.decode()));
            }
            match sent(new, by_label) {
                LAST => drop(told.send((begun, std::mem::take(&mut lateness)))),
                sent => lateness.push(micros().saturating_sub(sent)),
            }
        }
        std::future::ready(())
    })?;
    handler.synced().await?;
    report("waiting", 1, "changes");
    let ((began, cpu), lateness) = steps.recv().await.ok_or("the informer ended")?;
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    report("changes per second", changes as f64 / wall, "1/s");
    report("cpu per change", cpu / changes as f64 * 1e6, "µs");
    report_lateness(lateness);
    report("peak", peak()?, "B");
    checksum(&pods);
    Ok(())
}

/// When a change was sent, in microseconds.
fn sent(pod: &Object<Pod>, by_label: bool) -> u64 {
    let text =
        if by_label { pod.labels().get(SENT).unwrap_or_default() } else { pod.resource_version().into() };
    text.parse().unwrap_or_default()
}

/// From sending to the handler.
fn report_lateness(mut micros: Vec<u64>) {
    micros.sort_unstable();
    for (name, part) in [("lag p50", 0.5), ("lag p99", 0.99), ("lag p99.9", 0.999)] {
        report(name, micros[((micros.len() - 1) as f64 * part) as usize] as f64 / 1e3, "ms");
    }
}
