//! A limit on the memory of several informers together.
//!
//! Stores, queues and lists that are being received each hold a [`Charge`]: the bytes of their objects. An object that would
//! exceed the budget is rejected before it is stored. Charges follow what is held, so nothing is reserved or released by hand;
//! while an object is handed over, the sum may be too low for a moment, but never too high, which would reject an
//! object that fits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What an object takes in a store in addition to its names and content: handle, table entries, allocation. The table of kinds in
/// docs/benchmarks.md has 168 to 182 B for 100,000 objects (total less names and content); this rounds up. Stores with fewer objects
/// take more.
pub(crate) const OBJECT_BYTES: usize = 200;

/// A number of bytes, shared by several informers.
#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    used: AtomicUsize,
}

/// The bytes that one holder uses of a budget; none without a budget. Released when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    budget: Option<Arc<Budget>>,
    bytes: AtomicUsize,
}

/// An object does not fit the memory budget.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "cannot store an object of {needed} B: memory budget exceeded ({} of {}); select fewer objects or fields, or raise \
     `memory_max`",
    mebibytes(*used),
    mebibytes(*max)
)]
#[non_exhaustive]
pub struct OverBudget {
    /// The budget, in bytes.
    pub max: usize,
    /// The bytes in use.
    pub used: usize,
    /// The bytes that the rejected object needs.
    pub needed: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, used: AtomicUsize::new(0) })
    }
}

impl Charge {
    pub(crate) fn new(budget: Option<Arc<Budget>>) -> Self {
        Self { budget, bytes: AtomicUsize::new(0) }
    }

    /// An empty charge to the same budget.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.budget.clone())
    }

    /// Whether an object with this much content fits, in place of `replaced` bytes.
    pub(crate) fn admit(&self, content: usize, replaced: impl FnOnce() -> usize) -> Result<(), OverBudget> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let (needed, used) = (content + OBJECT_BYTES, budget.used.load(Ordering::Relaxed));
        let fits = used + needed <= budget.max || (used + needed).saturating_sub(replaced()) <= budget.max;
        if fits { Ok(()) } else { Err(OverBudget { max: budget.max, used, needed }) }
    }

    /// Sets what its holder uses. Holders change it under their own lock.
    pub(crate) fn set(&self, bytes: usize) {
        let Some(budget) = &self.budget else { return };
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        match bytes.checked_sub(before) {
            Some(more) => budget.used.fetch_add(more, Ordering::Relaxed),
            None => budget.used.fetch_sub(before - bytes, Ordering::Relaxed),
        };
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_follow_what_is_held_and_are_released() {
        let budget = Budget::new(1000);
        let one = Charge::new(Some(budget.clone()));
        let two = one.another();
        one.set(600);
        two.set(200);
        assert_eq!(budget.used.load(Ordering::Relaxed), 800);
        let over = OverBudget { max: 1000, used: 800, needed: 201 };
        assert_eq!(one.admit(1, || 0), Err(over), "the object has a fixed cost, too");
        assert_eq!(one.admit(1, || 1), Ok(()), "the replaced object makes it fit");
        one.set(599);
        assert_eq!(one.admit(1, || 0), Ok(()));
        drop(two);
        assert_eq!(budget.used.load(Ordering::Relaxed), 599);
        drop(one);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
        assert_eq!(
            Charge::default().admit(usize::MAX / 2, || 0),
            Ok(()),
            "without a budget, everything fits"
        );
    }
}
