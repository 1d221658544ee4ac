//! The state of an election, for probes and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::record::LeaseRefused;
use super::term::Term;

/// Reads the state of an election. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LeaderProbe(Arc<Status>);

#[derive(Debug)]
pub(super) struct Status {
    /// The name of the lease.
    name: String,
    slow_paths: AtomicU64,
    state: Mutex<ElectionState>,
}

#[derive(Debug, Default)]
struct ElectionState {
    /// The duration of the lease.
    lease: Duration,
    /// The term that runs, and when its last renewal was sent.
    leading: Option<(Term, Instant)>,
    /// The leader as last observed.
    holder: String,
    /// Why the server refused the lease at the last attempt.
    refused: Option<LeaseRefused>,
}

impl LeaderProbe {
    pub(super) fn new(name: String, lease: Duration) -> Self {
        let state = ElectionState { lease, ..ElectionState::default() };
        Self(Arc::new(Status { name, slow_paths: AtomicU64::new(0), state: Mutex::new(state) }))
    }

    /// Changes the duration of the lease.
    pub(super) fn set_lease(&self, lease: Duration) {
        self.0.state.lock().lease = lease;
    }

    /// Whether this replica leads.
    pub fn is_leading(&self) -> bool {
        self.0.state.lock().leading.is_some()
    }

    /// The term that runs here.
    pub fn term(&self) -> Option<Term> {
        self.0.state.lock().leading.as_ref().map(|(term, _)| term.clone())
    }

    /// Why the server permanently refuses the lease, such as a missing namespace or role. The replica keeps retrying; `None` once
    /// the server stops refusing.
    pub fn refused(&self) -> Option<LeaseRefused> {
        self.0.state.lock().refused.clone()
    }

    /// The leader's identity as last observed; empty if no replica leads.
    pub fn leader(&self) -> String {
        self.0.state.lock().holder.clone()
    }

    /// False if this replica considers itself the leader although its lease was not renewed for longer than its duration plus the
    /// tolerance. The process is then stuck and should be restarted.
    pub fn is_healthy(&self, tolerance: Duration) -> bool {
        let state = self.0.state.lock();
        state
            .leading
            .as_ref()
            .is_none_or(|(_, renewed)| renewed.elapsed() <= state.lease.saturating_add(tolerance))
    }

    /// The number of renewals that had to read the lease first.
    pub fn slow_paths(&self) -> u64 {
        self.0.slow_paths.load(Ordering::Relaxed)
    }

    pub(super) fn leads(&self, term: &Term, renewed: Instant) {
        let mut state = self.0.state.lock();
        state.holder.clone_from(&term.token().holder);
        state.leading = Some((term.clone(), renewed));
        state.refused = None;
    }

    /// The observed holder stays: it may still hold the lease.
    pub(super) fn leads_no_more(&self) {
        self.0.state.lock().leading = None;
    }

    pub(super) fn follows(&self, holder: &str) {
        let mut state = self.0.state.lock();
        state.leading = None;
        state.refused = None;
        if state.holder != holder {
            let lease = &self.0.name;
            match holder {
                "" => tracing::info!(lease, "no replica leads"),
                leader => tracing::info!(lease, leader, "another replica leads"),
            }
            holder.clone_into(&mut state.holder);
        }
    }

    pub(super) fn is_refused(&self, refused: LeaseRefused) {
        self.0.state.lock().refused = Some(refused);
    }

    pub(super) fn slow_path(&self) {
        self.0.slow_paths.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(feature = "metrics")]
    pub(super) fn status(&self) -> &Arc<Status> {
        &self.0
    }
}

#[cfg(feature = "metrics")]
pub use metrics::LeaderMetrics;

#[cfg(feature = "metrics")]
mod metrics {
    use std::fmt;
    use std::sync::Weak;

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
    use prometheus_client::metrics::counter::ConstCounter;
    use prometheus_client::metrics::gauge::ConstGauge;
    use prometheus_client::registry::Registry;

    use super::*;

    /// `leader_election_master_status{name}` and `leader_election_slowpath_total{name}`, with client-go's names, in a registry
    /// that you pass in. The label is the lease's name.
    #[derive(Clone, Debug, Default)]
    pub struct LeaderMetrics(Arc<Mutex<Vec<Weak<Status>>>>);

    impl LeaderMetrics {
        /// Adds the metrics to a registry. Call it once per registry.
        pub fn register(registry: &mut Registry) -> Self {
            let metrics = Self::default();
            registry.register_collector(Box::new(metrics.clone()));
            metrics
        }

        pub(in super::super) fn add(&self, probe: &LeaderProbe) {
            let mut elections = self.0.lock();
            elections.retain(|election| election.strong_count() > 0);
            elections.push(Arc::downgrade(probe.status()));
        }
    }

    impl Collector for LeaderMetrics {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
            let elections = self.0.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
            let labels = |status: &Status| [("name", status.name.clone())];
            let help = "Whether this replica leads";
            let kind = ConstGauge::new(0_i64).metric_type();
            let mut family = encoder.encode_descriptor("leader_election_master_status", help, None, kind)?;
            for status in &elections {
                let leads = i64::from(status.state.lock().leading.is_some());
                ConstGauge::new(leads).encode(family.encode_family(&labels(status))?)?;
            }
            let help = "Renewals that had to read the lease first";
            let kind = ConstCounter::new(0_u64).metric_type();
            let mut family = encoder.encode_descriptor("leader_election_slowpath", help, None, kind)?;
            for status in &elections {
                let slow = status.slow_paths.load(Ordering::Relaxed);
                ConstCounter::new(slow).encode(family.encode_family(&labels(status))?)?;
            }
            Ok(())
        }
    }
}
