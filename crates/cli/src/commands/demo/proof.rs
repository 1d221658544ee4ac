//! The check at the end: once the cluster no longer changes, the mirrors must equal it.

use std::time::Duration;

use futures::StreamExt;
use kube_informer::Key;
use kube_informer::building_blocks::{ListOptions, ListPart, ListWatch, ListerWatcher};
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::mirror::Mirror;

/// How long the mirrors may take to catch up.
const CATCH_UP_MAX: Duration = Duration::from_secs(90);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Waits until every mirror has exactly the server's objects in the server's states; returns their number.
pub(super) async fn equal(cluster: &Cluster, mirrors: &[Mirror]) -> Result<usize, Failure> {
    let deadline = Instant::now() + CATCH_UP_MAX;
    let mut objects = 0;
    for mirror in mirrors {
        loop {
            if let Some(count) = compare(cluster, mirror).await? {
                objects += count;
                break;
            }
            if Instant::now() > deadline {
                let kind = mirror.selected.kind.qualified();
                return Err(Failure::Other(format!(
                    "cannot verify the mirror of {kind}: it differs from the server after {CATCH_UP_MAX:?}"
                )));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
    Ok(objects)
}

/// The number of objects; `None` if mirror and server differ.
async fn compare(cluster: &Cluster, mirror: &Mirror) -> Result<Option<usize>, Failure> {
    let failed = |error| Failure::other("cannot list objects for the comparison", &error);
    let source = ListWatch::new(cluster.client.clone(), mirror.selected.kind.resource.clone());
    let view = mirror.informer.lister().view();
    let mut parts = source.list(ListOptions::default()).await.map_err(failed)?;
    let mut count = 0;
    while let Some(part) = parts.next().await {
        let ListPart::Item(item) = part.map_err(failed)? else { continue };
        let head = item.head();
        let stored = view.snapshot().get(&Key::new(head.namespace(), head.name()));
        if stored.is_none_or(|stored| stored.resource_version() != head.resource_version()) {
            return Ok(None);
        }
        count += 1;
    }
    Ok((count == view.snapshot().len()).then_some(count))
}
