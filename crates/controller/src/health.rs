//! Probes and metrics over HTTP, as an axum router.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::Manager;
use crate::leader::LeaderProbe;

/// The checks behind `/livez` and `/readyz`, and the registry behind `/metrics`.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use kube_informer_controller::{Health, LeaderElection, Manager};
/// # fn example(manager: Manager, election: LeaderElection, registry: prometheus_client::registry::Registry) {
/// let router = Health::new()
///     .synced(&manager)                    // ready when informers and handlers are synced
///     .leader(&election.probe(), false)    // alive unless stuck as leader; ready whether it leads or not
///     .metrics(Arc::new(registry))
///     .router();                           // for `axum::serve`, or to merge into another router
/// # }
/// ```
///
/// | path | 200 when |
/// |---|---|
/// | `/healthz`, `/livez` | all liveness checks pass |
/// | `/readyz` | all readiness checks pass |
/// | `/metrics` | always: the registry in OpenMetrics text |
///
/// Otherwise the answer is 503, and the body names the failing checks.
#[derive(Clone, Default)]
#[must_use = "checks run when the router is served"]
pub struct Health {
    live: Vec<Check>,
    ready: Vec<Check>,
    registry: Option<Arc<Registry>>,
}

#[derive(Clone)]
struct Check {
    name: Arc<str>,
    passes: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// How long after the end of its lease a leader counts as stuck, as in Kubernetes' own controllers.
const LEADER_TOLERANCE: Duration = Duration::from_secs(20);

impl Health {
    /// Creates a router without checks: always live and ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ready only when all informers and handlers of the manager's controllers are synced: see
    /// [`SyncProbe`](crate::SyncProbe). Controllers added to the manager later are not included.
    pub fn synced(mut self, manager: &Manager) -> Self {
        for probe in manager.sync_probes() {
            let name = format!("informers-of-{}", probe.name());
            self = self.ready(&name, move || probe.is_synced());
        }
        self
    }

    /// Live unless this replica considers itself the leader although its lease has expired. Not ready while the server
    /// [refuses](LeaderProbe::refused) the lease. With `ready_when_leading`, ready only while this replica leads.
    pub fn leader(self, probe: &LeaderProbe, ready_when_leading: bool) -> Self {
        let (live, refused, ready) = (probe.clone(), probe.clone(), probe.clone());
        let health = self
            .live("leader-election", move || live.is_healthy(LEADER_TOLERANCE))
            .ready("lease", move || refused.refused().is_none());
        match ready_when_leading {
            true => health.ready("leading", move || ready.is_leading()),
            false => health,
        }
    }

    /// Adds a liveness check. A process that fails it should be restarted.
    pub fn live(mut self, name: &str, passes: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.live.push(Check { name: name.into(), passes: Arc::new(passes) });
        self
    }

    /// Adds a readiness check.
    pub fn ready(mut self, name: &str, passes: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.ready.push(Check { name: name.into(), passes: Arc::new(passes) });
        self
    }

    /// Serves the metrics of a registry.
    pub fn metrics(mut self, registry: Arc<Registry>) -> Self {
        self.registry = Some(registry);
        self
    }

    /// The routes.
    pub fn router(self) -> Router {
        let (live, ready) = (Arc::new(self.live), Arc::new(self.ready));
        let answer = |checks: Arc<Vec<Check>>| move || std::future::ready(probe(&checks));
        let mut router = Router::new()
            .route("/healthz", get(answer(live.clone())))
            .route("/livez", get(answer(live)))
            .route("/readyz", get(answer(ready)));
        if let Some(registry) = self.registry {
            router = router.route("/metrics", get(move || std::future::ready(metrics(&registry))));
        }
        router
    }
}

fn probe(checks: &[Check]) -> (StatusCode, String) {
    let failing =
        checks.iter().filter(|check| !(check.passes)()).map(|check| &*check.name).collect::<Vec<_>>();
    match failing.is_empty() {
        true => (StatusCode::OK, "ok\n".to_owned()),
        false => (StatusCode::SERVICE_UNAVAILABLE, format!("failing: {}\n", failing.join(", "))),
    }
}

fn metrics(registry: &Registry) -> Response {
    let mut text = String::new();
    match encode(&mut text, registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        // Writing to a string fails only if a collector does.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |checks: &[Check]| checks.iter().map(|check| check.name.clone()).collect::<Vec<_>>();
        f.debug_struct("Health")
            .field("live", &names(&self.live))
            .field("ready", &names(&self.ready))
            .finish()
    }
}
