//! A replica of a controller that shares its work, for tests that kill and suspend it. It copies `spec.value` of each Thing to its
//! status, with the fencing token of the Thing's slot. For each line of input, it prints how many objects it has cached and how many
//! slots it works on. It stops at the end of the input.
//!
//! Arguments: the path of a kubeconfig, and the name of the replica.
#![allow(clippy::print_stdout, reason = "the test reads what is printed")]

use std::time::Duration;

use kube_client::Config;
use kube_client::api::{Api, Patch, PatchParams};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::core::{ApiResource, DynamicObject};
use kube_informer::{Cluster, Informer, Key};
use kube_informer_controller::{Action, Context, Controller, Error, LeaseTiming, ShardedLease, Stop};
use serde_json::json;

/// Short, so that a test need not wait long for the slots of a killed replica.
const TIMING: LeaseTiming = LeaseTiming {
    lease_duration: Duration::from_secs(5),
    renew_deadline: Duration::from_secs(3),
    retry_period: Duration::from_millis(500),
};
const CONCURRENCY: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, name] = &arguments[..] else {
        return Err("usage: sharing-replica KUBECONFIG NAME".into());
    };
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &options).await?;
    let cluster = Cluster::from_config(config)?;
    let resource = ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Thing".to_owned(),
        plural: "things".to_owned(),
    };
    let lease = ShardedLease::new(&cluster, "default", "things").identity(name).timing(TIMING);
    let things = Informer::dynamic(&cluster, &resource).shard(lease.shard()).start()?;
    let controller = Controller::builder("things", &things)
        .shared(&lease)
        .concurrency(CONCURRENCY)
        .build(resource, reconcile)?;
    let stop = Stop::new();
    std::thread::spawn({
        let (stop, things) = (stop.clone(), things.clone());
        move || {
            for _line in std::io::stdin().lines().map_while(Result::ok) {
                println!("{}\t{}", things.lister().count(), lease.status().working.len());
            }
            stop.stop();
        }
    });
    controller.run(&stop).await?;
    Ok(())
}

async fn reconcile(ctx: Context<ApiResource>, key: Key) -> Result<Action, Error> {
    let Some(thing) = ctx.object::<DynamicObject>() else { return Ok(Action::Done) };
    let value = thing.field("spec.value")?;
    if thing.field("status.value")? == value {
        return Ok(Action::Done);
    }
    let token = ctx.term().map(|term| term.token().to_string());
    // The resourceVersion makes the server refuse a write of a replica that has not seen the latest one.
    let patch = json!({
        "metadata": {"resourceVersion": thing.resource_version()},
        "status": {"value": value, "token": token},
    });
    let things: Api<DynamicObject> = Api::namespaced_with(ctx.client(), key.namespace(), ctx.data());
    things.patch_status(key.name(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(Action::Done)
}
