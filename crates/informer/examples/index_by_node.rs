//! Finds objects by a field: which pods are on a node? The index reads the bytes; no pod is decoded.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod cluster;

use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Index, Informer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> cluster::Result<()> {
    let (_server, cluster) = cluster::start().await?;
    for number in 0..200 {
        let node = format!("node-{}", number % 10);
        cluster::create::<Pod>(
            &cluster.client(),
            "web",
            cluster::pod(&format!("pod-{number}"), "backend", &node),
        )
        .await?;
    }

    let by_node = Index::field("node", "spec.nodeName");
    let pods = Informer::<Pod>::builder(cluster).index(&by_node).start()?;
    pods.synced().await?;

    let on_node = pods.lister().by_index(&by_node, "node-7")?;
    println!("{} pods are on node-7, among them {}", on_node.len(), on_node[0].key());

    // Indexes can be added while running.
    let by_image = Index::field("image", "spec.containers[*].image");
    pods.add_index(&by_image)?;
    println!("{} run registry/main:1", pods.lister().by_index(&by_image, "registry/main:1")?.len());

    // Reads that must be consistent use one view.
    let moment = pods.lister().view();
    for (node, pods) in moment.snapshot().index_values(&by_node)? {
        assert_eq!(moment.by_index(&by_node, node)?.len(), pods);
    }
    println!(
        "the pods of all nodes add up, at resourceVersion {}",
        moment.resource_version(pods.status()[0].scope)
    );
    Ok(())
}
