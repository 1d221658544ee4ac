//! Informers, controller and leader election put together.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube_client::Client;
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{Informer, InformerBuilder, InformerMetrics};
use kube_informer_controller::{
    Controller, ControllerMetrics, Error, EventRecorder, Health, LeaderElection, LeaderMetrics, Manager,
    Predicate, Stop, Trigger,
};
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;

use crate::children::MANAGED_BY;
use crate::reconcile::{Data, Directory, reconcile};
use crate::website::{Website, definition};

/// The reporting controller of Events.
const REPORTER: &str = "example.com/website-operator";

/// How long the last Events can take to be sent when the operator stops.
const FLUSH_MAX: Duration = Duration::from_secs(5);

/// The settings of the operator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of the lease.
    pub lease_namespace: String,
    /// This replica's name.
    pub replica: String,
    /// The number of websites that are reconciled concurrently.
    pub concurrency: usize,
    /// Makes a run reproducible; every replica needs its own.
    pub seed: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        let replica = std::env::var("HOSTNAME").unwrap_or_else(|_| "website-operator".to_owned());
        Self { lease_namespace: "default".to_owned(), replica, concurrency: 8, seed: None }
    }
}

/// Starts the informers of one replica. Nothing is written before the manager runs. [`Health`] is for an HTTP server.
///
/// # Errors
/// Returns an error if an informer or the controller cannot be started.
pub fn operator(
    client: impl Into<Client>,
    directory: Directory,
    settings: &Settings,
    registry: &mut Registry,
) -> anyhow::Result<(Manager, Health)> {
    let client = client.into();
    let metrics = InformerMetrics::register(registry);
    let mut reflector = ReflectorConfig::default();
    reflector.seed = settings.seed;
    let websites = Informer::<Website>::builder(client.clone()).definition(&definition());
    let websites = websites.reflector(reflector.clone()).metrics("websites", &metrics).start()?;
    let deployments = children(Informer::<Deployment>::builder(client.clone()), &reflector, &metrics)?;
    let services = Informer::<Service>::builder(client.clone()).metadata_only();
    let services = children(services, &reflector, &metrics)?;
    let config_maps = Informer::<ConfigMap>::builder(client.clone()).metadata_only();
    let config_maps = children(config_maps, &reflector, &metrics)?;

    let mut election = LeaderElection::new(client.clone(), &settings.lease_namespace, "website-operator")
        .identity(&settings.replica)
        .metrics(&LeaderMetrics::register(registry));
    if let Some(seed) = settings.seed {
        election = election.seed(seed);
    }
    let leader = election.probe();
    let events = match settings.seed {
        Some(seed) => EventRecorder::with_parts(client, REPORTER, &settings.replica, SystemTime::now, seed),
        None => EventRecorder::new(client, REPORTER),
    };
    // The operator itself writes the status: that does not need another reconcile.
    let websites = Trigger::on(&websites).when(Predicate::generation_changed());
    let controller = Controller::builder("website", websites)
        .field_manager("website-operator")
        .owns(&deployments)
        .owns(&services)
        .owns(&config_maps)
        .concurrency(settings.concurrency)
        .grace(Duration::from_secs(20))
        .metrics(&ControllerMetrics::register(registry))
        .leader(election)
        .build(Data { directory, events: events.clone() }, reconcile)?;
    let manager = Manager::new().controller(controller).runnable("events", |stop| send(events, stop));
    let health = Health::new().synced(&manager).leader(&leader, false);
    Ok((manager, health))
}

/// Sends Events until the controller has ended, and then those of the last reconciles.
async fn send(events: EventRecorder, stop: Stop) -> Result<(), Error> {
    tokio::select! {
        () = events.run() => {}
        () = stop.stopping() => {}
    }
    let unsent = events.flush(FLUSH_MAX).await;
    if unsent > 0 {
        tracing::warn!(unsent, limit = ?FLUSH_MAX, error = events.last_error(), "events were not sent in time");
    }
    Ok(())
}

/// An informer of the operator's own objects of a kind.
fn children<K: DeserializeOwned + Send + Sync + 'static>(
    builder: InformerBuilder<K>,
    reflector: &ReflectorConfig,
    metrics: &InformerMetrics,
) -> anyhow::Result<Informer<K>> {
    let (label, value) = MANAGED_BY;
    let builder = builder.reflector(reflector.clone()).labels(format!("{label}={value}"));
    Ok(builder.metrics("children", metrics).start()?)
}
