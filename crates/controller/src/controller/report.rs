//! What a controller counts about its reconciles, under controller-runtime's names so that existing dashboards work.

use std::fmt;
use std::time::Duration;

/// How a reconcile ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReconcileOutcome {
    Success,
    RequeueAfter,
    Error,
    Terminal,
}

/// One controller's counts; nothing without metrics.
#[derive(Default)]
pub(super) struct Reports {
    #[cfg(feature = "metrics")]
    counts: Option<metrics::Counts>,
}

/// A reconcile that runs, counted until dropped.
pub(super) struct Running<'a>(#[cfg_attr(not(feature = "metrics"), allow(dead_code))] &'a Reports);

#[cfg(not(feature = "metrics"))]
impl Reports {
    pub(super) fn running(&self) -> Running<'_> {
        Running(self)
    }

    pub(super) fn count(&self, _: ReconcileOutcome) {}

    pub(super) fn panicked(&self) {}

    pub(super) fn took(&self, _: Duration) {}
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reports")
    }
}

#[cfg(feature = "metrics")]
pub use metrics::ControllerMetrics;

#[cfg(feature = "metrics")]
mod metrics {
    use super::*;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::registry::Registry;

    type Labels = Vec<(&'static str, String)>;

    /// Metrics of controllers and their queues, in a registry that is handed in.
    ///
    /// | metric | labels | |
    /// |---|---|---|
    /// | `controller_runtime_reconcile_total` | `controller`, `result` | reconciles, by how they ended: `success`, `requeue_after`, `error` |
    /// | `controller_runtime_reconcile_errors_total` | `controller` | those that failed |
    /// | `controller_runtime_terminal_reconcile_errors_total` | `controller` | those of them that are not tried again |
    /// | `controller_runtime_reconcile_panics_total` | `controller` | those that panicked |
    /// | `controller_runtime_reconcile_time_seconds` | `controller` | how long they took |
    /// | `controller_runtime_active_workers` | `controller` | how many run now |
    /// | `controller_runtime_max_concurrent_reconciles` | `controller` | how many may |
    /// | `workqueue_*` | `name` | the queue: see `QueueMetrics` of `kube-workqueue` |
    #[derive(Clone, Debug)]
    pub struct ControllerMetrics {
        total: Family<Labels, Counter>,
        errors: Family<Labels, Counter>,
        terminal: Family<Labels, Counter>,
        panics: Family<Labels, Counter>,
        time: Family<Labels, Histogram, fn() -> Histogram>,
        active: Family<Labels, Gauge>,
        most: Family<Labels, Gauge>,
        queues: kube_workqueue::QueueMetrics,
    }

    /// One controller's part of them.
    pub(in super::super) struct Counts {
        success: Counter,
        requeue_after: Counter,
        error: Counter,
        errors: Counter,
        terminal: Counter,
        panics: Counter,
        time: Histogram,
        pub(super) active: Gauge,
    }

    impl ControllerMetrics {
        /// Adds the metrics to a registry; once, as a metric may be there only once.
        pub fn register(registry: &mut Registry) -> Self {
            let metrics = Self {
                total: Family::default(),
                errors: Family::default(),
                terminal: Family::default(),
                panics: Family::default(),
                // controller-runtime's bounds, thinned out.
                time: Family::new_with_constructor(|| {
                    Histogram::new([0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
                }),
                active: Family::default(),
                most: Family::default(),
                queues: kube_workqueue::QueueMetrics::register(registry),
            };
            let registry = registry.sub_registry_with_prefix("controller_runtime");
            registry.register("reconcile", "Reconciles, by how they ended", metrics.total.clone());
            registry.register("reconcile_errors", "Reconciles that failed", metrics.errors.clone());
            registry.register(
                "terminal_reconcile_errors",
                "Reconciles that failed and are not tried again",
                metrics.terminal.clone(),
            );
            registry.register("reconcile_panics", "Reconciles that panicked", metrics.panics.clone());
            registry.register("reconcile_time_seconds", "How long reconciles took", metrics.time.clone());
            registry.register("active_workers", "Reconciles that run now", metrics.active.clone());
            let help = "Reconciles that may run at the same time";
            registry.register("max_concurrent_reconciles", help, metrics.most.clone());
            metrics
        }

        pub(in super::super) fn queues(&self) -> &kube_workqueue::QueueMetrics {
            &self.queues
        }

        pub(in super::super) fn reports(&self, controller: &str, concurrency: usize) -> Reports {
            let labels = || vec![("controller", controller.to_owned())];
            let result = |result: &str| {
                let mut labels = labels();
                labels.push(("result", result.to_owned()));
                self.total.get_or_create(&labels).clone()
            };
            self.most.get_or_create(&labels()).set(i64::try_from(concurrency).unwrap_or(i64::MAX));
            Reports {
                counts: Some(Counts {
                    success: result("success"),
                    requeue_after: result("requeue_after"),
                    error: result("error"),
                    errors: self.errors.get_or_create(&labels()).clone(),
                    terminal: self.terminal.get_or_create(&labels()).clone(),
                    panics: self.panics.get_or_create(&labels()).clone(),
                    time: self.time.get_or_create(&labels()).clone(),
                    active: self.active.get_or_create(&labels()).clone(),
                }),
            }
        }
    }

    impl Reports {
        pub(in super::super) fn running(&self) -> Running<'_> {
            if let Some(counts) = &self.counts {
                counts.active.inc();
            }
            Running(self)
        }

        pub(in super::super) fn count(&self, outcome: ReconcileOutcome) {
            let Some(counts) = &self.counts else { return };
            match outcome {
                ReconcileOutcome::Success => counts.success.inc(),
                ReconcileOutcome::RequeueAfter => counts.requeue_after.inc(),
                ReconcileOutcome::Error | ReconcileOutcome::Terminal => {
                    counts.error.inc();
                    counts.errors.inc()
                }
            };
            if matches!(outcome, ReconcileOutcome::Terminal) {
                counts.terminal.inc();
            }
        }

        pub(in super::super) fn panicked(&self) {
            if let Some(counts) = &self.counts {
                counts.panics.inc();
            }
        }

        pub(in super::super) fn took(&self, time: Duration) {
            self.counts.iter().for_each(|counts| counts.time.observe(time.as_secs_f64()));
        }
    }

    impl Drop for Running<'_> {
        fn drop(&mut self) {
            if let Some(counts) = &self.0.counts {
                counts.active.dec();
            }
        }
    }
}
