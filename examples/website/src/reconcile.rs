//! The reconcile: from the spec of a website to its children, its status and its entry in the directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_client::Api;
use kube_informer::Key;
use kube_informer_controller::{Action, Context, Error, EventNote, EventRecorder, Stage, finalize};
use parking_lot::Mutex;

use crate::children::Children;
use crate::{Website, WebsiteStatus};

/// Keeps a website until its name is removed from the directory.
pub const FINALIZER: &str = "example.com/website";

/// What a reconcile works with.
#[derive(Clone)]
pub struct Data {
    /// A system outside Kubernetes.
    pub directory: Directory,
    /// For Events about websites.
    pub events: EventRecorder,
}

/// Stands for a system outside Kubernetes, such as a name server: the host of each website.
#[derive(Clone, Debug, Default)]
pub struct Directory(Arc<Mutex<BTreeMap<Key, String>>>);

impl Directory {
    /// The entries.
    pub fn entries(&self) -> BTreeMap<Key, String> {
        self.0.lock().clone()
    }
}

/// Reconciles one website.
///
/// # Errors
/// Returns an error if the server refuses a write; it is retried. An invalid website is a terminal error.
pub async fn reconcile(ctx: Context<Data>, key: Key) -> Result<Action, Error> {
    let Some(site) = ctx.object::<Website>() else { return Ok(Action::Done) };
    let api = Api::<Website>::namespaced(ctx.client(), key.namespace());
    let stage = |stage| async {
        match stage {
            Stage::Apply(site) => apply(&ctx, &site).await,
            Stage::Cleanup(site) => clean_up(&ctx, &site).await,
        }
    };
    finalize(&ctx, &api, FINALIZER, site.decode()?, stage).await
}

async fn apply(ctx: &Context<Data>, site: &Website) -> Result<Action, Error> {
    let data = ctx.data();
    let observed_generation = site.metadata.generation.unwrap_or_default();
    if site.spec.replicas < 0 {
        let problem = format!("invalid replicas {}: must not be negative", site.spec.replicas);
        data.events.record(site, EventNote::warning("InvalidSpec", "Reconcile", &*problem));
        let status = WebsiteStatus { observed_generation, ready_replicas: 0, problem: Some(problem.clone()) };
        ctx.patch_status(site, &status).await?;
        return Err(Error::terminal(problem));
    }
    let children = Children::of(site).map_err(Error::terminal)?;
    // Applying an unchanged child writes nothing, so there is nothing to compare first.
    ctx.apply(&children.config_map).await?;
    ctx.apply(&children.service).await?;
    let deployment = ctx.apply(&children.deployment).await?;
    data.directory.0.lock().insert(ctx.key().clone(), site.spec.host.clone());
    let ready_replicas = deployment.status.and_then(|status| status.ready_replicas).unwrap_or_default();
    if ctx.patch_status(site, &WebsiteStatus { observed_generation, ready_replicas, problem: None }).await? {
        let text = format!("at generation {observed_generation}");
        data.events.record(site, EventNote::normal("Reconciled", "Reconcile", text));
    }
    Ok(Action::Done)
}

/// The garbage collector deletes children by their owner reference. Another client may have removed such a reference, so they are
/// deleted here, too.
async fn clean_up(ctx: &Context<Data>, site: &Website) -> Result<Action, Error> {
    ctx.data().directory.0.lock().remove(ctx.key());
    let children = Children::of(site).map_err(Error::terminal)?;
    ctx.delete(&children.config_map).await?;
    ctx.delete(&children.service).await?;
    ctx.delete(&children.deployment).await?;
    Ok(Action::Done)
}
