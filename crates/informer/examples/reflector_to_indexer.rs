//! client-go's flow, wired by hand: a source is reflected into a `DeltaFifo`, a loop pops from it, and an `Indexer` holds
//! the state.
//!
//! ```text
//! ListerWatcher ──▶ Reflector ──▶ DeltaFifo ──▶ pop loop ──▶ Indexer
//! ```
//!
//! The server is scripted: it sends changes while its watches are open, then drops them, compacts its history, and changes
//! objects while no watch is open. Run it with `cargo run -p kube-informer --example reflector_to_indexer`.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::sync::Arc;

use kube_informer::Index;
use kube_informer::Scope;
use kube_informer::StoredObject;
use kube_informer::building_blocks::{DeltaFifo, DeltaFifoConfig, Popped};
use kube_informer::building_blocks::{Indexer, Store, StoreConfig};
use kube_informer::building_blocks::{Reflector, ReflectorConfig};
use kube_informer::testing::ScriptedSource;
use serde_json::json;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    // The server, with two pods.
    let server = ScriptedSource::new("v1", "Pod");
    server.put(pod("api", "node-1"));
    server.put(pod("db", "node-2"));

    // The Indexer: the cached state, by key and by node.
    let by_node = Index::field("node", "spec.nodeName");
    let store = Arc::new(Store::new(StoreConfig::default().index(by_node.clone()))?);
    let indexer = Indexer::new(store.clone());

    // The queue knows its reader's objects, so it can detect deletions.
    let mut config = DeltaFifoConfig::default();
    config.known_objects = Some(store.clone());
    let queue = Arc::new(DeltaFifo::new(config));

    // The Reflector fills the queue.
    let source = Arc::new(server.clone());
    let reflector = Reflector::new(source, queue.clone(), Scope::default(), ReflectorConfig::default());
    let reflecting = tokio::spawn(reflector.run());

    // The pop loop.
    let popping = tokio::spawn({
        let (queue, indexer) = (queue.clone(), indexer.clone());
        async move {
            while let Some(popped) = queue.pop().await {
                process(&popped, &indexer);
                popped.done();
            }
        }
    });

    queue.synced(Scope::default()).await?;
    println!("-- synced: {}", show(&indexer.list()));

    let version = server.put(pod("api", "node-2"));
    store.wait_for(Scope::default(), &"web/api".parse()?, &version).await?;
    println!("-- on node-2: {}", show(&indexer.by_index(&by_node, "node-2")?));

    println!("-- the watch breaks, the history is lost, db is deleted and cache created meanwhile");
    server.break_watches();
    server.delete("web/db");
    let version = server.put(pod("cache", "node-1"));
    server.compact();
    store.wait_for(Scope::default(), &"web/cache".parse()?, &version).await?;
    store.wait_until(&"web/db".parse()?, |object| object.is_none().then_some(())).await;
    println!("-- relisted: {}", show(&indexer.list()));

    queue.close();
    reflecting.abort();
    popping.await?;
    Ok(())
}

/// Processes the deltas of a key like client-go's informers, oldest first.
fn process(popped: &Popped, indexer: &Indexer) {
    for delta in popped.deltas() {
        println!("{:>8} {delta:?}", if popped.is_initial() { "initial" } else { "" });
        indexer.apply(delta);
    }
}

fn pod(name: &str, node: &str) -> serde_json::Value {
    json!({"metadata": {"namespace": "web", "name": name}, "spec": {"nodeName": node}})
}

fn show(objects: &[StoredObject]) -> String {
    let mut lines = objects.iter().map(|object| format!("{object:?}")).collect::<Vec<_>>();
    lines.sort();
    lines.join(", ")
}
