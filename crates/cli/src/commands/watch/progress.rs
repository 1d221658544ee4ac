//! The bar that shows how much of the initial state has come.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::flags::SelectFlags;
use crate::mirror::Mirror;
use crate::request;
use crate::terminal::Screen;

const BAR: usize = 30;

/// How far the initial state has come.
pub(super) struct Progress {
    /// How many objects there are, if all kinds could say.
    expected: Option<u64>,
    over: bool,
}

impl Progress {
    /// Nothing to show.
    pub(super) fn none() -> Self {
        Self { expected: None, over: true }
    }

    /// Asks how many objects there are, if there is a terminal to show it on.
    pub(super) async fn new(
        cluster: &Cluster,
        select: &SelectFlags,
        mirrors: &[Mirror],
        screen: &Screen,
    ) -> Self {
        if !screen.has_status() {
            return Self::none();
        }
        let counts = mirrors.iter().map(|mirror| count(cluster, select, mirror));
        let counts = futures::future::join_all(counts).await;
        Self { expected: counts.into_iter().sum(), over: false }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Draws it, until every kind has its initial state.
    pub(super) fn show(&mut self, mirrors: &[Mirror], screen: &mut Screen) {
        if self.over {
            return;
        }
        let synced = mirrors.iter().filter(|mirror| mirror.informer.is_synced()).count();
        if synced == mirrors.len() {
            self.over = true;
            screen.clear_status();
            return;
        }
        let received = mirrors.iter().map(|mirror| mirror.traffic.objects()).sum();
        screen.status([line(received, self.expected, synced, mirrors.len()).into()]);
    }
}

fn line(received: u64, expected: Option<u64>, synced: usize, kinds: usize) -> String {
    let of_kinds = if kinds > 1 { format!(", {synced} of {kinds} kinds complete") } else { String::new() };
    match expected.filter(|expected| *expected > 0) {
        Some(expected) => {
            let part = received.min(expected) as f64 / expected as f64;
            let full = (part * BAR as f64) as usize;
            let bar = "█".repeat(full) + &"░".repeat(BAR - full);
            format!("{bar} {:3.0} %  {received} of {expected} objects{of_kinds}", part * 100.0)
        }
        None => format!("reading the initial state: {received} objects{of_kinds}"),
    }
}

/// How many objects there are; none if the server does not say. A list of one object tells how many follow, without
/// reading them.
async fn count(cluster: &Cluster, select: &SelectFlags, mirror: &Mirror) -> Option<u64> {
    if mirror.selected.name.is_some() || !select.labels.is_empty() || !select.fields.is_empty() {
        return None;
    }
    let kind = &mirror.selected.kind;
    let path = kind.path(select.namespace_of(cluster, kind), None).ok()? + "?limit=1";
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let answer = request::get(cluster, &path, accept).await.ok()?;
    let items = answer["items"].as_array()?.len() as u64;
    match &answer["metadata"]["remainingItemCount"] {
        Value::Null => {
            answer["metadata"]["continue"].as_str().unwrap_or_default().is_empty().then_some(items)
        }
        remaining => Some(items + remaining.as_u64()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_full_when_everything_came_and_absent_when_nobody_knows_how_much_will() {
        assert!(line(50, Some(100), 0, 1).contains(" 50 %  50 of 100 objects"));
        assert!(line(200, Some(100), 1, 3).starts_with(&"█".repeat(BAR)));
        assert!(line(200, Some(100), 1, 3).ends_with("1 of 3 kinds complete"));
        assert_eq!(line(7, None, 0, 1), "reading the initial state: 7 objects");
    }
}
