//! The body of the end-to-end test: creates websites, deletes and damages their children at random, and checks that everything
//! converges. It does not depend on the server, so the same test runs on the embedded server and on a real one.

use std::collections::BTreeMap;
use std::fmt::Debug;
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
use kube_informer_controller::conditions::established;
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

/// The namespace of the websites.
pub const NAMESPACE: &str = "default";

/// The test fails after this long without progress. A working operator needs a fraction of it.
const PATIENCE: Duration = Duration::from_secs(600);

/// An end-to-end test. The seed determines every step.
pub struct Trial {
    /// A client that no fault applies to.
    pub client: Client,
    /// What the operator writes outside of Kubernetes.
    pub directory: Directory,
    /// Determines what is damaged, and how.
    pub seed: u64,
}

/// Installs the CustomResourceDefinition, and waits until the server serves it.
///
/// # Errors
/// If the server refuses.
pub async fn install(client: &Client) -> anyhow::Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let crd = definition();
    let name = crd.name_any();
    api.create(&PostParams::default(), &crd).await?;
    while !established(Some(&api.get(&name).await?)) {
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

impl Trial {
    /// Creates this many websites.
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

    /// Damages something this many times: deletes or changes a child, or changes, deletes or re-creates a website. Calls `between`
    /// after each.
    ///
    /// # Errors
    /// If the server refuses a request that should succeed.
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
        let delete = DeleteParams::default();
        match how {
            0 => drop(self.api::<Deployment>().delete(name, &delete).await?),
            1 => drop(self.api::<Service>().delete(name, &delete).await?),
            2 => drop(self.api::<ConfigMap>().delete(name, &delete).await?),
            3 => self.change::<Deployment>(name, json!({"spec": {"replicas": 7}})).await?,
            4 => self.change::<ConfigMap>(name, json!({"data": {"index.html": "defaced"}})).await?,
            5 => self.change::<Service>(name, json!({"metadata": {"labels": null}})).await?,
            6 => self.change::<ConfigMap>(name, json!({"metadata": {"ownerReferences": null}})).await?,
            7 => {
                let spec = json!({"html": format!("{name}, new"), "replicas": 3});
                self.change::<Website>(name, json!({"spec": spec})).await?;
            }
            8 => drop(self.api::<Website>().delete(name, &delete).await?),
            _ => {
                self.api::<Website>().delete(name, &delete).await?;
                let spec =
                    WebsiteSpec { host: format!("{name}.example.org"), html: name.to_owned(), replicas: 1 };
                // The old website may still be terminating.
                if let Err(error) = self.api().create(&PostParams::default(), &Website::new(name, spec)).await
                {
                    let exists = matches!(&error, ClientError::Api(status) if status.code == 409);
                    return if exists { Ok(()) } else { Err(error) };
                }
            }
        }
        Ok(())
    }

    /// Waits until every website has its children and its status. Returns the number of websites.
    ///
    /// # Errors
    /// Returns the remaining differences if there is no progress for [`PATIENCE`].
    pub async fn converged(&self) -> anyhow::Result<usize> {
        let mut fewest = usize::MAX;
        let mut better = Instant::now();
        loop {
            let (sites, wrong) = self.look().await.context("cannot compare websites with their children")?;
            if wrong.is_empty() {
                return Ok(sites);
            }
            if wrong.len() < fewest {
                fewest = wrong.len();
                better = Instant::now();
            }
            ensure!(better.elapsed() < PATIENCE, "no progress for {PATIENCE:?}: {}", summary(&wrong));
            // Each check lists everything.
            sleep(Duration::from_secs(5)).await;
        }
    }

    /// The number of websites, and every difference from the desired state.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn look(&self) -> anyhow::Result<(usize, Vec<String>)> {
        let sites = self.list::<Website>().await?;
        let maps = self.list::<ConfigMap>().await?;
        let (services, deployments) = (self.list::<Service>().await?, self.list::<Deployment>().await?);
        let mut wrong = Vec::new();
        for (name, site) in &sites {
            let children = Children::of(site)?;
            let parts = [
                ("website", website_is_settled(site, deployments.get(name))),
                ("config map", is_part_of(site, children.config_map, maps.get(name))),
                ("service", is_part_of(site, children.service, services.get(name))),
                ("deployment", is_part_of(site, children.deployment, deployments.get(name))),
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
        wrong.extend(entries.keys().map(|key| format!("directory: unexpected entry {key}")));
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn change<K>(&self, name: &str, change: Value) -> Result<(), ClientError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let change = Patch::Merge(change);
        self.api::<K>().patch(name, &PatchParams::default(), &change).await.map(drop)
    }

    async fn list<K>(&self) -> anyhow::Result<BTreeMap<String, K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let items = self.api::<K>().list(&ListParams::default()).await?.items;
        Ok(items.into_iter().map(|item| (item.name_any(), item)).collect())
    }
}

/// Whether a website itself is in its desired state.
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

/// Reports children whose website is gone. Ignores other objects of the cluster.
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

/// Ignores a 404: the object is already gone.
fn unless_gone(done: Result<(), ClientError>) -> Result<(), ClientError> {
    match done {
        Err(ClientError::Api(status)) if status.code == 404 => Ok(()),
        done => done,
    }
}

/// Whether a child has everything that its website demands; it can have more.
fn is_part_of<K: Resource + Serialize>(
    site: &Website,
    mut wanted: K,
    found: Option<&K>,
) -> anyhow::Result<()> {
    let Some(found) = found else { bail!("it is missing") };
    wanted.meta_mut().owner_references = site.controller_owner_ref(&()).map(|owner| vec![owner]);
    compare(&serde_json::to_value(&wanted)?, &serde_json::to_value(found)?, "")
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
