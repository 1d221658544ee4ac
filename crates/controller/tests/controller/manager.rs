//! What a manager runs next to its controllers, and in which order it stops; metrics of its requests.

use std::time::Duration;

use embedded_apiserver::{Action as FaultAction, Fault, Match, Server, Verb};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_client::api::{ListParams, PostParams, WatchParams};
use kube_informer::{Informer, Key};
use kube_informer_controller::{
    Action, Context, Controller, Error, LeaderElection, Manager, RestMetrics, RunError, Stop,
};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::sleep;

use crate::support::{Log, done};

const SECOND: Duration = Duration::from_secs(1);

async fn server() -> Server {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"}});
    Server::builder().without_socket().objects([map]).start().await.unwrap()
}

/// A controller whose reconciles take ten seconds.
fn controller(server: &Server, log: &Log) -> Controller {
    let maps =
        Informer::<ConfigMap>::builder(server.client().unwrap()).namespaces(["default"]).start().unwrap();
    let reconcile = async |ctx: Context<Log>, _: Key| -> Result<Action, Error> {
        ctx.data().note("reconcile begins");
        sleep(10 * SECOND).await;
        ctx.data().note("reconcile ends");
        done()
    };
    Controller::builder("t", &maps).build(log.clone(), reconcile).unwrap()
}

/// A runnable that notes its start, and its end a second after it was stopped.
fn noting(
    log: &Log,
    name: &'static str,
) -> impl Fn(Stop) -> futures::future::BoxFuture<'static, Result<(), Error>> + use<> {
    let log = log.clone();
    move |stop| {
        let log = log.clone();
        Box::pin(async move {
            log.note(format!("{name} begins"));
            stop.stopping().await;
            sleep(SECOND).await;
            log.note(format!("{name} ends"));
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn c7_runnables_start_before_controllers_and_stop_after_them_in_reverse_order() {
    let (server, log, stop) = (server().await, Log::default(), Stop::new());
    let manager = Manager::new()
        .runnable("one", noting(&log, "one"))
        .runnable("two", noting(&log, "two"))
        .runnable("short", async |_| Ok::<_, Error>(()))
        .controller(controller(&server, &log));
    let stopping = stop.clone();
    let task = tokio::spawn(async move { manager.run(&stopping).await });
    sleep(SECOND).await;
    stop.stop();
    task.await.unwrap().unwrap();
    let lines = log.take();
    let expected = ["one begins", "two begins", "reconcile begins", "reconcile ends", "two ends", "one ends"];
    assert_eq!(lines, expected);
}

#[tokio::test(start_paused = true)]
async fn c7_a_runnable_that_does_not_stop_is_cancelled_after_the_grace_period() {
    let stop = Stop::new();
    let manager = Manager::new().grace(5 * SECOND).runnable("stuck", async |_| {
        futures::future::pending::<()>().await;
        Ok::<_, Error>(())
    });
    stop.stop();
    let began = tokio::time::Instant::now();
    manager.run(&stop).await.unwrap();
    assert_eq!(began.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_failing_runnable_stops_everything() {
    for panics in [false, true] {
        let (server, log, stop) = (server().await, Log::default(), Stop::new());
        let manager = Manager::new()
            .runnable("one", noting(&log, "one"))
            .runnable("broken", async move |_| {
                sleep(SECOND).await;
                assert!(!panics, "it panicked");
                Err::<(), _>(Error::new("the port is taken"))
            })
            .controller(controller(&server, &log));
        let error = manager.run(&stop).await.unwrap_err();
        assert!(matches!(&error, RunError::Runnable { name, .. } if name == "broken"), "{error}");
        if !panics {
            assert_eq!(error.to_string(), "runnable `broken` failed: the port is taken");
        }
        assert_eq!(log.take(), ["one begins", "reconcile begins", "reconcile ends", "one ends"]);
        assert!(!stop.is_stopping(), "the user's handle may stop others, too");
    }
}

/// A runnable that panics before it returns its future.
fn panics_early(_: Stop) -> futures::future::BoxFuture<'static, Result<(), Error>> {
    panic!("it panicked early")
}

#[tokio::test(start_paused = true)]
async fn a_failing_leader_runnable_stops_everything() {
    let server = server().await;
    type Run = fn(Stop) -> futures::future::BoxFuture<'static, Result<(), Error>>;
    let cases: [(Run, &str); 3] = [
        (|_| Box::pin(async { Err(Error::new("the port is taken")) }), "the port is taken"),
        (|_| Box::pin(async { panic!("it panicked late") }), "panicked: it panicked late"),
        (panics_early, "panicked: it panicked early"),
    ];
    for (run, reason) in cases {
        for leads in [false, true] {
            let (log, stop) = (Log::default(), Stop::new());
            let mut manager = Manager::new()
                .runnable("one", noting(&log, "one"))
                .leader_runnable("broken", move |stop, _| async move {
                    sleep(SECOND).await;
                    run(stop).await
                })
                .controller(controller(&server, &log));
            if leads {
                manager = manager.leader(LeaderElection::new(server.client().unwrap(), "default", "t"));
            }
            let error = manager.run(&stop).await.unwrap_err();
            assert_eq!(error.to_string(), format!("runnable `broken` failed: {reason}"));
            assert_eq!(log.take(), ["one begins", "reconcile begins", "reconcile ends", "one ends"]);
            assert!(!stop.is_stopping(), "the user's handle may stop others, too");
        }
    }
    // The function itself panics, not its future.
    let error =
        Manager::new().leader_runnable("broken", |stop, _| panics_early(stop)).run(&Stop::new()).await;
    assert!(matches!(error, Err(RunError::Runnable { .. })), "{error:?}");
    let error = Manager::new().runnable("broken", panics_early).run(&Stop::new()).await;
    assert!(matches!(error, Err(RunError::Runnable { .. })), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failing_runnable_does_not_cancel_running_reconciles() {
    let late = || async {
        sleep(5 * SECOND).await;
        Err::<(), _>(Error::new("it failed late"))
    };
    for leads in [false, true] {
        // It fails while running reconciles may finish.
        let (server, log, stop) = (server().await, Log::default(), Stop::new());
        let manager = match leads {
            true => Manager::new().leader_runnable("broken", move |_, _| late()),
            false => Manager::new().runnable("broken", move |_| late()),
        };
        let manager = manager.controller(controller(&server, &log));
        let stopping = stop.clone();
        let task = tokio::spawn(async move { manager.run(&stopping).await });
        sleep(SECOND).await;
        stop.stop();
        let error = task.await.unwrap().unwrap_err();
        assert!(matches!(error, RunError::Runnable { .. }), "{error}");
        assert_eq!(log.take(), ["reconcile begins", "reconcile ends"]);
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_second_stop_of_the_user_cancels_after_a_failure() {
    for stops in [1, 2] {
        let (server, log, stop) = (server().await, Log::default(), Stop::new());
        let manager = Manager::new()
            .runnable("broken", async |_| {
                sleep(SECOND).await;
                Err::<(), _>(Error::new("the port is taken"))
            })
            .controller(controller(&server, &log));
        let stopping = stop.clone();
        let task = tokio::spawn(async move { manager.run(&stopping).await });
        sleep(5 * SECOND).await;
        for _ in 0..stops {
            stop.stop();
        }
        task.await.unwrap().unwrap_err();
        let expected: &[&str] =
            if stops == 1 { &["reconcile begins", "reconcile ends"] } else { &["reconcile begins"] };
        assert_eq!(log.take(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn c8_leader_runnables_run_on_one_replica() {
    let (server, log) = (server().await, Log::default());
    let replica = |name: &'static str| {
        let (log, stop) = (log.clone(), Stop::new());
        let election = LeaderElection::new(server.client().unwrap(), "default", "t");
        let run = noting(&log, name);
        let manager = Manager::new().leader(election).leader_runnable("job", move |stop, term| {
            assert!(term.is_some());
            run(stop)
        });
        let stopping = stop.clone();
        (stop, tokio::spawn(async move { manager.run(&stopping).await }))
    };
    let (one, first) = replica("one");
    sleep(10 * SECOND).await;
    let (two, second) = replica("two");
    sleep(60 * SECOND).await;
    assert_eq!(log.take(), ["one begins"]);
    one.stop();
    first.await.unwrap().unwrap();
    sleep(60 * SECOND).await;
    assert_eq!(log.take(), ["one ends", "two begins"]);
    two.stop();
    second.await.unwrap().unwrap();
    assert_eq!(log.take(), ["two ends"]);
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_with_the_names_of_client_go() {
    let server = server().await;
    let mut registry = Registry::default();
    let client = RestMetrics::register(&mut registry).client(server.client().unwrap(), "east");
    let maps = Api::<ConfigMap>::default_namespaced(client);
    maps.list(&ListParams::default()).await.unwrap();
    assert!(maps.get("b").await.is_err());
    server.faults().arm(Fault::new(FaultAction::Disconnect).on(Match::verb(Verb::Get)).once());
    assert!(maps.get("a").await.is_err());
    let map = serde_json::from_value(json!({"metadata": {"name": "new"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let watch = maps.watch(&WatchParams::default(), "0").await.unwrap();
    assert!(watch.boxed().next().await.is_some());
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"rest_client_requests_total{code="200",method="GET",host="east"} 2"#,
        r#"rest_client_requests_total{code="404",method="GET",host="east"} 1"#,
        r#"rest_client_requests_total{code="<error>",method="GET",host="east"} 1"#,
        r#"rest_client_request_duration_seconds_count{verb="GET",host="east"} 4"#,
        // The list, and the refused request. The other two are a watch and a request without a response.
        r#"rest_client_response_size_bytes_count{verb="GET",host="east"} 2"#,
        r#"rest_client_response_size_bytes_bucket{le="64.0",verb="GET",host="east"} 0"#,
        r#"rest_client_response_size_bytes_count{verb="POST",host="east"} 1"#,
        r#"rest_client_request_size_bytes_count{verb="POST",host="east"} 1"#,
        r#"rest_client_request_size_bytes_bucket{le="16777216.0",verb="POST",host="east"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    let sent = text.lines().find_map(|line| {
        line.strip_prefix(r#"rest_client_request_size_bytes_sum{verb="POST",host="east"} "#)
    });
    let body = serde_json::to_vec(&map).unwrap().len();
    assert_eq!(sent, Some(&*format!("{body}.0")));
    assert!(!text.contains(r#"request_size_bytes_count{verb="GET""#), "a GET has no body");
}
