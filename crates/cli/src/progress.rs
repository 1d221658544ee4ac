//! The progress of initial lists, shown on a terminal.

use std::time::Duration;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::discovery::Kind;
use crate::flags::SelectFlags;
use crate::mirror::Mirror;
use crate::request;
use crate::terminal::Screen;

/// Width of the bar: as wide as there is space, up to a limit; a shorter one than this is omitted.
const BAR_MAX: usize = 30;
const BAR_MIN: usize = 5;
/// How long the program waits for the numbers of objects. They only make the progress nicer: a server that is slow, or asks for
/// retries, must not delay the objects themselves.
const COUNT_TIME_MAX: Duration = Duration::from_secs(2);

/// The progress of the initial lists of all kinds.
pub(crate) struct Progress {
    /// The total number of objects, if the server reports it for all kinds.
    expected: Option<u64>,
    over: bool,
}

impl Progress {
    /// Shows nothing.
    pub(crate) fn none() -> Self {
        Self { expected: None, over: true }
    }

    /// Requests the number of objects, if there is a terminal. Waits for at most [`COUNT_TIME_MAX`].
    pub(crate) async fn new(
        cluster: &Cluster,
        select: &SelectFlags,
        mirrors: &[Mirror],
        screen: &Screen,
    ) -> Self {
        if !screen.has_status() {
            return Self::none();
        }
        Self { expected: expected(cluster, select, mirrors).await, over: false }
    }

    /// Shows the number of objects without a total. Sends no request.
    pub(crate) fn uncounted(screen: &Screen) -> Self {
        Self { expected: None, over: !screen.has_status() }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Draws the progress until all kinds are synced.
    pub(crate) fn show(&mut self, mirrors: &[Mirror], screen: &mut Screen) {
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
        let width = screen.status_width();
        screen.status([line(received, self.expected, synced, mirrors.len(), width).into()]);
    }
}

fn line(received: u64, expected: Option<u64>, synced: usize, kinds: usize, width: usize) -> String {
    let of_kinds = if kinds > 1 { format!(", {synced} of {kinds} kinds complete") } else { String::new() };
    match expected.filter(|expected| *expected > 0) {
        Some(expected) => {
            let part = received.min(expected) as f64 / expected as f64;
            let text = format!("{:3.0} %  {received} of {expected} objects{of_kinds}", part * 100.0);
            let bar = width.saturating_sub(text.len() + 1).min(BAR_MAX);
            if bar < BAR_MIN {
                return text.trim_start().to_owned();
            }
            let full = (part * bar as f64) as usize;
            format!("{}{} {text}", "█".repeat(full), "░".repeat(bar - full))
        }
        None => format!("reading the initial state: {received} objects{of_kinds}"),
    }
}

/// The number of objects of all kinds; `None` if the server does not report it in time.
async fn expected(cluster: &Cluster, select: &SelectFlags, mirrors: &[Mirror]) -> Option<u64> {
    let counts = mirrors.iter().map(|mirror| count(cluster, select, mirror));
    let counts = tokio::time::timeout(COUNT_TIME_MAX, futures::future::join_all(counts)).await;
    counts.ok()?.into_iter().sum()
}

/// The number of objects; `None` if the server does not report it.
async fn count(cluster: &Cluster, select: &SelectFlags, mirror: &Mirror) -> Option<u64> {
    if mirror.selected.name.is_some() || !select.labels.is_empty() || !select.fields.is_empty() {
        return None;
    }
    let namespaces = select.namespaces_of(cluster, &mirror.selected);
    let counts = namespaces.into_iter().map(|namespace| count_in(cluster, &mirror.selected.kind, namespace));
    futures::future::join_all(counts).await.into_iter().sum()
}

/// A list of one object reports how many objects follow.
async fn count_in(cluster: &Cluster, kind: &Kind, namespace: Option<&str>) -> Option<u64> {
    let path = kind.path(namespace, None).ok()? + "?limit=1";
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
    use embedded_apiserver::{Action, Fault, Match, Verb};
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn a_server_that_does_not_answer_delays_the_program_for_two_seconds_at_most() {
        let map = |name| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name}});
        let (server, mirrors) = testing::config_maps(["a", "b", "c"].map(map).to_vec(), 1).await;
        let (cluster, select) = (testing::cluster(&server), testing::all_namespaces());
        assert_eq!(expected(&cluster, &select, &mirrors).await, Some(3));
        for action in [Action::Hang, Action::Overloaded { retry_after_seconds: 5 }] {
            let fault = server.faults().arm(Fault::new(action).on(Match::verb(Verb::List)));
            tokio::time::pause();
            let start = Instant::now();
            assert_eq!(expected(&cluster, &select, &mirrors).await, None);
            assert!(start.elapsed() < COUNT_TIME_MAX + Duration::from_millis(100), "{:?}", start.elapsed());
            tokio::time::resume();
            assert_eq!(server.faults().fired(fault), Some(1));
            server.faults().disarm(fault);
        }
    }

    #[test]
    fn the_bar_is_full_at_the_end_and_absent_without_a_total() {
        assert!(line(40, Some(80), 0, 1, 100).contains(" 50 %  40 of 80 objects"));
        assert!(line(200, Some(100), 1, 3, 100).starts_with(&"█".repeat(BAR_MAX)));
        assert!(line(200, Some(100), 1, 3, 100).ends_with("1 of 3 kinds complete"));
        assert_eq!(line(7, None, 0, 1, 100), "reading the initial state: 7 objects");
    }

    #[test]
    fn the_bar_leaves_space_for_the_numbers() {
        assert_eq!(line(40, Some(80), 0, 1, 40), "████████░░░░░░░░  50 %  40 of 80 objects");
        assert_eq!(line(40, Some(80), 0, 1, 26), "50 %  40 of 80 objects");
    }
}
