//! The made-up cluster: pods that are created, scheduled, run, fail and go, and trouble on the way to them.

use anyhow::Context;
use embedded_apiserver::Server;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::json;

const NAMESPACES: [&str; 4] = ["shop", "search", "billing", "batch"];
const APPS: [&str; 6] = ["api", "web", "worker", "cache", "queue", "cron"];
const PHASES: [&str; 4] = ["Pending", "Running", "Succeeded", "Failed"];
const NODES: u32 = 20;

/// A cluster that changes by itself.
pub(super) struct World<'s> {
    server: &'s Server,
    client: Client,
    rng: StdRng,
    pods: Vec<(&'static str, String)>,
    created: usize,
}

impl<'s> World<'s> {
    pub(super) fn new(server: &'s Server, seed: u64) -> Self {
        // Past the socket: the trouble is for the informer, not for those who run the cluster.
        let client = Client::new(server.service(), "default");
        Self { server, client, rng: StdRng::seed_from_u64(seed), pods: Vec::new(), created: 0 }
    }

    /// Makes the namespaces and the pods that are there from the beginning.
    pub(super) async fn populate(&mut self, pods: usize) -> anyhow::Result<()> {
        for name in NAMESPACES {
            let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
            let api = Api::<Namespace>::all(self.client.clone());
            api.create(&PostParams::default(), &namespace).await.context("creating a namespace")?;
        }
        for _ in 0..pods {
            self.create().await?;
        }
        Ok(())
    }

    /// Something happens: mostly a pod changes its phase, sometimes one comes or goes.
    pub(super) async fn change(&mut self) -> anyhow::Result<()> {
        match self.rng.random_range(0..10) {
            0 => self.create().await,
            1 if !self.pods.is_empty() => self.delete().await,
            _ if !self.pods.is_empty() => self.change_phase().await,
            _ => self.create().await,
        }
    }

    /// Something goes wrong; says what.
    pub(super) fn disturb(&mut self) -> String {
        match self.rng.random_range(0..3) {
            0 => {
                self.server.disconnect_all();
                "!!! all connections cut".to_owned()
            }
            1 => {
                self.server.compact();
                self.server.disconnect_all();
                "!!! history compacted and all connections cut: watches cannot be resumed".to_owned()
            }
            _ => {
                self.server.set_history(100);
                self.server.disconnect_all();
                "!!! history shortened to 100 events and all connections cut".to_owned()
            }
        }
    }

    async fn create(&mut self) -> anyhow::Result<()> {
        let namespace = *NAMESPACES.choose(&mut self.rng).context("there are namespaces")?;
        let app = *APPS.choose(&mut self.rng).context("there are apps")?;
        self.created += 1;
        let name = format!("{app}-{}", self.created);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"app": app, "tier": if app == "cache" { "data" } else { "backend" }}},
            "spec": {
                "nodeName": format!("node-{}", self.rng.random_range(0..NODES)),
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": app, "image": format!("registry.example/{app}:1.{}", self.rng.random_range(0..9))}],
            },
        }))?;
        let api = Api::<Pod>::namespaced(self.client.clone(), namespace);
        api.create(&PostParams::default(), &pod).await.context("creating a pod")?;
        self.pods.push((namespace, name));
        Ok(())
    }

    async fn delete(&mut self) -> anyhow::Result<()> {
        let at = self.rng.random_range(0..self.pods.len());
        let (namespace, name) = self.pods.swap_remove(at);
        let api = Api::<Pod>::namespaced(self.client.clone(), namespace);
        api.delete(&name, &DeleteParams::default().grace_period(0)).await.context("deleting a pod")?;
        Ok(())
    }

    async fn change_phase(&mut self) -> anyhow::Result<()> {
        let (namespace, name) = self.pods.choose(&mut self.rng).context("there are pods")?;
        let api = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let phase = *PHASES.choose(&mut self.rng).context("there are phases")?;
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        api.patch_status(name, &PatchParams::default(), &patch).await.context("changing a pod's phase")?;
        Ok(())
    }
}
