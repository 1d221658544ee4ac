//! Twenty handlers, fast, slow and broken, and a hundred thousand changes from a server that keeps breaking the connection.
//!
//! Memory is measured throughout, including the server's. Without limits, the pending changes of slow and hanging handlers
//! would take more than twice the bound.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{Action, Fault, Match, Server, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{Event, HandlerHandle, Informer, ListenerConfig};
use parking_lot::Mutex;
use peak_alloc::PeakAlloc;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::sync::watch;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const CHANGES: u64 = 100_000;
const KEYS: usize = 1_000;
const OBJECT_BYTES: usize = 1_000;
/// Limit for the whole process. A thousand objects of 1 KB are held by the server with a history of a thousand more, by the
/// store, and by each slow listener, as received or pending states: at most the stored keys, and its limit of changes.
const MEMORY_MAX: usize = 48 << 20;

/// The state of a listener: resourceVersions by key.
type View = Arc<Mutex<BTreeMap<String, String>>>;

#[derive(Clone, Copy, Debug)]
enum Behavior {
    Quick,
    /// Each call takes some time.
    Slow,
    /// Panics in every thirteenth call.
    Panics,
    /// Hangs in one call until the end of the test.
    Hangs,
}

fn listen(
    maps: &Informer<ConfigMap>,
    behavior: Behavior,
    over: &watch::Receiver<bool>,
) -> (View, HandlerHandle) {
    let view = View::default();
    let (received, over) = (view.clone(), over.clone());
    let mut calls = 0_u64;
    let mut config = ListenerConfig::default();
    config.changes_max = 2_000;
    let handler = move |event: Event<ConfigMap>| {
        calls += 1;
        let (view, mut over, calls) = (received.clone(), over.clone(), calls);
        async move {
            match behavior {
                Behavior::Slow if !*over.borrow() => tokio::time::sleep(Duration::from_millis(200)).await,
                Behavior::Hangs if calls == 700 => drop(over.wait_for(|over| *over).await),
                _ => {}
            }
            receive(&mut view.lock(), &event);
            assert!(!(matches!(behavior, Behavior::Panics) && calls % 13 == 0), "panics on purpose");
        }
    };
    (view, maps.add_handler_with(config, handler).unwrap())
}

fn receive(view: &mut BTreeMap<String, String>, event: &Event<ConfigMap>) {
    match event {
        Event::Added { object, .. } => {
            let version = object.resource_version().to_owned();
            let before = view.insert(object.key().to_string(), version);
            assert_eq!(before, None, "{event:?}: it was already there");
        }
        Event::Updated { old, new, .. } => {
            let before = view.insert(new.key().to_string(), new.resource_version().to_owned());
            assert_eq!(
                before.as_deref(),
                Some(old.resource_version()),
                "{event:?}: `old` is the last received state"
            );
        }
        Event::Deleted { last, .. } => {
            assert!(view.remove(&last.key().to_string()).is_some(), "{event:?}: it was not there");
        }
        Event::Synced => {}
    }
}

#[tokio::test(start_paused = true)]
async fn promises_1_6_and_7_hold_for_twenty_handlers_through_a_hundred_thousand_changes() {
    // Handlers panic on purpose.
    std::panic::set_hook(Box::new(|panic| {
        if !panic.to_string().contains("on purpose") {
            eprintln!("{panic}");
        }
    }));
    let server = Server::builder().without_socket().seed(7).history(1_000).start().await.unwrap();
    let feed = server.feed("", "v1", "configmaps").unwrap();
    let faults = server.faults();
    let on_watch = || Match::verb(Verb::Watch).resource("configmaps");
    faults.arm(Fault::new(Action::DuplicateEvent(40)).on(on_watch()).probability(0.2));
    faults.arm(Fault::new(Action::Expired).on(on_watch()).probability(0.05));
    faults.arm(Fault::new(Action::TruncateEvent(300)).on(on_watch()).probability(0.1));
    faults.arm(Fault::new(Action::CutAfterEvents(900)).on(on_watch()));

    let (over, is_over) = watch::channel(false);
    let mut config = ReflectorConfig::default();
    config.seed = Some(7);
    // This test is about broken connections: at two thousand changes per second, the default pause outlasts the server's
    // history.
    config.watch_interval_min = Duration::from_millis(50);
    let maps = Informer::<ConfigMap>::builder(server.client().unwrap()).reflector(config).start().unwrap();
    let behaviors = [Behavior::Quick, Behavior::Slow, Behavior::Panics, Behavior::Hangs, Behavior::Quick];
    let mut listeners = (0..20).map(|n| listen(&maps, behaviors[n % 5], &is_over)).collect::<Vec<_>>();

    let mut rng = StdRng::seed_from_u64(7);
    let mut served = BTreeMap::new();
    let mut revision = server.revision();
    let padding = "x".repeat(OBJECT_BYTES);
    let mut most = 0;
    for change in 1..=CHANGES {
        revision += 1;
        let name = format!("map-{}", rng.random_range(0..KEYS));
        let known = served.get(&name).map(|(uid, _)| *uid);
        let uid = known.unwrap_or(revision);
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"padding": padding},
            "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{uid}"),
                "resourceVersion": revision.to_string()}});
        if known.is_some() && rng.random_ratio(1, 10) {
            feed.delete(&object).unwrap();
            served.remove(&name);
        } else {
            feed.put(&object).unwrap();
            served.insert(name, (uid, revision));
        }
        if change % 100 == 0 {
            // Let time pass: slow calls finish, the reflector's waits end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            most = most.max(MEMORY.current_usage());
        }
        if change % 5_000 == 0 {
            // One listener leaves and another joins.
            let place = rng.random_range(0..listeners.len());
            let behavior = behaviors[rng.random_range(0..behaviors.len())];
            let (_, handle) = std::mem::replace(&mut listeners[place], listen(&maps, behavior, &is_over));
            handle.remove();
        }
    }
    assert!(most <= MEMORY_MAX, "{most} bytes held, limit {MEMORY_MAX}");

    faults.clear();
    over.send_replace(true);
    let key = |name: &String| format!("default/{name}");
    let served = served
        .iter()
        .map(|(name, (_, revision))| (key(name), revision.to_string()))
        .collect::<BTreeMap<_, _>>();
    assert!(served.len() > KEYS / 2);
    let mut waits = 0;
    while listeners.iter().any(|(view, _)| *view.lock() != served) && waits < 1_000 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        waits += 1;
    }
    let stored = maps.lister().list();
    let stored = stored.iter().map(|map| (map.key().to_string(), map.resource_version().to_owned()));
    assert_eq!(stored.collect::<BTreeMap<_, _>>(), served, "the store");
    for (number, (view, handle)) in listeners.iter().enumerate() {
        assert_eq!(*view.lock(), served, "listener {number}: {handle:?}");
    }
    assert!(listeners.iter().any(|(_, handle)| handle.coalesced_count() > 0), "no handler fell behind");
    assert!(listeners.iter().any(|(_, handle)| handle.panics() > 0), "no handler panicked");
    let status = maps.status();
    let reflector = status[0].reflector();
    assert!(reflector.broken_watches > 20 && reflector.complete_lists > 1, "{reflector:?}");
    println!(
        "{} MB at most; {} watches, {} complete lists",
        most >> 20,
        reflector.watches,
        reflector.complete_lists
    );
}
