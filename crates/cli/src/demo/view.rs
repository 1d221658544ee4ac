//! What the demo prints: a line for each change, and a summary now and then.

use k8s_openapi::api::core::v1::Pod;
use kube_informer::store::{Index, Origin};
use kube_informer::{Event, Informer, Object};
use kube_wire::FieldPath;

use crate::say;

/// The informer, as it is shown.
pub(super) struct View {
    pods: Informer<Pod>,
    by_node: Index,
    phase: FieldPath,
    quiet: bool,
    events: u64,
}

impl View {
    pub(super) fn new(pods: Informer<Pod>, by_node: Index, quiet: bool) -> Self {
        let phase = "status.phase"
            .parse()
            .unwrap_or_else(|error| unreachable!("a path that is written here: {error}"));
        Self { pods, by_node, phase, quiet, events: 0 }
    }

    /// One line for a change; nothing for the initial state.
    pub(super) fn show(&mut self, event: &Event<Pod>) {
        if event.origin() == Some(Origin::Initial) {
            return;
        }
        let (what, object, change) = match event {
            Event::Added { object, .. } => ("ADDED", object, self.phase_of(object)),
            Event::Updated { old, new, .. } => {
                let (before, now) = (self.phase_of(old), self.phase_of(new));
                let change = if before == now { now } else { format!("status.phase: {before} → {now}") };
                ("MODIFIED", new, change)
            }
            Event::Deleted { last, final_state_known, .. } => {
                let change = if *final_state_known { "" } else { "vanished while nobody watched" };
                ("DELETED", last, change.to_owned())
            }
            Event::Synced => return,
        };
        self.events += 1;
        if !self.quiet {
            let relisted = if event.origin() == Some(Origin::Relist) { " (relisted)" } else { "" };
            say(&format!("{what:<9} {:<28} {change}{relisted}", object.key().to_string()));
        }
    }

    /// How the mirror is doing.
    pub(super) fn summary(&self) {
        let on_node = self.pods.lister().by_index(&self.by_node, "node-7").map_or(0, |pods| pods.len());
        say(&format!(
            "--- {} pods ({on_node} on node-7), {} changes, {}, {} MB resident",
            self.pods.lister().count(),
            self.events,
            self.pods.state(),
            resident_megabytes().map_or("?".to_owned(), |megabytes| megabytes.to_string()),
        ));
    }

    /// Read from the bytes; the pod is not decoded for it.
    fn phase_of(&self, pod: &Object<Pod>) -> String {
        let raw = pod.stored().raw();
        let value = self.phase.first(raw.head()).ok().flatten();
        value
            .and_then(|value| value.text().map(|text| text.into_owned()))
            .unwrap_or_else(|| "Unknown".to_owned())
    }
}

/// Memory of this process, server and all, where the system says it.
fn resident_megabytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes / 1024)
}
