//! An informer over all namespaces: its initial list, then the work that options request. Its handler does nothing, or
//! decodes each object once, like a controller that reads every object.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube_core::{ApiResource, GroupVersionKind};
use kube_informer::{Cluster, EncodingPreference, Event, Index, Informer, InformerBuilder};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::arguments::Arguments;
use crate::load::Load;
use crate::measure::{Checksum, cpu_seconds, forget_peak, peak, report, resident};
use crate::{Outcome, reads, widgets};

/// How long memory may take to settle.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let cluster = Cluster::from_config(arguments.config().await?)?;
    let began = Began::now();
    match Load::of(arguments)? {
        Load::Pods | Load::VariedPods if arguments.has("--reads") => {
            let by_node = Index::field("node", "spec.nodeName");
            let (pods, _) =
                first_state(Informer::<Pod>::builder(&cluster).index(&by_node), arguments, &began).await?;
            reads::run(&pods.lister(), &by_node)
        }
        Load::Pods | Load::VariedPods => {
            whole_or_metadata(Informer::<Pod>::builder(&cluster), arguments, &began).await
        }
        Load::Secrets => whole_or_metadata(Informer::<Secret>::builder(&cluster), arguments, &began).await,
        Load::Widgets => {
            let kind = GroupVersionKind::gvk(widgets::GROUP, widgets::VERSION, "Widget");
            let resource = ApiResource::from_gvk_with_plural(&kind, widgets::PLURAL);
            whole_or_metadata(Informer::dynamic(&cluster, &resource), arguments, &began).await
        }
    }
}

/// When the measurement began, and the CPU time used before.
struct Began {
    wall: Instant,
    cpu: f64,
}

impl Began {
    fn now() -> Self {
        Self { wall: Instant::now(), cpu: cpu_seconds() }
    }
}

async fn whole_or_metadata<K: DeserializeOwned + Send + Sync + 'static>(
    builder: InformerBuilder<K>,
    arguments: &Arguments,
    began: &Began,
) -> Outcome {
    if arguments.has("--metadata") {
        follow(builder.metadata_only(), arguments, began).await
    } else {
        follow(builder, arguments, began).await
    }
}

/// Receives the initial list, then does the work that options request.
async fn follow<K: DeserializeOwned + Send + Sync + 'static>(
    builder: InformerBuilder<K>,
    arguments: &Arguments,
    began: &Began,
) -> Outcome {
    let (_informer, updated) = first_state(builder, arguments, began).await?;
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

/// Starts an informer and reports its initial list. Also returns the notifier of updates.
async fn first_state<K: DeserializeOwned + Send + Sync + 'static>(
    mut builder: InformerBuilder<K>,
    arguments: &Arguments,
    began: &Began,
) -> Outcome<(Informer<K>, Arc<Notify>)> {
    if arguments.has("--json") {
        builder = builder.encoding(EncodingPreference::Json);
    }
    let informer = builder.start()?;
    let updated = Arc::new(Notify::new());
    let (notified, decoding) = (updated.clone(), arguments.has("--decode"));
    let handler = informer.add_handler(move |event: Event<K>| {
        if let (true, Event::Added { object, .. } | Event::Updated { new: object, .. }) = (decoding, &event) {
            drop(std::hint::black_box(object.decode()));
        }
        if matches!(event, Event::Updated { .. }) {
            notified.notify_one();
        }
        std::future::ready(())
    })?;
    handler.synced().await?;
    report("wall", began.wall.elapsed().as_secs_f64(), "s");
    report("cpu", cpu_seconds() - began.cpu, "s");
    report("peak", peak()?, "B");
    sleep(SETTLE).await;
    report("steady", resident()?, "B");
    checksum(&informer);
    handler.detach();
    Ok((informer, updated))
}

/// Reports the content of the store.
pub(crate) fn checksum<K: DeserializeOwned + Send + Sync + 'static>(informer: &Informer<K>) {
    let mut sum = Checksum::default();
    let view = informer.lister().view();
    for object in view.iter() {
        sum.add(object.namespace(), object.name(), object.uid(), object.resource_version());
    }
    report("objects", view.iter().count(), "objects");
    sum.report();
}
