//! A part of the objects of a kind, and the handle with which it changes while informers run.
//!
//! The hashes of all objects are divided into slots of equal size; a [`Shard`] is a set of slots. Replicas that divide a kind
//! among themselves own disjoint sets. The hash is the server's ([`kube_wire::shard`]), so a server that supports
//! `shardSelector` sends only the part, and elsewhere the reflector selects the same objects by their heads.
//!
//! A server hashes only uids and namespaces. An informer can also hash its objects' owners, a label or a field ([`ShardKey`]); then
//! the server sends all objects, and the reflector selects. Unlike a uid, such a value can change: an object can move between shards.

use std::fmt;
use std::sync::{Arc, OnceLock};

use kube_core::ObjectMeta;
use kube_wire::path::{CustomSchema, PathReader};
use kube_wire::projection::Kept;
use kube_wire::shard::{self, ShardField, ShardSelector};
use kube_wire::{FieldPath, Head, Projection, RawObject, TypeMeta};
use tokio::sync::watch;

/// Some of the slots that the objects of a kind are divided into, by the hash of their uid or of their namespace.
///
/// ```
/// use kube_informer::Shard;
///
/// let quarter = Shard::new(0..16, Shard::SLOTS)?;
/// let uid = "74a3f56c-6561-4c97-a318-2b09ce6e90f6";
/// assert_eq!(quarter.selects("web", uid), quarter.slot("web", uid) < 16);
/// assert_eq!(quarter.to_string(), "16 of 64 slots by uid");
/// # Ok::<(), kube_informer::InvalidShard>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Shard {
    field: ShardField,
    /// The number of all slots.
    of: u32,
    /// One bit per slot.
    bits: Arc<[u64]>,
}

/// The shard of one or more informers, which can change while they run. Clones are handles to the same assignment.
///
/// When it changes, each informer lists its new part and continues with that. See
/// [`InformerBuilder::shard`](crate::InformerBuilder::shard).
///
/// ```
/// use kube_informer::{AssignedShard, Shard};
///
/// let assigned = AssignedShard::new(Shard::new([0], 2)?);
/// assigned.set(Shard::new([0, 1], 2)?);
/// assert_eq!(assigned.get().slots().count(), 2);
/// # Ok::<(), kube_informer::InvalidShard>(())
/// ```
#[derive(Clone, Debug)]
pub struct AssignedShard {
    assignment: Arc<watch::Sender<Assignment>>,
    key: ShardKey,
}

/// Which text of an object is hashed.
#[derive(Clone, Debug)]
pub(crate) enum ShardKey {
    /// Its uid or its namespace, depending on the shard. Both are immutable, and servers can hash them, too.
    Own,
    /// The uid or namespace of its controlling owner.
    Owner,
    /// The value of a label.
    Label(Arc<str>),
    /// The value of a field. The reader is compiled for the type of the first object.
    Field { path: FieldPath, reader: Arc<OnceLock<PathReader>> },
}

/// A shard, and how often it has changed.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    /// Grows with each change; the first is 1.
    pub(crate) generation: u64,
    pub(crate) shard: Shard,
}

/// The slots are not valid numbers, or their key cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidShard {
    /// There are no slots at all, or too many.
    #[error("invalid number of slots {0}: it must be 1 to {max}", max = Shard::SLOTS_MAX)]
    Slots(u32),
    /// A slot does not exist.
    #[error("invalid slot {slot}: the numbers of {of} slots are less than {of}")]
    Slot {
        /// The slot.
        slot: u32,
        /// The number of all slots.
        of: u32,
    },
    /// The field path is invalid, or the kind has no such field.
    #[error("invalid shard: {0}")]
    Field(kube_wire::Error),
    /// The informer does not keep the field, so it would be missing in every object.
    #[error("invalid shard: the informer drops field `{0}`; keep it, or choose another")]
    Dropped(FieldPath),
}

/// The maximum number of ranges in a request. Some proxies limit a URL to 8 KB, and a range takes about 120 bytes of it.
const RANGES_MAX: usize = 32;

// === impl Shard ===

impl Shard {
    /// The number of slots to use unless there is a reason for another: enough for about 16 replicas.
    pub const SLOTS: u32 = 64;

    /// The maximum number of slots.
    pub const SLOTS_MAX: u32 = 4096;

    /// These slots of `of`, by uid. Without any, an informer is synced and empty. All replicas must use the same number.
    ///
    /// # Errors
    /// Returns an error if `of` is 0 or more than [`SLOTS_MAX`](Self::SLOTS_MAX), or if a slot is not less than `of`.
    pub fn new(slots: impl IntoIterator<Item = u32>, of: u32) -> Result<Self, InvalidShard> {
        if !(1..=Self::SLOTS_MAX).contains(&of) {
            return Err(InvalidShard::Slots(of));
        }
        let mut bits = vec![0; of.div_ceil(64) as usize];
        for slot in slots {
            if slot >= of {
                return Err(InvalidShard::Slot { slot, of });
            }
            bits[slot as usize / 64] |= 1 << (slot % 64);
        }
        Ok(Self { field: ShardField::Uid, of, bits: bits.into() })
    }

    /// Divides by namespace: all objects of a namespace are in one slot, and cluster-scoped objects share one. Namespaces whose
    /// names differ only in their last two characters are usually in the same slot.
    #[must_use]
    pub fn by_namespace(mut self) -> Self {
        self.field = ShardField::Namespace;
        self
    }

    /// The slots, ascending.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.of).filter(|slot| self.has(*slot))
    }

    /// The number of all slots, of which this shard has some.
    pub fn of(&self) -> u32 {
        self.of
    }

    /// The slot of an object, whether or not this shard has it. The namespace of a cluster-scoped object is empty.
    pub fn slot(&self, namespace: &str, uid: &str) -> u32 {
        let text = match self.field {
            ShardField::Uid => uid,
            ShardField::Namespace => namespace,
        };
        shard::slot(shard::hash(text), self.of)
    }

    /// Whether an object is in this shard.
    pub fn selects(&self, namespace: &str, uid: &str) -> bool {
        self.has(self.slot(namespace, uid))
    }

    fn selects_text(&self, text: &str) -> bool {
        self.has(shard::slot(shard::hash(text), self.of))
    }

    fn has(&self, slot: u32) -> bool {
        self.bits.get(slot as usize / 64).is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }

    /// The ranges to request: all of this shard's, and what lies between them if there would be too many. `None` for
    /// everything, or nothing.
    #[doc(hidden)]
    pub fn selector(&self) -> Option<ShardSelector> {
        // The deliberate bug is off by one slot.
        let skipped = usize::from(deliberate_bug!("wrong-hash-range"));
        let exact = ShardSelector::from_slots(self.field, self.slots().skip(skipped), self.of)?;
        let mut ranges = exact.ranges().to_vec();
        while ranges.len() > RANGES_MAX {
            let gap = |at: &usize| ranges[at + 1].start() - ranges[*at].end();
            let Some(smallest) = (0..ranges.len() - 1).min_by_key(gap) else { break };
            let next = ranges.remove(smallest + 1);
            ranges[smallest] = *ranges[smallest].start()..=*next.end();
        }
        match &*ranges {
            [all] if *all == (0..=u64::MAX) => None,
            _ => ShardSelector::new(self.field, ranges),
        }
    }

    /// Whether an object's namespace alone determines its slot.
    pub(crate) fn is_by_namespace(&self) -> bool {
        self.field == ShardField::Namespace
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.is_by_namespace() { "namespace" } else { "uid" };
        write!(f, "{} of {} slots by {by}", self.slots().count(), self.of)
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("field", &self.field)
            .field("of", &self.of)
            .field("slots", &self.slots().collect::<Vec<_>>())
            .finish()
    }
}

// === impl AssignedShard ===

impl AssignedShard {
    /// An assignment that begins with this shard.
    pub fn new(shard: Shard) -> Self {
        let assignment = Arc::new(watch::Sender::new(Assignment { generation: 1, shard }));
        Self { assignment, key: ShardKey::Own }
    }

    /// The current shard.
    pub fn get(&self) -> Shard {
        self.assignment.borrow().shard.clone()
    }

    /// Changes the shard of all informers that have this assignment. The same shard changes nothing.
    pub fn set(&self, shard: Shard) {
        self.assignment.send_if_modified(|current| {
            let changed = current.shard != shard;
            if changed {
                *current = Assignment { generation: current.generation + 1, shard };
            }
            changed
        });
    }

    /// The same assignment for an informer of owned objects: each is in the slot of its controlling owner. That is the slot of the
    /// owner's uid, or, if the slots are by namespace, of the object's own namespace. Objects without an owner reference that has
    /// `controller: true` are in no slot, so no replica keeps them.
    ///
    /// The server sends all objects, and the informer drops those of other slots on arrival: this divides the memory, but not the
    /// traffic. An object whose owner changes can leave ([`Origin::LeftShard`](crate::Origin::LeftShard)) and enter.
    ///
    /// ```no_run
    /// # use kube_informer::{AssignedShard, Informer, Shard};
    /// # use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
    /// # fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let assigned = AssignedShard::new(Shard::new(0..16, Shard::SLOTS)?);
    /// let sets = Informer::<ReplicaSet>::builder(client.clone()).shard(&assigned).start()?;
    /// let pods = Informer::<Pod>::builder(client).shard(assigned.by_owner()).start()?;  // the pods of these sets
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn by_owner(&self) -> Self {
        self.with(ShardKey::Owner)
    }

    /// The same assignment for an informer whose objects are divided by the value of a label. An object without the label is in the
    /// slot of the empty text. In other respects as [`by_owner`](Self::by_owner).
    ///
    /// If the value is the uid of another object, both are in the same slot; with slots by namespace, if it is the other object's
    /// namespace. Values that differ only in the last two characters are usually in one slot.
    #[must_use]
    pub fn by_label(&self, label: &str) -> Self {
        self.with(ShardKey::Label(label.into()))
    }

    /// As [`by_label`](Self::by_label), with the value of a field, such as `spec.tenant`. Numbers and booleans count in their
    /// printed form. If a path leads to several values, the first one counts. A list or an object counts as missing.
    ///
    /// # Errors
    /// Returns an error if the path is invalid. An informer with this shard does not start if the kind has no such field, or if the
    /// informer drops it. The fields of a custom resource are known only with its
    /// [`definition`](crate::InformerBuilder::definition).
    pub fn by_field(&self, path: &str) -> Result<Self, InvalidShard> {
        let path = path.parse().map_err(InvalidShard::Field)?;
        Ok(self.with(ShardKey::Field { path, reader: Arc::default() }))
    }

    fn with(&self, key: ShardKey) -> Self {
        Self { assignment: self.assignment.clone(), key }
    }

    pub(crate) fn key(&self) -> &ShardKey {
        &self.key
    }

    pub(crate) fn current(&self) -> Assignment {
        self.assignment.borrow().clone()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.assignment.borrow().generation
    }

    /// Waits until the assignment is another than that of `generation`.
    pub(crate) async fn changed_from(&self, generation: u64) {
        // Cannot fail: the sender lives in `self`.
        let _ = self.assignment.subscribe().wait_for(|current| current.generation != generation).await;
    }
}

impl From<Shard> for AssignedShard {
    fn from(shard: Shard) -> Self {
        Self::new(shard)
    }
}

impl From<&Self> for AssignedShard {
    fn from(assigned: &Self) -> Self {
        assigned.clone()
    }
}

/// Handles are equal if they change together, and select the same objects.
impl PartialEq for AssignedShard {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.assignment, &other.assignment) && self.key == other.key
    }
}

impl Eq for AssignedShard {}

// === impl ShardKey ===

impl ShardKey {
    /// Whether the key of an object can change, so that the object moves to another slot.
    pub(crate) fn can_change(&self) -> bool {
        !matches!(self, Self::Own)
    }

    /// Whether an object is in a shard.
    pub(crate) fn selects(&self, shard: &Shard, object: &RawObject) -> bool {
        let head = object.head();
        match self {
            Self::Own => shard.selects(head.namespace(), head.uid()),
            Self::Owner => {
                let owner = head.owners().controller();
                owner.is_some_and(|owner| shard.selects(head.namespace(), &owner.uid))
            }
            Self::Label(label) => shard.selects_text(&head.labels().get(label).unwrap_or_default()),
            Self::Field { path, reader } => {
                // A field that cannot be read counts as missing.
                let text = text_at(path, reader, head).ok().flatten();
                shard.selects_text(&text.unwrap_or_default())
            }
        }
    }

    /// Whether an object with this metadata is in a shard; `None` if the metadata does not show that.
    pub(crate) fn selects_meta(&self, shard: &Shard, meta: &ObjectMeta) -> Option<bool> {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        match self {
            Self::Own => match meta.uid.as_deref() {
                Some(uid) => Some(shard.selects(namespace, uid)),
                None => shard.is_by_namespace().then(|| shard.selects(namespace, "")),
            },
            Self::Owner => {
                let mut owners = meta.owner_references.iter().flatten();
                let owner = owners.find(|owner| owner.controller == Some(true));
                Some(owner.is_some_and(|owner| shard.selects(namespace, &owner.uid)))
            }
            Self::Label(label) => {
                let value = meta.labels.as_ref().and_then(|labels| labels.get(&**label));
                Some(shard.selects_text(value.map_or("", |value| value)))
            }
            Self::Field { .. } => None,
        }
    }

    /// Checks that an informer has the key: its kind has the field, if the kind is known, and its projection keeps it.
    pub(crate) fn check(
        &self,
        projection: &Projection,
        type_meta: Option<&TypeMeta>,
    ) -> Result<(), InvalidShard> {
        // Every projection keeps uid, namespace, owners and labels.
        let Self::Field { path, .. } = self else { return Ok(()) };
        if let Some(type_meta) = type_meta {
            PathReader::new(path, type_meta).map_err(InvalidShard::Field)?;
        }
        match projection.keeps(path) {
            Kept::Dropped => Err(InvalidShard::Dropped(path.clone())),
            _ => Ok(()),
        }
    }

    /// Checks that a custom resource has the field.
    pub(crate) fn check_custom(&self, schema: &CustomSchema) -> Result<(), InvalidShard> {
        let Self::Field { path, .. } = self else { return Ok(()) };
        schema.check(path).map_err(InvalidShard::Field)
    }
}

/// The text of the first value at a path.
fn text_at(
    path: &FieldPath,
    reader: &OnceLock<PathReader>,
    head: Head<'_>,
) -> Result<Option<String>, kube_wire::Error> {
    let reader = match reader.get() {
        Some(reader) => reader,
        None => {
            let compiled = PathReader::new(path, head.type_meta())?;
            reader.get_or_init(|| compiled)
        }
    };
    Ok(reader.first(head)?.and_then(|value| value.text().map(std::borrow::Cow::into_owned)))
}

impl PartialEq for ShardKey {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Own, Self::Own) | (Self::Owner, Self::Owner) => true,
            (Self::Label(one), Self::Label(other)) => one == other,
            (Self::Field { path: one, .. }, Self::Field { path: other, .. }) => one == other,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A number of slots, and some of them.
    fn slots() -> impl Strategy<Value = (u32, Vec<u32>)> {
        (1..=300u32).prop_flat_map(|of| (Just(of), prop::collection::vec(0..of, 0..300)))
    }

    proptest! {
        #[test]
        fn a_request_covers_every_object_of_the_shard(
            (of, slots) in slots(), uids in prop::collection::vec("[a-f0-9]{8}", 50), by_namespace in any::<bool>(),
        ) {
            let mut shard = Shard::new(slots.iter().copied(), of).unwrap();
            if by_namespace {
                shard = shard.by_namespace();
            }
            let selector = shard.selector();
            prop_assert!(selector.as_ref().is_none_or(|selector| selector.ranges().len() <= RANGES_MAX));
            for uid in uids {
                let (namespace, uid) = if by_namespace { (&*uid, "") } else { ("", &*uid) };
                let selected = shard.selects(namespace, uid);
                prop_assert_eq!(selected, slots.contains(&shard.slot(namespace, uid)));
                let requested = match &selector {
                    Some(selector) => selector.selects(namespace, uid),
                    None => !shard.is_empty(),
                };
                prop_assert!(requested || !selected);
                if selector.as_ref().is_some_and(|selector| selector.ranges().len() < RANGES_MAX) {
                    prop_assert_eq!(requested, selected, "few ranges are requested exactly");
                }
            }
        }
    }

    #[test]
    fn every_second_of_the_default_slots_is_requested_exactly() {
        let half = Shard::new((0..64).step_by(2), 64).unwrap();
        assert_eq!(half.selector().unwrap().ranges().len(), RANGES_MAX);
        let encoded: String =
            form_urlencoded::byte_serialize(half.by_namespace().selector().unwrap().to_string().as_bytes())
                .collect();
        assert!(encoded.len() < 5000, "{}", encoded.len());
    }

    #[test]
    fn all_slots_and_no_slots_need_no_selector() {
        assert_eq!(Shard::new(0..64, 64).unwrap().selector(), None);
        let none = Shard::new([], 64).unwrap();
        assert_eq!((none.selector(), none.is_empty()), (None, true));
    }

    #[test]
    fn invalid_slots_are_rejected() {
        assert_eq!(Shard::new([], 0), Err(InvalidShard::Slots(0)));
        let many = Shard::new([], 4097).unwrap_err().to_string();
        assert_eq!(many, "invalid number of slots 4097: it must be 1 to 4096");
        let beyond = Shard::new([3, 64], 64).unwrap_err().to_string();
        assert_eq!(beyond, "invalid slot 64: the numbers of 64 slots are less than 64");
    }

    #[test]
    fn the_same_shard_is_not_a_change() {
        let assigned = AssignedShard::new(Shard::new([1], 4).unwrap());
        assigned.set(Shard::new([1, 1], 4).unwrap());
        assert_eq!(assigned.generation(), 1);
        assigned.set(Shard::new([1], 4).unwrap().by_namespace());
        assert_eq!(assigned.generation(), 2);
    }
}
