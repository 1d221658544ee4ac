//! Informers on the embedded API server: real requests in both encodings, and a server that keeps failing.

use crate::support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{Action, Fault, Match, Restart, Server, Verb};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{
    EncodingPreference, Event, Index, Informer, InformerBuilder, Key, ListenerConfig, SyncError, WaitError,
};
use parking_lot::Mutex;
use serde_json::json;

fn config_map(name: &str, labels: &serde_json::Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "data": {"n": "0"}})).unwrap()
}

/// A server without a socket, with tokio's paused clock.
async fn start() -> (Server, kube_client::Client) {
    let server = Server::builder().without_socket().seed(1).start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

fn seeded(client: &kube_client::Client) -> InformerBuilder<ConfigMap> {
    let mut config = ReflectorConfig::default();
    config.seed = Some(1);
    Informer::builder(client.clone()).reflector(config).memory(support::memory())
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_read_in_both_encodings() {
    for encoding in [EncodingPreference::Auto, EncodingPreference::Json] {
        let (_server, client) = start().await;
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let maps = seeded(&client)
            .namespaces(["default"])
            .labels("tier=backend")
            .encoding(encoding)
            .start()
            .unwrap();
        maps.synced().await.unwrap();
        let written =
            api.create(&PostParams::default(), &config_map("a", &json!({"tier": "backend"}))).await.unwrap();
        let found = maps.wait_for(&written).await.unwrap().unwrap();
        assert_eq!(found.decode().unwrap().data, written.data, "{encoding:?}");

        let patch = Patch::Merge(json!({"data": {"n": "1"}}));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
        let key = Key::new("default", "a");
        let is_one = |map: Option<&ConfigMap>| {
            map.and_then(|map| map.data.as_ref()).is_some_and(|data| data["n"] == "1")
        };
        maps.wait_until(&key, is_one).await.unwrap();

        let other =
            api.create(&PostParams::default(), &config_map("b", &json!({"tier": "front"}))).await.unwrap();
        assert!(matches!(maps.wait_for(&other).await, Err(WaitError::Never { .. })));

        api.delete("a", &DeleteParams::default()).await.unwrap();
        maps.wait_gone(&key, found.uid()).await.unwrap();
        assert_eq!(maps.lister().count(), 0);
        maps.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn promise_9_a_refusal_contains_the_servers_message() {
    let (server, client) = start().await;
    let widgets =
        kube_core::ApiResource::from_gvk(&kube_core::GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets = Informer::dynamic(client, &widgets).start().unwrap();
    let error = widgets.synced().await.unwrap_err();
    assert!(matches!(&error, SyncError::Refused { status, .. } if status.code == 404), "{error}");
    assert!(
        error.to_string().starts_with("cannot list widgets.example.com in all namespaces: 404"),
        "{error}"
    );
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn promise_1_a_restored_server_is_detected_both_behind_and_ahead_of_the_cache() {
    for (written_since, disconnects) in [(0, false), (0, true), (9, false), (9, true)] {
        let (server, client) = start().await;
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let create = async |name: &str| {
            api.create(&PostParams::default(), &config_map(name, &json!({}))).await.unwrap();
        };
        create("kept").await;
        let backup = server.backup();
        for name in ["lost-1", "lost-2", "lost-3"] {
            create(name).await;
        }
        let maps = seeded(&client).start().unwrap();
        maps.synced().await.unwrap();
        if disconnects {
            let on_watch = Match::verb(Verb::Watch).resource("configmaps");
            server.faults().arm(Fault::new(Action::Disconnect).on(on_watch).once());
        }
        tokio::time::sleep(Duration::from_secs(2)).await; // paused time: nothing sleeps
        server.restart(&Restart::FromBackup(backup));
        for number in 0..written_since {
            create(&format!("other-{number}")).await;
        }
        let started = tokio::time::Instant::now();
        while maps.lister().get(&Key::new("default", "lost-3")).is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await; // paused time: nothing sleeps
            let elapsed = started.elapsed();
            assert!(elapsed < Duration::from_secs(15), "{written_since} {disconnects}: not noticed");
        }
        let mut names = maps.lister().list().iter().map(|map| map.name().to_owned()).collect::<Vec<_>>();
        names.retain(|name| name != "kube-root-ca.crt");
        assert_eq!(names.len(), 1 + written_since, "{names:?}");
        maps.shutdown().await;
    }
}

/// The state that a listener has received: resourceVersions by name.
type View = BTreeMap<String, String>;

fn receive(view: &mut View, event: &Event<ConfigMap>) {
    match event {
        Event::Added { object, .. } | Event::Updated { new: object, .. } => {
            view.insert(object.key().to_string(), object.resource_version().to_owned());
        }
        Event::Deleted { last, .. } => drop(view.remove(&last.key().to_string())),
        Event::Synced => {}
    }
}

#[tokio::test(start_paused = true)]
async fn promises_1_and_7_every_listener_converges_while_watches_keep_breaking() {
    let (server, client) = start().await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let faults = server.faults();
    let on_watch = || Match::verb(Verb::Watch).resource("configmaps");
    faults.arm(Fault::new(Action::CutAfterEvents(7)).on(on_watch()).probability(0.4));
    faults.arm(Fault::new(Action::EndAfterEvents(3)).on(on_watch()).probability(0.2));
    faults.arm(Fault::new(Action::DuplicateEvent(2)).on(on_watch()).probability(0.2));
    faults.arm(Fault::new(Action::Expired).on(on_watch()).probability(0.1));
    faults.arm(
        Fault::new(Action::Overloaded { retry_after_seconds: 1 })
            .on(Match::verb(Verb::List))
            .probability(0.2),
    );

    let maps = seeded(&client).namespaces(["default"]).start().unwrap();
    let mut views = Vec::new();
    for number in 0..8_u64 {
        let view = Arc::<Mutex<View>>::default();
        views.push(view.clone());
        let mut config = ListenerConfig::default();
        config.changes_max = 5;
        maps.add_handler_with(config, move |event: Event<ConfigMap>| {
            let view = view.clone();
            async move {
                // Some are slow.
                tokio::time::sleep(Duration::from_millis(number * 300)).await;
                receive(&mut view.lock(), &event);
                assert!(number % 4 != 3, "and some panic");
            }
        })
        .unwrap()
        .detach();
    }
    for round in 0..300_u32 {
        let name = format!("map-{}", round % 23);
        match round % 7 {
            3 => drop(api.delete(&name, &DeleteParams::default()).await),
            _ => {
                let labels = json!({"round": round.to_string()});
                if api.create(&PostParams::default(), &config_map(&name, &labels)).await.is_err() {
                    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
                    api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
                }
            }
        }
        if round % 20 == 0 {
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        if round % 90 == 89 {
            server.compact();
            server.disconnect_all();
        }
    }
    faults.clear();
    tokio::time::sleep(Duration::from_secs(1200)).await;
    let served = api.list(&Default::default()).await.unwrap().items;
    let served = served.into_iter().map(|map| {
        let name = map.metadata.name.unwrap();
        (format!("default/{name}"), map.metadata.resource_version.unwrap())
    });
    let served = served.collect::<View>();
    assert!(served.len() > 5);
    let stored = maps.lister().list();
    let stored =
        stored.iter().map(|map| (map.key().to_string(), map.resource_version().to_owned())).collect::<View>();
    assert_eq!(stored, served);
    for (number, view) in views.iter().enumerate() {
        assert_eq!(*view.lock(), served, "listener {number}");
    }
    // And one that joins late.
    let mut late = maps.subscribe();
    let mut view = View::new();
    while let Some(event) = late.next().await {
        receive(&mut view, &event);
        if matches!(event, Event::Synced) {
            break;
        }
    }
    assert_eq!(view, served);
}

/// A resourceVersion of the embedded server: one counter for everything.
fn number(version: &str) -> u64 {
    version.parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn promises_2_3_4_5_and_8_hold_at_every_event_while_watches_keep_breaking() {
    let (server, client) = start().await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let faults = server.faults();
    let on_watch = || Match::verb(Verb::Watch).resource("configmaps");
    faults.arm(Fault::new(Action::DuplicateEvent(2)).on(on_watch()).probability(0.3));
    faults.arm(Fault::new(Action::Expired).on(on_watch()).probability(0.2));
    faults.arm(Fault::new(Action::CutAfterEvents(6)).on(on_watch()));
    let by_parity = Index::label("parity", "parity");
    let maps = seeded(&client).index(&by_parity).start().unwrap();
    let lister = maps.lister();
    // uid and resourceVersion, as received.
    let received = Arc::new(Mutex::new(BTreeMap::<Key, (String, u64)>::new()));
    let (shared, vanished) = (received.clone(), Arc::new(Mutex::new(0)));
    let unknown = vanished.clone();
    let handle = maps.add_handler(move |event: Event<ConfigMap>| {
        let mut received = shared.lock();
        match &event {
            Event::Added { object: new, .. } | Event::Updated { new, .. } => {
                let version = number(new.resource_version());
                let before = received.insert(new.key(), (new.uid().to_owned(), version));
                match (&event, before) {
                    (Event::Updated { old, .. }, Some((uid, last))) => {
                        assert_eq!(uid, new.uid(), "an update concerns one object");
                        assert_eq!(
                            last,
                            number(old.resource_version()),
                            "5: in order, nothing between is missing"
                        );
                        assert!(version > last, "2: never regresses: {event:?}");
                    }
                    (Event::Added { .. }, before) => {
                        assert_eq!(before, None, "3: its deletion was reported: {event:?}");
                    }
                    (_, before) => panic!("{event:?} after {before:?}"),
                }
                let stored = lister.get(&new.key()).filter(|stored| stored.uid() == new.uid());
                assert!(
                    stored.is_none_or(|stored| number(stored.resource_version()) >= version),
                    "4: the store shows it, or something newer: {event:?}"
                );
            }
            Event::Deleted { last, final_state_known, .. } => {
                let (uid, _) = received.remove(&last.key()).expect("3: it was there");
                assert_eq!(uid, last.uid());
                *unknown.lock() += u32::from(!final_state_known);
                assert!(lister.get(&last.key()).is_none_or(|stored| stored.uid() != uid), "4: {event:?}");
            }
            Event::Synced => {}
        }
        let moment = lister.view();
        let by_index = ["odd", "even"].map(|parity| moment.by_index("parity", parity).unwrap().len());
        assert_eq!(by_index.iter().sum::<usize>(), moment.iter().count(), "8: one moment");
        std::future::ready(())
    });
    let handle = handle.unwrap();
    for round in 0..400_u32 {
        let name = format!("map-{}", round * 7 % 19);
        let labels = json!({"parity": if round % 2 == 0 { "even" } else { "odd" }});
        match round % 5 {
            2 => drop(api.delete(&name, &DeleteParams::default()).await),
            _ => {
                if api.create(&PostParams::default(), &config_map(&name, &labels)).await.is_err() {
                    let patch = Patch::Merge(
                        json!({"metadata": {"labels": labels}, "data": {"n": round.to_string()}}),
                    );
                    api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
                }
            }
        }
        if round % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        if round % 60 == 59 {
            server.compact();
        }
    }
    faults.clear();
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert_eq!(handle.panics(), 0, "see above for the violation");
    let served = api.list(&Default::default()).await.unwrap().items.into_iter().map(|map| {
        let key = Key::new("default", map.metadata.name.as_deref().unwrap());
        (key, (map.metadata.uid.unwrap(), number(map.metadata.resource_version.as_deref().unwrap())))
    });
    assert_eq!(*received.lock(), served.collect::<BTreeMap<_, _>>());
    assert!(*vanished.lock() > 0, "some vanished while no watch was open");
}

#[tokio::test(start_paused = true)]
async fn promise_10_a_silent_watch_is_detected_on_a_live_connection() {
    let (server, client) = start().await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    // Long enough to receive bookmarks, one minute apart.
    let silent =
        Fault::new(Action::StallAfterEvents(12)).on(Match::verb(Verb::Watch).resource("configmaps")).once();
    let silent = server.faults().arm(silent);
    let maps = seeded(&client).start().unwrap();
    maps.synced().await.unwrap();
    for round in 0..30 {
        let created =
            api.create(&PostParams::default(), &config_map(&format!("map-{round}"), &json!({}))).await;
        created.unwrap();
        tokio::time::sleep(Duration::from_secs(61)).await;
    }
    assert_eq!(server.faults().fired(silent), Some(1));
    assert_eq!(maps.lister().count(), 30, "{:?}", maps.status());
    assert!(maps.status()[0].reflector().broken_watches > 0);
}
