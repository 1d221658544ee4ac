//! kube-runtime's `Controller` on an informer, and the memory of both stores. The figures of docs/from-kube-rs.md come from a debug
//! build: `cargo run -p kube-informer --example alongside_kube_runtime`.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod cluster;

use std::convert::Infallible;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Api;
use kube_core::metadata::PartialObjectMeta;
use kube_informer::runtime::{Reader, events, trigger};
use kube_informer::{Cluster, Informer};
use kube_runtime::controller::{Action, Controller};
use kube_runtime::reflector::{ObjectRef, store};
use kube_runtime::{reflector, watcher};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use tokio::sync::mpsc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const PODS: usize = 2000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> cluster::Result<()> {
    let (_server, cluster) = cluster::start().await?;
    for number in 0..PODS {
        cluster::create::<Pod>(&cluster.client(), "web", pod(number)).await?;
    }

    // Before: the store of kube-runtime holds decoded pods.
    let before = MEMORY.current_usage();
    let (pods, writer) = store::<Pod>();
    let watch = reflector(writer, watcher(Api::<Pod>::all(cluster.client()), watcher::Config::default()));
    let watch = tokio::spawn(watch.for_each(|_| std::future::ready(())));
    pods.wait_until_ready().await?;
    print("kube-runtime's Store<Pod>", before);
    watch.abort();
    let _ = watch.await;
    drop(pods);

    // The first step: an informer feeds the store of kube-runtime. Both hold the pods.
    let before = MEMORY.current_usage();
    let informer = Informer::<Pod>::builder(cluster.clone()).start()?;
    let (pods, writer) = store::<Pod>();
    let watch = tokio::spawn(reflector(writer, events(&informer)).for_each(|_| std::future::ready(())));
    pods.wait_until_ready().await?;
    assert_eq!(pods.state().len(), PODS);
    print("kube-runtime's Store<Pod>, fed by the events of an informer", before);
    watch.abort();
    let _ = watch.await;
    informer.shutdown().await;
    drop((pods, informer));

    // After: the controller's store holds metadata, and the reader decodes a pod when a reconcile asks for it.
    let before = MEMORY.current_usage();
    let pods = Informer::<Pod>::builder(cluster.clone()).start()?;
    pods.synced().await?;
    print("Reader<Pod> over an informer", before);
    run(&cluster, Reader::from(&pods), before).await?;
    Ok(())
}

/// Runs a controller until it has reconciled every pod.
async fn run(cluster: &Cluster, pods: Reader<Pod>, before: usize) -> cluster::Result<()> {
    let metadata = Informer::<PartialObjectMeta<Pod>>::builder(cluster.clone()).start()?;
    let (changed, store) = trigger(&metadata);
    let (done, mut reconciled) = mpsc::unbounded_channel();
    let reconcile = |pod: Arc<PartialObjectMeta<Pod>>,
                     (pods, done): &(Reader<Pod>, mpsc::UnboundedSender<bool>)| {
        let key = ObjectRef::from_obj(&*pod).erase();
        let pod = pods.get(&ObjectRef::new(&key.name).within(key.namespace.as_deref().unwrap_or_default()));
        let _ = done.send(pod.is_some_and(|pod| pod.spec.is_some()));
        std::future::ready(Ok::<_, Infallible>(Action::await_change()))
    };
    let controller = Controller::for_stream(changed, store).run(
        move |pod, context| reconcile(pod, &context),
        |_, _, _| Action::await_change(),
        Arc::new((pods, done)),
    );
    let controller = tokio::spawn(controller.for_each(|_| std::future::ready(())));
    for _ in 0..PODS {
        assert_eq!(reconciled.recv().await, Some(true), "the reader has every pod");
    }
    print("the same, and a Controller over metadata", before);
    controller.abort();
    Ok(())
}

fn print(what: &str, before: usize) {
    let bytes = MEMORY.current_usage().saturating_sub(before);
    println!("{what}: {:.1} MB, {} B per pod", bytes as f64 / 1e6, bytes / PODS);
}

/// A pod of a Deployment, as a cluster has them.
fn pod(number: usize) -> Value {
    let env =
        (0..8).map(|at| json!({"name": format!("SETTING_{at}"), "value": format!("value of setting {at}")}));
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-11-01T10:00:00Z"});
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8080}, "periodSeconds": 10});
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry/{name}:1.2.3"), "env": env.clone().collect::<Vec<_>>(),
            "ports": [{"name": "http", "containerPort": 8080}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "livenessProbe": probe("/livez"), "readinessProbe": probe("/readyz"),
            "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}],
        })
    };
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    json!({
        "metadata": {
            "name": format!("api-7f9c{number:05}"),
            "labels": {"app": "api", "tier": "backend", "pod-template-hash": "7f9c"},
            "annotations": {"example.com/checksum": format!("{number:064x}")},
        },
        "spec": {
            "nodeName": format!("node-{}", number % 50), "serviceAccountName": "api",
            "containers": [container("main"), container("proxy")],
            "volumes": [{"name": "config", "configMap": {"name": "api"}}],
        },
        "status": {
            "phase": "Running", "podIP": format!("10.0.{}.{}", number / 250, number % 250),
            "conditions": conditions,
        },
    })
}
