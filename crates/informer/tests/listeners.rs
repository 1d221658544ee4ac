//! Listeners: what they receive and when; joining late, falling behind, filtering, resync, leaving.

use crate::support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube_informer::building_blocks::{Filtered, Packing};
use kube_informer::testing::ScriptedSource;
use kube_informer::{
    Event, HandlerHandle, Informer, InformerState, ListenerConfig, Object, Subscription, SyncError, WaitError,
};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::json;
use support::informers::*;
use support::*;

type Log = Arc<Mutex<Vec<String>>>;

/// A handler that logs its events.
fn logging(log: &Log) -> impl kube_informer::EventHandler<Pod> + use<> {
    let log = log.clone();
    move |event: Event<Pod>| {
        log.lock().push(format!("{event:?}"));
        async {}
    }
}

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock())
}

fn resyncing(seconds: u64) -> ListenerConfig {
    let mut config = ListenerConfig::default();
    config.resync = Some(Duration::from_secs(seconds));
    config
}

#[tokio::test(start_paused = true)]
async fn an_initial_list_larger_than_the_limits_is_delivered_uncoalesced() {
    let source = pods();
    for number in 0..10 {
        source.put(pod(&format!("pod-{number}")));
    }
    let pods = informer(&source).start().unwrap();
    let mut config = ListenerConfig::default();
    config.changes_max = 3;
    let log = Log::default();
    let handle = pods.add_handler_with(config, logging(&log)).unwrap();
    handle.synced().await.unwrap();
    assert_eq!(take(&log).len(), 11, "ten objects, and synced");
    assert_eq!(handle.coalesced_count(), 0, "nothing was coalesced: the snapshot is shared");
}

/// A listener with a limit on changes that is not coalesced, and waits for a permit before each event.
fn uncoalesced(pods: &Informer<Pod>, log: &Log) -> (HandlerHandle, Arc<tokio::sync::Semaphore>) {
    let mut config = ListenerConfig::default();
    (config.changes_max, config.coalesce) = (10, false);
    let turns = Arc::new(tokio::sync::Semaphore::new(0));
    let (log, waits) = (log.clone(), turns.clone());
    let handler = move |event: Event<Pod>| {
        let (log, waits) = (log.clone(), waits.clone());
        async move {
            waits.acquire().await.unwrap().forget();
            log.lock().push(format!("{event:?}"));
        }
    };
    (pods.add_handler_with(config, handler).unwrap(), turns)
}

#[tokio::test(start_paused = true)]
async fn promise_6_an_uncoalesced_listener_receives_every_change_and_blocks_the_informer() {
    let source = pods();
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    let (slow_log, quick_log) = (Log::default(), Log::default());
    let (slow, turns) = uncoalesced(&pods, &slow_log);
    let quick = pods.add_handler(logging(&quick_log)).unwrap();
    for _ in 0..100 {
        source.put(pod("a"));
        settle().await; // a separate batch
    }
    assert!(
        quick_log.lock().len() < 20,
        "past its limit nothing more is applied: {}",
        quick_log.lock().len()
    );
    assert!(slow.lag() < 20, "and so its backlog is bounded: {}", slow.lag());
    turns.add_permits(1000);
    settle().await;
    assert_eq!((slow_log.lock().len(), quick_log.lock().len()), (101, 101), "synced, and all changes");
    assert_eq!((slow.coalesced_count(), quick.coalesced_count()), (0, 0));

    turns.forget_permits(1000);
    for _ in 0..100 {
        source.put(pod("a"));
        settle().await;
    }
    slow.remove();
    settle().await;
    assert_eq!(quick_log.lock().len(), 201, "a removed listener blocks nothing");
}

#[tokio::test(start_paused = true)]
async fn promise_6_a_stuck_listener_is_coalesced_and_the_informer_continues() {
    let source = pods();
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    let (slow_log, quick_log) = (Log::default(), Log::default());
    let (slow, turns) = uncoalesced(&pods, &slow_log);
    pods.add_handler(logging(&quick_log)).unwrap().detach();
    for _ in 0..15 {
        source.put(pod("a"));
        settle().await;
    }
    source.put(pod("last"));
    let has_last = || quick_log.lock().iter().any(|line| line.contains("last"));
    tokio::time::sleep(ListenerConfig::STUCK_AFTER / 2).await;
    assert!(!has_last());
    tokio::time::sleep(ListenerConfig::STUCK_AFTER).await;
    assert!(has_last(), "the others are blocked no longer than that");
    assert_eq!(slow.coalesced_count(), 1);
    turns.add_permits(1000);
    settle().await;
    assert!(slow_log.lock().last().unwrap().contains("last"), "{slow_log:?}");
}

#[tokio::test(start_paused = true)]
async fn pending_changes_hold_objects_as_the_store_keeps_them() {
    let source = pods();
    let pods = Informer::<Pod>::from_source(Arc::new(source.clone()))
        .reflector(listing())
        .memory(Packing::eager())
        .start()
        .unwrap();
    let mut events = pods.subscribe();
    expect_events(&mut events, &["synced"]).await;
    for name in ["a", "b", "c", "d", "e", "f"] {
        source.put(pod(name));
        settle().await; // a separate batch
    }
    let mut packed = Vec::new();
    while let Some(Some(Event::Added { object, .. })) = events.next().now_or_never() {
        packed.push(object.is_packed());
    }
    assert_eq!(packed.len(), 6);
    assert!(!packed[0] && !packed[5], "the next and the newest are as received: {packed:?}");
    assert!(packed[2..5].iter().all(|packed| *packed), "{packed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_late_listener_receives_the_current_state_then_changes() {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    settle().await;
    source.put(pod("a"));
    settle().await;
    let mut late = pods.subscribe();
    source.put(pod("b"));
    settle().await;
    source.delete("web/a");
    expect_events(
        &mut late,
        &["added web/a@102 (Initial)", "synced", "added web/b@103 (Live)", "deleted web/a@104 (Live)"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_relist_sends_no_events_unless_requested() {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).start().unwrap();
    let mut quiet = pods.subscribe();
    let mut curious = ListenerConfig::default();
    curious.unchanged = true;
    let mut curious = pods.subscribe_with(curious);
    expect_events(&mut quiet, &["added web/a@101 (Initial)", "synced"]).await;
    expect_events(&mut curious, &["added web/a@101 (Initial)", "synced"]).await;
    settle().await;
    source.compact();
    source.send_error(status(410, "Expired"));
    expect_events(&mut curious, &["updated web/a@101 from 101 (Resync)"]).await;
    settle().await;
    source.put(pod("b"));
    expect_events(&mut curious, &["added web/b@102 (Live)"]).await;
    expect_events(&mut quiet, &["added web/b@102 (Live)"]).await;
}

#[tokio::test(start_paused = true)]
async fn resync_is_per_listener_and_at_least_one_second() {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).resync(Duration::from_secs(600)).start().unwrap();
    let (often, seldom) = (Log::default(), Log::default());
    let handlers = [
        pods.add_handler_with(resyncing(0), logging(&often)).unwrap(),
        pods.add_handler(logging(&seldom)).unwrap(),
    ];
    for handler in &handlers {
        handler.synced().await.unwrap();
    }
    take(&often);
    take(&seldom);
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!(take(&often), ["updated web/a@101 from 101 (Resync)"; 3]);
    assert_eq!(take(&seldom), [""; 0]);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(take(&seldom), ["updated web/a@101 from 101 (Resync)"], "the informer's own period");
}

#[tokio::test(start_paused = true)]
async fn unread_resyncs_do_not_accumulate() {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).start().unwrap();
    let mut events = pods.subscribe_with(resyncing(1));
    expect_events(&mut events, &["added web/a@101 (Initial)", "synced"]).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    expect_events(&mut events, &["updated web/a@101 from 101 (Resync)"]).await;
    assert_eq!(events.next().now_or_never().map(|event| format!("{event:?}")), None);
}

#[tokio::test(start_paused = true)]
async fn promise_3_a_filtered_handler_receives_only_passing_objects() {
    let source = pods();
    source.put(on_node("a", "n1"));
    source.put(on_node("b", "n2"));
    let pods = informer(&source).start().unwrap();
    let log = Log::default();
    let on_n1 =
        |pod: &Object<Pod>| pod.decode().unwrap().spec.as_ref().unwrap().node_name.as_deref() == Some("n1");
    let handler = pods.add_handler(Filtered::new(on_n1, logging(&log))).unwrap();
    handler.synced().await.unwrap();
    assert_eq!(take(&log), ["added web/a@101 (Initial)", "synced"]);
    settle().await;
    source.put(on_node("b", "n1"));
    source.put(on_node("b", "n1"));
    source.put(on_node("a", "n2"));
    source.put(on_node("a", "n3"));
    source.delete("web/a");
    source.delete("web/b");
    settle().await;
    assert_eq!(
        take(&log),
        [
            "added web/b@103 (Live)",
            "updated web/b@104 from 103 (Live)",
            "deleted web/a@101 (Live)",
            "deleted web/b@108 (Live)"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn promise_3_a_narrowed_subscription_reports_entering_as_added_and_leaving_as_deleted() {
    let source = pods();
    source.put(on_node("a", "n1"));
    source.put(on_node("b", "n2"));
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    let lister = pods.lister().namespace("web").field("spec.nodeName", "n1").unwrap();
    let mut events = lister.subscribe();
    expect_events(&mut events, &["added web/a@101 (Initial)", "synced"]).await;
    source.put(on_node("b", "n1"));
    expect_events(&mut events, &["added web/b@103 (Live)"]).await;
    source.put(on_node("b", "n1"));
    source.put(on_node("a", "n2"));
    source.delete("web/a");
    expect_events(&mut events, &["updated web/b@104 from 103 (Live)", "deleted web/a@101 (Live)"]).await;
    let mut elsewhere = pods.lister().namespace("db").subscribe();
    expect_events(&mut elsewhere, &["synced"]).await;

    let mut backend = lister.subscribe().only(|pod| pod.name() != "b").only(|pod| pod.name() != "a");
    expect_events(&mut backend, &["synced"]).await;
    source.put(on_node("d", "n1"));
    source.put(on_node("d", "n2"));
    expect_events(&mut backend, &["added web/d@107 (Live)", "deleted web/d@107 (Live)"]).await;
    source.delete("web/d");

    // A filter compares with the state received last, so it detects changes that coalescing or a relist has hidden.
    let mut config = ListenerConfig::default();
    config.changes_max = 1;
    let on_n1 = |pod: &Object<Pod>| pod.field("spec.nodeName").unwrap() == Some(json!("n1"));
    let mut slow = pods.subscribe_with(config).only(on_n1);
    expect_events(&mut slow, &["added web/b@104 (Initial)", "synced"]).await;
    for node in ["n2", "n3", "n1", "n2", "n3"] {
        source.put(on_node("b", node));
        settle().await;
    }
    source.put(on_node("c", "n1"));
    settle().await;
    let mut left = vec![format!("{:?}", slow.next().await.unwrap())];
    while !left[left.len() - 1].starts_with("added web/c") {
        left.push(format!("{:?}", slow.next().await.unwrap()));
    }
    let entered = left.iter().filter(|line| line.starts_with("added web/b")).count();
    let gone = left.iter().filter(|line| line.starts_with("deleted web/b")).count();
    assert_eq!(gone, entered + 1, "it ends outside: {left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_is_not_called_again_and_its_last_call_can_be_awaited() {
    let source = pods();
    source.put(pod("a"));
    source.put(pod("b"));
    let pods = informer(&source).start().unwrap();
    let (finish, finished) = tokio::sync::watch::channel(false);
    let log = Log::default();
    let received = log.clone();
    let handler = pods.add_handler(move |event: Event<Pod>| {
        received.lock().push(format!("{event:?}"));
        let mut finished = finished.clone();
        async move {
            finished.wait_for(|finished| *finished).await.unwrap();
        }
    });
    let handler = handler.unwrap();
    pods.synced().await.unwrap();
    settle().await;
    handler.remove();
    let mut removed = Box::pin(handler.removed());
    assert!(removed.as_mut().now_or_never().is_none(), "the last call has not returned");
    finish.send(true).unwrap();
    removed.await;
    assert_eq!(take(&log), ["added web/a@101 (Initial)"], "pending events are dropped");
    assert!(matches!(handler.synced().await, Err(SyncError::Stopped(_))));
    source.put(pod("c"));
    settle().await;
    assert_eq!(take(&log), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_remove_itself() {
    let source = pods();
    source.put(pod("a"));
    source.put(pod("b"));
    let pods = informer(&source).start().unwrap();
    let own = Arc::new(OnceLock::<HandlerHandle>::new());
    let (log, from_inside) = (Log::default(), own.clone());
    let received = log.clone();
    let handler = pods.add_handler(move |event: Event<Pod>| {
        received.lock().push(format!("{event:?}"));
        from_inside.get().unwrap().remove();
        async {}
    });
    own.set(handler.unwrap()).unwrap();
    own.get().unwrap().removed().await;
    assert_eq!(take(&log), ["added web/a@101 (Initial)"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_removed_with_its_last_handle_unless_it_is_detached() {
    let source = pods();
    let pods = informer(&source).start().unwrap();
    let (dropped, detached) = (Log::default(), Log::default());
    let handle = pods.add_handler(logging(&dropped)).unwrap();
    pods.add_handler(logging(&detached)).unwrap().detach();
    handle.synced().await.unwrap();
    let clone = handle.clone();
    drop(handle);
    source.put(pod("a"));
    settle().await;
    drop(clone);
    source.put(pod("b"));
    settle().await;
    assert_eq!(take(&dropped), ["synced", "added web/a@101 (Live)"]);
    assert_eq!(take(&detached), ["synced", "added web/a@101 (Live)", "added web/b@102 (Live)"]);
}

#[tokio::test(start_paused = true)]
async fn everything_stops_with_the_last_handle_of_any_kind() {
    let source = pods();
    let kinds: [(&str, fn(&Informer<Pod>) -> Box<dyn std::any::Any>); 4] = [
        ("informer", |pods| Box::new(pods.clone())),
        ("lister", |pods| Box::new(pods.lister())),
        ("subscription", |pods| Box::new(pods.subscribe())),
        ("handler", |pods| Box::new(pods.add_handler(async |_: Event<Pod>| {}).unwrap())),
    ];
    for (kind, hold) in kinds {
        let pods = informer(&source).start().unwrap();
        pods.synced().await.unwrap();
        settle().await;
        let held = hold(&pods);
        drop(pods);
        settle().await;
        assert_eq!(source.open_watches(), 1, "{kind}");
        drop(held);
        settle().await;
        assert_eq!(source.open_watches(), 0, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_joins_all_tasks_ends_streams_and_rejects_new_listeners() {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).start().unwrap();
    let mut events = pods.subscribe();
    let handler = pods.add_handler(async |_: Event<Pod>| {}).unwrap();
    pods.synced().await.unwrap();
    pods.shutdown().await;
    pods.stopped().await;
    assert!(events.next().await.is_none(), "pending events are dropped");
    assert!(pods.subscribe().next().await.is_none());
    handler.removed().await;
    assert!(pods.add_handler(async |_: Event<Pod>| {}).is_err());
    assert!(matches!(pods.synced().await, Err(SyncError::Stopped(_))));
    assert_eq!(source.open_watches(), 0);
    assert_eq!(pods.lister().count(), 1, "the cached state can still be read");
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_are_one_informer_that_is_synced_when_all_are() {
    let (web, api) = (pods(), pods());
    web.put(pod("a"));
    api.put(json!({"metadata": {"namespace": "api", "name": "a"}}));
    api.fail_next_list(status(500, "InternalError"));
    let sources = [("web", &web), ("api", &api)].map(|(namespace, source)| {
        let source: Arc<dyn kube_informer::building_blocks::ListerWatcher> = Arc::new(source.clone());
        (namespace, source)
    });
    let pods = Informer::<Pod>::from_sources(sources).reflector(listing()).memory(memory()).start().unwrap();
    let mut events = pods.subscribe();
    expect_events(&mut events, &["added web/a@101 (Initial)"]).await;
    let mut late = pods.subscribe();
    expect_events(&mut late, &["added web/a@101 (Initial)"]).await;
    assert!(!pods.is_synced());
    for events in [&mut events, &mut late] {
        expect_events(events, &["added api/a@101 (Initial)", "synced"]).await;
    }
    assert!(pods.is_synced());
    settle().await;
    // A relist of one scope does not affect the other's objects.
    web.delete("web/a");
    web.compact();
    web.send_error(status(410, "Expired"));
    expect_events(&mut events, &["deleted web/a@102 (Live)"]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(pods.lister().list().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn listeners_share_one_decoded_value_and_a_bad_object_affects_no_other() {
    let source = pods();
    source.put(on_node("a", "n1"));
    source.put(json!({"metadata": {"namespace": "web", "name": "bad"}, "spec": 7}));
    let pods = informer(&source).hot_values_max(0).start().unwrap();
    let (mut one, mut two) = (pods.subscribe(), pods.subscribe());
    let first = one.next().await.unwrap().object().unwrap().decode().unwrap();
    let second = two.next().await.unwrap().object().unwrap().decode().unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    let read = pods.lister().get(&"web/a".parse().unwrap()).unwrap();
    assert!(Arc::ptr_eq(&first, &read.decode().unwrap()));
    let held = Arc::downgrade(&first);
    drop((first, second));
    assert_eq!(held.strong_count(), 0, "only the callers held the value");

    let bad = one.next().await.unwrap().object().unwrap().decode().unwrap_err();
    assert!(bad.to_string().starts_with("cannot decode Pod web/bad: spec: "), "{bad}");
    assert_eq!(pods.decode_errors(), 1);
    expect_events(&mut one, &["synced"]).await;
}

#[tokio::test(start_paused = true)]
async fn hot_values_are_held_up_to_their_limit() {
    let source = pods();
    for name in ["a", "b", "c"] {
        source.put(pod(name));
    }
    let pods = informer(&source).hot_values_max(2).start().unwrap();
    pods.synced().await.unwrap();
    let decode = |name: &str| {
        let object = pods.lister().get(&format!("web/{name}").parse().unwrap()).unwrap();
        Arc::downgrade(&object.decode().unwrap())
    };
    let values = ["a", "b", "c"].map(decode);
    assert_eq!(values.map(|value| value.strong_count()), [0, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn all_values_can_stay_hot_except_those_of_replaced_states() {
    let source = pods();
    source.put(pod("stays"));
    let pods = informer(&source).hot_values_max(usize::MAX).start().unwrap();
    pods.synced().await.unwrap();
    let decode = |name: &str| {
        let object = pods.lister().get(&format!("web/{name}").parse().unwrap()).unwrap();
        Arc::downgrade(&object.decode().unwrap())
    };
    let stays = decode("stays");
    let mut values = Vec::new();
    for _ in 0..1000 {
        let version = source.put(pod("changes"));
        let is_in = |pod: Option<&Pod>| {
            pod.and_then(|pod| pod.metadata.resource_version.as_deref()) == Some(&*version)
        };
        pods.wait_until(&"web/changes".parse().unwrap(), is_in).await.unwrap();
        values.push(decode("changes"));
    }
    let held = values.iter().filter(|value| value.strong_count() > 0).count();
    assert!(held <= 2 * 64, "{held} values of one object are alive");
    assert_eq!(values.last().map(std::sync::Weak::strong_count), Some(1));
    // An object that was repacked meanwhile is another handle, and decoded again.
    let is_plain = memory() == kube_informer::Memory::Uncompressed;
    assert!(stays.strong_count() == 1 || !is_plain, "nothing has changed there");
}

// --- random sequences ---

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    Close,
    Expire,
    /// A listener joins.
    Join {
        changes_max: usize,
    },
    /// A listener receives this many events.
    Receive {
        listener: usize,
        events: usize,
    },
    Settle,
    Pass {
        seconds: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..6u8).prop_map(Step::Put),
        6 => (0..6u8).prop_map(Step::Delete),
        1 => Just(Step::Close),
        1 => Just(Step::Expire),
        2 => (0..6usize).prop_map(|changes_max| Step::Join { changes_max }),
        6 => (0..4usize, 1..6usize).prop_map(|(listener, events)| Step::Receive { listener, events }),
        6 => Just(Step::Settle),
        1 => (1..40u64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

/// The next event, if there is one, whatever the task's remaining budget.
fn next_now(events: &mut Subscription<Pod>) -> Option<Event<Pod>> {
    tokio::task::unconstrained(events.next()).now_or_never().map(Option::unwrap)
}

async fn play(steps: Vec<Step>) {
    let source: ScriptedSource = pods();
    let pods = informer(&source).start().unwrap();
    let mut listeners = Vec::new();
    for step in steps {
        match step {
            Step::Put(name) => drop(source.put(pod(&format!("p{name}")))),
            Step::Delete(name) => drop(source.delete(&format!("web/p{name}"))),
            Step::Close => source.close_watches(),
            Step::Expire => {
                source.compact();
                source.send_error(status(410, "Expired"));
                source.close_watches();
            }
            Step::Join { changes_max } => {
                let mut config = ListenerConfig::default();
                config.changes_max = changes_max;
                listeners.push((pods.subscribe_with(config), ListenerView::default()));
            }
            Step::Receive { listener, events } => {
                if let Some((stream, view)) = listeners.get_mut(listener) {
                    for _ in 0..events {
                        let Some(event) = next_now(stream) else { break };
                        view.receive(&event);
                    }
                }
            }
            Step::Settle => settle().await,
            Step::Pass { seconds } => tokio::time::sleep(Duration::from_secs(seconds)).await,
        }
    }
    // The server is quiet.
    tokio::time::sleep(Duration::from_secs(600)).await;
    settle().await;
    for (stream, view) in &mut listeners {
        while let Some(event) = next_now(stream) {
            view.receive(&event);
        }
        assert_eq!(*view, ListenerView::of(&source));
        assert_eq!(stream.lag(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn promise_6_every_listener_ends_with_the_servers_state_whenever_it_joins_and_however_slow(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(steps));
    }
}

/// Counts its turns on the thread until dropped.
fn bystander() -> (tokio::task::AbortHandle, Arc<AtomicUsize>) {
    let turns = Arc::<AtomicUsize>::default();
    let count = turns.clone();
    let task = tokio::spawn(async move {
        loop {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    (task.abort_handle(), turns)
}

#[tokio::test(start_paused = true)]
async fn a_subscription_with_much_to_read_lets_other_tasks_run() {
    const PODS: usize = 2_000;
    let source = pods();
    for number in 0..PODS {
        source.put(pod(&format!("pod-{number}")));
    }
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    let mut events = pods.subscribe();
    let (task, turns) = bystander();
    for _ in 0..PODS {
        assert!(matches!(events.next().await, Some(Event::Added { .. })));
    }
    assert!(turns.load(Ordering::Relaxed) >= 10, "{turns:?} turns while {PODS} events were read");
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn receiving_a_list_lets_other_tasks_run() {
    const PODS: usize = 5_000;
    let source = pods();
    for number in 0..PODS {
        source.put(pod(&format!("pod-{number}")));
    }
    for config in [listing(), streaming()] {
        let (task, turns) = bystander();
        let pods = informer(&source).reflector(config).start().unwrap();
        pods.synced().await.unwrap();
        task.abort();
        assert!(turns.load(Ordering::Relaxed) >= 30, "{turns:?} turns while {PODS} objects came");
    }
}

#[tokio::test(start_paused = true)]
async fn promise_7_a_panicking_waker_affects_only_its_reader() {
    struct Explosive;
    impl Wake for Explosive {
        fn wake(self: Arc<Self>) {
            panic!("in a waker");
        }
    }
    let source = pods();
    let pods = informer(&source).start().unwrap();
    let (mut broken, log) = (pods.subscribe(), Log::default());
    expect_events(&mut broken, &["synced"]).await;
    let handle = pods.add_handler(logging(&log)).unwrap();
    handle.synced().await.unwrap();
    let waker = Waker::from(Arc::new(Explosive));
    assert!(broken.poll_next_unpin(&mut Context::from_waker(&waker)).is_pending());
    source.put(pod("a"));
    settle().await;
    assert_eq!(take(&log), ["synced", "added web/a@101 (Live)"]);
    assert!(matches!(pods.state(), InformerState::Live), "{}", pods.state());
    expect_events(&mut broken, &["added web/a@101 (Live)"]).await;
    assert!(broken.poll_next_unpin(&mut Context::from_waker(&waker)).is_pending());
    pods.shutdown().await;
}

/// Panics when the apply task logs that the informer is synced, as any defect in that task would.
struct PanicsWhenSynced;

impl tracing::Subscriber for PanicsWhenSynced {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut |_: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            text += &format!("{value:?} ");
        });
        assert!(!text.contains("synced"), "for a test");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn promise_12_an_informer_whose_apply_task_panics_is_stopped() {
    let source = pods();
    source.put(pod("a"));
    // While there is only one subscriber, tracing asks just the thread that first reaches a log statement whether it is
    // enabled, and applies the answer to all threads. A second subscriber avoids that.
    let _ = tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::default());
    let subscriber = tracing::subscriber::set_default(PanicsWhenSynced);
    let pods = informer(&source).start().unwrap();
    let (log, a) = (Log::default(), "web/a".parse().unwrap());
    let handle = pods.add_handler(logging(&log)).unwrap();
    settle().await;
    drop(subscriber);
    assert!(matches!(pods.state(), InformerState::Stopped), "{}", pods.state());
    pods.stopped().await;
    handle.removed().await;
    assert!(pods.add_handler(logging(&log)).is_err());
    assert!(matches!(pods.wait_until(&a, |_| false).await, Err(WaitError::Stopped(_))));
    assert!(pods.lister().get(&a).is_some(), "the cached state can still be read");
}
