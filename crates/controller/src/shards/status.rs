//! What a replica that shares the work does, for probes, pages and metrics.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::slots::{SlotPhase, Slots};

/// What one replica does, at one moment: from [`ShardedLease::status`](crate::ShardedLease::status).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStatus {
    /// The replica's identity; empty while it has no seat.
    pub identity: String,
    /// Its seat.
    pub seat: Option<u32>,
    /// The number of replicas that hold a seat and are not leaving, as last observed.
    pub members: usize,
    /// The number of all slots.
    pub slots: u32,
    /// The slots whose keys this replica reconciles.
    pub working: Vec<u32>,
    /// Slots that it has taken, and whose objects its caches do not have yet.
    pub catching_up: Vec<u32>,
    /// Slots that it releases when their running reconciles have ended.
    pub releasing: Vec<u32>,
    /// How many slots it has begun to work on so far.
    pub gained: u64,
    /// How many slots it has released so far.
    pub released: u64,
    /// How many slots it has lost so far: it did not renew its seat in time, or the record of a slot was deleted or overwritten.
    pub lost: u64,
    /// For how long the gained slots had no owner that worked on them, in total, as observed by this replica.
    pub unowned: Duration,
}

/// The status of a replica that runs.
pub(super) struct StatusCell {
    #[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "metrics are labelled with it"))]
    name: String,
    slots: Arc<Slots>,
    counts: Mutex<ShardStatus>,
    is_running: AtomicBool,
}

/// Ensures that a lease runs once. Dropping it ends that.
pub(super) struct RunningShare(Arc<StatusCell>);

impl StatusCell {
    pub(super) fn new(name: &str, slots: Slots) -> Arc<Self> {
        let (name, slots) = (name.to_owned(), Arc::new(slots));
        Arc::new(Self { name, slots, counts: Mutex::default(), is_running: AtomicBool::new(false) })
    }

    pub(super) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// `None` if it runs already.
    pub(super) fn begin(self: Arc<Self>) -> Option<RunningShare> {
        (!self.is_running.swap(true, Ordering::AcqRel)).then(|| RunningShare(self))
    }

    pub(super) fn joined(&self, identity: &str, seat: u32) {
        let mut counts = self.counts.lock();
        identity.clone_into(&mut counts.identity);
        counts.seat = Some(seat);
    }

    pub(super) fn left(&self) {
        let mut counts = self.counts.lock();
        counts.identity.clear();
        counts.seat = None;
    }

    pub(super) fn members(&self, number: usize) {
        self.counts.lock().members = number;
    }

    pub(super) fn gained(&self, slots: usize, unowned: Duration) {
        let mut counts = self.counts.lock();
        counts.gained += slots as u64;
        counts.unowned += unowned;
    }

    pub(super) fn released(&self, slots: usize) {
        self.counts.lock().released += slots as u64;
    }

    pub(super) fn lost(&self, slots: usize) {
        self.counts.lock().lost += slots as u64;
    }

    pub(super) fn get(&self) -> ShardStatus {
        let mut status = self.counts.lock().clone();
        status.slots = self.slots.division().of;
        for (slot, _, phase) in self.slots.all() {
            match phase {
                SlotPhase::Working => status.working.push(slot),
                SlotPhase::Preparing | SlotPhase::CatchingUp => status.catching_up.push(slot),
                SlotPhase::Releasing => status.releasing.push(slot),
                SlotPhase::Lost => {}
            }
        }
        status
    }
}

impl Drop for RunningShare {
    fn drop(&mut self) {
        self.0.left();
        self.0.is_running.store(false, Ordering::Release);
    }
}

impl fmt::Debug for StatusCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

#[cfg(feature = "metrics")]
pub use metrics::ShardMetrics;

#[cfg(feature = "metrics")]
mod metrics {
    use std::sync::Weak;

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
    use prometheus_client::metrics::counter::ConstCounter;
    use prometheus_client::metrics::gauge::ConstGauge;
    use prometheus_client::registry::Registry;

    use super::*;

    /// Metrics of replicas that share the work, in a registry that you pass in. The label `name` is that of the lease.
    ///
    /// | metric | labels | |
    /// |---|---|---|
    /// | `shard_slots_owned` | `name` | slots that this replica works on |
    /// | `shard_members` | `name` | replicas that hold a seat and are not leaving, as last observed |
    /// | `shard_hand_overs_total` | `name`, `direction` | slots `gained`, `released`, or `lost` with the seat or with the slot's record |
    /// | `shard_unowned_seconds_total` | `name` | how long the gained slots had no working owner |
    #[derive(Clone, Debug, Default)]
    pub struct ShardMetrics(Arc<Mutex<Vec<Weak<StatusCell>>>>);

    impl ShardMetrics {
        /// Adds the metrics to a registry. Call it once per registry.
        pub fn register(registry: &mut Registry) -> Self {
            let metrics = Self::default();
            registry.register_collector(Box::new(metrics.clone()));
            metrics
        }

        pub(in super::super) fn add(&self, status: &Arc<StatusCell>) {
            let mut all = self.0.lock();
            all.retain(|status| status.strong_count() > 0);
            all.push(Arc::downgrade(status));
        }
    }

    impl Collector for ShardMetrics {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
            let cells = self.0.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
            let all = cells.iter().map(|cell| (cell.name.clone(), cell.get())).collect::<Vec<_>>();
            let gauges: [(&str, &str, fn(&ShardStatus) -> usize); 2] = [
                ("shard_slots_owned", "Slots that this replica works on", |status| status.working.len()),
                ("shard_members", "Replicas that hold a seat and are not leaving", |status| status.members),
            ];
            for (metric, help, value) in gauges {
                let mut family =
                    encoder.encode_descriptor(metric, help, None, ConstGauge::new(0_i64).metric_type())?;
                for (name, status) in &all {
                    let value = i64::try_from(value(status)).unwrap_or(i64::MAX);
                    ConstGauge::new(value).encode(family.encode_family(&[("name", name.clone())])?)?;
                }
            }
            let kind = ConstCounter::new(0_u64).metric_type();
            let mut family =
                encoder.encode_descriptor("shard_hand_overs", "Slots that changed hands", None, kind)?;
            for (name, status) in &all {
                let counts =
                    [("gained", status.gained), ("released", status.released), ("lost", status.lost)];
                for (direction, count) in counts {
                    let labels = [("name", name.clone()), ("direction", direction.to_owned())];
                    ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
                }
            }
            let help = "How long the gained slots had no working owner";
            let kind = ConstCounter::new(0.0_f64).metric_type();
            let mut family = encoder.encode_descriptor("shard_unowned_seconds", help, None, kind)?;
            for (name, status) in &all {
                let labels = [("name", name.clone())];
                ConstCounter::new(status.unowned.as_secs_f64()).encode(family.encode_family(&labels)?)?;
            }
            Ok(())
        }
    }
}
