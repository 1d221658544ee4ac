//! The reconcile: from what a website says to what there is.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use kube_client::api::{DeleteParams, Patch, PatchParams};
use kube_client::{Api, Client};
use kube_core::{Resource, ResourceExt as _};
use kube_informer::{Informer, Key};
use kube_informer_controller::{Action, Context, Error, EventNote, EventRecorder, Stage, finalize};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::children::Children;
use crate::{Website, WebsiteStatus};

/// Keeps a website until its name is taken out of the directory.
pub const FINALIZER: &str = "example.com/website";

/// Who owns the fields that are applied.
const MANAGER: &str = "website-operator";

/// What a reconcile works with.
#[derive(Clone)]
pub struct Data {
    /// For writing.
    pub client: Client,
    /// For reading.
    pub websites: Informer<Website>,
    /// For reading.
    pub deployments: Informer<Deployment>,
    /// What is outside of Kubernetes.
    pub directory: Directory,
    /// For telling people.
    pub events: EventRecorder,
}

/// Stands for something outside of Kubernetes, such as a name server: which website has which host.
#[derive(Clone, Debug, Default)]
pub struct Directory(Arc<Mutex<BTreeMap<Key, String>>>);

impl Directory {
    /// What is in it.
    pub fn entries(&self) -> BTreeMap<Key, String> {
        self.0.lock().clone()
    }
}

/// Makes one website so.
///
/// # Errors
/// If the server refuses a write; it is tried again. A website that makes no sense is a terminal error.
pub async fn reconcile(context: Context<Data>, key: Key) -> Result<Action, Error> {
    let data = context.data();
    let Some(site) = data.websites.lister().get(&key) else { return Ok(Action::Done) };
    let api = Api::<Website>::namespaced(data.client.clone(), key.namespace());
    let stage = |stage| async {
        match stage {
            Stage::Apply(site) => apply(&context, &key, &site).await,
            Stage::Cleanup(site) => {
                data.directory.0.lock().remove(&key);
                // The garbage collector finds what refers to its owner. Somebody may have taken such a reference off.
                let children = Children::of(&site);
                delete_child(data, &children.config_map).await?;
                delete_child(data, &children.service).await?;
                delete_child(data, &children.deployment).await?;
                Ok(Action::Done)
            }
        }
    };
    finalize(&context, &api, FINALIZER, site.decode()?, stage).await
}

async fn apply(context: &Context<Data>, key: &Key, site: &Website) -> Result<Action, Error> {
    let data = context.data();
    if site.spec.replicas < 0 {
        let problem = "replicas is less than none".to_owned();
        data.events.record(site, EventNote::warning("Senseless", "Reconcile", problem.clone()));
        set_status(context, site, 0, Some(problem.clone())).await?;
        return Err(Error::terminal(problem));
    }
    let children = Children::of(site);
    apply_child(context, &children.config_map).await?;
    apply_child(context, &children.service).await?;
    apply_child(context, &children.deployment).await?;
    data.directory.0.lock().insert(key.clone(), site.spec.host.clone());
    let ready = match data.deployments.lister().get(key) {
        Some(deployment) => deployment.decode()?.status.as_ref().and_then(|status| status.ready_replicas),
        None => None,
    };
    set_status(context, site, ready.unwrap_or_default(), None).await?;
    Ok(Action::Done)
}

/// Writes a child as it should be. Applying what is there already changes nothing and makes no event, so nothing has to be
/// compared first.
async fn apply_child<K>(context: &Context<Data>, child: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug,
{
    let api = Api::<K>::namespaced(context.data().client.clone(), &child.namespace().unwrap_or_default());
    let written =
        api.patch(&child.name_any(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(child)).await?;
    context.wrote(&written);
    Ok(())
}

async fn delete_child<K>(data: &Data, child: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
{
    let api = Api::<K>::namespaced(data.client.clone(), &child.namespace().unwrap_or_default());
    match api.delete(&child.name_any(), &DeleteParams::background()).await {
        Err(kube_client::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => Ok(deleted.map(drop)?),
    }
}

async fn set_status(
    context: &Context<Data>,
    site: &Website,
    ready_replicas: i32,
    problem: Option<String>,
) -> Result<(), Error> {
    let observed_generation = site.metadata.generation.unwrap_or_default();
    let status = WebsiteStatus { observed_generation, ready_replicas, problem };
    if site.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let data = context.data();
    let api = Api::<Website>::namespaced(data.client.clone(), &site.namespace().unwrap_or_default());
    let uid = site.metadata.uid.as_deref();
    // With its uid, lest the status of one that is gone be written to its successor.
    let patch = json!({"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"uid": uid}, "status": status});
    let patch = Patch::Apply(patch);
    let written = api.patch_status(&site.name_any(), &PatchParams::apply(MANAGER).force(), &patch).await?;
    context.wrote(&written);
    data.events.record(
        site,
        EventNote::normal("Reconciled", "Reconcile", format!("at generation {observed_generation}")),
    );
    Ok(())
}
