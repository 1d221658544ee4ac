//! Namespaces chosen by label, at run time: the pods of a team's namespaces, as the team gains and loses namespaces. The other
//! namespaces are neither fetched nor cached.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod cluster;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use kube_informer::{Event, Informer};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> cluster::Result<()> {
    let (_server, cluster) = cluster::start().await?;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let set_team = async |namespace: &str, team: Value| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"team": team}}}));
        namespaces.patch(namespace, &PatchParams::default(), &patch).await
    };
    for namespace in ["shop", "blog", "billing"] {
        cluster::create::<Pod>(&cluster.client(), namespace, cluster::pod("api", "backend", "node-1"))
            .await?;
    }
    set_team("shop", json!("web")).await?;

    let pods = Informer::<Pod>::builder(cluster.clone()).namespaces_matching("team=web").start()?;
    let mut events = pods.subscribe();
    let mut next = async || match events.next().await {
        Some(Event::Added { object, .. }) => format!("{} entered", object.key()),
        Some(Event::Deleted { last, .. }) => format!("{} left", last.key()),
        Some(Event::Updated { new, .. }) => format!("{} changed", new.key()),
        Some(Event::Synced) => "synced".to_owned(),
        None => "the informer has stopped".to_owned(),
    };
    let mut expect = async |event: &str| {
        let next = next().await;
        println!("{next}");
        assert_eq!(next, event);
    };
    expect("shop/api entered").await;
    expect("synced").await;
    set_team("blog", json!("web")).await?;
    expect("blog/api entered").await;
    set_team("shop", Value::Null).await?;
    expect("shop/api left").await;

    let watched = pods.status().into_iter().filter_map(|scope| scope.namespace).collect::<Vec<_>>();
    assert_eq!(watched, ["blog"], "the others are neither fetched nor cached");
    assert_eq!(pods.lister().count(), 1);
    Ok(())
}
