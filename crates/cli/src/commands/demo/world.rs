//! The simulated cluster: deployments that are rolled out and scaled, pods that start, crash, recover and are evicted, nodes
//! that become unready and recover.
//!
//! It stands in for users, scheduler, kubelet and controllers; only the status of Deployments is left to the demo's controller.
//! Events are a queue of steps. A step makes one write and may queue further steps, so a rollout takes a while, and several of
//! them interleave.

use std::collections::VecDeque;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::api::{Api, Written};
use super::manifests::{self, APPS, Health, NAMESPACES};
use crate::failure::Failure;

/// Maximum number of queued steps; beyond that, no new event begins.
const STEPS_MAX: usize = 200;

/// A cluster that changes by itself.
pub(super) struct World {
    pub(super) api: Api,
    rng: StdRng,
    pub(super) nodes: usize,
    pub(super) deployments: Vec<Deployment>,
    steps: VecDeque<WorldStep>,
    lost_node: Option<usize>,
}

/// A deployment, its replica sets and pods.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    pub(super) namespace: &'static str,
    pub(super) app: &'static str,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) tag: u32,
    /// The template hash of the current replica set.
    pub(super) hash: String,
    pub(super) replica_set_uid: String,
    pub(super) replicas: usize,
    pub(super) pods: Vec<Pod>,
    rolling: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) tag: u32,
    pub(super) node: usize,
    pub(super) restarts: u32,
    pub(super) health: Health,
    /// When it became ready or unready.
    since: String,
}

/// One write, now or later.
#[derive(Clone, Debug)]
enum WorldStep {
    CreatePod {
        deployment: usize,
    },
    Start {
        deployment: usize,
        pod: String,
    },
    Crash {
        deployment: usize,
        pod: String,
    },
    Recover {
        deployment: usize,
        pod: String,
    },
    Evict {
        deployment: usize,
        pod: String,
    },
    RemovePod {
        deployment: usize,
        pod: String,
    },
    BeginRollout {
        deployment: usize,
    },
    NewReplicaSet {
        deployment: usize,
        old_hash: String,
    },
    /// Creates one new pod and deletes one old one.
    Replace {
        deployment: usize,
        old_hash: String,
    },
    Scale {
        deployment: usize,
        replicas: usize,
    },
    LoseNode,
    FindNode,
}

impl World {
    pub(super) fn new(api: Api, seed: u64, nodes: usize) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        Self { api, rng, nodes, deployments: Vec::new(), steps: VecDeque::new(), lost_node: None }
    }

    /// Makes one write; `None` if its object no longer exists.
    pub(super) async fn change(&mut self) -> Result<Option<Written>, Failure> {
        if self.steps.is_empty() || (self.steps.len() < STEPS_MAX && self.rng.random_bool(0.25)) {
            self.begin();
        }
        // Not always the oldest step, so that events interleave. A step is queued only after the one that it depends on.
        let at = self.rng.random_range(0..self.steps.len().clamp(1, 12));
        match self.steps.remove(at) {
            Some(step) => self.make(step).await,
            None => Ok(None),
        }
    }

    /// Begins a new event.
    fn begin(&mut self) {
        let Some(deployment) =
            (!self.deployments.is_empty()).then(|| self.rng.random_range(0..self.deployments.len()))
        else {
            return;
        };
        let pod = self.deployments[deployment].pods.choose(&mut self.rng).map(|pod| pod.name.clone());
        let step = match (self.rng.random_range(0..100), pod) {
            (0..25, _) if !self.deployments[deployment].rolling => WorldStep::BeginRollout { deployment },
            (25..45, _) => {
                let replicas = self.deployments[deployment].replicas;
                let replicas =
                    if self.rng.random_bool(0.5) { replicas + 2 } else { replicas.saturating_sub(2).max(1) };
                WorldStep::Scale { deployment, replicas }
            }
            (45..75, Some(pod)) => WorldStep::Crash { deployment, pod },
            (75..92, Some(pod)) => WorldStep::Evict { deployment, pod },
            (92.., _) if self.lost_node.is_none() => WorldStep::LoseNode,
            (_, Some(pod)) => WorldStep::Crash { deployment, pod },
            (_, None) => WorldStep::CreatePod { deployment },
        };
        self.steps.push_back(step);
    }

    async fn make(&mut self, step: WorldStep) -> Result<Option<Written>, Failure> {
        match step {
            WorldStep::CreatePod { deployment } => self.create_pod(deployment).await,
            WorldStep::Start { deployment, pod } | WorldStep::Recover { deployment, pod } => {
                self.set_health(deployment, &pod, Health::Running).await
            }
            WorldStep::Crash { deployment, pod } => {
                if let Some(pod) = self.pod_mut(deployment, &pod) {
                    pod.restarts += 1;
                }
                let written = self.set_health(deployment, &pod, Health::Crashed).await?;
                self.steps.push_back(WorldStep::Recover { deployment, pod });
                Ok(written)
            }
            WorldStep::Evict { deployment, pod } => {
                let written = self.set_health(deployment, &pod, Health::Evicted).await?;
                self.steps.push_back(WorldStep::RemovePod { deployment, pod });
                self.steps.push_back(WorldStep::CreatePod { deployment });
                Ok(written)
            }
            WorldStep::RemovePod { deployment, pod } => {
                let owner = &mut self.deployments[deployment];
                owner.pods.retain(|known| known.name != pod);
                let path = format!("/api/v1/namespaces/{}/pods/{pod}", owner.namespace);
                self.api.delete(&path, 1).await
            }
            WorldStep::BeginRollout { deployment } => self.begin_rollout(deployment).await,
            WorldStep::NewReplicaSet { deployment, old_hash } => {
                let written = self.create_replica_set(deployment).await?;
                self.steps.push_back(WorldStep::Replace { deployment, old_hash });
                Ok(written)
            }
            WorldStep::Replace { deployment, old_hash } => self.replace(deployment, old_hash).await,
            WorldStep::Scale { deployment, replicas } => self.scale(deployment, replicas).await,
            WorldStep::LoseNode => {
                let node = self.rng.random_range(0..self.nodes);
                self.lost_node = Some(node);
                self.steps.push_back(WorldStep::FindNode);
                self.report_node(node, false).await
            }
            WorldStep::FindNode => match self.lost_node.take() {
                Some(node) => self.report_node(node, true).await,
                None => Ok(None),
            },
        }
    }

    async fn begin_rollout(&mut self, deployment: usize) -> Result<Option<Written>, Failure> {
        let owner = &mut self.deployments[deployment];
        owner.rolling = true;
        owner.tag += 1;
        let old_hash = std::mem::replace(&mut owner.hash, hash(owner.tag, deployment));
        let container = json!({"name": owner.app, "image": manifests::image(owner.app, owner.tag)});
        let path = format!("/apis/apps/v1/namespaces/{}/deployments/{}", owner.namespace, owner.name);
        self.steps.push_back(WorldStep::NewReplicaSet { deployment, old_hash });
        let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        self.api.patch(&path, &patch).await
    }

    pub(super) async fn create_replica_set(&mut self, deployment: usize) -> Result<Option<Written>, Failure> {
        let Self { api, deployments, .. } = self;
        let owner = &mut deployments[deployment];
        let name = format!("{}-{}", owner.name, owner.hash);
        let by = (owner.name.as_str(), owner.uid.as_str());
        let object = manifests::replica_set(&name, &owner.hash, owner.app, owner.tag, owner.replicas, by);
        let path = format!("/apis/apps/v1/namespaces/{}/replicasets", owner.namespace);
        let written = api.create(&path, &object).await?;
        if let Some(written) = &written {
            owner.replica_set_uid.clone_from(&written.uid);
        }
        Ok(written)
    }

    async fn replace(&mut self, deployment: usize, old_hash: String) -> Result<Option<Written>, Failure> {
        let owner = &self.deployments[deployment];
        let old = owner.pods.iter().find(|pod| pod.tag != owner.tag).map(|pod| pod.name.clone());
        match old {
            Some(pod) => {
                let written = self.create_pod(deployment).await?;
                self.steps.push_back(WorldStep::RemovePod { deployment, pod });
                self.steps.push_back(WorldStep::Replace { deployment, old_hash });
                Ok(written)
            }
            None => {
                let owner = &mut self.deployments[deployment];
                owner.rolling = false;
                let (namespace, name) = (owner.namespace, &owner.name);
                let path = format!("/apis/apps/v1/namespaces/{namespace}/replicasets/{name}-{old_hash}");
                self.api.delete(&path, 0).await
            }
        }
    }

    async fn scale(&mut self, deployment: usize, replicas: usize) -> Result<Option<Written>, Failure> {
        let owner = &mut self.deployments[deployment];
        let excess = owner.pods.iter().skip(replicas).map(|pod| pod.name.clone()).collect::<Vec<_>>();
        let missing = replicas.saturating_sub(owner.pods.len());
        owner.replicas = replicas;
        let path = format!("/apis/apps/v1/namespaces/{}/deployments/{}", owner.namespace, owner.name);
        self.steps.extend(excess.into_iter().map(|pod| WorldStep::RemovePod { deployment, pod }));
        self.steps.extend((0..missing).map(|_| WorldStep::CreatePod { deployment }));
        self.api.patch(&path, &json!({"spec": {"replicas": replicas}})).await
    }

    async fn create_pod(&mut self, deployment: usize) -> Result<Option<Written>, Failure> {
        let pod = self.new_pod(deployment);
        let written = self.write_pod(deployment, &pod).await?;
        self.steps.push_back(WorldStep::Start { deployment, pod: pod.name.clone() });
        self.deployments[deployment].pods.push(pod);
        Ok(written)
    }

    pub(super) fn new_pod(&mut self, deployment: usize) -> Pod {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let suffix =
            (0..5).map(|_| char::from(LETTERS[self.rng.random_range(0..LETTERS.len())])).collect::<String>();
        let (owner, node) = (&self.deployments[deployment], self.rng.random_range(0..self.nodes));
        let name = format!("{}-{}-{suffix}", owner.name, owner.hash);
        Pod { name, tag: owner.tag, node, restarts: 0, health: Health::Starting, since: now() }
    }

    pub(super) async fn write_pod(
        &mut self,
        deployment: usize,
        pod: &Pod,
    ) -> Result<Option<Written>, Failure> {
        let owner = &self.deployments[deployment];
        let replica_set = format!("{}-{}", owner.name, owner.hash);
        let by = (replica_set.as_str(), owner.replica_set_uid.as_str());
        let object = manifests::pod(&pod.name, &owner.hash, owner.app, owner.tag, pod.node, by);
        self.api.create(&format!("/api/v1/namespaces/{}/pods", owner.namespace), &object).await
    }

    pub(super) async fn set_health(
        &mut self,
        deployment: usize,
        name: &str,
        health: Health,
    ) -> Result<Option<Written>, Failure> {
        let ip = format!(
            "10.{}.{}.{}",
            self.rng.random_range(1..250),
            self.rng.random_range(0..250),
            self.rng.random_range(1..250)
        );
        let (namespace, app) = (self.deployments[deployment].namespace, self.deployments[deployment].app);
        let Some(pod) = self.pod_mut(deployment, name) else { return Ok(None) };
        let now = now();
        if (pod.health == Health::Running) != (health == Health::Running) {
            pod.since.clone_from(&now);
        }
        pod.health = health;
        let status = manifests::pod_status((app, pod.tag), health, pod.restarts, &ip, &pod.since, &now);
        self.api.patch(&format!("/api/v1/namespaces/{namespace}/pods/{name}/status"), &status).await
    }

    pub(super) async fn report(&mut self, deployment: usize) -> Result<Option<Written>, Failure> {
        let owner = &self.deployments[deployment];
        let updated = owner.pods.iter().filter(|pod| pod.tag == owner.tag).count();
        let ready = owner.pods.iter().filter(|pod| pod.health == Health::Running).count();
        let replicas = [owner.pods.len(), updated, ready];
        let status =
            manifests::deployment_status(replicas, manifests::availability(owner.replicas, ready), &now());
        let path = format!("/apis/apps/v1/namespaces/{}/deployments/{}/status", owner.namespace, owner.name);
        self.api.patch(&path, &status).await
    }

    pub(super) async fn report_node(&mut self, node: usize, ready: bool) -> Result<Option<Written>, Failure> {
        let path = format!("/api/v1/nodes/{}/status", manifests::node_name(node));
        self.api.patch(&path, &manifests::node_status(node, ready, &now())).await
    }

    fn pod_mut(&mut self, deployment: usize, name: &str) -> Option<&mut Pod> {
        self.deployments[deployment].pods.iter_mut().find(|pod| pod.name == name)
    }
}

impl Deployment {
    pub(super) fn new(number: usize, replicas: usize) -> Self {
        let (namespace, app) =
            (NAMESPACES[number % NAMESPACES.len()], APPS[number / NAMESPACES.len() % APPS.len()]);
        let round = number / (NAMESPACES.len() * APPS.len());
        let name = if round == 0 { app.to_owned() } else { format!("{app}-{round}") };
        Self {
            namespace,
            app,
            name,
            uid: String::new(),
            tag: 1,
            hash: hash(1, number),
            replica_set_uid: String::new(),
            replicas,
            pods: Vec::new(),
            rolling: false,
        }
    }
}

/// A hash like that of a pod template; different for each deployment and each of its versions.
fn hash(tag: u32, deployment: usize) -> String {
    let mixed = (u64::from(tag) << 32 | deployment as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:09x}", mixed >> 28)
}

pub(super) fn now() -> String {
    // Times in the API have whole seconds.
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default().to_string()
}
