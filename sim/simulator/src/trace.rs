//! The trace of a run: what happened, line by line, and counts by category.
//!
//! A run has its own thread. So panics and the reflectors' trace events are assigned to a run by their thread.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::span;

/// The message of deliberate panics in handlers.
pub(crate) const PLANNED_PANIC: &str = "as planned";

thread_local! {
    static CURRENT: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

/// The trace of a run. Two runs of one seed write the same lines.
#[derive(Clone)]
pub(crate) struct Trace {
    began: Instant,
    inner: Arc<Mutex<Recorded>>,
    /// Whether lines are kept; counts always are.
    lines: bool,
}

/// The recorded data of a run.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) lines: Vec<String>,
    /// By category and name.
    pub(crate) counts: Counts,
    pub(crate) failure: Option<String>,
}

/// Counts by category and name.
pub(crate) type Counts = BTreeMap<(&'static str, String), u64>;

impl Trace {
    /// Begins the trace of a run on this thread.
    pub(crate) fn begin(lines: bool) -> Self {
        let trace = Self { began: Instant::now(), inner: Arc::default(), lines };
        CURRENT.with_borrow_mut(|current| *current = Some(trace.clone()));
        trace
    }

    /// Ends the run and returns its recorded data.
    pub(crate) fn end(&self) -> Recorded {
        CURRENT.with_borrow_mut(|current| *current = None);
        std::mem::take(&mut self.inner.lock())
    }

    fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Writes a line.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        if self.lines {
            let line = format!("{:>9} ms  {what}", self.began.elapsed().as_millis());
            self.inner.lock().lines.push(line);
        }
    }

    /// Counts something.
    pub(crate) fn count(&self, category: &'static str, name: impl Into<String>) {
        *self.inner.lock().counts.entry((category, name.into())).or_default() += 1;
    }

    /// Counts and lists keys of a client that cannot notice a rollback.
    pub(crate) fn excused(&self, keys: &BTreeSet<String>) {
        if !keys.is_empty() {
            self.note(format_args!("oracle: the rollback cannot be noticed; excused: {keys:?}"));
            self.count("excuse", "unnoticed rollback");
        }
    }

    /// Records a failure. Only the first is kept, because the others may follow from it.
    pub(crate) fn fail(&self, what: &str) {
        self.note(format_args!("FAILED: {what}"));
        let mut inner = self.inner.lock();
        if inner.failure.is_none() {
            inner.failure = Some(what.to_owned());
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.inner.lock().failure.is_some()
    }
}

/// Installs the hooks that add panics and the reflectors' transitions to the run of their thread.
pub(crate) fn observe() {
    std::panic::set_hook(Box::new(|panic| {
        let text = kube_informer::panic_text(panic.payload());
        if let Some(trace) = Trace::current().filter(|_| text != PLANNED_PANIC) {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            trace.fail(&format!("panicked at {place}: {text}"));
        }
    }));
    // It cannot fail: nothing else sets a subscriber.
    let _ = tracing::subscriber::set_global_default(Transitions);
}

/// Counts the state transitions of reflectors.
struct Transitions;

impl tracing::Subscriber for Transitions {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target() == "kube_informer::reflector"
            && *metadata.level() == tracing::Level::TRACE
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut states = FromTo::default();
        event.record(&mut states);
        if let Some(trace) = Trace::current() {
            trace.count("transition", format!("{} → {}", states.from, states.to));
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct FromTo {
    from: String,
    to: String,
}

impl Visit for FromTo {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "from" => value.clone_into(&mut self.from),
            "to" => value.clone_into(&mut self.to),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
