//! Figures that only the metrics expose: the pending changes of informers, the work of controllers, and the slots of replicas that
//! share it.

use std::collections::{BTreeMap, HashMap};

use prometheus_client::registry::Registry;
use serde_json::{Value, json};

/// The figures at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Gauges {
    /// By the name under which an informer's metrics are registered.
    pub(super) pending: HashMap<String, PendingChanges>,
    /// By name.
    controllers: BTreeMap<String, ControllerFigures>,
    /// By the name of the lease, and the label `replica` if the metrics have it.
    sharing: BTreeMap<(String, Option<String>), SharingFigures>,
}

/// The pending changes of one informer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PendingChanges {
    /// Changes that are not in the store yet.
    pub(super) queued: u64,
    /// Changes that the slowest listener has not received yet.
    pub(super) undelivered: u64,
}

/// The counters of one controller, and the size of its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ControllerFigures {
    reconciles: u64,
    failures: u64,
    retries: u64,
    /// Keys that wait for a worker, without keys that wait for a retry.
    queued: u64,
    running: u64,
}

/// The slots of one replica that shares its work under a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct SharingFigures {
    slots: u64,
    members: u64,
    gained: u64,
    released: u64,
    lost: u64,
    unowned_seconds: f64,
}

/// One line of the metrics.
struct Sample<'t> {
    metric: &'t str,
    labels: &'t str,
    value: f64,
}

pub(super) fn read(registry: &Registry) -> Gauges {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, registry);
    Gauges::parse(&text)
}

impl<'t> Sample<'t> {
    /// `None` for comments, and for metrics without labels.
    fn parse(line: &'t str) -> Option<Self> {
        let (metric, rest) = line.split_once('{')?;
        let (labels, value) = rest.rsplit_once("} ")?;
        Some(Self { metric, labels, value: value.parse().ok()? })
    }

    /// The value of a label. Values with quotes, which no name of an informer, controller or lease has, are not found.
    fn label(&self, wanted: &str) -> Option<&'t str> {
        let mut rest = self.labels;
        loop {
            let (name, after) = rest.split_once("=\"")?;
            let (value, after) = after.split_once('"')?;
            if name == wanted {
                return Some(value);
            }
            rest = after.strip_prefix(',')?;
        }
    }

    fn count(&self) -> u64 {
        // Negative values become 0.
        self.value as u64
    }
}

impl Gauges {
    fn parse(text: &str) -> Self {
        let mut gauges = Self::default();
        text.lines().filter_map(Sample::parse).for_each(|sample| gauges.add(&sample));
        gauges
    }

    fn add(&mut self, sample: &Sample<'_>) {
        let Some(name) = sample.label("name").or_else(|| sample.label("controller")) else { return };
        let figure = match sample.metric {
            "informer_queued_items" => &mut self.informer(name).queued,
            "informer_listener_lag" => &mut self.informer(name).undelivered,
            "controller_runtime_reconcile_total" => &mut self.controller(name).reconciles,
            "controller_runtime_reconcile_errors_total" => &mut self.controller(name).failures,
            "controller_runtime_active_workers" => &mut self.controller(name).running,
            "workqueue_depth" => &mut self.controller(name).queued,
            "workqueue_retries_total" => &mut self.controller(name).retries,
            metric if metric.starts_with("shard_") => {
                self.replica(name, sample).add(sample);
                return;
            }
            _ => return,
        };
        *figure += sample.count();
    }

    fn informer(&mut self, name: &str) -> &mut PendingChanges {
        self.pending.entry(name.to_owned()).or_default()
    }

    fn controller(&mut self, name: &str) -> &mut ControllerFigures {
        self.controllers.entry(name.to_owned()).or_default()
    }

    fn replica(&mut self, lease: &str, sample: &Sample<'_>) -> &mut SharingFigures {
        let replica = sample.label("replica").map(str::to_owned);
        self.sharing.entry((lease.to_owned(), replica)).or_default()
    }

    /// The controllers as JSON, with their reconciles per second. `before` are the figures of a second ago.
    pub(super) fn controllers(&self, before: &Self) -> Vec<Value> {
        let controller = |(name, now): (&String, &ControllerFigures)| {
            let before = before.controllers.get(name).copied().unwrap_or_default();
            json!({
                "name": name,
                "reconciles": now.reconciles,
                "rate": now.reconciles.saturating_sub(before.reconciles),
                "failures": now.failures,
                "retries": now.retries,
                "queued": now.queued,
                "running": now.running,
            })
        };
        self.controllers.iter().map(controller).collect()
    }

    /// The replicas of this process that share work, as JSON.
    pub(super) fn sharing(&self) -> Vec<Value> {
        let replica = |((name, replica), figures): (&(String, Option<String>), &SharingFigures)| {
            json!({
                "name": name,
                "replica": replica,
                "slots": figures.slots,
                "members": figures.members,
                "gained": figures.gained,
                "released": figures.released,
                "lost": figures.lost,
                "unownedSeconds": (figures.unowned_seconds * 1000.0).round() / 1000.0,
            })
        };
        self.sharing.iter().map(replica).collect()
    }
}

impl SharingFigures {
    fn add(&mut self, sample: &Sample<'_>) {
        let figure = match (sample.metric, sample.label("direction")) {
            ("shard_slots_owned", _) => &mut self.slots,
            ("shard_members", _) => &mut self.members,
            ("shard_hand_overs_total", Some("gained")) => &mut self.gained,
            ("shard_hand_overs_total", Some("released")) => &mut self.released,
            ("shard_hand_overs_total", Some("lost")) => &mut self.lost,
            ("shard_unowned_seconds_total", _) => {
                self.unowned_seconds += sample.value;
                return;
            }
            _ => return,
        };
        *figure += sample.count();
    }
}

#[cfg(test)]
mod tests {
    use kube_informer_controller::{ShardMetrics, ShardedLease};

    use super::*;

    #[test]
    fn queue_and_lag_are_found_by_name() {
        let text = "# HELP informer_queued_items Changes\n\
            informer_queued_items{name=\"pods\",group=\"\",version=\"v1\",resource=\"pods\"} 7\n\
            informer_listener_lag{name=\"pods\",group=\"\",version=\"v1\",resource=\"pods\"} 3\n\
            informer_objects{name=\"pods\",group=\"\",version=\"v1\",resource=\"pods\"} 100\n\
            informer_queued_items{name=\"nodes\",group=\"\",version=\"v1\",resource=\"nodes\"} 0\n";
        let gauges = Gauges::parse(text);
        assert_eq!(gauges.pending["pods"], PendingChanges { queued: 7, undelivered: 3 });
        assert_eq!(gauges.pending["nodes"], PendingChanges::default());
        assert!(gauges.controllers.is_empty() && gauges.sharing.is_empty());
    }

    #[test]
    fn a_controllers_figures_are_read_from_its_metrics() {
        let text = "controller_runtime_reconcile_total{controller=\"sites\",result=\"success\"} 5\n\
            controller_runtime_reconcile_total{controller=\"sites\",result=\"error\"} 2\n\
            controller_runtime_reconcile_errors_total{controller=\"sites\"} 2\n\
            controller_runtime_active_workers{controller=\"sites\"} 1\n\
            workqueue_depth{name=\"sites\"} 4\n\
            workqueue_retries_total{name=\"sites\"} 3\n";
        let (before, now) = (Gauges::parse(&text.replace("} 5", "} 1")), Gauges::parse(text));
        let expected = json!([{"name": "sites", "reconciles": 7, "rate": 4, "failures": 2, "retries": 3,
            "queued": 4, "running": 1}]);
        assert_eq!(json!(now.controllers(&before)), expected);
    }

    #[test]
    fn a_replicas_share_is_read_from_its_metrics() {
        let text = "shard_slots_owned{name=\"sites\"} 22\n\
            shard_members{name=\"sites\"} 3\n\
            shard_hand_overs_total{name=\"sites\",direction=\"gained\"} 64\n\
            shard_hand_overs_total{name=\"sites\",direction=\"released\"} 40\n\
            shard_hand_overs_total{name=\"sites\",direction=\"lost\"} 2\n\
            shard_unowned_seconds_total{name=\"sites\"} 1.23456\n\
            shard_slots_owned{replica=\"b\",name=\"sites\"} 42\n";
        let none = json!({"name": "sites", "replica": "b", "slots": 42, "members": 0, "gained": 0, "released": 0,
            "lost": 0, "unownedSeconds": 0.0});
        let expected = json!([{"name": "sites", "replica": null, "slots": 22, "members": 3, "gained": 64,
            "released": 40, "lost": 2, "unownedSeconds": 1.235}, none]);
        assert_eq!(json!(Gauges::parse(text).sharing()), expected);
    }

    #[tokio::test]
    async fn the_librarys_metrics_have_the_names_that_are_read() {
        let server = embedded_apiserver::Server::builder().without_socket().start().await.unwrap();
        let mut registry = Registry::default();
        let part = registry.sub_registry_with_label(("replica".into(), "a".into()));
        let metrics = ShardMetrics::register(part);
        let _lease = ShardedLease::new(server.client().unwrap(), "default", "sites").metrics(&metrics);
        let expected = json!([{"name": "sites", "replica": "a", "slots": 0, "members": 0, "gained": 0, "released": 0,
            "lost": 0, "unownedSeconds": 0.0}]);
        assert_eq!(json!(read(&registry).sharing()), expected);
        server.shutdown().await;
    }
}
