//! An informer over the pods of all namespaces with an empty handler: its first state, and what may follow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube_informer::source::{Clients, EncodingPreference};
use kube_informer::{Event, Index, Informer};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::arguments::Arguments;
use crate::measure::{Checksum, cpu_seconds, forget_peak, peak, report, resident};
use crate::{Outcome, reads};

/// How long memory may settle.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let clients = Clients::from_config(arguments.config().await?)?;
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let by_node = Index::field("node", "spec.nodeName");
    let mut builder = Informer::<Pod>::builder(&clients);
    if arguments.has("--json") {
        builder = builder.encoding(EncodingPreference::Json);
    }
    if arguments.has("--reads") {
        builder = builder.index(&by_node);
    }
    let pods = builder.start()?;
    let updated = Arc::new(Notify::new());
    let hears = updated.clone();
    let handler = pods.add_handler(move |event: Event<Pod>| {
        if matches!(event, Event::Updated { .. }) {
            hears.notify_one();
        }
        std::future::ready(())
    })?;
    handler.synced().await?;
    report("wall", began.elapsed().as_secs_f64(), "s");
    report("cpu", cpu_seconds() - cpu, "s");
    report("peak", peak()?, "B");
    sleep(SETTLE).await;
    report("steady", resident()?, "B");
    checksum(&pods);
    if arguments.has("--reads") {
        reads::run(&pods.lister(), &by_node)?;
    }
    if let Some(seconds) = arguments.option("--idle")? {
        let cpu = cpu_seconds();
        sleep(Duration::from_secs(seconds)).await;
        report("idle cpu", (cpu_seconds() - cpu) * 60_000.0 / seconds as f64, "ms/min");
    }
    if arguments.has("--relist") {
        forget_peak()?;
        let cpu = cpu_seconds();
        report("waiting", 1, "relist");
        updated.notified().await;
        report("relist cpu", cpu_seconds() - cpu, "s");
        report("relist peak", peak()?, "B");
        sleep(SETTLE).await;
        report("relist steady", resident()?, "B");
    }
    Ok(())
}

/// What the store holds.
pub(crate) fn checksum(pods: &Informer<Pod>) {
    let mut sum = Checksum::default();
    let view = pods.lister().view();
    for pod in view.iter() {
        sum.add(pod.namespace(), pod.name(), pod.uid(), pod.resource_version());
    }
    report("objects", view.iter().count(), "objects");
    sum.report();
}
