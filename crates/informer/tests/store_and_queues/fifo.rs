//! The rules of `Fifo`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use kube_informer::Index;
use kube_informer::Scope;
use kube_informer::building_blocks::{ChangeBatch, Store};
use kube_informer::building_blocks::{Delta, DeltaBatch, FifoConfig, Newest, Replace, Sink, SinkError};
use serde_json::json;

use super::support::*;

fn fifo() -> (Queue, Arc<Store>) {
    let store = Arc::new(Store::new(config().index(Index::namespace())).unwrap());
    (Queue::new(store.clone(), FifoConfig::default()), store)
}

fn small(deltas_max: usize) -> Queue {
    let mut config = FifoConfig::default();
    config.deltas_max = deltas_max;
    Queue::new(Arc::default(), config)
}

fn show(delta: &Delta) -> String {
    let object = |what: &str| {
        let object = delta.object().unwrap();
        format!("{what} {} {}", object.key(), object.resource_version())
    };
    match delta {
        Delta::Added(_) => object("added"),
        Delta::Updated(_) => object("updated"),
        Delta::Deleted(_) => object("deleted"),
        Delta::Bookmark { scope, resource_version } => format!("bookmark {} {resource_version}", scope.0),
        Delta::ReplacedAll(list) => format!("replaced {} {}", list.scope.0, list.resource_version),
        Delta::Sync(_) => object("sync"),
        _ => unreachable!(),
    }
}

fn shown(batch: &DeltaBatch) -> Vec<String> {
    batch.deltas().iter().map(show).collect()
}

/// Pops, applies and finishes one batch. Returns its changes.
#[track_caller]
fn process(fifo: &Queue, store: &Store) -> Vec<String> {
    let batch = now(fifo.take()).expect("the queue is open");
    let changes = lines(store.apply(batch.deltas()).changes().to_vec());
    batch.done();
    changes
}

/// All batches, as text.
fn drain(fifo: &Queue) -> Vec<Vec<String>> {
    let mut batches = Vec::new();
    while let Some(Some(batch)) = fifo.take().now_or_never() {
        batches.push(shown(&batch));
        batch.done();
    }
    batches
}

#[test]
fn order_is_strict_nothing_is_merged_and_unknown_deletions_are_delivered() {
    let (fifo, _) = fifo();
    add(&fifo, pod("foo", 10)).unwrap();
    update(&fifo, pod("foo", 12)).unwrap();
    remove(&fifo, pod("foo", 15)).unwrap();
    remove(&fifo, pod("foo", 15)).unwrap();
    remove(&fifo, pod("never-seen", 16)).unwrap();
    let popped = drain(&fifo).concat();
    assert_eq!(
        popped,
        ["added foo 10", "updated foo 12", "deleted foo 15", "deleted foo 15", "deleted never-seen 16"]
    );
    assert!(fifo.is_empty());
}

#[test]
fn a_list_is_one_delta_with_its_version_and_bookmarks_are_deltas() {
    let (fifo, store) = fifo();
    replace_in(&fifo, A, vec![pod("a", 1), pod("b", 2)], "10");
    add(&fifo, pod("c", 11)).unwrap();
    now(fifo.bookmark(A, "12")).unwrap();
    assert_eq!(
        drain(&fifo),
        [vec!["replaced 0 10"], vec!["added c 11", "bookmark 0 12"]]
            .map(|batch| batch.into_iter().map(str::to_owned).collect::<Vec<_>>())
    );
    assert!(store.is_empty(), "popping alone stores nothing");
}

#[test]
fn a_batch_has_up_to_a_thousand_deltas() {
    let (fifo, _) = fifo();
    for at in 0..2500 {
        add(&fifo, pod(&format!("ns/{at}"), at + 1)).unwrap();
    }
    assert_eq!(drain(&fifo).iter().map(Vec::len).collect::<Vec<_>>(), [1000, 1000, 500]);
}

#[test]
fn a_batch_has_unique_keys() {
    let (fifo, _) = fifo();
    for (key, version) in [("a", 1), ("b", 2), ("b", 3), ("c", 4), ("a", 5), ("a", 6)] {
        update(&fifo, pod(key, version)).unwrap();
    }
    let batches = drain(&fifo);
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [2, 3, 1]);
}

#[test]
fn a_batch_never_crosses_the_end_of_the_initial_list() {
    let (fifo, store) = fifo();
    replace_in(&fifo, A, vec![pod("a", 1), pod("b", 2)], "10");
    update(&fifo, pod("c", 11)).unwrap();
    assert_eq!(process(&fifo, &store), ["initial: added a 1", "initial: added b 2"]);
    assert!(fifo.is_synced(A));
    assert_eq!(process(&fifo, &store), ["live: added c 11"]);
}

#[test]
fn promise_4_a_batch_is_in_the_store_and_its_indexes_before_listeners_are_notified() {
    let (fifo, store) = fifo();
    for at in 0..100 {
        add(&fifo, pod(&format!("ns/{at}"), at + 1)).unwrap();
    }
    let batch = now(fifo.take()).unwrap();
    let before = store.snapshot();
    assert_eq!(store.apply(batch.deltas()).changes().len(), 100);
    assert_eq!((before.len(), store.len()), (0, 100));
    assert_eq!(store.by_index("namespace", "ns").unwrap().len(), 100);
    assert_eq!(store.resource_version(A), "100");
    batch.done();
}

#[test]
fn applying_a_replace_reports_deletions_then_new_and_changed_objects_in_list_order() {
    let (fifo, store) = fifo();
    replace_in(&fifo, A, vec![pod("a", 1), pod("b", 2), pod("c", 3)], "10");
    process(&fifo, &store);
    let recreated = pod_with("c", 12, &json!({"metadata": {"uid": "other"}}));
    replace_in(&fifo, A, vec![pod("z", 13), recreated, pod("a", 11)], "14");
    assert_eq!(
        process(&fifo, &store),
        [
            "relist: vanished b 2",
            "relist: vanished c 3",
            "relist: added z 13",
            "relist: added c 12",
            "relist: updated a 1 -> 11",
        ]
    );
}

#[test]
fn an_unchanged_relist_reports_nothing() {
    let (fifo, store) = fifo();
    for version in ["10", "11"] {
        replace_in(&fifo, A, vec![pod("a", 1), pod("b", 2)], version);
        let batch = now(fifo.take()).unwrap();
        let changes = store.apply(batch.deltas());
        let ChangeBatch::List(list) = &changes else { panic!() };
        assert_eq!((changes.changes().is_empty(), list.initial), (version == "11", version == "10"));
        batch.done();
    }
    assert_eq!(store.resource_version(A), "11");
}

#[test]
fn a_resync_delivers_everything_in_its_scope_again() {
    let (fifo, store) = fifo();
    replace_in(&fifo, A, vec![pod("a", 1), pod("b", 2)], "10");
    replace_in(&fifo, B, vec![pod("c", 3)], "10");
    process(&fifo, &store);
    process(&fifo, &store);
    now(fifo.resync(A)).unwrap();
    let mut changes = process(&fifo, &store);
    changes.sort();
    assert_eq!(changes, ["resync: updated a 1 -> 1", "resync: updated b 2 -> 2"]);
    let stale = Delta::Sync(stored(pod("a", 1)));
    let changes = apply(&store, [Delta::Updated(stored(pod("a", 11))), stale]);
    assert_eq!(lines(changes), ["live: updated a 1 -> 11"], "a has changed since");
}

#[test]
fn an_empty_first_replace_must_be_processed_before_it_counts_as_synced() {
    let (fifo, store) = fifo();
    replace_in(&fifo, A, vec![], "10");
    assert!(!fifo.is_synced(A));
    let batch = now(fifo.take()).unwrap();
    store.apply(batch.deltas());
    assert!(!fifo.is_synced(A), "popped and applied is not yet processed");
    batch.done();
    assert!(fifo.is_synced(A));
    assert!(!fifo.is_synced(B), "each scope has its own state");
}

#[test]
fn changes_before_the_first_replace_do_not_count_as_synced() {
    let (fifo, store) = fifo();
    add(&fifo, pod("a", 1)).unwrap();
    process(&fifo, &store);
    assert!(!fifo.is_synced(A));
}

#[tokio::test(start_paused = true)]
async fn synced_can_be_awaited_and_closing_the_queue_ends_the_wait() {
    let (fifo, store) = fifo();
    let waiting = tokio::spawn({
        let fifo = fifo.clone();
        async move { fifo.synced(A).await }
    });
    tokio::task::yield_now().await;
    replace_in(&fifo, A, vec![pod("a", 1)], "10");
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    process(&fifo, &store);
    assert_eq!(waiting.await.unwrap(), Ok(()));
    fifo.close();
    assert_eq!(fifo.synced(A).await, Ok(()), "the scope stays synced");
    assert_eq!(fifo.synced(B).await, Err(SinkError::Closed));
}

#[test]
fn a_full_queue_blocks_writers_until_something_is_popped() {
    let fifo = small(2);
    add(&fifo, pod("a", 1)).unwrap();
    add(&fifo, pod("b", 2)).unwrap();
    let mut third = Box::pin(fifo.add(A, pod("c", 3)));
    assert!((&mut third).now_or_never().is_none());
    assert!(fifo.bookmark(A, "4").now_or_never().is_none());
    assert_eq!(fifo.len(), 2, "a dropped writer adds nothing");
    now(fifo.take()).unwrap().done();
    assert_eq!(now(&mut third), Ok(()));
    assert_eq!(drain(&fifo).concat(), ["added c 3"]);
}

#[test]
fn a_queue_is_also_limited_in_bytes_but_accepts_one_object_of_any_size() {
    let mut config = FifoConfig::default();
    config.bytes_max = 100;
    let fifo = Queue::new(Arc::default(), config);
    let large = |key: &str| pod_with(key, 1, &json!({"spec": "x".repeat(1000)}));
    add(&fifo, large("a")).unwrap();
    assert!(fifo.add(A, pod("b", 1)).now_or_never().is_none());
    let batch = now(fifo.take()).unwrap();
    add(&fifo, large("c")).unwrap();
    drop(batch);
    assert!(fifo.add(A, pod("b", 1)).now_or_never().is_none());
}

#[test]
fn a_replace_begins_once_everything_before_it_in_its_scope_is_processed() {
    let (fifo, store) = fifo();
    replace_in(&fifo, A, vec![pod("a", 1)], "10");
    assert!(fifo.begin_replace(A).now_or_never().is_none());
    let mut replace = Box::pin(fifo.begin_replace(A));
    assert!((&mut replace).now_or_never().is_none());
    assert!(fifo.begin_replace(B).now_or_never().is_some(), "another scope has nothing to wait for");
    let batch = now(fifo.take()).unwrap();
    store.apply(batch.deltas());
    assert!((&mut replace).now_or_never().is_none());
    batch.done();
    let mut replace = now(replace).unwrap();
    replace.put(pod("a", 1)).unwrap();
    now(replace.commit("11")).unwrap();
    assert_eq!(process(&fifo, &store), [""; 0], "compared with what was processed");
}

#[test]
fn a_dropped_replace_changes_nothing() {
    let (fifo, store) = fifo();
    replace_in(&fifo, A, vec![pod("a", 1)], "10");
    process(&fifo, &store);
    let mut replace = now(fifo.begin_replace(A)).unwrap();
    replace.put(pod("b", 2)).unwrap();
    drop(replace);
    assert!(fifo.is_empty());
    add(&fifo, pod("c", 11)).unwrap();
    assert_eq!(process(&fifo, &store), ["live: added c 11"]);
    assert_eq!(snapshot_content(&store.snapshot()), ["a 1", "c 11"]);
}

#[test]
fn commit_reports_a_new_epoch() {
    let (fifo, store) = fifo();
    assert!(!replace_in(&fifo, A, vec![pod("a", 8)], "10").new_epoch);
    process(&fifo, &store);
    assert!(replace_in(&fifo, A, vec![pod("a", 8)], "9").new_epoch);
    process(&fifo, &store);
    assert!(replace_in(&fifo, A, vec![pod("a", 7)], "12").new_epoch);
    process(&fifo, &store);
    assert_eq!(store.snapshot().epoch(A), 2);
}

#[test]
fn a_batch_that_is_not_done_is_popped_again_in_the_same_order() {
    let (fifo, store) = fifo();
    for (key, version) in [("a", 1), ("b", 2), ("c", 3)] {
        add(&fifo, pod(key, version)).unwrap();
    }
    let cancelled = now(fifo.take()).unwrap();
    add(&fifo, pod("d", 4)).unwrap();
    assert!(fifo.take().now_or_never().is_none(), "one batch is out at a time");
    drop(cancelled);
    assert_eq!(
        process(&fifo, &store),
        ["live: added a 1", "live: added b 2", "live: added c 3", "live: added d 4"]
    );
}

#[test]
fn a_batch_whose_processor_panics_is_popped_again() {
    let (fifo, store) = fifo();
    replace_in(&fifo, A, vec![pod("a", 1)], "10");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let batch = now(fifo.take()).unwrap();
        store.apply(batch.deltas());
        panic!("in the processor");
    }));
    assert!(panicked.is_err());
    assert!(!fifo.is_synced(A));
    assert_eq!(process(&fifo, &store), ["initial: added a 1"]);
    assert!(fifo.is_synced(A));
    assert_eq!(snapshot_content(&store.snapshot()), ["a 1"], "applied twice, which is harmless");
}

#[test]
fn a_closed_queue_rejects_writes_and_can_be_drained() {
    let (fifo, _) = fifo();
    let open = now(fifo.begin_replace(B)).unwrap();
    add(&fifo, pod("a", 1)).unwrap();
    fifo.close();
    assert_eq!(add(&fifo, pod("b", 2)), Err(SinkError::Closed));
    assert_eq!(now(fifo.resync(A)), Err(SinkError::Closed));
    assert_eq!(now(fifo.begin_replace(A)).map(drop), Err(SinkError::Closed));
    assert_eq!(now(open.commit("1")), Err(SinkError::Closed));
    assert_eq!(drain(&fifo).concat(), ["added a 1"]);
    assert!(now(fifo.take()).is_none());
}

#[tokio::test(start_paused = true)]
async fn close_wakes_all_callers() {
    let fifo = small(1);
    add(&fifo, pod("a", 1)).unwrap();
    let out = now(fifo.take()).unwrap();
    add(&fifo, pod("b", 2)).unwrap();
    let spawn_pop = || {
        let fifo = fifo.clone();
        tokio::spawn(async move { fifo.take().await.map(DeltaBatch::done) })
    };
    let pops = [spawn_pop(), spawn_pop(), spawn_pop()];
    let write = tokio::spawn({
        let fifo = fifo.clone();
        async move { fifo.add(A, pod("c", 3)).await }
    });
    tokio::task::yield_now().await;
    fifo.close();
    assert_eq!(write.await.unwrap(), Err(SinkError::Closed));
    out.done();
    let mut popped = 0;
    for pop in pops {
        popped += usize::from(pop.await.unwrap().is_some());
    }
    assert_eq!(popped, 1, "the pending batch, then the end");
}

#[test]
fn an_object_that_cannot_be_stored_is_rejected_and_affects_nothing_else() {
    let (fifo, store) = fifo();
    let nameless = || raw(&json!({"metadata": {"namespace": "web"}}));
    let refused = add(&fifo, nameless()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot store object `web/`: it needs a name, and neither name nor namespace may contain a slash"
    );
    let mut replace = now(fifo.begin_replace(A)).unwrap();
    assert!(matches!(replace.put(nameless()), Err(SinkError::Rejected { .. })));
    replace.put(pod("web/api", 1)).unwrap();
    now(replace.commit("10")).unwrap();
    assert_eq!(process(&fifo, &store), ["initial: added web/api 1"]);
}

#[test]
fn the_order_of_each_of_two_producers_is_kept() {
    let (fifo, _) = fifo();
    for at in 0..500 {
        now(fifo.add(A, pod(&format!("a-{at}"), at + 1))).unwrap();
        now(fifo.add(B, pod(&format!("b-{at}"), at + 1))).unwrap();
    }
    let popped = drain(&fifo).concat();
    for prefix in ["added a-", "added b-"] {
        let numbers = popped
            .iter()
            .filter_map(|line| line.strip_prefix(prefix)?.split(' ').next()?.parse::<u32>().ok());
        assert!(numbers.is_sorted());
    }
    assert_eq!(popped.len(), 1000);
    assert_eq!(Scope::default(), A);
}

#[test]
fn the_newest_object_of_a_scope_is_known_once_everything_is_processed() {
    let (fifo, store) = fifo();
    let scope = Scope::default();
    assert!(matches!(now(fifo.newest(scope)), Ok(Newest::Empty)));
    for (key, version) in [("web/a", 9), ("web/b", 100), ("web/c", 20)] {
        now(fifo.add(scope, pod(key, version))).unwrap();
    }
    now(fifo.add(Scope(1), pod("other/d", 200))).unwrap();
    assert!(fifo.newest(scope).now_or_never().is_none(), "`newest` waits until the queue is processed");
    while !fifo.is_empty() {
        process(&fifo, &store);
    }
    let Ok(Newest::Object { object, .. }) = now(fifo.newest(scope)) else { panic!() };
    assert_eq!((object.name(), object.resource_version()), ("b", "100"), "by number, and of this scope");
    fifo.close();
    assert!(matches!(now(fifo.newest(scope)), Err(SinkError::Closed)));
}

#[tokio::test(start_paused = true)]
async fn free_capacity_wakes_one_writer_and_a_scope_its_own_waiters() {
    const WRITERS: usize = 40;
    let fifo = small(1);
    add(&fifo, pod("first", 1)).unwrap();
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        let fifo = fifo.clone();
        let write = async move { fifo.add(A, pod(&format!("pod-{number}"), 2)).await };
        let (write, polls) = counted(write);
        writers.push((tokio::spawn(write), polls));
    }
    let (synced, synced_polls) = counted({
        let fifo = fifo.clone();
        async move { fifo.synced(B).await }
    });
    let synced = tokio::spawn(synced);
    tokio::task::yield_now().await;
    for _ in 0..=WRITERS {
        fifo.take().await.unwrap().done();
        tokio::task::yield_now().await;
    }
    let mut polls = 0;
    for (writer, polled) in writers {
        writer.await.unwrap().unwrap();
        polls += polled.load(Ordering::Relaxed);
    }
    assert!(polls <= 4 * WRITERS, "{polls} polls of {WRITERS} writers");
    assert_eq!(synced_polls.load(Ordering::Relaxed), 1, "nothing of its scope was processed");
    replace_in(&fifo, B, vec![], "10");
    now(fifo.take()).unwrap().done();
    synced.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_woken_writer_that_is_dropped_wakes_the_next() {
    let fifo = small(1);
    add(&fifo, pod("first", 1)).unwrap();
    let mut gives_up = Box::pin(fifo.add(A, pod("second", 2)));
    assert!((&mut gives_up).now_or_never().is_none());
    let waits = tokio::spawn({
        let fifo = fifo.clone();
        async move { fifo.add(A, pod("third", 3)).await }
    });
    tokio::task::yield_now().await;
    now(fifo.take()).unwrap().done();
    drop(gives_up);
    waits.await.unwrap().unwrap();
    assert_eq!(drain(&fifo).concat(), ["added third 3"]);
}
