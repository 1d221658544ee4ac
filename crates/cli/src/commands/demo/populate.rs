//! Creates the initial objects of the simulated cluster.

use embedded_apiserver::Server;
use tokio::task::JoinSet;

use super::api::Api;
use super::manifests::{self, Health, NAMESPACES};
use super::world::{Deployment, World};
use crate::failure::Failure;

/// Namespaces that the server itself creates.
const NAMESPACES_OF_SERVER: usize = 4;
/// Up to this many objects, all pods run from the start. In larger clusters that would take minutes, so they start as pending.
const RUNNING_MAX: usize = 100_000;

/// How a number of objects is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) nodes: usize,
    pub(super) deployments: usize,
    /// Pods of each deployment.
    pub(super) replicas: usize,
    /// How many deployments have one pod more, so that the total is exact.
    pub(super) extra: usize,
    /// Whether the pods run.
    pub(super) running: bool,
}

impl Plan {
    /// Larger clusters have more nodes, more deployments and more pods in each.
    pub(super) fn of(objects: usize) -> Self {
        let nodes = (objects / 50).clamp(3, 5000);
        let replicas = ((objects as f64).sqrt() / 4.0) as usize;
        let replicas = replicas.clamp(3, 250);
        let rest = objects.saturating_sub(nodes + NAMESPACES.len() + NAMESPACES_OF_SERVER);
        // A deployment comes with a replica set.
        let deployments = (rest / (replicas + 2)).max(1);
        let pods = rest.saturating_sub(2 * deployments);
        Self {
            nodes,
            deployments,
            replicas: pods / deployments,
            extra: pods % deployments,
            running: objects <= RUNNING_MAX,
        }
    }
}

/// Creates nodes, namespaces, deployments, replica sets and pods, on several cores. `reported` receives the number of objects so far.
pub(super) async fn populate(
    server: &Server,
    objects: usize,
    seed: u64,
    mut reported: impl FnMut(usize),
) -> Result<World, Failure> {
    let plan = Plan::of(objects);
    let mut world = World::new(Api::new(server), seed, plan.nodes);
    for name in NAMESPACES {
        world.api.create("/api/v1/namespaces", &manifests::namespace(name)).await?;
    }
    for node in 0..plan.nodes {
        world.api.create("/api/v1/nodes", &manifests::node(node)).await?;
        world.report_node(node, true).await?;
    }
    let mut done = NAMESPACES.len() + NAMESPACES_OF_SERVER + plan.nodes;
    let parts = std::thread::available_parallelism().map_or(1, usize::from).min(plan.deployments);
    let mut tasks = JoinSet::new();
    let (sender, mut counts) = tokio::sync::mpsc::channel(64);
    for part in 0..parts {
        let numbers = (part..plan.deployments).step_by(parts);
        let mut world = World::new(Api::new(server), seed.wrapping_add(part as u64), plan.nodes);
        let sender = sender.clone();
        tasks.spawn(async move {
            let mut deployments = Vec::new();
            for number in numbers {
                let replicas = plan.replicas + usize::from(number < plan.extra);
                let deployment = world.create_deployment(number, replicas, plan.running).await?;
                deployments.push((number, deployment));
                // After Ctrl-C, or if another task has failed, the receiver is gone.
                if sender.send(2 + replicas).await.is_err() {
                    break;
                }
            }
            Ok::<_, Failure>(deployments)
        });
    }
    drop(sender);
    while let Some(count) = counts.recv().await {
        done += count;
        reported(done);
    }
    let mut deployments = Vec::new();
    while let Some(part) = tasks.join_next().await {
        let part = part.map_err(|error| Failure::other("cannot create the simulated cluster", &error))?;
        deployments.extend(part?);
    }
    deployments.sort_unstable_by_key(|(number, _)| *number);
    world.deployments = deployments.into_iter().map(|(_, deployment)| deployment).collect();
    Ok(world)
}

impl World {
    /// Creates a deployment with its replica set and pods.
    async fn create_deployment(
        &mut self,
        number: usize,
        replicas: usize,
        running: bool,
    ) -> Result<Deployment, Failure> {
        let mut deployment = Deployment::new(number, replicas);
        let object = manifests::deployment(&deployment.name, deployment.app, deployment.tag, replicas);
        let path = format!("/apis/apps/v1/namespaces/{}/deployments", deployment.namespace);
        if let Some(written) = self.api.create(&path, &object).await? {
            deployment.uid = written.uid;
        }
        self.deployments = vec![deployment];
        self.create_replica_set(0).await?;
        for _ in 0..replicas {
            let pod = self.new_pod(0);
            if self.write_pod(0, &pod).await?.is_none() {
                // The random name is taken, which happens about once in a hundred thousand pods.
                continue;
            }
            let name = pod.name.clone();
            self.deployments[0].pods.push(pod);
            if running {
                self.set_health(0, &name, Health::Running).await?;
            }
        }
        self.report(0).await?;
        Ok(self.deployments.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_as_many_objects_as_were_asked_for() {
        for objects in [100, 1000, 12_345, 1_000_000] {
            let plan = Plan::of(objects);
            let pods = plan.deployments * plan.replicas + plan.extra;
            assert_eq!(
                NAMESPACES.len() + NAMESPACES_OF_SERVER + plan.nodes + 2 * plan.deployments + pods,
                objects,
                "{plan:?}"
            );
            assert!(plan.replicas >= 3, "{plan:?}");
        }
        assert_eq!(Plan::of(0).deployments, 1);
    }
}
