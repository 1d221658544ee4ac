//! Outcomes of reconciles (success, failure, panic), concurrency and order.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::*;
use futures::StreamExt as _;
use kube_informer::testing::ScriptedSource;
use kube_informer::{Informer, Key, SyncError};
use kube_informer_controller::{
    Action, Context, Controller, ControllerMetrics, Error, Predicate, Retry, RunError, Trigger,
};
use kube_workqueue::{PerItemExponential, RateLimiter};
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

fn doubling() -> PerItemExponential<Key> {
    PerItemExponential::new(SECOND, 100 * SECOND)
}

#[tokio::test(start_paused = true)]
async fn c3_work_starts_after_informers_and_handlers_are_synced() {
    let world = World::new();
    world.maps.put(named("a"));
    world.pods.put(owned("child", &["b"]));
    // The pods' first list fails once, which costs a back-off.
    world.pods.fail_next_list(kube_informer::building_blocks::SourceError::Idle(SECOND));
    world.pods.support_watch_list(kube_informer::testing::WatchListSupport::Refused);
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    maps.synced().await.unwrap();
    assert!(!pods.is_synced());
    let seen = Arc::<Mutex<Vec<bool>>>::default();
    let reconcile = {
        let (seen, pods) = (seen.clone(), pods.clone());
        move |_: Context<Log>, _: Key| {
            seen.lock().push(pods.is_synced());
            async { done() }
        }
    };
    let controller = Controller::builder("t", &maps).owns(&pods).build(Log::default(), reconcile).unwrap();
    let _running = Running::start(controller);
    sleep(60 * SECOND).await;
    assert_eq!(*seen.lock(), [true, true], "a, and b because of its child");
}

#[tokio::test(start_paused = true)]
async fn c3_c10_a_refused_informer_ends_run_with_the_servers_message() {
    let source = ScriptedSource::new("v1", "ConfigMap");
    source.support_watch_list(kube_informer::testing::WatchListSupport::Refused);
    let mut status = kube_wire::Status::default();
    status.code = 403;
    source.fail_next_list(kube_informer::building_blocks::SourceError::Status(status));
    let maps =
        Informer::<k8s_openapi::api::core::v1::ConfigMap>::from_source(Arc::new(source)).start().unwrap();
    let (running, _log) = noting(Controller::builder("t", &maps));
    let error = running.ended().await.unwrap_err();
    assert!(matches!(&error, RunError::Sync { source: SyncError::Refused { .. }, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn c10_an_informer_that_stops_ends_run_with_an_error() {
    let world = World::new();
    let (maps, pods) = (world.map_informer(), world.pod_informer());
    let (running, _log) = noting(Controller::builder("t", &maps).owns(&pods));
    settle().await;
    pods.shutdown().await;
    let error = running.ended().await.unwrap_err();
    assert!(matches!(&error, RunError::Sync { source: SyncError::Stopped(_), .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_informer_first_survives_a_missing_definition() {
    let world = World::new();
    world.maps.put(named("a"));
    world.maps.support_watch_list(kube_informer::testing::WatchListSupport::Refused);
    let mut status = kube_wire::Status::default();
    status.code = 404;
    world.maps.fail_next_list(kube_informer::building_blocks::SourceError::Status(status));
    let maps = world.map_informer();
    let mut refused = 0;
    while let Err(SyncError::Refused { .. }) = maps.synced().await {
        refused += 1;
        sleep(5 * SECOND).await;
    }
    assert!(refused > 0);
    let (_running, log) = noting(Controller::builder("t", &maps));
    assert_eq!(log.next(1).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn c4_failures_back_off_and_success_resets_them() {
    let world = World::new();
    world.maps.put(named("a"));
    let maps = world.map_informer();
    let start = Instant::now();
    let log = Log::default();
    let reconcile = move |context: Context<Log>, _: Key| async move {
        context.data().note(format!("{}s after {}", start.elapsed().as_secs(), context.failures()));
        match (start.elapsed().as_secs(), context.failures()) {
            (..100, 3) => Ok(Action::RequeueAfter(100 * SECOND)),
            (200.., _) => done(),
            _ => Err(std::io::Error::other("not yet"))?,
        }
    };
    let controller =
        Controller::builder("t", &maps).backoff(doubling()).build(log.clone(), reconcile).unwrap();
    let _running = Running::start(controller);
    sleep(1000 * SECOND).await;
    let first = ["0s after 0", "1s after 1", "3s after 2", "7s after 3"];
    let second =
        ["107s after 0", "108s after 1", "110s after 2", "114s after 3", "122s after 4", "138s after 5"];
    let third = ["170s after 6", "234s after 7"];
    assert_eq!(log.take(), [&first[..], &second[..], &third[..]].concat());
}

#[tokio::test(start_paused = true)]
async fn c4_terminal_errors_wait_for_a_change_and_others_follow_the_policy() {
    let world = World::new();
    let maps = world.map_informer();
    let log = Log::default();
    let reconcile = async |context: Context<Log>, key: Key| -> Result<Action, Error> {
        context.data().note(&key);
        match key.name() {
            "broken" => Err(Error::terminal("it will never do")),
            _ => Err(Error::new("not yet")),
        }
    };
    let policy_log = log.clone();
    let controller = Controller::builder("t", &maps)
        .on_error(move |failure| {
            policy_log.note(format!("{} {}: {}", failure.key.name(), failure.failures, failure.error));
            match failure.key.name() {
                "never" => Retry::Never,
                _ if failure.failures == 2 => Retry::Never,
                _ => Retry::After(10 * SECOND),
            }
        })
        .build(log.clone(), reconcile)
        .unwrap();
    let _running = Running::start(controller);
    world.maps.put(named("broken"));
    sleep(2000 * SECOND).await;
    assert_eq!(log.take(), ["web/broken"], "the policy is not asked");
    world.maps.put(named("never"));
    sleep(2000 * SECOND).await;
    assert_eq!(log.take(), ["web/never", "never 1: not yet"]);
    world.maps.put(named("later"));
    sleep(25 * SECOND).await;
    let tries = ["web/later", "later 1: not yet"];
    assert_eq!(log.take(), [tries, tries, tries].concat());
    world.maps.put(named("broken"));
    assert_eq!(log.next(1).await, ["web/broken"], "the object has changed");
}

#[tokio::test(start_paused = true)]
async fn c4_a_panic_fails_only_its_key() {
    let world = World::new();
    world.maps.put(named("a"));
    world.maps.put(named("b"));
    let maps = world.map_informer();
    let log = Log::default();
    let mut registry = Registry::default();
    let metrics = ControllerMetrics::register(&mut registry);
    let reconcile = |context: Context<Log>, key: Key| async move {
        let tries = context.failures();
        context.data().note(format!("{} {tries}", key.name()));
        assert!(key.name() != "a" || tries == 2, "twice it goes wrong");
        done()
    };
    let controller = Controller::builder("t", &maps).backoff(doubling()).metrics(&metrics);
    let _running = Running::start(controller.build(log.clone(), reconcile).unwrap());
    sleep(10 * SECOND).await;
    assert_eq!(log.take(), ["a 0", "b 0", "a 1", "a 2"]);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        r#"controller_runtime_reconcile_total{controller="t",result="success"} 2"#,
        r#"controller_runtime_reconcile_total{controller="t",result="error"} 2"#,
        r#"controller_runtime_reconcile_errors_total{controller="t"} 2"#,
        r#"controller_runtime_terminal_reconcile_errors_total{controller="t"} 0"#,
        r#"controller_runtime_reconcile_panics_total{controller="t"} 2"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="t"} 4"#,
        r#"controller_runtime_active_workers{controller="t"} 0"#,
        r#"controller_runtime_max_concurrent_reconciles{controller="t"} 1"#,
        r#"workqueue_adds_total{name="t"} 4"#,
        r#"workqueue_retries_total{name="t"} 2"#,
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn c4_a_panicking_error_policy_means_back_off() {
    let world = World::new();
    world.maps.put(named("a"));
    let maps = world.map_informer();
    let log = Log::default();
    let mut registry = Registry::default();
    let metrics = ControllerMetrics::register(&mut registry);
    let reconcile = |context: Context<Log>, key: Key| async move {
        context.data().note(format!("{} {}", key.name(), context.failures()));
        if key.name() == "a" && context.failures() < 2 { Err(Error::new("not yet")) } else { done() }
    };
    let controller = Controller::builder("t", &maps).backoff(doubling()).metrics(&metrics);
    let controller = controller.on_error(|_| panic!("no idea"));
    let running = Running::start(controller.build(log.clone(), reconcile).unwrap());
    log.next(1).await;
    world.maps.put(named("b"));
    sleep(10 * SECOND).await;
    assert_eq!(log.take(), ["b 0", "a 1", "a 2"]);
    assert!(!running.task.is_finished());
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        r#"controller_runtime_reconcile_errors_total{controller="t"} 2"#,
        r#"controller_runtime_reconcile_panics_total{controller="t"} 2"#,
        r#"workqueue_retries_total{name="t"} 2"#,
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

/// Panics the first time that it is asked for this.
struct Clumsy(Cell<&'static str>);

impl Clumsy {
    fn asked(&self, what: &str) {
        if self.0.get() == what {
            self.0.set("nothing more");
            panic!("{what} goes wrong");
        }
    }
}

impl RateLimiter<Key> for Clumsy {
    fn when(&mut self, _: &Key) -> Duration {
        self.asked("when");
        SECOND
    }

    fn forget(&mut self, _: &Key) {
        self.asked("forget");
    }

    fn num_requeues(&self, _: &Key) -> u32 {
        self.asked("num_requeues");
        0
    }
}

#[tokio::test(start_paused = true)]
async fn c4_a_panicked_worker_is_replaced_and_its_key_retried() {
    let cases: [(_, &[_]); 3] =
        [("num_requeues", &["b", "a"]), ("when", &["a", "b", "a"]), ("forget", &["a", "b", "a"])];
    for (clumsy, reconciled) in cases {
        let world = World::new();
        world.maps.put(named("a"));
        world.maps.put(named("b"));
        let maps = world.map_informer();
        let (log, tries) = (Log::default(), AtomicUsize::default());
        let mut registry = Registry::default();
        let metrics = ControllerMetrics::register(&mut registry);
        let reconcile = move |context: Context<Log>, key: Key| {
            context.data().note(key.name());
            let fails = clumsy == "when" && tries.fetch_add(1, Ordering::Relaxed) == 0;
            async move { if fails { Err(Error::new("not yet")) } else { done() } }
        };
        let limiter = Clumsy(Cell::new(clumsy));
        let controller = Controller::builder("t", &maps).backoff(limiter).metrics(&metrics);
        let running = Running::start(controller.build(log.clone(), reconcile).unwrap());
        sleep(60 * SECOND).await;
        assert_eq!(log.take(), reconciled, "{clumsy}");
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let panics = r#"controller_runtime_reconcile_panics_total{controller="t"} 1"#;
        assert!(text.contains(panics), "{clumsy}: {text}");
        running.stop.stop();
        assert!(running.ended().await.is_ok(), "{clumsy}: nothing was cut short");
    }
}

#[tokio::test(start_paused = true)]
async fn c2_concurrency_is_reached_and_keys_never_overlap() {
    let world = World::new();
    let names = (0..20).map(|number| format!("m{number}")).collect::<Vec<_>>();
    names.iter().for_each(|name| drop(world.maps.put(named(name))));
    let maps = world.map_informer();
    let (now, most) = (Arc::<Mutex<HashSet<Key>>>::default(), Arc::<AtomicUsize>::default());
    let reconcile = {
        let (now, most) = (now.clone(), most.clone());
        move |_: Context, key: Key| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                assert!(now.lock().insert(key.clone()), "{key} is reconciled twice at the same time");
                most.fetch_max(now.lock().len(), Ordering::Relaxed);
                sleep(SECOND).await;
                now.lock().remove(&key);
                done()
            }
        }
    };
    let controller = Controller::builder("t", &maps).concurrency(7).build((), reconcile).unwrap();
    let _running = Running::start(controller);
    for _ in 0..10 {
        sleep(SECOND / 3).await;
        names.iter().for_each(|name| drop(world.maps.put(named(name))));
    }
    sleep(20 * SECOND).await;
    assert_eq!((most.load(Ordering::Relaxed), now.lock().len()), (7, 0));
}

#[tokio::test(start_paused = true)]
async fn c5_live_changes_precede_the_initial_list_and_resyncs() {
    let world = World::new();
    for number in 0..5 {
        world.maps.put(named(&format!("m{number}")));
    }
    let maps = Informer::<k8s_openapi::api::core::v1::ConfigMap>::from_source(Arc::new(world.maps.clone()));
    let maps = maps.resync(60 * SECOND).start().unwrap();
    let turns = Arc::new(Semaphore::new(0));
    let log = Log::default();
    let reconcile = {
        let turns = turns.clone();
        move |context: Context<Log>, key: Key| {
            let turns = turns.clone();
            async move {
                turns.acquire().await.unwrap().forget();
                context.data().note(key.name());
                done()
            }
        }
    };
    let watch = Trigger::on(&maps).when(Predicate::generation_changed());
    let controller = Controller::builder("t", watch).build(log.clone(), reconcile).unwrap();
    let _running = Running::start(controller);
    settle().await;
    world.maps.put(named("m4"));
    world.maps.put(named("live"));
    settle().await;
    turns.add_permits(6);
    let order = log.next(6).await;
    assert_eq!(order[1..3], ["m4", "live"], "one was at it already: {order:?}");

    sleep(60 * SECOND).await;
    world.maps.put(named("m2"));
    settle().await;
    turns.add_permits(6);
    assert_eq!(log.next(6).await[1], "m2");
}

#[tokio::test(start_paused = true)]
async fn c5_waiting_keys_overtake_higher_priorities() {
    let world = World::new();
    world.maps.put(named("patient"));
    let maps = world.map_informer();
    let log = Log::default();
    let reconcile = async |context: Context<Log>, key: Key| -> Result<Action, Error> {
        context.data().note(key.name());
        sleep(SECOND).await;
        done()
    };
    // Two keys that keep the only worker busy all the time.
    let busy = async_stream(["x", "y"].map(|name| Key::new("web", name)), SECOND / 4);
    let controller =
        Controller::builder("t", &maps).reconcile_on(busy).build(log.clone(), reconcile).unwrap();
    let start = Instant::now();
    let _running = Running::start(controller);
    loop {
        if log.next(1).await.contains(&"patient".to_owned()) {
            break;
        }
    }
    assert!(
        start.elapsed() < 105 * SECOND,
        "a hundred points of priority, a second each: {:?}",
        start.elapsed()
    );
}

/// Repeats these keys, with this pause between them.
fn async_stream<const N: usize>(keys: [Key; N], pace: Duration) -> impl futures::Stream<Item = Key> {
    futures::stream::unfold(0, move |number: usize| {
        let key = keys[number % N].clone();
        async move {
            sleep(pace).await;
            Some((key, number + 1))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn c1_a_full_queue_blocks_streams_without_losing_keys() {
    let world = World::new();
    let maps = world.map_informer();
    for number in 0..50 {
        world.maps.put(named(&format!("m{number}")));
    }
    let taken = Arc::<AtomicUsize>::default();
    let streamed = futures::stream::iter(50..100).map({
        let taken = taken.clone();
        move |number| {
            taken.fetch_add(1, Ordering::Relaxed);
            Key::new("web", &format!("m{number}"))
        }
    });
    let (log, turns) = (Log::default(), Arc::new(Semaphore::new(0)));
    let reconcile = {
        let turns = turns.clone();
        move |context: Context<Log>, key: Key| {
            let turns = turns.clone();
            async move {
                turns.acquire().await.unwrap().forget();
                context.data().note(key);
                done()
            }
        }
    };
    let builder = Controller::builder("t", &maps).queue_capacity(3).reconcile_on(streamed);
    let _running = Running::start(builder.build(log.clone(), reconcile).unwrap());
    sleep(60 * SECOND).await;
    assert!(taken.load(Ordering::Relaxed) <= 4, "{taken:?}: the rest waits in the stream");
    turns.add_permits(100);
    let mut seen = HashSet::new();
    while seen.len() < 100 {
        seen.extend(log.next(1).await);
    }
}

#[tokio::test(start_paused = true)]
async fn c4_a_decode_error_is_retried_when_the_object_changes() {
    let world = World::new();
    let maps = world.map_informer();
    let log = Log::default();
    let reconcile = {
        let maps = maps.clone();
        move |context: Context<Log>, key: Key| {
            let map = maps.lister().get(&key);
            async move {
                context.data().note(&key);
                if let Some(map) = map {
                    map.decode()?;
                }
                done()
            }
        }
    };
    let _running = Running::start(Controller::builder("t", &maps).build(log.clone(), reconcile).unwrap());
    let map = |value: serde_json::Value| serde_json::json!({"metadata": {"namespace": "web", "name": "a"}, "data": {"x": value}});
    world.maps.put(map(7.into()));
    sleep(2000 * SECOND).await;
    assert_eq!(log.take(), ["web/a"], "a decode error is not retried before the object changes");
    world.maps.put(map("7".into()));
    assert_eq!(log.next(1).await, ["web/a"]);
}

#[tokio::test(start_paused = true)]
async fn errors_print_each_cause_once_and_name_the_field() {
    let world = World::new();
    world.maps.put(serde_json::json!({"metadata": {"namespace": "web", "name": "a"}, "data": {"x": 7}}));
    let maps = world.map_informer();
    maps.synced().await.unwrap();
    let line = |error: Error| format!("{error:#}");
    let error = line(maps.lister().list()[0].decode().unwrap_err().into());
    assert!(error.contains("data.x"), "{error}");
    assert_eq!(error.matches("invalid type").count(), 1, "{error}");
    assert_eq!(error.matches("web/a").count(), 1, "{error}");

    let status: kube_core::Status = serde_json::from_value(
        serde_json::json!({"code": 403, "reason": "Forbidden", "message": "no way", "status": "Failure"}),
    )
    .unwrap();
    let error = line(kube_client::Error::Api(Box::new(status)).into());
    assert_eq!(error, "403 Forbidden: no way");
    let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "refused by the peer");
    let error = line(kube_client::Error::Service(Box::new(refused)).into());
    assert_eq!(error.matches("refused by the peer").count(), 1, "{error}");
}

#[tokio::test(start_paused = true)]
async fn anyhow_errors_keep_terminal_causes() {
    use anyhow::Context as _;
    let world = World::new();
    let (maps, log) = (world.map_informer(), Log::default());
    for name in ["terminal", "wrapped", "undecodable", "retried"] {
        world.maps.put(serde_json::json!({"metadata": {"namespace": "web", "name": name}, "data": {"x": 7}}));
    }
    let listed = maps.clone();
    let reconcile = move |context: Context<Log>, key: Key| {
        let maps = listed.clone();
        async move {
            context.data().note(key.name());
            match key.name() {
                "terminal" => Err(Error::terminal("no"))?,
                "wrapped" => Err(Error::terminal("no")).context("with context")?,
                "undecodable" => drop(maps.lister().get(&key).unwrap().decode()?),
                _ if context.failures() < 2 => anyhow::bail!("not yet"),
                _ => {}
            }
            anyhow::Ok(Action::Done)
        }
    };
    let controller =
        Controller::builder("t", &maps).backoff(doubling()).build(log.clone(), reconcile).unwrap();
    let running = Running::start(controller);
    sleep(Duration::from_secs(600)).await;
    let mut lines = log.take();
    lines.sort();
    assert_eq!(lines, ["retried", "retried", "retried", "terminal", "undecodable", "wrapped"]);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn errors_of_selectors_keys_and_informers_become_errors_of_a_reconcile() {
    let world = World::new();
    let maps = world.map_informer();
    let selector = || -> Result<_, Error> { Ok(maps.lister().labels("a in (")?.list()) };
    assert!(selector().unwrap_err().to_string().starts_with("invalid label selector \"a in (\""));
    let key = || -> Result<Key, Error> { Ok("a/b/c/d/e".parse()?) };
    assert!(key().unwrap_err().to_string().contains("a/b/c/d/e"));
    let start = |client: kube_client::Client| -> Result<Informer<k8s_openapi::api::core::v1::Pod>, Error> {
        Ok(Informer::builder(client).labels("a in (").start()?)
    };
    let client =
        embedded_apiserver::Server::builder().without_socket().start().await.unwrap().client().unwrap();
    assert!(start(client).unwrap_err().to_string().contains("invalid label selector"));
}

#[test]
fn an_error_is_a_standard_error_that_anyhow_and_boxes_take_and_return() {
    let boxed: Box<dyn std::error::Error + Send + Sync> = Error::terminal("no").into();
    let error = Error::from(boxed);
    assert!(error.is_terminal());
    let error = anyhow::Error::from(error).context("outer");
    assert_eq!(format!("{error:#}"), "outer: no");
    assert!(Error::from(error).is_terminal());
    let io = || std::io::Error::other("inner");
    let error = Error::from(anyhow::Error::from(io()).context("outer"));
    assert_eq!((format!("{error}"), format!("{error:#}")), ("outer".to_owned(), "outer: inner".to_owned()));
    assert!(!error.is_terminal());
    assert!(Error::from(io()).get_ref().downcast_ref::<std::io::Error>().is_some());
}

#[tokio::test(start_paused = true)]
async fn c4_a_reconcile_that_exceeds_its_deadline_fails_and_is_counted() {
    let world = World::new();
    world.maps.put(named("a"));
    let maps = world.map_informer();
    let log = Log::default();
    let mut registry = Registry::default();
    let metrics = ControllerMetrics::register(&mut registry);
    let policy_log = log.clone();
    let reconcile = |context: Context<Log>, _: Key| async move {
        context.data().note(format!("began after {}", context.failures()));
        if context.failures() == 0 {
            sleep(3600 * SECOND).await;
        }
        done()
    };
    let controller = Controller::builder("t", &maps)
        .backoff(doubling())
        .metrics(&metrics)
        .deadline(30 * SECOND)
        .on_error(move |failure| {
            policy_log.note(failure.error);
            Retry::Backoff
        })
        .build(log.clone(), reconcile)
        .unwrap();
    let start = Instant::now();
    let _running = Running::start(controller);
    let lines = log.next(3).await;
    assert_eq!(lines, ["began after 0", "reconcile exceeded its deadline of 30s", "began after 1"]);
    assert_eq!(start.elapsed(), 31 * SECOND);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    assert!(text.contains(r#"controller_runtime_reconcile_timeouts_total{controller="t"} 1"#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn each_reconcile_has_an_id_and_a_span() {
    let world = World::new();
    world.maps.put(named("a"));
    let maps = world.map_informer();
    let (logs, _guard) = capture_logs();
    let log = Log::default();
    let reconcile = |context: Context<Log>, _: Key| async move {
        context.data().note(context.reconcile_id());
        done()
    };
    let controller = Controller::builder("t", &maps).build(log.clone(), reconcile).unwrap();
    let _running = Running::start(controller);
    assert_eq!(log.next(1).await, ["0"]);
    world.maps.put(named("a"));
    assert_eq!(log.next(1).await, ["1"]);
    let spans = logs.take().into_iter().filter(|line| line.starts_with("span reconcile")).collect::<Vec<_>>();
    assert_eq!(
        spans,
        ["span reconcile controller=\"t\" key=web/a id=0", "span reconcile controller=\"t\" key=web/a id=1"]
    );
}
