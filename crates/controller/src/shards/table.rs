//! The records of slots: who owns each slot, in which term, and what its last owner wrote. Many slots share one Lease object, which
//! is written only when slots change hands.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube_core::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::deliberate_bug::deliberate_bug;

/// The annotation that has the records.
const SLOTS_ANNOTATION: &str = "kube-informer/slots";

/// The label of all leases of a group of replicas; its value is the name of the sharded lease.
pub(super) const GROUP_LABEL: &str = "kube-informer/sharded-lease";

/// How many slots share one object. Annotations of an object have up to 256 KiB; a record has about 200 bytes.
pub(super) const SLOTS_PER_TABLE: u32 = 256;

/// The size limit of the records of one object. The rest of Kubernetes' 256 KiB is for other annotations.
const RECORDS_BYTES_MAX: usize = 240 << 10;

/// The records of one object.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct SlotTable {
    /// How objects are divided into slots. All replicas must agree.
    pub(super) division: Division,
    /// By slot. A slot without a record had no owner since the table was created.
    #[serde(default)]
    pub(super) slots: BTreeMap<u32, SlotRecord>,
}

/// How objects are divided into slots.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Division {
    /// The number of all slots.
    pub(super) of: u32,
    /// By namespace rather than by uid.
    #[serde(default)]
    pub(super) by_namespace: bool,
}

/// The record of one slot.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct SlotRecord {
    /// The owner's identity; empty if the slot is released.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) owner: String,
    /// The owner's seat.
    #[serde(default)]
    pub(super) seat: u32,
    /// How often the slot was taken.
    #[serde(default)]
    pub(super) term: i32,
    /// The last resourceVersion that the previous owner wrote, by resource. `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) written: Option<BTreeMap<String, String>>,
}

impl SlotTable {
    /// The records in a Lease; `None` if it has none that this version can read.
    pub(super) fn read(lease: &Lease) -> Option<Self> {
        let text = lease.metadata.annotations.as_ref()?.get(SLOTS_ANNOTATION)?;
        serde_json::from_str(text).ok()
    }

    /// The Lease with these records. If they exceed the size limit, the longest lists of written resourceVersions are dropped: the
    /// next owners of those slots catch up with the server instead.
    pub(super) fn write_to(&self, lease: &Lease) -> Lease {
        let mut lease = lease.clone();
        let mut text = json_of(self);
        if let Some(excess) = text.len().checked_sub(RECORDS_BYTES_MAX) {
            text = json_of(&self.shortened(excess));
        }
        lease.metadata.annotations.get_or_insert_default().insert(SLOTS_ANNOTATION.to_owned(), text);
        lease
    }

    /// The table without the longest lists of written resourceVersions, shorter by at least this many bytes if possible.
    fn shortened(&self, excess: usize) -> Self {
        let mut shortened = self.clone();
        let lists = shortened.slots.values_mut().filter(|record| record.written.is_some());
        let mut lists: Vec<_> = lists.map(|record| (json_of(&record.written).len(), record)).collect();
        lists.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let mut dropped = 0;
        for (bytes, record) in lists {
            if dropped >= excess {
                break;
            }
            record.written = None;
            dropped += bytes;
        }
        shortened
    }

    /// The record of a slot.
    pub(super) fn record(&self, slot: u32) -> SlotRecord {
        self.slots.get(&slot).cloned().unwrap_or_default()
    }
}

impl SlotRecord {
    /// The record after a replica has taken the slot. Each term has another number.
    pub(super) fn taken(&self, owner: &str, seat: u32) -> Self {
        let next = if deliberate_bug("term-repeated") { self.term } else { self.term.saturating_add(1) };
        Self { owner: owner.to_owned(), seat, term: next, written: None }
    }

    /// The record after its owner has released the slot.
    pub(super) fn released(&self, written: Option<BTreeMap<String, String>>) -> Self {
        Self { owner: String::new(), seat: 0, term: self.term, written }
    }
}

fn json_of(value: &impl Serialize) -> String {
    // Cannot fail: keys are numbers and text.
    serde_json::to_string(value).unwrap_or_default()
}

/// A Lease without records or holder, of the group of this name.
pub(super) fn group_lease(group: &str, name: String) -> Lease {
    let labels = BTreeMap::from([(GROUP_LABEL.to_owned(), group.to_owned())]);
    let metadata = ObjectMeta { name: Some(name), labels: Some(labels), ..ObjectMeta::default() };
    Lease { metadata, spec: Some(LeaseSpec::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_a_round_trip_through_a_lease() {
        let division = Division { of: 64, by_namespace: false };
        let first = SlotRecord::default().taken("one", 3);
        let written = BTreeMap::from([("configmaps".to_owned(), "17".to_owned())]);
        let slots = BTreeMap::from([(7, first.clone()), (9, first.released(Some(written)))]);
        let table = SlotTable { division, slots };
        let lease = table.write_to(&group_lease("web", "web-slots-0".to_owned()));
        assert_eq!(SlotTable::read(&lease), Some(table.clone()));
        assert_eq!(table.record(9).taken("two", 1).term, 2, "a released slot continues its terms");
        assert_eq!(table.record(8).written, None, "an earlier table may have had another owner");
    }

    #[test]
    fn records_never_exceed_the_limit_of_annotations() {
        const KUBERNETES_MAX: usize = 256 << 10;
        let written = |kinds: usize| {
            let kinds = 0..kinds;
            kinds.map(|kind| (format!("kind-{kind}.example.com"), "1234567890".to_owned())).collect()
        };
        let record = |slot: u32| match slot {
            0..4 => SlotRecord::default().taken(&"x".repeat(100), slot).released(Some(written(2000))),
            4..100 => SlotRecord::default().taken(&"x".repeat(100), slot),
            _ => SlotRecord::default().taken("one", slot).released(Some(written(35))),
        };
        let division = Division { of: SLOTS_PER_TABLE, by_namespace: false };
        let slots: BTreeMap<u32, SlotRecord> =
            (0..SLOTS_PER_TABLE).map(|slot| (slot, record(slot))).collect();
        let table = SlotTable { division, slots };
        let lease = table.write_to(&group_lease("web", "web-slots-0".to_owned()));
        let text = &lease.metadata.annotations.as_ref().unwrap()[SLOTS_ANNOTATION];
        assert!(text.len() < KUBERNETES_MAX, "{} bytes", text.len());
        let read = SlotTable::read(&lease).unwrap();
        for (slot, record) in &table.slots {
            let kept = read.record(*slot);
            let without_written = SlotRecord { written: None, ..record.clone() };
            assert_eq!(SlotRecord { written: None, ..kept.clone() }, without_written);
            assert_eq!(kept == *record, *slot >= 4, "slot {slot}: the largest are dropped first");
        }
    }

    #[test]
    fn a_lease_without_records_has_no_table() {
        assert_eq!(SlotTable::read(&group_lease("web", "web-slots-0".to_owned())), None);
    }
}
