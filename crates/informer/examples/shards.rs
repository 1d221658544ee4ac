//! Two replicas that divide the pods between them, and one that takes over everything. Each replica fetches and caches only its
//! part, if the server supports `shardSelector`. Other servers send everything, and each replica still caches only its part.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod cluster;

use k8s_openapi::api::core::v1::Pod;
use kube_informer::{AssignedShard, Informer, Shard};

#[tokio::main(flavor = "current_thread")]
async fn main() -> cluster::Result<()> {
    let (_server, cluster) = cluster::start().await?;
    for n in 0..50 {
        let pod = cluster::pod(&format!("api-{n}"), "backend", "node-1");
        cluster::create::<Pod>(&cluster.client(), "shop", pod).await?;
    }
    // In practice, each is a process of its own.
    let one = AssignedShard::new(Shard::new(0..32, Shard::SLOTS)?);
    let two = AssignedShard::new(Shard::new(32..64, Shard::SLOTS)?);
    let pods_of_one = Informer::<Pod>::builder(cluster.clone()).shard(&one).start()?;
    let pods_of_two = Informer::<Pod>::builder(cluster.clone()).shard(&two).start()?;
    pods_of_one.synced().await?;
    pods_of_two.synced().await?;
    let counts = || (pods_of_one.lister().count(), pods_of_two.lister().count());
    println!("{:?} pods", counts());
    assert_eq!(counts().0 + counts().1, 50);

    two.set(Shard::new([], Shard::SLOTS)?);
    one.set(Shard::new(0..64, Shard::SLOTS)?);
    pods_of_two.shard_synced().await?;
    pods_of_one.shard_synced().await?;
    println!("{:?} pods", counts());
    assert_eq!(counts(), (50, 0));
    Ok(())
}
