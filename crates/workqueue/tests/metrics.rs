//! Scraped metrics. Counterparts of client-go's `metrics_test.go` name the original in a comment.
#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

mod common;

use std::time::Duration;

use common::ms;
use kube_workqueue::{QueueMetrics, WorkQueue};
use prometheus_client::{encoding::text, registry::Registry};
use tokio::time::advance;

struct Page(Registry);

impl Page {
    fn new() -> (Self, QueueMetrics) {
        let mut registry = Registry::default();
        let metrics = QueueMetrics::register(&mut registry);
        (Self(registry), metrics)
    }

    fn text(&self) -> String {
        let mut page = String::new();
        text::encode(&mut page, &self.0).expect("writing to a string");
        page
    }

    /// The value of a series, without the subsystem's prefix.
    fn get(&self, series: &str) -> f64 {
        let page = self.text();
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix("workqueue_")?.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series} is not in\n{page}")).parse().expect("a number")
    }
}

// TestMetrics
#[tokio::test(start_paused = true)]
async fn every_step_of_a_key_is_counted() {
    let (page, metrics) = Page::new();
    let queue = WorkQueue::builder().metrics("test", &metrics).build();
    let us = Duration::from_micros;

    queue.add("foo").unwrap();
    assert_eq!(page.get(r#"adds_total{name="test"}"#), 1.0);
    assert_eq!(page.get(r#"depth{name="test"}"#), 1.0);

    advance(us(50)).await;
    let foo = queue.get().await.unwrap();
    assert_eq!(page.get(r#"depth{name="test"}"#), 0.0);
    assert_eq!(page.get(r#"queue_duration_seconds_sum{name="test"}"#), 50e-6);
    assert_eq!(page.get(r#"queue_duration_seconds_count{name="test"}"#), 1.0);

    for _ in 0..5 {
        queue.add(*foo).unwrap();
    }
    assert_eq!(page.get(r#"adds_total{name="test"}"#), 2.0);
    assert_eq!(page.get(r#"depth{name="test"}"#), 1.0, "to be queued again");

    advance(us(25)).await;
    foo.done();
    assert_eq!(page.get(r#"work_duration_seconds_sum{name="test"}"#), 25e-6);
    assert_eq!(page.get(r#"work_duration_seconds_count{name="test"}"#), 1.0);
    assert_eq!(page.get(r#"depth{name="test"}"#), 1.0);

    let foo = queue.get().await.unwrap();
    assert_eq!(page.get(r#"queue_duration_seconds_sum{name="test"}"#), 75e-6);
    assert_eq!(page.get(r#"queue_duration_seconds_count{name="test"}"#), 2.0);

    advance(ms(1)).await;
    assert_eq!(page.get(r#"unfinished_work_seconds{name="test"}"#), 0.001);
    assert_eq!(page.get(r#"longest_running_processor_seconds{name="test"}"#), 0.001);
    foo.done();
    assert_eq!(page.get(r#"work_duration_seconds_sum{name="test"}"#), 0.001025);
    assert_eq!(page.get(r#"work_duration_seconds_count{name="test"}"#), 2.0);
    assert_eq!(page.get(r#"unfinished_work_seconds{name="test"}"#), 0.0);
}

// TestMetricShutdown: there is no updater to stop at shutdown, and unfinished work stays visible.
#[tokio::test(start_paused = true)]
async fn unfinished_work_is_reported_after_shutdown() {
    let (page, metrics) = Page::new();
    let queue = WorkQueue::builder().metrics("test", &metrics).build();
    queue.add("foo").unwrap();
    let _foo = queue.get().await.unwrap();
    queue.shutdown();
    advance(Duration::from_secs(3600)).await;
    assert_eq!(page.get(r#"unfinished_work_seconds{name="test"}"#), 3600.0);
}

#[tokio::test(start_paused = true)]
async fn unfinished_is_the_sum_and_longest_the_maximum_over_workers() {
    let (page, metrics) = Page::new();
    let queue = WorkQueue::builder().metrics("test", &metrics).build();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    let _a = queue.get().await.unwrap();
    advance(ms(2000)).await;
    let _b = queue.get().await.unwrap();
    advance(ms(1000)).await;
    assert_eq!(page.get(r#"unfinished_work_seconds{name="test"}"#), 4.0);
    assert_eq!(page.get(r#"longest_running_processor_seconds{name="test"}"#), 3.0);
}

#[tokio::test(start_paused = true)]
async fn retries_count_every_delayed_add_and_adds_count_when_they_are_due() {
    let (page, metrics) = Page::new();
    let queue = WorkQueue::builder().metrics("test", &metrics).build();
    queue.add_after("foo", ms(10)).unwrap();
    queue.add_after("foo", ms(20)).unwrap();
    queue.add_after("foo", ms(0)).unwrap();
    queue.add_rate_limited("foo").unwrap();
    queue.add("foo").unwrap();
    assert_eq!(page.get(r#"retries_total{name="test"}"#), 4.0);
    assert_eq!(page.get(r#"adds_total{name="test"}"#), 1.0);
    queue.get().await.unwrap().done();
    advance(ms(15)).await;
    assert_eq!(page.get(r#"adds_total{name="test"}"#), 2.0);
    assert_eq!(page.get(r#"depth{name="test"}"#), 1.0, "due, although no getter waits");
    queue.get().await.unwrap().done();
    assert_eq!(page.get(r#"queue_duration_seconds_sum{name="test"}"#), 0.010, "since it was due");
    queue.shutdown();
    queue.add_after("foo", ms(10)).unwrap_err();
    assert_eq!(page.get(r#"retries_total{name="test"}"#), 4.0);
}

#[tokio::test(start_paused = true)]
async fn buckets_match_client_go() {
    let (page, metrics) = Page::new();
    let queue = WorkQueue::builder().metrics("test", &metrics).build();
    queue.add("foo").unwrap();
    advance(ms(1)).await;
    queue.get().await.unwrap().done();
    let page = page.text();
    let prefix = "workqueue_queue_duration_seconds_bucket{le=\"";
    let buckets: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix(prefix)?.split_once('"')).collect();
    let bounds: Vec<f64> = buckets.iter().map(|(bound, _)| bound.parse().unwrap()).collect();
    assert_eq!(bounds, [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, f64::INFINITY]);
    let counts: Vec<_> = buckets.iter().map(|(_, rest)| rest.rsplit_once(' ').unwrap().1).collect();
    assert_eq!(counts, ["0", "0", "0", "0", "0", "1", "1", "1", "1", "1", "1"]);
}

#[tokio::test]
async fn names_and_types_match_client_go_and_each_is_described_once() {
    let (page, metrics) = Page::new();
    let _queues = ["a", "b"].map(|name| WorkQueue::<u32>::builder().metrics(name, &metrics).build());
    let page = page.text();
    let types: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(
        types,
        [
            "workqueue_depth gauge",
            "workqueue_adds counter",
            "workqueue_queue_duration_seconds histogram",
            "workqueue_work_duration_seconds histogram",
            "workqueue_unfinished_work_seconds gauge",
            "workqueue_longest_running_processor_seconds gauge",
            "workqueue_retries counter",
        ]
    );
    for series in ["adds_total", "retries_total", "depth"] {
        for name in ["a", "b"] {
            assert!(
                page.contains(&format!("workqueue_{series}{{name=\"{name}\"}} 0")),
                "{series} of {name}\n{page}"
            );
        }
    }
}

#[tokio::test]
async fn unnamed_and_dropped_queues_have_no_metrics() {
    let (page, metrics) = Page::new();
    let unnamed = WorkQueue::new();
    unnamed.add(1).unwrap();
    let gone = WorkQueue::builder().metrics("gone", &metrics).build();
    gone.add(1).unwrap();
    assert!(page.text().contains("gone"));
    drop(gone);
    assert!(!page.text().contains("name="), "{}", page.text());
}

#[tokio::test]
async fn queues_with_the_same_name_are_reported_as_one() {
    let (page, metrics) = Page::new();
    let queues = [(); 2].map(|()| WorkQueue::builder().metrics("same", &metrics).build());
    for queue in &queues {
        queue.add("foo").unwrap();
    }
    assert_eq!(page.get(r#"depth{name="same"}"#), 2.0);
    assert_eq!(page.text().matches("workqueue_depth{").count(), 1);
}
