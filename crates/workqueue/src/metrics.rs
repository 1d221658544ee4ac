//! client-go's queue metrics under the same names, so that existing dashboards work. Values are computed at the scrape: no task
//! refreshes gauges, and a dropped queue disappears from the metrics.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet},
    metrics::MetricType,
    registry::Registry,
};

use crate::{queue::Inner, stats::Histogram};

/// The metrics of any number of queues, distinguished by the label `name`. It is a handle: clones share one list of queues.
///
/// ```
/// use kube_workqueue::{QueueMetrics, WorkQueue};
/// use prometheus_client::{encoding::text, registry::Registry};
///
/// let mut registry = Registry::default();
/// let metrics = QueueMetrics::register(&mut registry);
/// let queue = WorkQueue::builder().metrics("sites", &metrics).build();
/// queue.add("blog")?;
///
/// let mut page = String::new();
/// text::encode(&mut page, &registry)?;
/// assert!(page.contains(r#"workqueue_depth{name="sites"} 1"#));
/// assert!(page.contains(r#"workqueue_adds_total{name="sites"} 1"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | metric | type | |
/// |---|---|---|
/// | `workqueue_depth` | gauge | keys that are queued, or will be queued again when their worker is done |
/// | `workqueue_adds_total` | counter | keys queued; adding a key that is queued already does not count |
/// | `workqueue_queue_duration_seconds` | histogram | from the add until a worker takes the key |
/// | `workqueue_work_duration_seconds` | histogram | from taking a key until it is done |
/// | `workqueue_unfinished_work_seconds` | gauge | how long workers have had their current keys, in total |
/// | `workqueue_longest_running_processor_seconds` | gauge | the longest of these times |
/// | `workqueue_retries_total` | counter | keys added with a delay or with the rate limiter |
///
/// Queues with the same name are reported as one: their values are added up.
#[derive(Clone)]
pub struct QueueMetrics {
    queues: Arc<Mutex<Vec<Named>>>,
}

impl QueueMetrics {
    /// Adds the metrics to a registry. Call it once per registry, because a metric must not be registered twice.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self { queues: Arc::default() };
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    pub(crate) fn observe<T: Clone + Eq + Send + 'static>(&self, name: String, queue: &Arc<Inner<T>>) {
        let queue: Weak<Inner<T>> = Arc::downgrade(queue);
        let mut queues = self.queues.lock();
        queues.retain(|named| named.queue.strong_count() > 0);
        queues.push(Named { name, queue });
    }

    fn samples(&self) -> BTreeMap<String, Sample> {
        let mut samples = BTreeMap::<_, Sample>::new();
        for Named { name, queue } in &*self.queues.lock() {
            if let Some(queue) = queue.upgrade() {
                queue.sample(samples.entry(name.clone()).or_default());
            }
        }
        samples
    }
}

struct Named {
    name: String,
    queue: Weak<dyn Source>,
}

/// A queue of any key type.
trait Source: Send + Sync {
    fn sample(&self, into: &mut Sample);
}

#[derive(Default)]
struct Sample {
    depth: u64,
    adds: u64,
    retries: u64,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished_nanos: u128,
    longest_nanos: u64,
}

impl<T: Clone + Eq + Send> Source for Inner<T> {
    fn sample(&self, into: &mut Sample) {
        let now = self.clock.now();
        self.shared.promote_all(|| now);
        self.shared.with(|core| {
            let Some(stats) = core.stats() else { return };
            let (unfinished, longest) = stats.running_nanos(now);
            into.depth += core.depth() as u64;
            into.adds += stats.adds;
            into.retries += stats.retries;
            into.queue_duration.merge(&stats.queue_duration);
            into.work_duration.merge(&stats.work_duration);
            into.unfinished_nanos += unfinished;
            into.longest_nanos = into.longest_nanos.max(longest);
        });
    }
}

impl Collector for QueueMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let samples = self.samples();
        for Family { name, help, read } in FAMILIES {
            let kind = match read {
                Read::Counter(_) => MetricType::Counter,
                Read::Gauge(_) => MetricType::Gauge,
                Read::Histogram(_) => MetricType::Histogram,
            };
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (queue, sample) in &samples {
                let labels = [("name", queue.as_str())];
                read.encode(sample, family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

struct Family {
    name: &'static str,
    help: &'static str,
    read: Read,
}

enum Read {
    Counter(fn(&Sample) -> u64),
    Gauge(fn(&Sample) -> f64),
    Histogram(fn(&Sample) -> &Histogram),
}

/// The encoder appends `_total` to the name of a counter.
const FAMILIES: [Family; 7] = [
    Family {
        name: "workqueue_depth",
        help: "Keys that are queued, or will be queued again when their worker is done",
        read: Read::Gauge(|sample| sample.depth as f64),
    },
    Family {
        name: "workqueue_adds",
        help: "Keys that were queued",
        read: Read::Counter(|sample| sample.adds),
    },
    Family {
        name: "workqueue_queue_duration_seconds",
        help: "Seconds from adding a key until a worker takes it",
        read: Read::Histogram(|sample| &sample.queue_duration),
    },
    Family {
        name: "workqueue_work_duration_seconds",
        help: "Seconds from taking a key until it is done",
        read: Read::Histogram(|sample| &sample.work_duration),
    },
    Family {
        name: "workqueue_unfinished_work_seconds",
        help: "Seconds that workers have had their current keys, in total; grows while workers are stuck",
        read: Read::Gauge(|sample| sample.unfinished_nanos as f64 / 1e9),
    },
    Family {
        name: "workqueue_longest_running_processor_seconds",
        help: "Seconds that a worker has had its current key, maximum over all workers",
        read: Read::Gauge(|sample| sample.longest_nanos as f64 / 1e9),
    },
    Family {
        name: "workqueue_retries",
        help: "Keys that were added with a delay or with the rate limiter",
        read: Read::Counter(|sample| sample.retries),
    },
];

impl Read {
    fn encode(&self, sample: &Sample, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter(read) => encoder.encode_counter::<NoLabelSet, _, u64>(&read(sample), None),
            Self::Gauge(read) => encoder.encode_gauge(&read(sample)),
            Self::Histogram(read) => {
                let histogram = read(sample);
                let bounds = Histogram::bounds().map(|nanos| nanos as f64 / 1e9).chain([f64::INFINITY]);
                let buckets: Vec<_> = bounds.zip(histogram.buckets).collect();
                let sum = histogram.sum_nanos as f64 / 1e9;
                encoder.encode_histogram::<NoLabelSet>(sum, histogram.buckets.iter().sum(), &buckets, None)
            }
        }
    }
}

impl fmt::Debug for QueueMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.queues.lock().iter().map(|named| &named.name)).finish()
    }
}
