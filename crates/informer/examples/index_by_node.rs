//! Finding objects by a field: which pods are on a node? The index is read from the bytes; no pod is decoded for it.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informer::testing::ScriptedSource;
use kube_informer::{Index, Informer};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ScriptedSource::new("v1", "Pod");
    for number in 0..1000 {
        server.put(json!({
            "metadata": {"namespace": "web", "name": format!("pod-{number}")},
            "spec": {"nodeName": format!("node-{}", number % 10), "containers": []},
        }));
    }

    let by_node = Index::field("node", "spec.nodeName");
    let pods = Informer::<Pod>::from_source(Arc::new(server)).index(&by_node).start()?;
    pods.synced().await?;

    let on_node = pods.lister().by_index(&by_node, "node-7")?;
    println!("{} pods are on node-7, among them {}", on_node.len(), on_node[0].key());

    // Several reads that belong together come from one moment.
    let moment = pods.lister().view();
    for (node, pods) in moment.snapshot().index_values(&by_node)? {
        assert_eq!(moment.by_index(&by_node, node)?.len(), pods);
    }
    println!(
        "and so it is on every node, at resourceVersion {}",
        moment.resource_version(pods.status()[0].scope)
    );
    Ok(())
}
