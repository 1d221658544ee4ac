//! Metrics of reconciles, with controller-runtime's names, so existing dashboards work.

/// How a reconcile ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReconcileOutcome {
    Success,
    RequeueAfter,
    Error,
    Terminal,
}

#[cfg(feature = "metrics")]
pub use counted::ControllerMetrics;
#[cfg(feature = "metrics")]
pub(super) use counted::Reports;
#[cfg(not(feature = "metrics"))]
pub(super) use uncounted::NoReports as Reports;

/// Without the feature `metrics`, nothing is counted.
#[cfg(not(feature = "metrics"))]
mod uncounted {
    use std::time::Duration;

    use super::ReconcileOutcome;

    #[derive(Debug, Default)]
    pub(in super::super) struct NoReports;

    /// A running reconcile.
    pub(in super::super) struct Uncounted;

    impl NoReports {
        pub(in super::super) fn running(&self) -> Uncounted {
            Uncounted
        }

        pub(in super::super) fn count(&self, _: ReconcileOutcome) {}

        pub(in super::super) fn panicked(&self) {}

        pub(in super::super) fn timed_out(&self) {}

        pub(in super::super) fn took(&self, _: Duration) {}
    }
}

#[cfg(feature = "metrics")]
mod counted {
    use std::fmt;
    use std::time::Duration;

    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::registry::Registry;

    use super::ReconcileOutcome;

    type Labels = Vec<(&'static str, String)>;

    /// Metrics of controllers and their queues, in a registry that you pass in.
    ///
    /// | metric | labels | |
    /// |---|---|---|
    /// | `controller_runtime_reconcile_total` | `controller`, `result` | reconciles by result: `success`, `requeue_after`, `error` |
    /// | `controller_runtime_reconcile_errors_total` | `controller` | failed reconciles |
    /// | `controller_runtime_terminal_reconcile_errors_total` | `controller` | failed reconciles that are not retried |
    /// | `controller_runtime_reconcile_panics_total` | `controller` | panics in reconciles, error policies and rate limiters |
    /// | `controller_runtime_reconcile_timeouts_total` | `controller` | reconciles that exceeded their deadline |
    /// | `controller_runtime_reconcile_time_seconds` | `controller` | duration |
    /// | `controller_runtime_active_workers` | `controller` | running reconciles |
    /// | `controller_runtime_max_concurrent_reconciles` | `controller` | limit of running reconciles |
    /// | `workqueue_*` | `name` | the queue: see `QueueMetrics` of `kube-workqueue` |
    #[derive(Clone, Debug)]
    pub struct ControllerMetrics {
        total: Family<Labels, Counter>,
        errors: Family<Labels, Counter>,
        terminal: Family<Labels, Counter>,
        panics: Family<Labels, Counter>,
        timeouts: Family<Labels, Counter>,
        time: Family<Labels, Histogram, fn() -> Histogram>,
        active: Family<Labels, Gauge>,
        most: Family<Labels, Gauge>,
        queues: kube_workqueue::QueueMetrics,
    }

    /// One controller's counts; empty without [`ControllerMetrics`].
    #[derive(Default)]
    pub(in super::super) struct Reports {
        counts: Option<Counts>,
    }

    /// One controller's metrics.
    struct Counts {
        success: Counter,
        requeue_after: Counter,
        error: Counter,
        errors: Counter,
        terminal: Counter,
        panics: Counter,
        timeouts: Counter,
        time: Histogram,
        active: Gauge,
    }

    /// A running reconcile, counted until dropped.
    pub(in super::super) struct Running<'a>(&'a Reports);

    impl ControllerMetrics {
        /// Adds the metrics to a registry. Call it once per registry.
        pub fn register(registry: &mut Registry) -> Self {
            let metrics = Self {
                total: Family::default(),
                errors: Family::default(),
                terminal: Family::default(),
                panics: Family::default(),
                timeouts: Family::default(),
                // A subset of controller-runtime's buckets.
                time: Family::new_with_constructor(|| {
                    Histogram::new([0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
                }),
                active: Family::default(),
                most: Family::default(),
                queues: kube_workqueue::QueueMetrics::register(registry),
            };
            let registry = registry.sub_registry_with_prefix("controller_runtime");
            registry.register("reconcile", "Reconciles by result", metrics.total.clone());
            registry.register("reconcile_errors", "Failed reconciles", metrics.errors.clone());
            registry.register(
                "terminal_reconcile_errors",
                "Failed reconciles that are not retried",
                metrics.terminal.clone(),
            );
            registry.register("reconcile_panics", "Reconciles that panicked", metrics.panics.clone());
            let help = "Reconciles that exceeded their deadline";
            registry.register("reconcile_timeouts", help, metrics.timeouts.clone());
            registry.register("reconcile_time_seconds", "Duration of reconciles", metrics.time.clone());
            registry.register("active_workers", "Running reconciles", metrics.active.clone());
            let help = "Limit of concurrently running reconciles";
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
                    timeouts: self.timeouts.get_or_create(&labels()).clone(),
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

        pub(in super::super) fn timed_out(&self) {
            if let Some(counts) = &self.counts {
                counts.timeouts.inc();
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

    impl fmt::Debug for Reports {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Reports")
        }
    }
}
