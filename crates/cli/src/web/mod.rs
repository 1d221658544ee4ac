//! The HTTP server of `serve` and `demo`: the query API, the event stream, the page, metrics and health checks.
//!
//! Responses are read directly from the mirrors. Apart from them, only recent changes are kept, within bounds. Clients can change
//! nothing, except the faults of the demo's own server.

mod access;
mod assets;
mod body;
mod change;
mod counts;
mod endpoint;
mod estimate;
mod feed;
mod gauges;
mod graph;
mod health;
mod histories;
mod informers;
mod journal;
mod listing;
mod object;
mod open;
mod params;
mod playground;
mod process;
mod recorder;
mod refusal;
mod report;
mod representation;
mod routes;
mod scopes;
mod selection;
mod shown;
#[cfg(test)]
mod testing;
mod timeline;

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub(crate) use access::Access;
pub(crate) use endpoint::{Endpoint, bind};
pub(crate) use open::open;
pub(crate) use playground::{FaultRefusal, Playground};

use crate::masks;
use crate::mirror::Mirror;
use journal::Journal;
use refusal::Refusal;
use timeline::Timelines;

/// Most concurrent reads of many objects. Each holds a snapshot.
const READS_MAX: usize = 8;
/// Most concurrent event streams.
const STREAMS_MAX: usize = 32;
/// Most threads that compare states of objects at the same time. Further requests wait.
const COMPARISONS_MAX: usize = 2;

/// Everything that is served.
pub(crate) struct Served {
    pub(crate) mirrors: Vec<Mirror>,
    registry: Registry,
    access: Access,
    journal: Journal,
    timelines: Timelines,
    playground: Option<Arc<dyn Playground>>,
    reads: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    comparisons: Arc<Semaphore>,
    /// Cancelled at shutdown: it ends the streams.
    stop: CancellationToken,
}

impl Served {
    pub(crate) fn new(mirrors: Vec<Mirror>, mut registry: Registry, access: Access) -> Self {
        process::register(&mut registry);
        Self {
            timelines: Timelines::new(mirrors.len()),
            mirrors,
            registry,
            access,
            journal: Journal::new(),
            playground: None,
            reads: Arc::new(Semaphore::new(READS_MAX)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            comparisons: Arc::new(Semaphore::new(COMPARISONS_MAX)),
            stop: CancellationToken::new(),
        }
    }

    /// Also shows the demo's server, with switches for its faults.
    pub(crate) fn with_playground(mut self, playground: Arc<dyn Playground>) -> Self {
        self.playground = Some(playground);
        self
    }

    /// The mirrors of a resource: `pods`, `deployments.apps`, or `deployments` if that is unambiguous. There are several if
    /// objects were selected by name.
    fn mirrors_of(&self, resource: &str) -> Result<Vec<(usize, &Mirror)>, Refusal> {
        let all = || self.mirrors.iter().enumerate();
        let qualified: Vec<_> = all().filter(|(_, m)| m.selected.kind.qualified() == resource).collect();
        if !qualified.is_empty() {
            return Ok(qualified);
        }
        let plural: Vec<_> = all().filter(|(_, m)| m.selected.kind.resource.plural == resource).collect();
        let Some((_, first)) = plural.first() else { return Err(self.not_mirrored(resource)) };
        if plural.iter().any(|(_, mirror)| mirror.selected.kind != first.selected.kind) {
            let names: Vec<_> = plural.iter().map(|(_, mirror)| mirror.selected.kind.qualified()).collect();
            return Err(Refusal::bad_request(format!(
                "ambiguous resource {resource:?}: use one of {}",
                names.join(", ")
            )));
        }
        Ok(plural)
    }

    fn not_mirrored(&self, resource: &str) -> Refusal {
        let mut names: Vec<_> = self.mirrors.iter().map(|mirror| mirror.selected.kind.qualified()).collect();
        names.dedup();
        Refusal::not_found(format!("{resource:?} is not mirrored; mirrored resources: {}", names.join(", ")))
    }
}

/// Refuses a path that leads to a masked value: reading it would show the value or confirm a guess.
fn check_field(mirror: &Mirror, path: &str) -> Result<(), Refusal> {
    let kind = &mirror.selected.kind;
    let is_masked = masks::are_secrets(&kind.resource) && masks::hides_field(path);
    if is_masked || masks::is_last_applied(path) {
        return Err(Refusal::forbidden(format!(
            "cannot read {path} of {}: its values are masked",
            kind.qualified()
        )));
    }
    Ok(())
}
