//! The end-to-end test's body: websites are made, their children deleted and broken at random, and in the end all is as it
//! should be. It knows nothing of the server it runs on, so that the embedded one and a real one are put to the same test.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client, Error as ClientError};
use kube_core::{Resource, ResourceExt as _};
use kube_informer::Key;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::children::Children;
use crate::reconcile::{Directory, FINALIZER};
use crate::website::definition;
use crate::{Website, WebsiteSpec, WebsiteStatus};

/// The namespace that it all happens in.
pub const NAMESPACE: &str = "default";

/// For how long nothing may get better. An operator that works needs a fraction of it; one that does not is noticed.
const PATIENCE: Duration = Duration::from_secs(600);

/// A trial. What is done is decided by the seed.
pub struct Trial {
    /// Not one that faults strike: what is to be done must be done.
    pub client: Client,
    /// What the operator writes outside of Kubernetes.
    pub directory: Directory,
    /// Decides what is broken, and how.
    pub seed: u64,
}

/// Makes the definition known to the server, and waits until it serves it.
///
/// # Errors
/// If the server refuses.
pub async fn install(client: &Client) -> anyhow::Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let crd = definition();
    let name = crd.name_any();
    api.create(&PostParams::default(), &crd).await?;
    loop {
        let conditions =
            api.get(&name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
            return Ok(());
        }
        sleep(Duration::from_millis(100)).await;
    }
}

impl Trial {
    /// Makes so many websites.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn create(&self, sites: usize) -> anyhow::Result<()> {
        let api = self.api::<Website>();
        let create = |number: usize| {
            let name = format!("site-{number}");
            let spec = WebsiteSpec { host: format!("{name}.example.com"), html: name.clone(), replicas: 2 };
            let site = Website::new(&name, spec);
            let api = api.clone();
            async move { api.create(&PostParams::default(), &site).await.map(drop) }
        };
        stream::iter(0..sites).map(create).buffer_unordered(8).try_collect::<()>().await?;
        Ok(())
    }

    /// Breaks something so many times: a child deleted or changed, a website changed, deleted, or deleted and made anew.
    /// `between` is called after each.
    ///
    /// # Errors
    /// If the server refuses what it should not.
    pub async fn damage(
        &self,
        sites: usize,
        times: usize,
        mut between: impl AsyncFnMut(usize),
    ) -> anyhow::Result<()> {
        let mut random = StdRng::seed_from_u64(self.seed);
        for number in 0..times {
            let name = format!("site-{}", random.random_range(0..sites));
            let done = self.damage_one(&name, random.random_range(0..10)).await;
            unless_gone(done).with_context(|| format!("damage {number}, to {name}"))?;
            between(number).await;
        }
        Ok(())
    }

    async fn damage_one(&self, name: &str, how: u32) -> Result<(), ClientError> {
        let merge = PatchParams::default();
        let delete = DeleteParams::default();
        let no_labels = json!({"metadata": {"labels": null}});
        match how {
            0 => drop(self.api::<Deployment>().delete(name, &delete).await?),
            1 => drop(self.api::<Service>().delete(name, &delete).await?),
            2 => drop(self.api::<ConfigMap>().delete(name, &delete).await?),
            3 => {
                let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
                self.api::<Deployment>().patch(name, &merge, &patch).await?;
            }
            4 => {
                let patch = Patch::Merge(json!({"data": {"index.html": "defaced"}}));
                self.api::<ConfigMap>().patch(name, &merge, &patch).await?;
            }
            5 => drop(self.api::<Service>().patch(name, &merge, &Patch::Merge(no_labels)).await?),
            6 => {
                let patch = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
                self.api::<ConfigMap>().patch(name, &merge, &patch).await?;
            }
            7 => {
                let patch = Patch::Merge(json!({"spec": {"html": format!("{name}, new"), "replicas": 3}}));
                self.api::<Website>().patch(name, &merge, &patch).await?;
            }
            8 => drop(self.api::<Website>().delete(name, &delete).await?),
            _ => {
                self.api::<Website>().delete(name, &delete).await?;
                let spec =
                    WebsiteSpec { host: format!("{name}.example.org"), html: name.to_owned(), replicas: 1 };
                // While the old one is being cleaned up there can be no new one.
                if let Err(error) = self.api().create(&PostParams::default(), &Website::new(name, spec)).await
                {
                    let exists = matches!(&error, ClientError::Api(status) if status.code == 409);
                    return if exists { Ok(()) } else { Err(error) };
                }
            }
        }
        Ok(())
    }

    /// Waits until everything is as it should be, and gives the number of websites that there are.
    ///
    /// # Errors
    /// What is not as it should be, if nothing gets better for [`PATIENCE`], however fast or slow it is otherwise.
    pub async fn converged(&self) -> anyhow::Result<usize> {
        let mut fewest = usize::MAX;
        let mut better = Instant::now();
        loop {
            let (sites, wrong) = self.look().await.context("looking whether all is as it should be")?;
            if wrong.is_empty() {
                return Ok(sites);
            }
            if wrong.len() < fewest {
                fewest = wrong.len();
                better = Instant::now();
            }
            ensure!(better.elapsed() < PATIENCE, "nothing got better for {PATIENCE:?}: {}", summary(&wrong));
            // Looking is not cheap: it lists everything.
            sleep(Duration::from_secs(5)).await;
        }
    }

    /// How many websites there are, and everything that is not as it should be.
    async fn look(&self) -> anyhow::Result<(usize, Vec<String>)> {
        let sites = self.list::<Website>().await?;
        let maps = self.list::<ConfigMap>().await?;
        let (services, deployments) = (self.list::<Service>().await?, self.list::<Deployment>().await?);
        let mut wrong = Vec::new();
        for (name, site) in &sites {
            let children = Children::of(site);
            let parts = [
                ("website", website_is_settled(site, deployments.get(name))),
                ("config map", is_part_of(&children.config_map, maps.get(name))),
                ("service", is_part_of(&children.service, services.get(name))),
                ("deployment", is_part_of(&children.deployment, deployments.get(name))),
            ];
            for (kind, part) in parts {
                wrong.extend(part.err().map(|error| format!("{kind} {name}: {error:#}")));
            }
        }
        left_over("config map", &maps, &sites, &mut wrong);
        left_over("service", &services, &sites, &mut wrong);
        left_over("deployment", &deployments, &sites, &mut wrong);
        self.compare_directory(&sites, &mut wrong);
        Ok((sites.len(), wrong))
    }

    fn compare_directory(&self, sites: &BTreeMap<String, Website>, wrong: &mut Vec<String>) {
        let mut entries = self.directory.entries();
        for (name, site) in sites {
            let (wanted, found) = (&site.spec.host, entries.remove(&Key::new(NAMESPACE, name)));
            if found.as_ref() != Some(wanted) {
                wrong.push(format!("directory: the host of {name} is {found:?}, not {wanted}"));
            }
        }
        wrong.extend(entries.keys().map(|key| format!("directory: {key} is in it, but is no website")));
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn list<K>(&self) -> anyhow::Result<BTreeMap<String, K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let items = self.api::<K>().list(&ListParams::default()).await?.items;
        Ok(items.into_iter().map(|item| (item.name_any(), item)).collect())
    }
}

/// Whether nothing is left to be done to a website itself.
fn website_is_settled(site: &Website, deployment: Option<&Deployment>) -> anyhow::Result<()> {
    ensure!(site.metadata.deletion_timestamp.is_none(), "it is still being deleted");
    ensure!(site.finalizers().iter().any(|finalizer| finalizer == FINALIZER), "it has no finalizer");
    let ready = deployment.and_then(|deployment| deployment.status.as_ref()?.ready_replicas);
    let wanted = WebsiteStatus {
        observed_generation: site.metadata.generation.unwrap_or_default(),
        ready_replicas: ready.unwrap_or_default(),
        problem: None,
    };
    ensure!(site.status.as_ref() == Some(&wanted), "its status is {:?}, not {wanted:?}", site.status);
    Ok(())
}

/// Children whose website is gone. A real cluster has objects of its own: those are not meant.
fn left_over<K: Resource>(
    kind: &str,
    found: &BTreeMap<String, K>,
    sites: &BTreeMap<String, Website>,
    wrong: &mut Vec<String>,
) {
    for (name, child) in found {
        if child.labels().contains_key("example.com/website") && !sites.contains_key(name) {
            wrong.push(format!("{kind} {name}: its website is gone"));
        }
    }
}

/// How many things are wrong, and the first of them.
fn summary(wrong: &[String]) -> String {
    const SHOWN: usize = 5;
    let more = if wrong.len() > SHOWN { "; …" } else { "" };
    format!("{} wrong: {}{more}", wrong.len(), wrong[..wrong.len().min(SHOWN)].join("; "))
}

/// What is gone cannot be broken.
fn unless_gone(done: Result<(), ClientError>) -> Result<(), ClientError> {
    match done {
        Err(ClientError::Api(status)) if status.code == 404 => Ok(()),
        done => done,
    }
}

/// Whether everything that is wanted is there; there may be more.
fn is_part_of<K: Serialize>(wanted: &K, found: Option<&K>) -> anyhow::Result<()> {
    let Some(found) = found else { bail!("it is missing") };
    compare(&serde_json::to_value(wanted)?, &serde_json::to_value(found)?, "")
}

fn compare(wanted: &Value, found: &Value, path: &str) -> anyhow::Result<()> {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (name, wanted) in wanted {
                compare(wanted, found.get(name).unwrap_or(&Value::Null), &format!("{path}.{name}"))?;
            }
        }
        (Value::Array(wanted), Value::Array(found)) => {
            ensure!(wanted.len() == found.len(), "{path} has {} elements, not {}", found.len(), wanted.len());
            for (number, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                compare(wanted, found, &format!("{path}[{number}]"))?;
            }
        }
        _ => ensure!(wanted == found, "{path} is {found}, not {wanted}"),
    }
    Ok(())
}
