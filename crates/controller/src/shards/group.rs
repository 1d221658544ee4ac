//! All replicas that share one lease, as this replica observes them: the leases of the seats, and the tables of slots.
//!
//! One informer watches all of them. They are objects of one resource, so the cache shows them in the order of their changes: if it
//! has a slot's record, it also has the seat that the slot's owner took before. A seat expires when its record has not changed for
//! its duration, as observed here; clocks of different replicas are never compared.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube_client::Client;
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::internals::compare_resource_versions;
use kube_informer::{Event, HandlerHandle, Informer, Key, SyncError};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::table::{Division, GROUP_LABEL, SLOTS_PER_TABLE, SlotRecord, SlotTable};
use crate::leader::record::{Observed, holder};

/// The annotation of a seat's lease that has its holder's weight.
pub(super) const WEIGHT_ANNOTATION: &str = "kube-informer/weight";

/// The annotation of a seat's lease whose holder leaves, and should get no more slots.
pub(super) const LEAVING_ANNOTATION: &str = "kube-informer/leaving";

/// Seats beyond this number are ignored: there are not more slots.
const SEATS_MAX: u32 = kube_informer::Shard::SLOTS_MAX;

/// The leases of a group.
pub(super) struct Group {
    namespace: String,
    name: String,
    division: Division,
    informer: Informer<Lease>,
    changed: Arc<Notify>,
    _listening: HandlerHandle,
    /// Leases that were read before, by name. Every change of a lease is a reason to look at all of them.
    known: BTreeMap<String, KnownLease>,
    /// Tables that this replica has written, and the cache does not have yet.
    written: BTreeMap<u32, Arc<ReadTable>>,
    seats: BTreeMap<u32, Observed>,
    /// The lease and resourceVersion that the cache must have before this replica joins again.
    needed: Option<(String, String)>,
    /// Leases that should exist: since when they are missing.
    missing: BTreeMap<String, Instant>,
    received: Arc<Mutex<Received>>,
}

/// What the listener has received since the last [`Group::view`].
#[derive(Debug, Default)]
struct Received {
    /// Leases that were created, and may have been deleted again.
    created: BTreeSet<String>,
    /// Seats that other replicas have renewed: the resourceVersion, and when it arrived.
    renewed: BTreeMap<String, (String, Instant)>,
    /// This replica. Its own renewals count only after everything before them was considered.
    identity: Option<String>,
}

/// The leases at one moment.
#[derive(Debug, Default)]
pub(super) struct GroupView {
    pub(super) tables: BTreeMap<u32, Arc<ReadTable>>,
    /// Tables that exist, and that this replica cannot use.
    pub(super) unusable: BTreeMap<u32, Mismatch>,
    pub(super) seats: BTreeMap<u32, SeatView>,
}

/// A table, and the Lease that it was read from.
#[derive(Clone, Debug)]
pub(super) struct ReadTable {
    pub(super) lease: Lease,
    pub(super) table: SlotTable,
}

/// A lease at one resourceVersion.
struct KnownLease {
    version: String,
    uid: String,
    content: LeaseContent,
}

#[derive(Clone)]
enum LeaseContent {
    Seat(u32, Arc<Lease>),
    Table(u32, Result<Arc<ReadTable>, Mismatch>),
    /// Of another kind, or not decodable.
    Other,
}

/// A seat.
#[derive(Clone, Debug)]
pub(super) struct SeatView {
    pub(super) lease: Arc<Lease>,
    /// Its holder's weight, or the last one's.
    pub(super) weight: u32,
    /// Its holder, or the last one, leaves.
    is_leaving: bool,
    /// Its holder has not renewed it in time.
    pub(super) is_expired: bool,
}

/// Why this replica cannot be part of the group.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Mismatch {
    #[error("lease {0} has no records of slots that this version can read")]
    Unreadable(String),
    #[error("its replicas use {}, and this one {}; use the same number of slots, or another name", describe(.theirs), describe(.ours))]
    Division { theirs: Division, ours: Division },
}

fn describe(division: &Division) -> String {
    let by = if division.by_namespace { "namespace" } else { "uid" };
    format!("{} slots by {by}", division.of)
}

// === impl Group ===

impl Group {
    /// Watches the leases of a group.
    pub(super) fn watch(
        client: Client,
        namespace: &str,
        name: &str,
        division: Division,
        seed: Option<u64>,
        retry: Duration,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut reflector = ReflectorConfig::default();
        reflector.seed = seed;
        // A watch that is down for long costs the seat.
        reflector.backoff.longest = retry;
        let informer = Informer::<Lease>::builder(client)
            .reflector(reflector)
            .namespaces([namespace])
            .labels(format!("{GROUP_LABEL}={name}"))
            .start()?;
        let changed = Arc::new(Notify::new());
        let received = Arc::<Mutex<Received>>::default();
        let (notified, noted, seats) = (changed.clone(), received.clone(), format!("{name}-seat-"));
        let listening = informer.add_handler(move |event: Event<Lease>| {
            if noted.lock().note(&event, &seats) {
                notified.notify_one();
            }
            ready(())
        })?;
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            division,
            informer,
            changed,
            _listening: listening,
            known: BTreeMap::new(),
            written: BTreeMap::new(),
            seats: BTreeMap::new(),
            needed: None,
            missing: BTreeMap::new(),
            received,
        })
    }

    pub(super) async fn synced(&self) -> Result<(), SyncError> {
        self.informer.synced().await
    }

    /// Sets this replica's identity. From then on, renewals of other replicas do not count as [changes](Self::changed).
    pub(super) fn identify(&self, identity: &str) {
        self.received.lock().identity = Some(identity.to_owned());
    }

    /// Waits until a lease has changed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn seat_name(&self, seat: u32) -> String {
        format!("{}-seat-{seat}", self.name)
    }

    pub(super) fn table_name(&self, table: u32) -> String {
        format!("{}-slots-{table}", self.name)
    }

    /// Whether the cache has this resourceVersion of a lease, and therefore all changes before it.
    pub(super) fn has_seen(&self, lease: &str, version: &str) -> bool {
        self.informer.has_seen(&Key::new(&self.namespace, lease), version)
    }

    /// This replica joins again only when the cache has this: an outdated cache shows seats and slots that are not free.
    pub(super) fn need(&mut self, lease: String, version: String) {
        self.needed = Some((lease, version));
    }

    /// Accepts a cache at the server's current resourceVersion, if that is lower than the one that is needed: the server was restored
    /// from a backup, and may not reach the needed one for hours. Returns whether it was.
    pub(super) fn accept_restore(&mut self, revision: &str) -> bool {
        let is_lower =
            |needed: &str| compare_resource_versions(revision, needed).is_some_and(std::cmp::Ordering::is_lt);
        match &mut self.needed {
            Some((_, needed)) if is_lower(needed) => {
                revision.clone_into(needed);
                true
            }
            _ => false,
        }
    }

    /// Continues with another cache of the same group's leases. It must reach the same resourceVersion.
    pub(super) fn replace(&mut self, other: Self) {
        let needed = self.needed.take();
        *self = Self { needed, ..other };
    }

    /// Whether the cache has what it needs.
    pub(super) fn is_fresh(&self) -> bool {
        self.needed.as_ref().is_none_or(|(lease, version)| self.has_seen(lease, version))
    }

    /// The current state. Times of expiry are counted from when this first returned a record.
    pub(super) fn view(&mut self) -> GroupView {
        self.read();
        let (created, renewed) = {
            let mut received = self.received.lock();
            (std::mem::take(&mut received.created), std::mem::take(&mut received.renewed))
        };
        let mut view = GroupView::default();
        for (name, known) in &self.known {
            match &known.content {
                LeaseContent::Seat(seat, lease) => {
                    let observed = self.seats.entry(*seat).or_default();
                    let renewed = renewed.get(name).filter(|(version, _)| *version == known.version);
                    let arrived = renewed.map_or_else(Instant::now, |(_, arrived)| *arrived);
                    view.seats.insert(*seat, SeatView::of(lease, observed, arrived));
                }
                LeaseContent::Table(number, Ok(read)) => {
                    view.tables.insert(*number, read.clone());
                }
                LeaseContent::Table(number, Err(mismatch)) => {
                    view.unusable.insert(*number, mismatch.clone());
                }
                LeaseContent::Other => {}
            }
        }
        self.seats.retain(|seat, _| view.seats.contains_key(seat));
        for (number, read) in &self.written {
            view.tables.insert(*number, read.clone());
            view.unusable.remove(number);
        }
        // A lease that exists, or was created since the last view, was not missing all the time. Its owners may still be working.
        let written: BTreeSet<String> = self.written.keys().map(|number| self.table_name(*number)).collect();
        let Self { missing, known, .. } = self;
        missing.retain(|name, _| {
            !known.contains_key(name) && !written.contains(name) && !created.contains(name)
        });
        view
    }

    /// Reads the leases that have changed.
    fn read(&mut self) {
        // Check this before taking the snapshot, so that the snapshot has the tables that replace the forgotten ones.
        let is_cached = |table: u32, read: &ReadTable| {
            let version = read.lease.metadata.resource_version.as_deref().unwrap_or_default();
            self.has_seen(&self.table_name(table), version)
        };
        let outdated = self.written.iter().filter(|(table, read)| is_cached(**table, read));
        let outdated: Vec<u32> = outdated.map(|(table, _)| *table).collect();
        outdated.iter().for_each(|table| drop(self.written.remove(table)));
        let mut present = BTreeSet::new();
        for object in self.informer.lister().view().iter() {
            let name = object.name();
            present.insert(name.to_owned());
            let is_known =
                |known: &KnownLease| known.version == object.resource_version() && known.uid == object.uid();
            if self.known.get(name).is_some_and(is_known) {
                continue;
            }
            let content = match object.decode() {
                Ok(lease) => self.content(name, lease),
                Err(error) => {
                    tracing::warn!(lease = %object.key(), %error, "cannot read a lease");
                    LeaseContent::Other
                }
            };
            let (version, uid) = (object.resource_version().to_owned(), object.uid().to_owned());
            self.known.insert(name.to_owned(), KnownLease { version, uid, content });
        }
        self.known.retain(|name, _| present.contains(name));
    }

    fn content(&self, name: &str, lease: Arc<Lease>) -> LeaseContent {
        // Other spellings of a number, such as `01`, would be a second Lease for it.
        let number = |kind: &str, below: u32| -> Option<u32> {
            let text = name.strip_prefix(&*self.name)?.strip_prefix(kind)?;
            text.parse().ok().filter(|number: &u32| *number < below && number.to_string() == text)
        };
        if let Some(seat) = number("-seat-", SEATS_MAX) {
            return LeaseContent::Seat(seat, lease);
        }
        let tables = self.division.of.div_ceil(SLOTS_PER_TABLE);
        let Some(table) = number("-slots-", tables) else { return LeaseContent::Other };
        LeaseContent::Table(
            table,
            match SlotTable::read(&lease) {
                None => Err(Mismatch::Unreadable(name.to_owned())),
                Some(table) if table.division != self.division => {
                    Err(Mismatch::Division { theirs: table.division, ours: self.division })
                }
                Some(table) => Ok(Arc::new(ReadTable { lease: Lease::clone(&lease), table })),
            },
        )
    }

    /// Remembers a table that this replica has written, until the cache has it.
    pub(super) fn wrote(&mut self, table: u32, read: Arc<ReadTable>) {
        self.written.insert(table, read);
    }

    /// The numbers of all tables.
    pub(super) fn tables(&self) -> std::ops::Range<u32> {
        0..self.division.of.div_ceil(SLOTS_PER_TABLE)
    }

    /// Whether a lease that should exist has been missing for so long.
    pub(super) fn is_missing_for(&mut self, name: String, time: Duration) -> bool {
        self.missing.entry(name).or_insert_with(Instant::now).elapsed() >= time
    }

    /// A lease exists, whether the cache shows it or not.
    pub(super) fn is_present(&mut self, name: &str) {
        self.missing.remove(name);
    }

    /// Forgets the seats that need not exist any more.
    pub(super) fn need_seats(&mut self, seats: &BTreeSet<u32>) {
        let tables = self.tables().map(|table| self.table_name(table));
        let needed: BTreeSet<String> = seats.iter().map(|seat| self.seat_name(*seat)).chain(tables).collect();
        self.missing.retain(|name, _| needed.contains(name));
    }
}

// === impl Received ===

impl Received {
    /// Records an event. Returns whether the group must be looked at now. A renewal by another replica only delays the expiry of its
    /// seat, which is checked every retry period.
    fn note(&mut self, event: &Event<Lease>, seats: &str) -> bool {
        match event {
            Event::Added { object, .. } => {
                self.created.insert(object.name().to_owned());
            }
            Event::Updated { old, new, .. } if new.name().starts_with(seats) => {
                let (Ok(before), Ok(after)) = (old.decode(), new.decode()) else { return true };
                let is_other = self.identity.as_deref().is_some_and(|identity| identity != holder(&after));
                if is_other && without_renewal(&before) == without_renewal(&after) {
                    let arrived = (new.resource_version().to_owned(), Instant::now());
                    self.renewed.insert(new.name().to_owned(), arrived);
                    return false;
                }
            }
            _ => {}
        }
        true
    }
}

/// A lease without what each renewal changes.
fn without_renewal(lease: &Lease) -> Lease {
    let mut lease = lease.clone();
    lease.metadata.resource_version = None;
    lease.metadata.managed_fields = None;
    if let Some(spec) = &mut lease.spec {
        spec.renew_time = None;
    }
    lease
}

// === impl SeatView ===

impl SeatView {
    /// `arrived` is when the lease was received, if it has changed.
    fn of(lease: &Arc<Lease>, observed: &mut Observed, arrived: Instant) -> Self {
        let version = |lease: &Lease| lease.metadata.resource_version.clone();
        if observed.lease().map(version) != Some(version(lease)) {
            observed.observe_at(Lease::clone(lease), arrived);
        }
        let annotation = |name: &str| lease.metadata.annotations.as_ref().and_then(|all| all.get(name));
        Self {
            lease: lease.clone(),
            weight: annotation(WEIGHT_ANNOTATION).and_then(|weight| weight.parse().ok()).unwrap_or(1),
            is_leaving: annotation(LEAVING_ANNOTATION).is_some(),
            is_expired: !observed.holder().is_empty() && observed.is_free(),
        }
    }
}

// === impl GroupView ===

impl GroupView {
    /// Whether a table exists, readable or not.
    pub(super) fn has_table(&self, number: u32) -> bool {
        self.tables.contains_key(&number) || self.unusable.contains_key(&number)
    }

    /// The seat that a replica holds.
    pub(super) fn seat_of(&self, identity: &str) -> Option<u32> {
        self.seats.iter().find(|(_, seat)| holder(&seat.lease) == identity).map(|(number, _)| *number)
    }

    /// The record of a slot; `None` if its table is missing.
    pub(super) fn record(&self, slot: u32) -> Option<SlotRecord> {
        self.tables.get(&(slot / SLOTS_PER_TABLE)).map(|read| read.table.record(slot))
    }

    /// Whether a slot can be taken: it was released, or its owner has lost its seat. A replica never takes a seat twice under one
    /// identity.
    pub(super) fn is_free(&self, record: &SlotRecord) -> bool {
        let is_held = |seat: &SeatView| holder(&seat.lease) == record.owner;
        record.owner.is_empty() || self.seats.get(&record.seat).is_some_and(|seat| !is_held(seat))
    }

    /// The lowest free seat. A seat whose lease was deleted is not free while slots name it: its holder may not know it.
    pub(super) fn free_seat(&self) -> u32 {
        let owners = self.owners();
        let is_free = |seat: &u32| match self.seats.get(seat) {
            Some(seat) => holder(&seat.lease).is_empty(),
            None => !owners.contains(seat),
        };
        (0..SEATS_MAX).find(is_free).unwrap_or(SEATS_MAX)
    }

    /// Whether a replica that joins should wait for the seat of one that leaves, rather than take this free seat. A lower seat then
    /// becomes free soon. Taking that one replaces the leaving replica. Taking a higher one would change the shares of all other
    /// replicas now, and again when the lower seat is free.
    ///
    /// The replicas that stay work on all slots meanwhile. If they are fewer than those that leave, their shares would grow too much.
    /// If no replica stays, no slot would have an owner.
    pub(super) fn should_wait_instead_of(&self, free: u32) -> bool {
        let leaves = |seat: &SeatView| seat.is_leaving && !holder(&seat.lease).is_empty();
        let leaving = self.seats.range(..free).filter(|(_, seat)| leaves(seat)).count();
        let staying = self.members().values().filter(|(weight, stays)| *stays && *weight > 0).count();
        (1..=staying).contains(&leaving)
    }

    /// The seats that own slots, according to the records.
    pub(super) fn owners(&self) -> BTreeSet<u32> {
        let records = self.tables.values().flat_map(|read| read.table.slots.values());
        records.filter(|record| !record.owner.is_empty()).map(|record| record.seat).collect()
    }

    /// The weights of all seats, and whether their holders live and stay.
    pub(super) fn members(&self) -> BTreeMap<u32, (u32, bool)> {
        let stays = |seat: &SeatView| !holder(&seat.lease).is_empty() && !seat.is_expired && !seat.is_leaving;
        self.seats.iter().map(|(number, seat)| (*number, (seat.weight, stays(seat)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use embedded_apiserver::Server;
    use kube_client::Api;
    use kube_client::api::{DeleteParams, PostParams};
    use tokio::time::{sleep, timeout};

    use super::super::table::group_lease;
    use super::*;
    use crate::leader::record;

    #[tokio::test(start_paused = true)]
    async fn c11_a_lease_that_existed_meanwhile_counts_as_missing_again() {
        for is_viewed in [true, false] {
            let server = Server::builder().without_socket().seed(1).start().await.unwrap();
            let client = server.client().unwrap();
            let (second, lasts) = (Duration::from_secs(1), Duration::from_secs(15));
            let division = Division { of: 64, by_namespace: false };
            let mut group =
                Group::watch(client.clone(), "default", "web", division, Some(1), 2 * second).unwrap();
            group.synced().await.unwrap();
            let name = group.table_name(0);
            assert!(!group.is_missing_for(name.clone(), lasts));
            sleep(lasts).await;
            let leases = Api::<Lease>::default_namespaced(client);
            leases.create(&PostParams::default(), &group_lease("web", name.clone())).await.unwrap();
            if is_viewed {
                sleep(second).await;
                assert!(group.view().has_table(0));
            }
            leases.delete(&name, &DeleteParams::default()).await.unwrap();
            sleep(second).await;
            assert!(!group.view().has_table(0));
            assert!(!group.is_missing_for(name.clone(), lasts), "viewed: {is_viewed}");
            sleep(lasts).await;
            assert!(group.is_missing_for(name, lasts));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn leases_with_other_numbers_are_ignored() {
        let server = Server::builder().without_socket().seed(1).start().await.unwrap();
        let client = server.client().unwrap();
        let leases = Api::<Lease>::default_namespaced(client.clone());
        let names = ["slots-0", "slots-00", "slots-1", "slots-16777216", "seat-1", "seat-01"];
        for name in names.map(|name| format!("web-{name}")) {
            leases.create(&PostParams::default(), &group_lease("web", name)).await.unwrap();
        }
        let division = Division { of: 256, by_namespace: false };
        let pause = Duration::from_secs(2);
        let mut group = Group::watch(client, "default", "web", division, Some(1), pause).unwrap();
        group.synced().await.unwrap();
        let view = group.view();
        assert_eq!(view.unusable.keys().collect::<Vec<_>>(), [&0], "256 slots are in one table");
        assert_eq!(view.seats.keys().collect::<Vec<_>>(), [&1]);
    }

    #[tokio::test(start_paused = true)]
    async fn renewals_of_others_are_no_changes_and_count_from_their_arrival() {
        let server = Server::builder().without_socket().seed(1).start().await.unwrap();
        let client = server.client().unwrap();
        let (second, lasts) = (Duration::from_secs(1), Duration::from_secs(15));
        let division = Division { of: 64, by_namespace: false };
        let mut group =
            Group::watch(client.clone(), "default", "web", division, Some(1), 2 * second).unwrap();
        group.synced().await.unwrap();
        group.identify("me");
        let leases = &Api::<Lease>::default_namespaced(client);
        let put = async |lease: &Lease| {
            let name = lease.metadata.name.as_deref().unwrap();
            match lease.metadata.uid {
                Some(_) => leases.replace(name, &PostParams::default(), lease).await.unwrap(),
                None => leases.create(&PostParams::default(), lease).await.unwrap(),
            }
        };
        let seat = |name: &str, holder: &str| Lease {
            spec: record::new(name, holder, lasts, SystemTime::now()).spec,
            ..group_lease("web", name.to_owned())
        };
        let renewed = |lease: &Lease| record::renewed(lease, lasts, SystemTime::now());
        let has_changed = async |group: &Group| timeout(second / 10, group.changed()).await.is_ok();

        let mine = put(&seat("web-seat-0", "me")).await;
        let other = put(&seat("web-seat-1", "other")).await;
        while has_changed(&group).await {}
        assert_eq!(group.view().members().len(), 2);
        sleep(5 * second).await;
        let mut other = put(&renewed(&other)).await;
        assert!(!has_changed(&group).await, "another replica's renewal");
        sleep(14 * second).await;
        assert!(!group.view().seats[&1].is_expired);
        sleep(second).await;
        assert!(group.view().seats[&1].is_expired, "counted from the view");

        put(&renewed(&mine)).await;
        assert!(has_changed(&group).await, "the replica's own renewal");
        let annotations = other.metadata.annotations.get_or_insert_default();
        annotations.insert(LEAVING_ANNOTATION.to_owned(), "true".to_owned());
        put(&renewed(&other)).await;
        assert!(has_changed(&group).await, "it leaves");
        assert!(!group.view().seats[&1].is_expired && !group.view().members()[&1].1);
    }
}
