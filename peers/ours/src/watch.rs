//! Receives changes from a replay or a real server, and measures rate, CPU and lag from the first change on.

use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Cluster, EncodingPreference, Event, Informer, Object};
use tokio::sync::mpsc;

use crate::Outcome;
use crate::arguments::Arguments;
use crate::informer::checksum;
use crate::measure::{cpu_seconds, micros, peak, report};
use crate::replay::LAST;

/// The label with the time at which a change was sent, for servers that set the resourceVersion.
const SENT: &str = "sent";

/// `--changes N`: the number of changes after the initial list. `--decode`: decodes each object once. `--label`: reads
/// the time from the label `sent` instead of the resourceVersion.
pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let changes = arguments.option("--changes")?.ok_or("--changes is missing")?;
    let (by_label, decoding) = (arguments.has("--label"), arguments.has("--decode"));
    let cluster = Cluster::from_config(arguments.config().await?)?;
    let mut builder = Informer::<Pod>::builder(&cluster);
    if arguments.has("--json") {
        builder = builder.encoding(EncodingPreference::Json);
    }
    let pods = builder.start()?;
    let (sender, mut steps) = mpsc::unbounded_channel();
    let mut lags = Vec::with_capacity(changes as usize);
    let mut begun = None;
    let handler = pods.add_handler(move |event: Event<Pod>| {
        if let Event::Updated { new, .. } = &event {
            let begun = *begun.get_or_insert_with(|| (Instant::now(), cpu_seconds()));
            if decoding {
                drop(std::hint::black_box(new.decode()));
            }
            match sent(new, by_label) {
                LAST => drop(sender.send((begun, std::mem::take(&mut lags)))),
                sent => lags.push(micros().saturating_sub(sent)),
            }
        }
        std::future::ready(())
    })?;
    handler.synced().await?;
    report("waiting", 1, "changes");
    let ((began, cpu), lags) = steps.recv().await.ok_or("the informer ended")?;
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    report("changes per second", changes as f64 / wall, "1/s");
    report("cpu per change", cpu / changes as f64 * 1e6, "µs");
    report_lags(lags);
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

/// The lag from sending to the handler.
fn report_lags(mut micros: Vec<u64>) {
    micros.sort_unstable();
    for (name, part) in [("lag p50", 0.5), ("lag p99", 0.99), ("lag p99.9", 0.999)] {
        report(name, micros[((micros.len() - 1) as f64 * part) as usize] as f64 / 1e3, "ms");
    }
}
