//! Many concurrent informers: one per namespace, each with its own watch and store.

use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Cluster, Informer};

use crate::Outcome;
use crate::arguments::Arguments;
use crate::measure::{cpu_seconds, peak, report};

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let namespaces = arguments.option("--namespaces")?.unwrap_or(50);
    let cluster = Cluster::from_config(arguments.config().await?)?;
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let started = (0..namespaces).map(|namespace| {
        Informer::<Pod>::builder(&cluster).namespaces([format!("team-{namespace}")]).start()
    });
    let informers = started.collect::<Result<Vec<_>, _>>()?;
    for informer in &informers {
        informer.synced().await?;
    }
    report("wall", began.elapsed().as_secs_f64(), "s");
    report("cpu", cpu_seconds() - cpu, "s");
    report("peak", peak()?, "B");
    report("objects", informers.iter().map(|informer| informer.lister().count()).sum::<usize>(), "objects");
    Ok(())
}
