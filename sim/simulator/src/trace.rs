//! What happened in a run, line by line, and how often each kind of thing did.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The trace of a run. Two runs of one seed write the same lines.
#[derive(Clone)]
pub(crate) struct Trace {
    began: Instant,
    inner: Arc<Mutex<Recorded>>,
    /// Whether lines are kept; counts always are.
    lines: bool,
}

/// What is kept of a run.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) lines: Vec<String>,
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) failure: Option<String>,
    /// A digest of all lines, also of those that are not kept.
    pub(crate) digest: u64,
}

impl Trace {
    pub(crate) fn new(lines: bool) -> Self {
        Self { began: Instant::now(), inner: Arc::default(), lines }
    }

    /// Writes a line.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let line = format!("{:>9} ms  {what}", self.began.elapsed().as_millis());
        let mut inner = self.inner.lock();
        for byte in line.bytes() {
            inner.digest = (inner.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.lines {
            inner.lines.push(line);
        }
    }

    /// Counts something.
    pub(crate) fn count(&self, what: &str) {
        let mut inner = self.inner.lock();
        match inner.counts.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(inner.counts.insert(what.to_owned(), 1)),
        }
    }

    /// A promise is broken. Only the first is kept: the others follow from it.
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

    /// Everything that was recorded.
    pub(crate) fn take(&self) -> Recorded {
        std::mem::take(&mut self.inner.lock())
    }
}
