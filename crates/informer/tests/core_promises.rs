//! Source, reflector, queue and store together, under random sequences of changes, broken connections, expiries, restores
//! and relists. An independent model follows the reported changes; at the end everything must match the server.

use crate::support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_informer::Index;
use kube_informer::Key;
use kube_informer::Scope;
use kube_informer::StoredObject;
use kube_informer::WatchList;
use kube_informer::building_blocks::StoreSink;
use kube_informer::building_blocks::compare_resource_versions as compare;
use kube_informer::building_blocks::{Change, ChangeBatch, Snapshot, Store, StoreConfig};
use kube_informer::building_blocks::{Fifo, FifoConfig};
use kube_informer::building_blocks::{Reflector, ReflectorConfig};
use kube_informer::testing::{Checkpoint, ScriptedSource, WatchListSupport};
use kube_wire::Status;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

/// An event on the server or the network.
#[derive(Clone, Debug)]
enum Step {
    Put { name: u8, team: u8 },
    Delete { name: u8 },
    Recreate { name: u8 },
    CloseWatches,
    BreakWatches,
    EventError(u16),
    UnreadableEvent,
    RepeatLast,
    FailNextList(u16),
    BreakNextList(usize),
    FailNextWatch(u16),
    Compact,
    Checkpoint,
    Restore,
    Bookmark,
    WatchList(WatchListSupport),
    Wait(u16),
    Snapshot,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..6_u8;
    let code = prop::sample::select(vec![403_u16, 410, 429, 500, 503, 504]);
    let support = prop::sample::select(vec![
        WatchListSupport::Full,
        WatchListSupport::Refused,
        WatchListSupport::Ignored,
        WatchListSupport::ClosesEarly,
    ]);
    prop_oneof![
        8 => (name.clone(), 0..3_u8).prop_map(|(name, team)| Step::Put { name, team }),
        3 => name.clone().prop_map(|name| Step::Delete { name }),
        2 => name.prop_map(|name| Step::Recreate { name }),
        1 => Just(Step::CloseWatches),
        2 => Just(Step::BreakWatches),
        1 => code.clone().prop_map(Step::EventError),
        1 => Just(Step::UnreadableEvent),
        1 => Just(Step::RepeatLast),
        1 => code.clone().prop_map(Step::FailNextList),
        1 => (0..5_usize).prop_map(Step::BreakNextList),
        1 => code.prop_map(Step::FailNextWatch),
        2 => Just(Step::Compact),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Restore),
        1 => Just(Step::Bookmark),
        1 => support.prop_map(Step::WatchList),
        6 => (0..5_000_u16).prop_map(Step::Wait),
        2 => Just(Step::Snapshot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_store_converges_never_regresses_reports_every_change_and_snapshots_are_immutable(
        steps in prop::collection::vec(step(), 1..60),
        watch_list in any::<bool>(),
        page_size in prop::option::of(1..4_u32),
        seed in any::<u64>(),
    ) {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(run(steps, watch_list, page_size, seed));
    }
}

async fn run(steps: Vec<Step>, watch_list: bool, page_size: Option<u32>, seed: u64) {
    let source = ScriptedSource::new("v1", "Pod");
    let store = Arc::new(
        Store::new(StoreConfig::default().index(Index::label("team", "team")).memory(support::memory()))
            .unwrap(),
    );
    let fifo = Fifo::new(FifoConfig::default());
    let sink = Arc::new(StoreSink::new(fifo.clone(), store.clone()));
    let mut config = ReflectorConfig::default();
    config.seed = Some(seed);
    config.page_size = page_size;
    config.watch_list = if watch_list { WatchList::On } else { WatchList::Off };
    let reflector = Reflector::new(Arc::new(source.clone()), sink, Scope::default(), config);
    let reflecting = tokio::spawn(reflector.run());
    let (applied_to, queue) = (store.clone(), fifo.clone());
    let applying = tokio::spawn(async move {
        let mut model = Model::default();
        while let Some(batch) = queue.take().await {
            let changes = applied_to.apply(batch.deltas());
            model.receives(&changes, &applied_to);
            batch.done();
        }
        model
    });

    let mut checkpoint: Option<Checkpoint> = None;
    let mut pinned = Vec::new();
    for step in steps {
        play(step, &source, &store, &mut checkpoint, &mut pinned).await;
    }
    converges(&source, &store).await;

    fifo.close();
    let model = applying.await.unwrap();
    reflecting.abort();
    assert_eq!(model.view, contents(&store.snapshot()), "promise 3: every change was reported");
    for (snapshot, taken) in pinned {
        assert_eq!(contents(&snapshot), taken, "promise 8: a snapshot is one moment");
    }
}

async fn play(
    step: Step,
    source: &ScriptedSource,
    store: &Store,
    checkpoint: &mut Option<Checkpoint>,
    pinned: &mut Vec<(Snapshot, Contents)>,
) {
    let refusal = |code: u16| Status::from_response(code, "text/plain", None, b"for a test");
    let pod = |name: u8, team: u8| json!({"metadata": {"namespace": "web", "name": format!("p{name}"), "labels": {"team": format!("t{team}")}}});
    match step {
        Step::Put { name, team } => drop(source.put(pod(name, team))),
        Step::Delete { name } => drop(source.delete(&format!("web/p{name}"))),
        Step::Recreate { name } => {
            source.delete(&format!("web/p{name}"));
            source.put(pod(name, 0));
        }
        Step::CloseWatches => source.close_watches(),
        Step::BreakWatches => source.break_watches(),
        Step::EventError(code) => source.send_error(refusal(code)),
        Step::UnreadableEvent => source.send_unreadable_event(),
        Step::RepeatLast => {
            if let Some(object) = source.objects().pop() {
                source.send(&kube_wire::WatchEvent::Modified(object));
            }
        }
        Step::FailNextList(code) => source.fail_next_list(refusal(code)),
        Step::BreakNextList(items) => source.break_next_list_after(items),
        Step::FailNextWatch(code) => source.fail_next_watch(refusal(code)),
        Step::Compact => source.compact(),
        Step::Checkpoint => *checkpoint = Some(source.checkpoint()),
        Step::Restore => {
            if let Some(checkpoint) = checkpoint {
                source.restore(checkpoint);
                // A restored server does not know future versions: a watch from one must fail, not stay silent.
                source.fail_next_watch(refusal(410));
            }
        }
        Step::Bookmark => source.bookmark(),
        Step::WatchList(support) => source.support_watch_list(support),
        Step::Wait(milliseconds) => {
            tokio::time::sleep(Duration::from_millis(milliseconds.into())).await; // paused time: nothing sleeps
        }
        Step::Snapshot => {
            let snapshot = store.snapshot();
            let taken = contents(&snapshot);
            pinned.push((snapshot, taken));
        }
    }
}

/// Promise 1. The server is quiet from now on; an hour is longer than any back-off.
async fn converges(source: &ScriptedSource, store: &Store) {
    let server = || {
        let objects = source.objects();
        objects
            .iter()
            .map(|object| (Key::of_head(&object.head()), object.head().resource_version().to_owned()))
            .collect()
    };
    let expected: BTreeMap<Key, String> = server();
    let started = Instant::now();
    loop {
        let shown = store
            .snapshot()
            .iter()
            .map(|object| (object.key(), object.resource_version().to_owned()))
            .collect();
        if expected == shown {
            return;
        }
        assert!(
            started.elapsed() < Duration::from_secs(3600),
            "promise 1: {shown:?} never became {expected:?}"
        );
        tokio::time::sleep(Duration::from_secs(1)).await; // paused time: nothing sleeps
    }
}

/// Key → uid, resourceVersion and hash.
type Contents = BTreeMap<Key, (String, String, u64)>;

fn contents(snapshot: &Snapshot) -> Contents {
    snapshot.iter().map(|object| (object.key(), identity(object))).collect()
}

fn identity(object: &StoredObject) -> (String, String, u64) {
    (object.uid().to_owned(), object.resource_version().to_owned(), object.content_hash())
}

/// The state of a listener that knows only the reported changes.
#[derive(Default)]
struct Model {
    view: Contents,
    epoch: u64,
}

impl Model {
    fn receives(&mut self, changes: &ChangeBatch, store: &Store) {
        let epoch = store.snapshot().epoch(Scope::default());
        let same_epoch = epoch == self.epoch;
        self.epoch = epoch;
        for change in changes.changes() {
            self.receives_change(change, same_epoch);
        }
        assert_eq!(
            self.view,
            contents(&store.snapshot()),
            "promise 4: the store shows exactly the reported changes"
        );
        self.check_indexes(store);
    }

    fn receives_change(&mut self, change: &Change, same_epoch: bool) {
        let key = change.object().key();
        match change {
            Change::Added { object, .. } => {
                let known = self.view.insert(key, identity(object));
                assert_eq!(known, None, "promise 3: added, but known");
            }
            Change::Updated { old, new, .. } => {
                let known = self.view.insert(key, identity(new));
                assert_eq!(known, Some(identity(old)), "promise 3: updated, but from another state");
                assert_eq!(old.uid(), new.uid(), "promise 3: another object is not an update");
                if same_epoch {
                    let order = compare(old.resource_version(), new.resource_version());
                    assert!(order.is_none_or(|order| order.is_le()), "promise 2: went back");
                }
            }
            Change::Deleted { last, .. } => {
                let known = self.view.remove(&key);
                assert_eq!(
                    known.map(|known| known.0),
                    Some(last.uid().to_owned()),
                    "promise 3: deleted, but unknown"
                );
            }
        }
    }

    /// Indexes equal a scan of all objects.
    fn check_indexes(&self, store: &Store) {
        let snapshot = store.snapshot();
        for team in ["t0", "t1", "t2"] {
            let mut by_index =
                snapshot.by_index("team", team).unwrap().map(|object| object.key()).collect::<Vec<_>>();
            let mut by_looking = snapshot
                .iter()
                .filter(|object| object.labels().get("team").as_deref() == Some(team))
                .map(StoredObject::key)
                .collect::<Vec<_>>();
            by_index.sort();
            by_looking.sort();
            assert_eq!(by_index, by_looking);
        }
    }
}
