//! Fetches only metadata: names, labels and owners, without the content. Useful for secrets.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod cluster;

use k8s_openapi::api::core::v1::Secret;
use kube_informer::Informer;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> cluster::Result<()> {
    let (_server, cluster) = cluster::start().await?;
    let password = "correct horse battery staple ".repeat(40);
    for name in ["database", "mail"] {
        let secret = json!({"metadata": {"name": name, "labels": {"app": name}}, "stringData": {"password": password}});
        cluster::create::<Secret>(&cluster.client(), "web", secret).await?;
    }

    let whole = Informer::<Secret>::builder(cluster.clone()).start()?;
    let metadata = Informer::<Secret>::builder(cluster).metadata_only().start()?;
    whole.synced().await?;
    metadata.synced().await?;

    for secret in metadata.lister().labels("app in (database, mail)")?.list() {
        let age = secret.decode()?.metadata.creation_timestamp.clone();
        println!("{} was created at {:?}", secret.key(), age.ok_or("no creation time")?.0.to_string());
    }
    let bytes = |objects: usize, stored: usize| stored / objects.max(1);
    println!(
        "stored bytes of one secret: {} for the whole object, {} for its metadata",
        bytes(whole.lister().count(), whole.lister().view().snapshot().stored_bytes()),
        bytes(metadata.lister().count(), metadata.lister().view().snapshot().stored_bytes()),
    );
    Ok(())
}
