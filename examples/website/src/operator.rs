//! Informers, controller and leader election put together.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube_client::Client;
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{Informer, InformerBuilder, InformerMetrics};
use kube_informer_controller::{
    Controller, ControllerMetrics, EventRecorder, Health, LeaderElection, LeaderMetrics, Manager, Predicate,
    RunError, Stop, Trigger,
};
use prometheus_client::registry::Registry;

use crate::Website;
use crate::children::MANAGED_BY;
use crate::reconcile::{Data, Directory, reconcile};

/// One replica of the operator.
#[derive(Debug)]
#[must_use = "it does nothing until it is run"]
pub struct Operator {
    manager: Manager,
    events: EventRecorder,
    health: Health,
}

/// How long the last events may take to be sent when the operator stops.
const FLUSH_MAX: Duration = Duration::from_secs(5);

/// What can be chosen about it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of the lease.
    pub lease_namespace: String,
    /// This replica's name.
    pub replica: String,
    /// How many websites are worked on at the same time.
    pub concurrency: usize,
    /// Makes a run repeat itself; every replica needs another.
    pub seed: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        let replica = std::env::var("HOSTNAME").unwrap_or_else(|_| "website-operator".to_owned());
        Self { lease_namespace: "default".to_owned(), replica, concurrency: 8, seed: None }
    }
}

impl Operator {
    /// Starts the informers; nothing is written before it runs.
    ///
    /// # Errors
    /// If something cannot be started.
    pub fn start(
        client: impl Into<Client>,
        directory: Directory,
        settings: &Settings,
        registry: &mut Registry,
    ) -> anyhow::Result<Self> {
        let client = client.into();
        let informer_metrics = InformerMetrics::register(registry);
        let mut reflector = ReflectorConfig::default();
        reflector.seed = settings.seed;
        let websites = Informer::<Website>::builder(client.clone())
            .reflector(reflector.clone())
            .metrics("websites", &informer_metrics)
            .start()?;
        let (label, value) = MANAGED_BY;
        let labels = format!("{label}={value}");
        let deployments = Informer::<Deployment>::builder(client.clone());
        let deployments = owned(deployments, &reflector, &labels, &informer_metrics).start()?;
        let services = Informer::<Service>::builder(client.clone()).metadata_only();
        let services = owned(services, &reflector, &labels, &informer_metrics).start()?;
        let config_maps = Informer::<ConfigMap>::builder(client.clone()).metadata_only();
        let config_maps = owned(config_maps, &reflector, &labels, &informer_metrics).start()?;

        let mut election = LeaderElection::new(client.clone(), &settings.lease_namespace, "website-operator")
            .identity(&settings.replica)
            .metrics(&LeaderMetrics::register(registry));
        if let Some(seed) = settings.seed {
            election = election.seed(seed);
        }
        let leader = election.probe();
        let events = EventRecorder::new(client.clone(), "example.com/website-operator");
        let data = Data {
            client,
            websites: websites.clone(),
            deployments: deployments.clone(),
            directory,
            events: events.clone(),
        };
        // A website's status is the operator's own writing: no reason to look again.
        let controller =
            Controller::builder("website", Trigger::on(&websites).when(Predicate::generation_changed()))
                .owns(&deployments)
                .owns(&services)
                .owns(&config_maps)
                .concurrency(settings.concurrency)
                .grace(Duration::from_secs(20))
                .metrics(&ControllerMetrics::register(registry))
                .leader(election)
                .build(data, reconcile)?;
        let manager = Manager::new().controller(controller);
        let health = Health::new().synced(&manager).leader(&leader, false);
        Ok(Self { manager, events, health })
    }

    /// For an HTTP server.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Runs until told to stop.
    ///
    /// # Errors
    /// As [`Manager::run`].
    pub async fn run(self, stop: &Stop) -> Result<(), RunError> {
        let ended = tokio::select! {
            biased;
            ended = self.manager.run(stop) => ended,
            () = self.events.run() => Ok(()),
        };
        // What the last reconciles recorded, now that none records any more.
        let unsent = self.events.flush(FLUSH_MAX).await;
        if unsent > 0 {
            tracing::warn!(unsent, limit = ?FLUSH_MAX, error = self.events.last_error(), "events were not sent in time");
        }
        ended
    }
}

fn owned<K>(
    builder: InformerBuilder<K>,
    reflector: &ReflectorConfig,
    labels: &str,
    metrics: &InformerMetrics,
) -> InformerBuilder<K>
where
    K: serde::de::DeserializeOwned + Send + Sync + 'static,
{
    builder.reflector(reflector.clone()).labels(labels).metrics("children", metrics)
}
