//! Figures that only the metrics expose: the pending changes of informers, and the work of controllers.

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

pub(super) fn read(registry: &Registry) -> Gauges {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, registry);
    Gauges::parse(&text)
}

impl Gauges {
    fn parse(text: &str) -> Self {
        let mut gauges = Self::default();
        for line in text.lines() {
            // The first label is the name of the informer, queue or controller.
            let Some((metric, labels)) = line.split_once('{') else { continue };
            let Some((_, name)) = labels.split_once("=\"") else { continue };
            let Some((name, rest)) = name.split_once('"') else { continue };
            if let Some(Ok(value)) = rest.rsplit_once(' ').map(|(_, value)| value.parse()) {
                gauges.add(metric, name, value);
            }
        }
        gauges
    }

    fn add(&mut self, metric: &str, name: &str, value: u64) {
        let figure = match metric {
            "informer_queued_items" => &mut self.informer(name).queued,
            "informer_listener_lag" => &mut self.informer(name).undelivered,
            "controller_runtime_reconcile_total" => &mut self.controller(name).reconciles,
            "controller_runtime_reconcile_errors_total" => &mut self.controller(name).failures,
            "controller_runtime_active_workers" => &mut self.controller(name).running,
            "workqueue_depth" => &mut self.controller(name).queued,
            "workqueue_retries_total" => &mut self.controller(name).retries,
            _ => return,
        };
        *figure += value;
    }

    fn informer(&mut self, name: &str) -> &mut PendingChanges {
        self.pending.entry(name.to_owned()).or_default()
    }

    fn controller(&mut self, name: &str) -> &mut ControllerFigures {
        self.controllers.entry(name.to_owned()).or_default()
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
}

#[cfg(test)]
mod tests {
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
        assert!(gauges.controllers.is_empty());
    }

    #[test]
    fn a_controllers_metrics_become_its_figures() {
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
}
