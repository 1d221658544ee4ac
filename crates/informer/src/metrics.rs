//! The metrics of informers. They are collected when scraped and cost nothing otherwise.
//!
//! The labels and the names `informer_queued_items`, `informer_processing_latency_seconds` and
//! `informer_store_resource_version` match client-go's, so that existing dashboards work.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::informer::Core;
use crate::reflector::ReflectorStatus;
use crate::source::Resource;
use crate::version::is_older;

/// Metrics of informers, in a registry of the caller. Stopped informers are not exported. Informers of the same resource
/// that run at the same time need different names: of those with one name, only the first is exported.
///
/// ```
/// # use std::sync::Arc;
/// # use kube_informer::{Informer, InformerMetrics, testing::ScriptedSource};
/// # use k8s_openapi::api::core::v1::Pod;
/// # use prometheus_client::{encoding::text::encode, registry::Registry};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut registry = Registry::default();
/// let metrics = InformerMetrics::register(&mut registry);
///
/// # let server = ScriptedSource::new("v1", "Pod");
/// # server.put(serde_json::json!({"metadata": {"name": "api"}}));
/// let pods = Informer::<Pod>::from_source(Arc::new(server)).metrics("web", &metrics).start()?;
/// pods.synced().await?;
///
/// let mut text = String::new();
/// encode(&mut text, &registry)?;
/// assert!(text.contains(r#"informer_objects{name="web",group="",version="v1",resource="pod"} 1"#), "{text}");
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct InformerMetrics {
    informers: Arc<Mutex<Vec<Reporter>>>,
}

/// The labels of client-go.
type Labels = [(&'static str, String); 4];

struct Reporter {
    labels: Labels,
    core: Weak<Core>,
    /// One per type that its objects are decoded to.
    decode_errors: Vec<Arc<AtomicU64>>,
}

/// How long applying a batch takes.
#[derive(Debug)]
pub(crate) struct Latency(Histogram);

// === impl InformerMetrics ===

impl InformerMetrics {
    /// Adds the metrics to a registry. Call it once per registry: a registry accepts a metric only once.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Exports an informer. A shared informer that is already exported keeps its first name.
    pub(crate) fn add(
        &self,
        name: String,
        resource: &Resource,
        core: &Arc<Core>,
        decode_errors: Arc<AtomicU64>,
    ) {
        let mut informers = self.informers.lock();
        informers.retain(|reporter| reporter.running().is_some());
        let weak = Arc::downgrade(core);
        if let Some(known) = informers.iter_mut().find(|reporter| reporter.core.ptr_eq(&weak)) {
            if !known.decode_errors.iter().any(|counter| Arc::ptr_eq(counter, &decode_errors)) {
                known.decode_errors.push(decode_errors);
            }
            return;
        }
        let Resource { group, version, plural, .. } = resource.clone();
        let labels = [("name", name), ("group", group), ("version", version), ("resource", plural)];
        informers.push(Reporter { labels, core: weak, decode_errors: vec![decode_errors] });
    }
}

impl Reporter {
    /// The informer, unless it has stopped. A stopped one may still have readers, but its name is free for a successor.
    fn running(&self) -> Option<Arc<Core>> {
        self.core.upgrade().filter(|core| !core.is_stopped())
    }
}

/// One metric of every informer: name, help text, value.
type Gauge = (&'static str, &'static str, fn(&Core) -> i64);
type Counter = (&'static str, &'static str, fn(&Core, &Reporter) -> u64);
/// A counter of watches, by outcome (label `result`).
type Outcome = (&'static str, fn(&ReflectorStatus) -> u64);

const GAUGES: [Gauge; 10] = [
    ("informer_queued_items", "Changes pending in the queue", |core| signed(core.queue.len())),
    ("informer_store_resource_version", "The last 15 digits of the store's resourceVersion", version),
    ("informer_synced", "Whether the initial list is in the store", |core| {
        i64::from(*core.listeners.synced().borrow())
    }),
    ("informer_degraded_watches", "Watches that are backing off after an error, or may be stale", |core| {
        signed(core.degraded_watches())
    }),
    ("informer_watched_scopes", "Scopes, each with its own watch: one, or one per namespace", |core| {
        signed(core.status().len())
    }),
    ("informer_objects", "Objects in the store", |core| signed(core.store.len())),
    ("informer_stored_bytes", "Bytes held by the objects in the store", |core| {
        signed(core.store.snapshot().stored_bytes())
    }),
    (
        "informer_event_age_seconds",
        "Time since the last list, event or bookmark; the longest of all watches",
        event_age,
    ),
    ("informer_listeners", "Handlers and streams", |core| signed(core.listeners.count_and_lag().0)),
    ("informer_listener_lag", "Events pending for the slowest listener", |core| {
        signed(core.listeners.count_and_lag().1)
    }),
];

const COUNTERS: [Counter; 6] = [
    ("informer_full_states", "Complete lists applied: the initial one and every relist", |core, _| {
        core.counts.complete_lists.load(Ordering::Relaxed)
    }),
    ("informer_changes", "Changes applied one by one", |core, _| core.counts.changes.load(Ordering::Relaxed)),
    ("informer_stale_changes", "Changes dropped because the store had a newer state", |core, _| {
        core.store.stats().stale
    }),
    ("informer_foreign_objects", "Objects and events of other shards, received and dropped", |core, _| {
        core.status().iter().map(|scope| scope.foreign_objects).sum()
    }),
    ("informer_handler_panics", "Handler calls that panicked", |core, _| {
        core.counts.panics.load(Ordering::Relaxed)
    }),
    ("informer_decode_errors", "Objects that could not be decoded to their type", |_, reporter| {
        reporter.decode_errors.iter().map(|errors| errors.load(Ordering::Relaxed)).sum()
    }),
];

const OUTCOMES: [(&str, &str, &[Outcome]); 2] = [
    (
        "informer_lists",
        "Lists and watch-lists",
        &[("ok", |status| status.complete_lists), ("error", |status| status.failed_lists)],
    ),
    (
        "informer_watches",
        "Watches: opened, refused, and ended abnormally",
        &[
            ("ok", |status| status.watches),
            ("error", |status| status.failed_watches),
            ("broken", |status| status.broken_watches),
        ],
    ),
];

impl Collector for InformerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let informers = self.informers.lock();
        let running = informers.iter().filter_map(|reporter| Some((reporter, reporter.running()?)));
        // Two samples with the same labels would invalidate everything that is exported.
        let mut names = HashSet::new();
        let running = running.filter(|(reporter, _)| names.insert(&reporter.labels)).collect::<Vec<_>>();
        for (name, help, value) in GAUGES {
            let kind = ConstGauge::new(0_i64).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (reporter, core) in &running {
                ConstGauge::new(value(core)).encode(family.encode_family(&reporter.labels)?)?;
            }
        }
        for (name, help, value) in COUNTERS {
            let kind = ConstCounter::new(0_u64).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (reporter, core) in &running {
                ConstCounter::new(value(core, reporter)).encode(family.encode_family(&reporter.labels)?)?;
            }
        }
        for (name, help, results) in OUTCOMES {
            let kind = ConstCounter::new(0_u64).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (reporter, core) in &running {
                let status = core.status();
                for (result, count) in results {
                    let count = status.iter().map(|scope| count(&scope.reflector)).sum::<u64>();
                    let [name, group, version, resource] = reporter.labels.clone();
                    let labels = [name, group, version, resource, ("result", (*result).to_owned())];
                    ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        let (name, help) =
            ("informer_processing_latency_seconds", "How long applying a batch of changes takes");
        let mut family = encoder.encode_descriptor(name, help, None, Latency::default().0.metric_type())?;
        for (reporter, core) in &running {
            core.counts.latency.0.encode(family.encode_family(&reporter.labels)?)?;
        }
        Ok(())
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The newest of all scopes.
fn version(core: &Core) -> i64 {
    let snapshot = core.store.snapshot();
    let status = core.status();
    let versions = status.iter().map(|scope| snapshot.resource_version(scope.scope));
    let newest =
        versions.fold(
            "",
            |newest, version| {
                if newest.is_empty() || is_older(newest, version) { version } else { newest }
            },
        );
    let digits = newest.len().saturating_sub(15);
    newest.get(digits..).and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

fn event_age(core: &Core) -> i64 {
    let ages = core.status().into_iter().filter_map(|scope| Some(scope.received_at?.elapsed().as_secs()));
    ages.max().and_then(|age| i64::try_from(age).ok()).unwrap_or_default()
}

impl fmt::Debug for InformerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerMetrics").field("informers", &self.informers.lock().len()).finish()
    }
}

// === impl Latency ===

impl Latency {
    pub(crate) fn observe(&self, took: Duration) {
        self.0.observe(took.as_secs_f64());
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self(Histogram::new(exponential_buckets(1e-5, 4.0, 10)))
    }
}
