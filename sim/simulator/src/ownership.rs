//! The judge of replicas that share the work. Like the oracle, it shares no code with the library: it reads the records of slots from
//! the history of their Lease, and the writes of replicas from the history of the ConfigMaps.

use std::collections::{BTreeMap, BTreeSet};

use kube_informer_oracle::{History, Judged};
use serde_json::Value;

/// The annotation of a Lease that has the records of slots.
const RECORDS: &str = "kube-informer/slots";
/// The annotation of a ConfigMap that names the request that wrote it: `TOKEN#NUMBER`.
pub(crate) const SENT: &str = "sent";
/// The annotation of a ConfigMap that has the value that was reconciled last.
pub(crate) const SEEN: &str = "seen";
/// An owner that has not caught up works anyway after 150 s. The judge may read up to 500 ms late that a slot was taken.
const CATCH_UP_MAX_MS: u64 = 149_000;

/// Identifies the ownership of a slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotToken {
    uid: String,
    pub(crate) slot: u64,
    term: u64,
    owner: String,
}

/// Which replica owns which slot, according to the server, and what the replicas do.
#[derive(Debug)]
pub(crate) struct Ownership {
    /// The key of the Lease that has the records.
    table: String,
    slots: u64,
    /// The number of states of that Lease that were read.
    read: usize,
    /// The owners of slots.
    owners: BTreeMap<u64, SlotToken>,
    /// The last term of each slot, by the uid of its Lease.
    terms: BTreeMap<(String, u64), (u64, String)>,
    /// When each slot was taken: the revision and the time.
    taken: BTreeMap<SlotToken, (u64, u64)>,
    /// Running reconciles: the process, and the token.
    running: BTreeMap<u64, (u64, SlotToken)>,
    begun: u64,
    /// Since when a slot has no working replica.
    idle_since: BTreeMap<u64, u64>,
    /// The longest time that a slot may have none.
    idle_max_ms: Option<u64>,
}

/// The start of a reconcile.
pub(crate) struct Start<'a> {
    /// The number of its process.
    pub(crate) process: u64,
    pub(crate) token: &'a SlotToken,
    pub(crate) key: &'a str,
    /// The version that the cache has of its object; 0 if it has none.
    pub(crate) cached: u64,
    /// Milliseconds.
    pub(crate) now: u64,
}

fn broken<T>(what: impl std::fmt::Display) -> Judged<T> {
    Err(format!("promise C11 is broken: {what}"))
}

impl SlotToken {
    /// Reads `UID/SLOT/TERM/OWNER`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '/');
        let mut next = || parts.next();
        let (uid, slot, term, owner) = (next()?, next()?, next()?, next()?);
        let (slot, term) = (slot.parse().ok()?, term.parse().ok()?);
        Some(Self { uid: uid.to_owned(), slot, term, owner: owner.to_owned() })
    }
}

impl Ownership {
    /// Judges so many slots, whose records are in this Lease.
    pub(crate) fn new(table: String, slots: u64, idle_max_ms: Option<u64>) -> Self {
        Self {
            table,
            slots,
            read: 0,
            owners: BTreeMap::new(),
            terms: BTreeMap::new(),
            taken: BTreeMap::new(),
            running: BTreeMap::new(),
            begun: 0,
            idle_since: BTreeMap::new(),
            idle_max_ms,
        }
    }

    /// Reads new records. Returns the slots that were taken: from which owner, if it had not released the slot.
    pub(crate) fn catch_up(&mut self, leases: &History, now: u64) -> Judged<Vec<Option<String>>> {
        let mut taken = Vec::new();
        let key = self.table.clone();
        for (revision, lease) in leases.states(&key).skip(self.read) {
            self.read += 1;
            taken.extend(self.read_table(revision, lease.unwrap_or(&Value::Null), now)?);
        }
        Ok(taken)
    }

    fn read_table(&mut self, revision: u64, lease: &Value, now: u64) -> Judged<Vec<Option<String>>> {
        let uid = lease["metadata"]["uid"].as_str().unwrap_or_default();
        let text = lease["metadata"]["annotations"][RECORDS].as_str().unwrap_or("{}");
        let table: Value = serde_json::from_str(text).unwrap_or_default();
        let before = std::mem::take(&mut self.owners);
        let mut taken = Vec::new();
        for (slot, record) in table["slots"].as_object().into_iter().flatten() {
            let (slot, term) =
                (slot.parse().unwrap_or(u64::MAX), record["term"].as_u64().unwrap_or_default());
            let owner = record["owner"].as_str().unwrap_or_default();
            let last = self.terms.entry((uid.to_owned(), slot)).or_default();
            if term < last.0 {
                return broken(format!("slot {slot} is in term {term} after term {}", last.0));
            }
            if term > last.0 {
                *last = (term, String::new());
            }
            if owner.is_empty() {
                continue;
            }
            if last.1 != owner && !last.1.is_empty() {
                return broken(format!("slot {slot} has two owners in term {term}: {} and {owner}", last.1));
            }
            owner.clone_into(&mut last.1);
            let token = SlotToken { uid: uid.to_owned(), slot, term, owner: owner.to_owned() };
            if before.get(&slot) != Some(&token) {
                self.taken.insert(token.clone(), (revision, now));
                taken.push(before.get(&slot).map(|before| before.owner.clone()));
            }
            self.owners.insert(slot, token);
        }
        Ok(taken)
    }

    /// Checks the start of a reconcile. Returns its number.
    pub(crate) fn begins(&mut self, start: &Start<'_>, maps: &History) -> Judged<u64> {
        let Start { process, token, key, .. } = *start;
        self.owns(token, format_args!("the reconcile of {key} begins"))?;
        let mut others = self.running.values().filter(|(_, other)| other.slot == token.slot);
        if let Some((_, other)) = others.find(|(other, _)| *other != process) {
            return broken(format!("{token:?} begins to reconcile while {other:?} does"));
        }
        self.has_caught_up(start, maps)?;
        self.begun += 1;
        self.running.insert(self.begun, (process, token.clone()));
        Ok(self.begun)
    }

    /// Checks a request that is handed to a socket.
    pub(crate) fn sends(&self, token: &SlotToken) -> Judged {
        self.owns(token, format_args!("a request is sent"))
    }

    fn owns(&self, token: &SlotToken, what: std::fmt::Arguments<'_>) -> Judged {
        match self.owners.get(&token.slot) {
            Some(owner) if owner == token => Ok(()),
            owner => broken(format!("{what} under {token:?}, but the owner is {owner:?}")),
        }
    }

    /// Checks that a cache has the last write to an object under an earlier term of its slot. Writes that were committed since the
    /// slot was taken do not count: their requests were sent before.
    fn has_caught_up(&self, start: &Start<'_>, maps: &History) -> Judged {
        let Start { token, key, cached, now, .. } = *start;
        let Some((taken, at)) = self.taken.get(token).filter(|(_, at)| now < at + CATCH_UP_MAX_MS) else {
            return Ok(());
        };
        let mut last = None;
        let mut sent = "";
        for (revision, map) in maps.states(key) {
            let Some(map) = map else {
                // A deleted object need not be in the cache.
                (last, sent) = (None, "");
                continue;
            };
            let by = map["metadata"]["annotations"][SENT].as_str().unwrap_or_default();
            if by != sent && revision < *taken {
                let writer = by.split('#').next().and_then(SlotToken::read);
                if writer.is_some_and(|writer| writer.slot == token.slot && writer != *token) {
                    last = Some((revision, by.to_owned()));
                }
            }
            sent = by;
        }
        match last {
            Some((revision, by)) if cached < revision => broken(format!(
                "{key} is reconciled from version {cached} under {token:?}, which was taken at {at} ms, but {by} had written version {revision}"
            )),
            _ => Ok(()),
        }
    }

    /// Records the end of a reconcile.
    pub(crate) fn ends(&mut self, reconcile: u64) {
        self.running.remove(&reconcile);
    }

    /// Records that a process has ended or is suspended: what its reconciles do until they notice does not count.
    pub(crate) fn halts(&mut self, process: u64) {
        self.running.retain(|_, (of, _)| *of != process);
    }

    /// Records that something happened to a process: the time without a working replica counts from now on.
    pub(crate) fn excuse_idle(&mut self, now: u64) {
        self.idle_since.values_mut().for_each(|since| *since = now);
    }

    /// Checks how long each slot has had no working replica. For slots that have one again, returns how long they had none.
    pub(crate) fn works(&mut self, working: &BTreeSet<u64>, now: u64) -> Judged<Vec<u64>> {
        let mut gaps = Vec::new();
        for slot in 0..self.slots {
            if working.contains(&slot) {
                gaps.extend(self.idle_since.remove(&slot).map(|since| now - since));
                continue;
            }
            let since = *self.idle_since.entry(slot).or_insert(now);
            if self.idle_max_ms.is_some_and(|max| now - since > max) {
                return broken(format!(
                    "no replica works on slot {slot} for {} ms; its owner is {:?}",
                    now - since,
                    self.owners.get(&slot)
                ));
            }
        }
        Ok(gaps)
    }

    /// Checks that every slot has an owner, and that the last change of every object was reconciled.
    pub(crate) fn converged(&self, maps: &[Value]) -> Judged {
        if let Some(slot) = (0..self.slots).find(|slot| !self.owners.contains_key(slot)) {
            return broken(format!("slot {slot} has no owner"));
        }
        let is_unseen = |map: &&Value| map["metadata"]["annotations"][SEEN] != map["data"]["value"];
        match maps.iter().find(is_unseen) {
            Some(map) => broken(format!("the last change was not reconciled: {map}")),
            None => Ok(()),
        }
    }
}
