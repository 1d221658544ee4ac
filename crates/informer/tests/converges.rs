//! Reflector, `Fifo` and store together, against a server that changes, disconnects, forgets, fails and is restored from
//! a backup: whatever happens, the promises hold. A failing case shrinks, and replays from its seed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_informer::queue::{Fifo, Scope};
use kube_informer::reflector::{Reflector, ReflectorConfig, WatchList};
use kube_informer::store::{Change, ChangeKind, Index, Snapshot, Store, StoreConfig, StoredObject};
use kube_informer::testing::{Checkpoint, ScriptedSource, WatchListSupport};
use kube_wire::Status;
use proptest::prelude::*;
use serde_json::json;

const SCOPE: Scope = Scope(0);
const KEYS: [&str; 4] = ["a/x", "a/y", "b/x", "b/y"];

#[derive(Clone, Debug)]
enum Op {
    Put(usize),
    Delete(usize),
    /// Deletes and creates at once: another uid.
    Recreate(usize),
    Bookmark,
    CloseWatches,
    BreakWatches,
    /// History is lost: whoever is disconnected has to relist.
    Compact,
    /// A watch in progress is told that it is too old.
    Expire,
    RefuseWatch,
    CloseWatchAtOnce,
    BreakList,
    Checkpoint,
    Restore,
    SupportWatchList(bool),
    /// Time passes.
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..KEYS.len();
    prop_oneof![
        8 => key().prop_map(Op::Put),
        3 => key().prop_map(Op::Delete),
        2 => key().prop_map(Op::Recreate),
        1 => Just(Op::Bookmark),
        2 => Just(Op::CloseWatches),
        2 => Just(Op::BreakWatches),
        1 => Just(Op::Compact),
        1 => Just(Op::Expire),
        1 => Just(Op::RefuseWatch),
        1 => Just(Op::CloseWatchAtOnce),
        1 => Just(Op::BreakList),
        1 => Just(Op::Checkpoint),
        1 => Just(Op::Restore),
        1 => any::<bool>().prop_map(Op::SupportWatchList),
        5 => (0..90_000u64).prop_map(Op::Wait),
    ]
}

fn expired() -> Status {
    let body =
        json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"});
    Status::from_response(410, "application/json", None, body.to_string().as_bytes())
}

/// What somebody knows who only listens, and what was ever seen.
#[derive(Default)]
struct Listener {
    /// Uid and version by key.
    known: BTreeMap<String, (String, u64)>,
    /// The newest version by epoch, key and uid.
    newest: BTreeMap<(u64, String, String), u64>,
}

impl Listener {
    fn hear(&mut self, change: &Change) {
        let state = |object: &StoredObject| {
            (object.uid().to_owned(), object.resource_version().parse::<u64>().unwrap())
        };
        let key = change.key().to_string();
        match &change.kind {
            ChangeKind::Added { object } => {
                assert!(self.known.insert(key, state(object)).is_none(), "added twice: {change:?}");
            }
            ChangeKind::Updated { old, new } => {
                assert_eq!(old.uid(), new.uid(), "an update is never another object");
                let known = self.known.insert(key, state(new));
                assert_eq!(known, Some(state(old)), "{change:?}");
            }
            ChangeKind::Deleted { final_state_known, .. } => {
                let known = self.known.remove(&key);
                assert!(known.is_some() || *final_state_known, "{change:?}");
            }
        }
    }

    /// Promises 2, 3 and 4: what was told is what is stored, and nothing goes back within an epoch.
    fn check(&mut self, snapshot: &Snapshot) {
        let mut stored = BTreeMap::new();
        for object in snapshot.iter() {
            let (key, uid) = (object.key().to_string(), object.uid().to_owned());
            let version = object.resource_version().parse::<u64>().unwrap();
            let newest = self.newest.entry((snapshot.epoch(SCOPE), key.clone(), uid.clone())).or_default();
            assert!(*newest <= version, "{key} went back from {newest} to {version}");
            *newest = version;
            stored.insert(key, (uid, version));
        }
        assert_eq!(self.known, stored, "what was told is not what is stored");
        let indexed = snapshot.index_values(Index::NAMESPACE).unwrap().map(|(_, count)| count).sum::<usize>();
        assert_eq!(indexed, snapshot.len());
    }
}

fn content<'a>(objects: impl Iterator<Item = &'a kube_wire::RawObject>) -> Vec<String> {
    let line = |object: &kube_wire::RawObject| {
        let head = object.head();
        format!("{}/{} {} {}", head.namespace(), head.name(), head.uid(), head.resource_version())
    };
    let mut lines = objects.map(line).collect::<Vec<_>>();
    lines.sort();
    lines
}

fn play(server: &ScriptedSource, op: &Op, checkpoint: &mut Option<Checkpoint>) {
    let put = |key: usize| {
        let (namespace, name) = KEYS[key].split_once('/').unwrap();
        server.put(json!({"metadata": {"namespace": namespace, "name": name}}));
    };
    match op {
        Op::Put(key) => put(*key),
        Op::Delete(key) => drop(server.delete(KEYS[*key])),
        Op::Recreate(key) => {
            server.delete(KEYS[*key]);
            put(*key);
        }
        Op::Bookmark => server.bookmark(),
        Op::CloseWatches => server.close_watches(),
        Op::BreakWatches => server.break_watches(),
        Op::Compact => server.compact(),
        Op::Expire => server.send_error(expired()),
        Op::RefuseWatch => server.refuse_next_watch(),
        Op::CloseWatchAtOnce => server.close_next_watch_at_once(),
        Op::BreakList => server.break_next_list_after(1),
        Op::Checkpoint => *checkpoint = Some(server.checkpoint()),
        Op::Restore => {
            if let Some(checkpoint) = checkpoint {
                server.restore(checkpoint);
            }
        }
        Op::SupportWatchList(true) => server.support_watch_list(WatchListSupport::Full),
        Op::SupportWatchList(false) => server.support_watch_list(WatchListSupport::Refused),
        Op::Wait(_) => {}
    }
}

async fn run(ops: &[Op], watch_list: WatchList) {
    let server = ScriptedSource::new("v1", "Pod");
    let store = Arc::new(Store::new(StoreConfig::default().index(Index::namespace())).unwrap());
    let fifo = Arc::new(Fifo::new(store.clone()));
    let mut config = ReflectorConfig::default();
    (config.seed, config.watch_list) = (Some(7), watch_list);
    config.resync_period = Some(Duration::from_secs(60));
    let reflector = Reflector::new(Arc::new(server.clone()), fifo.clone(), SCOPE, config);
    let reflecting = tokio::spawn(reflector.run());
    let popping = tokio::spawn({
        let (fifo, store) = (fifo.clone(), store.clone());
        async move {
            let mut listener = Listener::default();
            while let Some(batch) = fifo.pop_batch().await {
                batch.apply(&store).changes().for_each(|change| listener.hear(&change));
                listener.check(&store.snapshot());
                batch.done();
            }
        }
    });
    let (mut checkpoint, mut restored) = (None, false);
    for op in ops {
        play(&server, op, &mut checkpoint);
        restored |= matches!(op, Op::Restore) && checkpoint.is_some();
        if let Op::Wait(milliseconds) = op {
            tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    if restored {
        // A watch from the future is silent for ever on a restored server; sooner or later it is told.
        server.send_error(expired());
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    let snapshot = store.snapshot();
    let stored = snapshot.iter().map(StoredObject::raw).collect::<Vec<_>>();
    assert_eq!(content(stored.iter()), content(server.objects().iter()), "promise 1: it converges");
    assert!(fifo.is_synced(SCOPE));
    fifo.close();
    popping.await.unwrap();
    reflecting.abort();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn promises_1_2_3_and_4_hold_whatever_the_server_does(
        ops in prop::collection::vec(op(), 1..60),
        streams in any::<bool>(),
    ) {
        let watch_list = if streams { WatchList::On } else { WatchList::Off };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(&ops, watch_list));
    }
}
