//! Follows one mirror and writes its changes into the journal.

use std::sync::Arc;

use futures::StreamExt;

use super::Served;

/// Runs until the informer or the program ends.
pub(super) async fn record(served: Arc<Served>, number: usize) {
    let mirror = &served.mirrors[number];
    let mut events = mirror.handlers.subscribe("journal", &mirror.informer);
    loop {
        let event = tokio::select! {
            biased;
            () = served.stop.cancelled() => return,
            event = events.next() => event,
        };
        let Some(event) = event else { return };
        let view = mirror.informer.lister().view();
        served.journal.record(number, &event, view.snapshot());
    }
}
