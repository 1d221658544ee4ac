//! Discovers and watches every custom resource of the server: kinds that are unknown at compile time.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod cluster;

use futures::StreamExt;
use futures::stream::select_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::api::PostParams;
use kube_client::{Api, Client};
use kube_core::{ApiResource, DynamicObject};
use kube_informer::{Event, InformerFactory};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> cluster::Result<()> {
    let (_server, cluster) = cluster::start().await?;
    for kind in ["Widget", "Gadget"] {
        define(&cluster.client(), kind).await?;
    }

    // One informer per definition. The factory limits concurrent initial lists, to protect the server.
    let factory = InformerFactory::new(cluster.clone());
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let mut informers = Vec::new();
    for definition in definitions.list(&Default::default()).await? {
        for version in definition.spec.versions.iter().filter(|version| version.served) {
            let resource = ApiResource {
                group: definition.spec.group.clone(),
                version: version.name.clone(),
                api_version: format!("{}/{}", definition.spec.group, version.name),
                kind: definition.spec.names.kind.clone(),
                plural: definition.spec.names.plural.clone(),
            };
            informers.push((resource.clone(), factory.dynamic(&resource).start()?));
        }
    }
    factory.wait_for_sync().await?;
    println!("watching {} kinds", informers.len());

    for (resource, _) in &informers {
        let api: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "default", resource);
        let object = DynamicObject::new("first", resource).data(json!({"spec": {"size": 7}}));
        api.create(&PostParams::default(), &object).await?;
    }
    let streams = informers.iter().map(|(resource, informer)| {
        let kind = resource.kind.clone();
        informer.subscribe().map(move |event| (kind.clone(), event))
    });
    let mut events = select_all(streams);
    let mut added = 0;
    while added < informers.len() {
        let Some((kind, event)) = events.next().await else { break };
        if let Event::Added { object, .. } = event {
            println!("{kind} {}: size {}", object.key(), object.decode()?.data["spec"]["size"]);
            added += 1;
        }
    }
    factory.shutdown().await;
    Ok(())
}

async fn define(client: &Client, kind: &str) -> cluster::Result<()> {
    let (singular, plural) = (kind.to_lowercase(), format!("{}s", kind.to_lowercase()));
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    let definition = json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &serde_json::from_value(definition)?).await?;
    Ok(())
}
