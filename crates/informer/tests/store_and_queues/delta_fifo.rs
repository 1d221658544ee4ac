//! The rules of `DeltaFifo`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use kube_informer::Scope;
use kube_informer::building_blocks::{
    Delta, DeltaFifo, DeltaFifoConfig, Newest, Popped, Replace, Sink, SinkError, Store,
};
use serde_json::json;

use super::support::*;

fn without_known_objects() -> DeltaFifo {
    DeltaFifo::new(DeltaFifoConfig::default())
}

/// A queue whose reader has these objects.
fn with_known_objects(objects: &[(&str, u64)]) -> DeltaFifo {
    let store = new_store();
    for (key, version) in objects {
        put(&store, pod(key, *version));
    }
    with_store(Arc::new(store))
}

fn with_store(store: Arc<Store>) -> DeltaFifo {
    let mut config = DeltaFifoConfig::default();
    config.known_objects = Some(store);
    DeltaFifo::new(config)
}

pub(crate) fn show(delta: &Delta) -> String {
    let kind = match delta {
        Delta::Added(_) => "added",
        Delta::Updated(_) => "updated",
        Delta::Deleted(_) => "deleted",
        Delta::DeletedUnread(_) => "deleted unread",
        Delta::Vanished(_) => "vanished",
        Delta::Replaced(_) => "replaced",
        Delta::Sync(_) => "sync",
        _ => unreachable!(),
    };
    format!("{kind} {}", delta.object().unwrap().resource_version())
}

/// `key: deltas`.
pub(crate) fn shown(popped: &Popped) -> String {
    let deltas = popped.deltas().iter().map(show).collect::<Vec<_>>();
    format!("{}: {}", popped.key(), deltas.join(", "))
}

#[track_caller]
fn pop(fifo: &DeltaFifo) -> String {
    let popped = now(fifo.pop()).expect("the queue is open");
    let text = shown(&popped);
    popped.done();
    text
}

fn drain(fifo: &DeltaFifo) -> Vec<String> {
    std::iter::from_fn(|| (!fifo.is_empty()).then(|| pop(fifo))).collect()
}

#[test]
fn keys_pop_in_first_queued_order_with_all_their_deltas() {
    let fifo = without_known_objects();
    for (key, version) in [("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)] {
        add(&fifo, pod(key, version)).unwrap();
    }
    assert_eq!(pop(&fifo), "foo: added 10, added 11, added 13");
    add(&fifo, pod("foo", 14)).unwrap();
    assert_eq!(drain(&fifo), ["bar: added 1", "zab: added 30", "foo: added 14"], "keys keep their order");
}

#[test]
fn one_key_collects_all_its_deltas() {
    let fifo = without_known_objects();
    add(&fifo, pod("foo", 10)).unwrap();
    update(&fifo, pod("foo", 12)).unwrap();
    remove(&fifo, pod("foo", 15)).unwrap();
    assert_eq!(drain(&fifo), ["foo: added 10, updated 12, deleted 15"]);
}

#[test]
fn two_adjacent_deletions_merge_keeping_the_real_one_and_the_older_of_two_real_ones() {
    let cases: [(&[&str], &str); 4] = [
        (&["delete 5", "delete 6"], "foo: added 1, deleted 5"),
        (&["vanish", "delete 6"], "foo: added 1, deleted 6"),
        (&["delete 5", "vanish"], "foo: added 1, deleted 5"),
        (&["vanish", "vanish"], "foo: added 1, vanished 1"),
    ];
    for (steps, expected) in cases {
        let fifo = without_known_objects();
        add(&fifo, pod("foo", 1)).unwrap();
        for step in steps {
            match step.strip_prefix("delete ") {
                Some(version) => remove(&fifo, pod("foo", version.parse().unwrap())).unwrap(),
                None => drop(replace_in(&fifo, A, vec![], "9")),
            }
        }
        assert_eq!(drain(&fifo), [expected], "{steps:?}");
    }
}

#[test]
fn a_deletion_is_dropped_when_the_key_is_neither_queued_nor_known() {
    let fifo = without_known_objects();
    add(&fifo, pod("qux", 17)).unwrap();
    remove(&fifo, pod("qux", 18)).unwrap();
    remove(&fifo, pod("baz", 20)).unwrap();
    assert_eq!(drain(&fifo), ["qux: added 17, deleted 18"]);

    let fifo = with_known_objects(&[("baz", 7)]);
    remove(&fifo, pod("baz", 20)).unwrap();
    remove(&fifo, pod("other", 20)).unwrap();
    assert_eq!(drain(&fifo), ["baz: deleted 20"]);
}

#[test]
fn a_deletion_is_kept_while_what_it_deletes_is_being_processed() {
    let fifo = without_known_objects();
    add(&fifo, pod("foo", 1)).unwrap();
    let popped = now(fifo.pop()).unwrap();
    remove(&fifo, pod("foo", 2)).unwrap();
    popped.done();
    assert_eq!(drain(&fifo), ["foo: deleted 2"]);

    add(&fifo, pod("foo", 3)).unwrap();
    let popped = now(fifo.pop()).unwrap();
    replace_in(&fifo, A, vec![], "9");
    popped.done();
    assert_eq!(drain(&fifo), ["foo: vanished 3"]);
}

#[test]
fn a_replace_queues_its_items_then_tombstones_for_queued_and_known_keys_that_are_missing() {
    let known = [("foo", 5), ("bar", 6), ("baz", 7)];
    let fifo = with_known_objects(&known);
    remove(&fifo, pod("baz", 10)).unwrap();
    replace_in(&fifo, A, vec![pod("foo", 5)], "11");
    assert_eq!(drain(&fifo), ["baz: deleted 10", "foo: replaced 5", "bar: vanished 6"]);

    let fifo = with_known_objects(&known);
    add(&fifo, pod("baz", 10)).unwrap();
    replace_in(&fifo, A, vec![pod("foo", 5)], "11");
    assert_eq!(drain(&fifo), ["baz: added 10, vanished 10", "foo: replaced 5", "bar: vanished 6"]);

    let fifo = with_known_objects(&known);
    remove(&fifo, pod("bar", 6)).unwrap();
    add(&fifo, pod("bar", 100)).unwrap();
    replace_in(&fifo, A, vec![pod("foo", 5)], "101");
    let newest = "bar: deleted 6, added 100, vanished 100";
    assert_eq!(drain(&fifo), [newest, "foo: replaced 5", "baz: vanished 7"]);

    let fifo = with_known_objects(&known);
    replace_in(&fifo, A, vec![pod("bar", 100), pod("foo", 5)], "101");
    replace_in(&fifo, A, vec![pod("foo", 5)], "102");
    assert_eq!(
        drain(&fifo),
        ["bar: replaced 100, vanished 100", "foo: replaced 5, replaced 5", "baz: vanished 7"]
    );

    let fifo = without_known_objects();
    add(&fifo, pod("baz", 10)).unwrap();
    replace_in(&fifo, A, vec![pod("foo", 5)], "11");
    assert_eq!(drain(&fifo), ["baz: added 10, vanished 10", "foo: replaced 5"]);
}

#[test]
fn an_unreadable_listed_object_is_not_reported_as_deleted() {
    let fifo = with_known_objects(&[("foo", 5), ("bar", 6)]);
    add(&fifo, pod("baz", 10)).unwrap();
    let mut full = now(fifo.begin_replace(A)).unwrap();
    ["bar", "baz"].iter().for_each(|key| full.keep(&key.parse().unwrap()));
    now(full.commit("11")).unwrap();
    assert_eq!(drain(&fifo), ["baz: added 10", "foo: vanished 5"]);
}

#[test]
fn a_deletion_without_a_final_state_has_the_last_known_state() {
    let fifo = with_known_objects(&[("foo", 5)]);
    add(&fifo, pod("bar", 6)).unwrap();
    for key in ["foo", "bar", "never-there"] {
        now(fifo.delete_unread(A, &key.parse().unwrap())).unwrap();
    }
    assert_eq!(drain(&fifo), ["bar: added 6, deleted unread 6", "foo: deleted unread 5"]);
}

#[test]
fn a_replace_after_a_queued_deletion_queues_both() {
    let fifo = with_known_objects(&[("foo", 1)]);
    remove(&fifo, pod("foo", 1)).unwrap();
    replace_in(&fifo, A, vec![pod("foo", 2)], "3");
    assert_eq!(drain(&fifo), ["foo: deleted 1, replaced 2"]);
}

#[test]
fn a_replace_deletes_queued_objects_that_are_missing_and_only_once() {
    type Steps = fn(&DeltaFifo);
    let cases: [(Steps, &str); 6] = [
        (|fifo| drop((add(fifo, pod("foo", 2)), replace_in(fifo, A, vec![], "9"))), "added 2, vanished 2"),
        (
            |fifo| {
                add(fifo, pod("foo", 2)).unwrap();
                replace_in(fifo, A, vec![pod("foo", 2)], "8");
                replace_in(fifo, A, vec![], "9");
            },
            "added 2, replaced 2, vanished 2",
        ),
        (
            |fifo| {
                add(fifo, pod("foo", 2)).unwrap();
                remove(fifo, pod("foo", 2)).unwrap();
                replace_in(fifo, A, vec![], "9");
            },
            "added 2, deleted 2",
        ),
        (
            |fifo| {
                add(fifo, pod("foo", 2)).unwrap();
                replace_in(fifo, A, vec![pod("foo", 2)], "7");
                replace_in(fifo, A, vec![pod("foo", 2)], "8");
                replace_in(fifo, A, vec![], "9");
            },
            "added 2, replaced 2, replaced 2, vanished 2",
        ),
        (
            |fifo| {
                add(fifo, pod("foo", 2)).unwrap();
                replace_in(fifo, A, vec![], "8");
                replace_in(fifo, A, vec![], "9");
            },
            "added 2, vanished 2",
        ),
        (
            |fifo| {
                add(fifo, pod("foo", 2)).unwrap();
                remove(fifo, pod("foo", 2)).unwrap();
                add(fifo, pod("foo", 3)).unwrap();
                replace_in(fifo, A, vec![], "9");
            },
            "added 2, deleted 2, added 3, vanished 3",
        ),
    ];
    for (steps, expected) in cases {
        for fifo in [with_known_objects(&[]), without_known_objects()] {
            steps(&fifo);
            assert_eq!(drain(&fifo), [format!("foo: {expected}")]);
        }
    }
}

#[test]
fn the_last_of_several_objects_with_one_key_in_a_replace_counts() {
    let fifo = without_known_objects();
    let mut replace = now(fifo.begin_replace(A)).unwrap();
    for (key, version) in [("a", 1), ("b", 2), ("a", 3), ("c", 4)] {
        replace.put(pod(key, version)).unwrap();
    }
    replace.remove(&"c".parse().unwrap());
    now(replace.commit("9")).unwrap();
    assert_eq!(drain(&fifo), ["b: replaced 2", "a: replaced 3"]);
    assert!(fifo.is_synced(A));
}

#[test]
fn a_replace_and_a_resync_touch_their_own_scope_only() {
    let store = Arc::new(new_store());
    let fifo = with_store(store.clone());
    replace(&store, A, vec![pod("a/known", 1)], "5");
    replace(&store, B, vec![pod("b/known", 2)], "5");
    now(fifo.add(B, pod("b/queued", 6))).unwrap();
    replace_in(&fifo, A, vec![], "7");
    now(fifo.resync(B)).unwrap();
    assert_eq!(drain(&fifo), ["b/queued: added 6", "a/known: vanished 1", "b/known: sync 2"]);
}

#[test]
fn a_resync_delivers_each_known_key_that_is_not_queued() {
    let fifo = with_known_objects(&[("foo", 5), ("bar", 6), ("gone", 7)]);
    update(&fifo, pod("foo", 8)).unwrap();
    remove(&fifo, pod("gone", 9)).unwrap();
    now(fifo.resync(A)).unwrap();
    assert_eq!(drain(&fifo), ["foo: updated 8", "gone: deleted 9", "bar: sync 6"]);

    let out = {
        update(&fifo, pod("foo", 10)).unwrap();
        now(fifo.pop()).unwrap()
    };
    now(fifo.resync(A)).unwrap();
    out.done();
    let again = drain(&fifo);
    assert!(
        !again.iter().any(|line| line.starts_with("foo")),
        "the key being processed may be newer: {again:?}"
    );

    now(without_known_objects().resync(A)).unwrap();
}

#[test]
fn synced_is_when_the_first_replace_has_been_popped_and_processed() {
    let fifo = with_known_objects(&[("foo", 5), ("bar", 6)]);
    assert!(!fifo.is_synced(A));
    replace_in(&fifo, A, vec![pod("foo", 5), pod("new", 8)], "9");
    add(&fifo, pod("later", 10)).unwrap();
    for _ in 0..3 {
        assert!(!fifo.is_synced(A));
        let popped = now(fifo.pop()).unwrap();
        assert!(popped.is_initial());
        assert!(!fifo.is_synced(A), "popped is not yet processed");
        popped.done();
    }
    assert!(fifo.is_synced(A));
    let later = now(fifo.pop()).unwrap();
    assert_eq!((shown(&later).as_str(), later.is_initial()), ("later: added 10", false));
    assert!(!fifo.is_synced(B), "each scope has its own state");
}

#[test]
fn a_change_before_the_first_replace_counts_as_synced() {
    type Step = fn(&DeltaFifo);
    let steps: [Step; 3] = [
        |fifo| add(fifo, pod("a", 1)).unwrap(),
        |fifo| update(fifo, pod("a", 1)).unwrap(),
        |fifo| remove(fifo, pod("a", 1)).unwrap(),
    ];
    for step in steps {
        let fifo = without_known_objects();
        step(&fifo);
        assert!(fifo.is_synced(A));
    }
}

#[test]
fn an_empty_first_replace_is_synced_immediately() {
    let fifo = without_known_objects();
    replace_in(&fifo, A, vec![], "1");
    assert!(fifo.is_synced(A));
}

#[tokio::test(start_paused = true)]
async fn synced_can_be_awaited_and_closing_the_queue_ends_the_wait() {
    let fifo = without_known_objects();
    let waiting = tokio::spawn({
        let fifo = fifo.clone();
        async move { fifo.synced(A).await }
    });
    replace_in(&fifo, A, vec![pod("a", 1)], "10");
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    pop(&fifo);
    assert_eq!(waiting.await.unwrap(), Ok(()));
    let waiting = tokio::spawn({
        let fifo = fifo.clone();
        async move { fifo.synced(Scope(2)).await }
    });
    tokio::task::yield_now().await;
    fifo.add(Scope(2), pod("b", 2)).await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(()), "a change before the first replace counts");
    pop(&fifo);
    fifo.close();
    assert_eq!(fifo.synced(B).await, Err(SinkError::Closed));
}

#[test]
fn a_key_that_is_not_done_is_popped_again_before_later_deltas() {
    let fifo = without_known_objects();
    for (key, version) in [("foo", 1), ("bar", 2)] {
        add(&fifo, pod(key, version)).unwrap();
    }
    let cancelled = now(fifo.pop()).unwrap();
    update(&fifo, pod("foo", 3)).unwrap();
    assert!(fifo.pop().now_or_never().is_none(), "one key is out at a time");
    drop(cancelled);
    assert_eq!(drain(&fifo), ["foo: added 1, updated 3", "bar: added 2"]);

    remove(&fifo, pod("foo", 4)).unwrap();
    add(&fifo, pod("foo", 5)).unwrap();
    remove(&fifo, pod("foo", 6)).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _popped = now(fifo.pop()).unwrap();
        remove(&fifo, pod("foo", 7)).unwrap();
        panic!("in the processor");
    }));
    assert!(panicked.is_err());
    assert_eq!(drain(&fifo), ["foo: added 5, deleted 6"], "two deletions still merge");
}

#[test]
fn a_full_queue_blocks_writers_but_not_a_replace_or_a_resync() {
    let store = Arc::new(new_store());
    for at in 0..5 {
        put(&store, pod(&format!("known-{at}"), 1));
    }
    let mut config = DeltaFifoConfig::default();
    config.known_objects = Some(store);
    config.deltas_max = 2;
    let fifo = DeltaFifo::new(config);
    add(&fifo, pod("a", 1)).unwrap();
    update(&fifo, pod("a", 2)).unwrap();
    let mut third = Box::pin(fifo.update(A, pod("a", 3)));
    assert!((&mut third).now_or_never().is_none());
    now(fifo.resync(A)).unwrap();
    assert_eq!(fifo.len(), 6);
    replace_in(&fifo, A, vec![pod("a", 4)], "5");
    assert_eq!(pop(&fifo), "a: added 1, updated 2, replaced 4");
    assert!((&mut third).now_or_never().is_none());
    drain(&fifo);
    assert_eq!(now(third), Ok(()));
}

#[test]
fn bookmarks_are_not_queued() {
    let fifo = without_known_objects();
    now(fifo.bookmark(A, "5")).unwrap();
    assert!(fifo.is_empty());
    assert!(!fifo.is_synced(A));
}

#[test]
fn commit_reports_a_list_older_than_the_cached_state() {
    let fifo = without_known_objects();
    assert!(!replace_in(&fifo, A, vec![], "10").new_epoch);
    now(fifo.bookmark(A, "20")).unwrap();
    assert!(!replace_in(&fifo, B, vec![], "5").new_epoch);
    assert!(replace_in(&fifo, A, vec![], "15").new_epoch);
    assert!(!replace_in(&fifo, A, vec![], "16").new_epoch);
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_rejects_writes_can_be_drained_and_wakes_all_callers() {
    let fifo = with_known_objects(&[("foo", 5)]);
    let open = now(fifo.begin_replace(A)).unwrap();
    let pops = (0..10)
        .map(|_| {
            let fifo = fifo.clone();
            tokio::spawn(async move { fifo.pop().await.map(Popped::done) })
        })
        .collect::<Vec<_>>();
    tokio::task::yield_now().await;
    fifo.close();
    for pop in pops {
        assert_eq!(pop.await.unwrap(), None);
    }
    assert_eq!(add(&fifo, pod("b", 2)), Err(SinkError::Closed));
    assert_eq!(now(fifo.resync(A)), Err(SinkError::Closed));
    assert_eq!(now(fifo.bookmark(A, "1")), Err(SinkError::Closed));
    assert_eq!(now(fifo.begin_replace(A)).map(drop), Err(SinkError::Closed));
    assert_eq!(now(open.commit("1")), Err(SinkError::Closed));

    let fifo = without_known_objects();
    add(&fifo, pod("a", 1)).unwrap();
    fifo.close();
    assert_eq!(pop(&fifo), "a: added 1");
    assert!(now(fifo.pop()).is_none());
}

#[test]
fn an_object_that_cannot_be_stored_is_rejected() {
    let fifo = without_known_objects();
    let nameless = || raw(&json!({"metadata": {"namespace": "web"}}));
    assert!(matches!(add(&fifo, nameless()), Err(SinkError::Rejected { .. })));
    let mut replace = now(fifo.begin_replace(A)).unwrap();
    assert!(matches!(replace.put(nameless()), Err(SinkError::Rejected { .. })));
}

#[test]
fn the_newest_object_comes_from_the_reader() {
    assert!(matches!(now(without_known_objects().newest(Scope::default())), Ok(Newest::Unknown)));
    let fifo = with_known_objects(&[("web/a", 9), ("web/b", 100)]);
    let Ok(Newest::Object { object, .. }) = now(fifo.newest(Scope::default())) else { panic!() };
    assert_eq!(object.name(), "b");
    now(fifo.add(Scope::default(), pod("web/c", 101))).unwrap();
    assert!(
        fifo.newest(Scope::default()).now_or_never().is_none(),
        "`newest` waits until the queue is processed"
    );
}

#[tokio::test(start_paused = true)]
async fn free_capacity_wakes_one_writer_and_a_scope_its_own_waiters() {
    const WRITERS: usize = 40;
    let mut config = DeltaFifoConfig::default();
    config.deltas_max = 1;
    let fifo = DeltaFifo::new(config);
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
        fifo.pop().await.unwrap().done();
        tokio::task::yield_now().await;
    }
    let mut polls = 0;
    for (writer, polled) in writers {
        writer.await.unwrap().unwrap();
        polls += polled.load(Ordering::Relaxed);
    }
    assert!(polls <= 4 * WRITERS, "{polls} polls of {WRITERS} writers");
    assert_eq!(synced_polls.load(Ordering::Relaxed), 1, "nothing of its scope was processed");
    replace_in(&fifo, B, vec![pod("of-b", 3)], "10");
    now(fifo.pop()).unwrap().done();
    synced.await.unwrap().unwrap();
}
