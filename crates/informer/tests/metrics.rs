//! The metrics of informers.

use crate::support;

use std::collections::BTreeMap;
use std::time::Duration;

use kube_informer::testing::ScriptedSource;
use kube_informer::{InformerMetrics, Key};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use support::informers::*;
use support::status;

/// The exported values by name and `result`; all of one informer.
fn read(registry: &Registry) -> BTreeMap<String, f64> {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let line = |line: &str| {
        let (labelled, value) = line.rsplit_once(' ')?;
        let (name, labels) = labelled.split_once('{')?;
        assert!(labels.contains(r#"name="web",group="",version="v1",resource="pod""#), "{labels}");
        let result = labels.split_once("result=\"").map(|(_, result)| result.trim_end_matches("\"}"));
        let name = result.map_or(name.to_owned(), |result| format!("{name}/{result}"));
        Some((name, value.parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn lists_watches_objects_lag_and_age_are_exported() {
    let mut registry = Registry::default();
    let metrics = InformerMetrics::register(&mut registry);
    let source = ScriptedSource::new("v1", "Pod");
    source.put(on_node("a", "node-7"));
    source.fail_next_list(status(500, "InternalError"));
    let pods = informer(&source).metrics("web", &metrics).start().unwrap();
    pods.synced().await.unwrap();
    let shown = read(&registry);
    let expect = |shown: &BTreeMap<String, f64>, expected: &[(&str, f64)]| {
        for (name, value) in expected {
            assert_eq!(shown.get(*name), Some(value), "{name} in {shown:#?}");
        }
    };
    expect(
        &shown,
        &[
            ("informer_lists_total/ok", 1.0),
            ("informer_lists_total/error", 1.0),
            ("informer_objects", 1.0),
            ("informer_synced", 1.0),
            ("informer_watched_scopes", 1.0),
            ("informer_listeners", 0.0),
            ("informer_full_states_total", 1.0),
        ],
    );

    let events = pods.subscribe();
    source.break_watches();
    source.fail_next_watch(status(429, "TooManyRequests"));
    source.put(on_node("b", "node-8"));
    pods.wait_until(&Key::new("web", "b"), |pod| pod.is_some()).await.unwrap();
    tokio::time::advance(Duration::from_secs(7)).await;
    expect(
        &read(&registry),
        &[
            ("informer_watches_total/broken", 1.0),
            ("informer_watches_total/error", 1.0),
            ("informer_watches_total/ok", 2.0),
            ("informer_changes_total", 1.0),
            ("informer_event_age_seconds", 7.0),
            ("informer_listeners", 1.0),
            // One object of the current state, then its end, then the new change.
            ("informer_listener_lag", 3.0),
            ("informer_queued_items", 0.0),
        ],
    );

    // A stopped informer is not exported.
    pods.shutdown().await;
    drop((pods, events));
    settle().await;
    assert_eq!(read(&registry), BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_informer_is_not_exported_and_its_successor_is() {
    let mut registry = Registry::default();
    let metrics = InformerMetrics::register(&mut registry);
    let source = ScriptedSource::new("v1", "Pod");
    source.put(on_node("a", "node-7"));
    let first = informer(&source).metrics("web", &metrics).start().unwrap();
    first.synced().await.unwrap();
    let lister = first.lister();
    first.shutdown().await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(read(&registry), BTreeMap::new(), "a stopped informer is not exported");
    assert_eq!(lister.count(), 1, "the lister still has the object");

    source.put(on_node("b", "node-7"));
    let second = informer(&source).metrics("web", &metrics).start().unwrap();
    second.synced().await.unwrap();
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let objects = text.lines().filter(|line| line.starts_with("informer_objects{")).collect::<Vec<_>>();
    assert_eq!(objects, [r#"informer_objects{name="web",group="",version="v1",resource="pod"} 2"#]);
    drop((first, lister));
}

#[tokio::test(start_paused = true)]
async fn of_two_informers_with_one_name_the_first_is_exported() {
    let mut registry = Registry::default();
    let metrics = InformerMetrics::register(&mut registry);
    let source = ScriptedSource::new("v1", "Pod");
    let [first, second] = [(); 2].map(|()| informer(&source).metrics("web", &metrics).start().unwrap());
    first.synced().await.unwrap();
    second.synced().await.unwrap();
    let events = second.subscribe();
    let exported = |registry: &Registry| {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        let samples = text.lines().filter(|line| line.starts_with("informer_listeners{"));
        samples.map(|line| line.rsplit_once(' ').unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(exported(&registry), ["0"]);
    first.shutdown().await;
    assert_eq!(exported(&registry), ["1"], "the name is free again");
    drop(events);
}
