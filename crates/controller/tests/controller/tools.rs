//! The tools next to controllers: finalizers, events, health; on the embedded server.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use embedded_apiserver::{Action as FaultAction, Fault, Match, Restart, Server, Verb};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Node, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use kube_client::Api;
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{Informer, InformerMetrics, Key, WatchList};
use kube_informer_controller::{
    Action, Context, Controller, ControllerMetrics, Error, EventNote, EventRecorder, Health, LeaderElection,
    LeaderMetrics, Manager, RestMetrics, Stage, Stop, finalize,
};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

async fn server() -> (Server, kube_client::Client) {
    let server = Server::builder().without_socket().seed(1).start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

fn maps(client: &kube_client::Client) -> Informer<ConfigMap> {
    let mut config = ReflectorConfig::default();
    config.seed = Some(1);
    Informer::builder(client.clone()).reflector(config).namespaces(["default"]).start().unwrap()
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

struct Finalizing {
    log: Log,
    maps: Informer<ConfigMap>,
    api: Api<ConfigMap>,
    /// The results of cleanups, last first.
    cleanup: Mutex<Vec<Result<Action, &'static str>>>,
}

async fn finalizing(context: Context<Arc<Finalizing>>, key: Key) -> Result<Action, Error> {
    let data = context.data().clone();
    let Some(object) = data.maps.lister().get(&key) else { return done() };
    finalize_object(&context, object.decode()?).await
}

async fn finalize_object(
    context: &Context<Arc<Finalizing>>,
    object: Arc<ConfigMap>,
) -> Result<Action, Error> {
    let data = context.data();
    let stage = |stage: Stage<ConfigMap>| async {
        match stage {
            Stage::Apply(map) => {
                data.log.note(format!("apply {:?}", map.metadata.finalizers.as_deref().unwrap_or_default()));
                done()
            }
            Stage::Cleanup(_) => {
                data.log.note("clean up");
                data.cleanup.lock().pop().unwrap_or(Ok(Action::Done)).map_err(Error::new)
            }
        }
    };
    finalize(context, &data.api, "example.com/tidy", object, stage).await
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_added_before_apply_and_removed_after_cleanup() {
    let (_server, client) = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let (log, maps) = (Log::default(), maps(&client));
    let answers = vec![Err("not yet"), Ok(Action::RequeueAfter(SECOND))];
    let data =
        Finalizing { log: log.clone(), maps: maps.clone(), api: api.clone(), cleanup: Mutex::new(answers) };
    let _running = Running::start(Controller::builder("t", &maps).build(Arc::new(data), finalizing).unwrap());
    api.create(&PostParams::default(), &map("a")).await.unwrap();
    let applied = r#"apply ["example.com/tidy"]"#;
    assert_eq!(
        log.next(2).await,
        [applied, applied],
        "immediately, and when the finalizer's own event comes"
    );
    let stored = api.get("a").await.unwrap();
    assert_eq!(stored.metadata.finalizers.unwrap(), ["example.com/tidy"]);

    api.delete("a", &DeleteParams::default()).await.unwrap();
    log.next(1).await;
    assert!(api.get("a").await.is_ok(), "the cleanup has not succeeded yet");
    log.next(2).await;
    settle().await;
    assert!(api.get("a").await.is_err(), "the object is gone");
    assert!(log.take().is_empty());
}

/// Finalizes, with cleanups that succeed at the first call, on a server whose watches stall.
async fn finalize_behind(fault: Option<Fault>) -> Vec<String> {
    let (server, client) = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    // After three events (created, finalizer added, deletion started) the watch stalls and the cache lags.
    let behind = Match::verb(Verb::Watch).resource("configmaps");
    server.faults().arm(Fault::new(FaultAction::StallAfterEvents(3)).on(behind));
    let mut config = ReflectorConfig::default();
    (config.seed, config.watch_list) = (Some(1), WatchList::Off);
    let maps = Informer::builder(client.clone()).reflector(config).namespaces(["default"]).start().unwrap();
    maps.synced().await.unwrap();
    let log = Log::default();
    let data =
        Finalizing { log: log.clone(), maps: maps.clone(), api: api.clone(), cleanup: Mutex::default() };
    let (ask, asked) = futures::channel::mpsc::unbounded();
    let builder = Controller::builder("t", &maps).reconcile_on(asked);
    let _running = Running::start(builder.build(Arc::new(data), finalizing).unwrap());
    api.create(&PostParams::default(), &map("a")).await.unwrap();
    log.next(2).await;
    if let Some(fault) = fault {
        server.faults().arm(fault);
    }
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let mut lines = log.next(1).await;
    for _ in 0..20 {
        ask.unbounded_send(Key::new("default", "a")).unwrap();
        sleep(10 * SECOND).await;
    }
    lines.extend(log.take());
    assert!(maps.lister().get(&Key::new("default", "a")).is_some(), "the cache is behind");
    assert!(api.get("a").await.is_err(), "the object is gone");
    lines
}

#[tokio::test(start_paused = true)]
async fn c9_a_cleanup_that_succeeded_is_not_repeated_while_the_cache_is_behind() {
    assert_eq!(finalize_behind(None).await, ["clean up"]);
}

#[tokio::test(start_paused = true)]
async fn c9_a_cleanup_that_succeeded_is_not_repeated_when_removing_the_finalizer_fails() {
    let patch = || Match::verb(Verb::Patch);
    let conflict = FaultAction::Status {
        code: 409,
        reason: "Conflict".into(),
        message: "x".into(),
        retry_after_seconds: 0,
    };
    for fault in [
        Fault::new(FaultAction::Disconnect).on(patch()).times(3),
        Fault::new(FaultAction::CutAfterBytes(10)).on(patch()).once(),
        Fault::new(conflict).on(patch()).times(2),
    ] {
        assert_eq!(finalize_behind(Some(fault)).await, ["clean up"]);
    }
}

/// Begins with a deleted object that was cleaned up before, and continues when the cache no longer has it.
async fn finalizing_late(context: Context<Arc<Finalizing>>, key: Key) -> Result<Action, Error> {
    let data = context.data().clone();
    let Some(object) = data.maps.lister().get(&key) else { return done() };
    let object = object.decode()?;
    if context.failures() > 0 {
        data.log.note("begin again");
        while data.maps.lister().get(&key).is_some() {
            sleep(SECOND).await; // paused time: nothing sleeps
        }
    }
    finalize_object(&context, object).await
}

#[tokio::test(start_paused = true)]
async fn c9_a_cleanup_is_not_repeated_by_a_reconcile_that_outlasts_the_object() {
    let (server, client) = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let (log, maps) = (Log::default(), maps(&client));
    let data =
        Finalizing { log: log.clone(), maps: maps.clone(), api: api.clone(), cleanup: Mutex::default() };
    let controller = Controller::builder("t", &maps).build(Arc::new(data), finalizing_late).unwrap();
    let _running = Running::start(controller);
    api.create(&PostParams::default(), &map("a")).await.unwrap();
    log.next(2).await;
    let (code, reason, message) = (409, "Conflict".into(), "x".into());
    let conflict = FaultAction::Status { code, reason, message, retry_after_seconds: 0 };
    server.faults().arm(Fault::new(conflict).on(Match::verb(Verb::Patch)).once());
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(log.next(2).await, ["clean up", "begin again"]);
    // Another client removes the finalizer.
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("a", &PatchParams::default(), &released).await.unwrap();
    sleep(60 * SECOND).await; // paused time: nothing sleeps
    assert_eq!(log.take(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn c9_an_object_that_a_restore_brings_back_is_cleaned_up_again() {
    let (server, client) = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    // The cache shows the start of the deletion, but never that the object is gone.
    let watch = Match::verb(Verb::Watch).resource("configmaps");
    server.faults().arm(Fault::new(FaultAction::StallAfterEvents(3)).on(watch).once());
    let mut config = ReflectorConfig::default();
    (config.seed, config.watch_list) = (Some(1), WatchList::Off);
    let maps = Informer::builder(client.clone()).reflector(config).namespaces(["default"]).start().unwrap();
    maps.synced().await.unwrap();
    let log = Log::default();
    let data =
        Finalizing { log: log.clone(), maps: maps.clone(), api: api.clone(), cleanup: Mutex::default() };
    let _running = Running::start(Controller::builder("t", &maps).build(Arc::new(data), finalizing).unwrap());
    api.create(&PostParams::default(), &map("a")).await.unwrap();
    log.next(2).await;
    let backup = server.backup();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(log.next(1).await, ["clean up"]);
    settle().await;
    assert!(api.get("a").await.is_err(), "it is gone");

    server.restart(&Restart::FromBackup(backup));
    let applied = timeout(600 * SECOND, log.next(1)).await.unwrap();
    assert_eq!(applied, [r#"apply ["example.com/tidy"]"#], "the object is back");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let cleaned_up = timeout(600 * SECOND, log.next(1)).await.unwrap();
    assert_eq!(cleaned_up, ["clean up"]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_finalizer_name_is_a_terminal_error() {
    let (_server, client) = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let (log, maps) = (Log::default(), maps(&client));
    let reconcile = {
        let (maps, api) = (maps.clone(), api.clone());
        move |context: Context<Log>, key: Key| {
            let (maps, api) = (maps.clone(), api.clone());
            async move {
                let Some(map) = maps.lister().get(&key) else { return done() };
                let nothing = |_| async { done() };
                let error = finalize(&context, &api, "tidy", map.decode()?, nothing).await.unwrap_err();
                context.data().note(format!("{} {error}", error.is_terminal()));
                done()
            }
        }
    };
    let _running = Running::start(Controller::builder("t", &maps).build(log.clone(), reconcile).unwrap());
    api.create(&PostParams::default(), &map("a")).await.unwrap();
    assert_eq!(log.next(1).await, ["true invalid finalizer `tidy`: write `domain/name`"]);
}

fn recorder(client: &kube_client::Client) -> EventRecorder {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let began = tokio::time::Instant::now();
    EventRecorder::with_parts(
        client.clone(),
        "example.com/test",
        "replica-1",
        move || start + began.elapsed(),
        1,
    )
}

#[tokio::test(start_paused = true)]
async fn repeated_notes_become_one_event_with_a_count() {
    let (server, client) = server().await;
    let api: Api<Event> = Api::default_namespaced(client.clone());
    let recorder = recorder(&client);
    let run = tokio::spawn({
        let recorder = recorder.clone();
        async move { recorder.run().await }
    });
    let a = Api::<ConfigMap>::default_namespaced(client.clone())
        .create(&PostParams::default(), &map("a"))
        .await
        .unwrap();
    for _ in 0..3 {
        recorder.record(&a, EventNote::normal("Created", "Reconcile", "the child is there"));
        settle().await;
    }
    recorder.record(&a, EventNote::warning("Broken", "Reconcile", "x".repeat(3000)));
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    recorder.record(&node, EventNote::normal("Seen", "Look", "about a cluster-scoped object"));
    settle().await;
    let mut events = api.list(&Default::default()).await.unwrap().items;
    events.sort_by_key(|event| event.reason.clone());
    let [broken, created, seen] = &events[..] else { panic!("{events:?}") };
    assert_eq!(created.series.as_ref().unwrap().count, 3);
    assert_eq!(created.regarding.as_ref().unwrap().uid, a.metadata.uid);
    assert_eq!(
        (created.type_.as_deref(), created.note.as_deref()),
        (Some("Normal"), Some("the child is there"))
    );
    assert_eq!(created.reporting_controller.as_deref(), Some("example.com/test"));
    assert_eq!((broken.type_.as_deref(), broken.note.as_ref().unwrap().len()), (Some("Warning"), 1024));
    assert!(broken.series.is_none() && seen.regarding.as_ref().unwrap().kind.as_deref() == Some("Node"));

    // The server no longer has the event; another one is created.
    api.delete(created.metadata.name.as_ref().unwrap(), &DeleteParams::default()).await.unwrap();
    recorder.record(&a, EventNote::normal("Created", "Reconcile", "the child is there"));
    settle().await;
    let stats = recorder.stats();
    assert_eq!((stats.created, stats.counted, stats.failed, stats.dropped), (4, 2, 0, 0));

    // A server that does not answer blocks nothing, and the queue is bounded.
    server.faults().arm(Fault::new(FaultAction::Hang).on(Match::verb(Verb::Create)));
    for number in 0..1500 {
        recorder.record(&a, EventNote::normal("Many", "Reconcile", number.to_string()));
    }
    assert_eq!(recorder.stats().dropped, 500);
    sleep(15 * SECOND).await;
    assert_eq!(recorder.stats().failed, 1);
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn event_names_are_valid_for_any_object_name() {
    let (_server, client) = server().await;
    let recorder = recorder(&client);
    let run = tokio::spawn({
        let recorder = recorder.clone();
        async move { recorder.run().await }
    });
    let long = "x".repeat(253);
    let dashes = format!("{}{}", "x".repeat(230), "-".repeat(20));
    let cases = [
        ("web.example-1", "web.example-1"),
        ("system:kube-scheduler", "system-kube-scheduler"),
        ("Admin_Role", "admin-role"),
        ("größe", "gr--e"),
        (":a:.:b:", "a.b"),
        ("a..b", "a.b"),
        (":", "unnamed"),
        ("", "unnamed"),
        (&long, &long[..236]),
        (&dashes, &long[..230]),
    ];
    for (name, expected) in cases {
        let object = ObjectReference {
            kind: Some("ClusterRole".to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        recorder.record_about(object, EventNote::normal("Seen", "Look", "it is there"));
        settle().await;
        let events =
            Api::<Event>::default_namespaced(client.clone()).list(&Default::default()).await.unwrap();
        let about = |event: &&Event| {
            event.regarding.as_ref().is_some_and(|object| object.name.as_deref().unwrap_or_default() == name)
        };
        let event = events.items.iter().find(about);
        let event = event.unwrap_or_else(|| panic!("`{name}`: the event was refused"));
        let (begins, suffix) = event.metadata.name.as_ref().unwrap().rsplit_once('.').unwrap();
        assert_eq!((begins, suffix.len()), (expected, 16), "`{name}`");
    }
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn c10_flush_sends_pending_notes_exactly_once() {
    let (server, client) = server().await;
    let api: Api<Event> = Api::default_namespaced(client.clone());
    let recorder = recorder(&client);
    let a = Api::<ConfigMap>::default_namespaced(client.clone())
        .create(&PostParams::default(), &map("a"))
        .await
        .unwrap();
    server.faults().arm(Fault::new(FaultAction::Delay(SECOND)).on(Match::default().resource("events")));
    for number in 0..20 {
        recorder.record(&a, EventNote::normal("Many", "Reconcile", number.to_string()));
    }
    tokio::select! {
        () = recorder.run() => unreachable!("it runs until dropped"),
        // In the middle of sending one of them.
        () = sleep(3 * SECOND + SECOND / 2) => {}
    }
    let stats = recorder.stats();
    assert_eq!((stats.created, stats.waiting), (3, 17), "every note is counted");
    assert_eq!(recorder.flush(5 * SECOND).await, 12, "flush returns at its limit");
    assert_eq!(recorder.flush(60 * SECOND).await, 0);
    let events = api.list(&Default::default()).await.unwrap().items;
    assert_eq!((events.len(), recorder.stats().created), (20, 20));

    // Flushing also works while `run` runs, and each repeated note is counted once.
    let run = tokio::spawn({
        let recorder = recorder.clone();
        async move { recorder.run().await }
    });
    for _ in 0..5 {
        recorder.record(&a, EventNote::normal("Again", "Reconcile", "the same"));
    }
    assert_eq!(recorder.flush(60 * SECOND).await, 0);
    run.abort();
    let events = api.list(&Default::default()).await.unwrap().items;
    let again = events.iter().find(|event| event.reason.as_deref() == Some("Again")).unwrap();
    assert_eq!((events.len(), again.series.as_ref().unwrap().count), (21, 5));
}

#[tokio::test(start_paused = true)]
async fn c10_refused_events_are_reported() {
    let (server, client) = server().await;
    let (logs, _guard) = capture_logs();
    let recorder = recorder(&client);
    let message = "events.events.k8s.io is forbidden: User \"x\" cannot create resource \"events\"";
    let refusal = forbidden(message);
    let fault = server.faults().arm(Fault::new(refusal).on(Match::verb(Verb::Create).resource("events")));
    for number in 0..3 {
        recorder.record(&map("a"), EventNote::normal("Many", "Reconcile", number.to_string()));
    }
    assert_eq!(recorder.flush(SECOND).await, 0);
    assert_eq!(recorder.stats().failed, 3);
    let error = recorder.last_error().unwrap();
    let expected = format!(
        "cannot record events in namespace default: 403 Forbidden: {message}; \
         grant \"create\" and \"patch\" on events.events.k8s.io"
    );
    assert_eq!(error, expected);
    let warned = logs.take().iter().filter(|line| line.contains("further failures")).count();
    assert_eq!(warned, 1, "once, not for each");
    server.faults().disarm(fault);
    recorder.record(&map("a"), EventNote::normal("Well", "Reconcile", "again"));
    assert_eq!((recorder.flush(SECOND).await, recorder.last_error()), (0, None));
}

#[tokio::test(start_paused = true)]
async fn c10_a_refused_lease_ends_run_and_fails_readiness() {
    let (server, client) = server().await;
    let maps = maps(&client);
    let manager = |namespace: &str| {
        let controller = Controller::builder("t", &maps).build((), async |_, _: Key| done()).unwrap();
        let election = LeaderElection::new(client.clone(), namespace, "lease").seed(1);
        (election.probe(), Manager::new().controller(controller).leader(election))
    };
    let (probe, nowhere) = manager("nowhere");
    let router = Health::new().leader(&probe, false).router();
    assert_eq!(get(&router, "/readyz").await.0, 200);
    let error =
        timeout(60 * SECOND, nowhere.run(&Stop::new())).await.expect("it ends").unwrap_err().to_string();
    let expected = "cannot acquire lease nowhere/lease: 404 NotFound: namespaces \"nowhere\" not found; \
                    create the namespace, or name another";
    assert_eq!(error, expected);
    assert_eq!(probe.refused().unwrap().to_string(), expected);
    assert_eq!(get(&router, "/readyz").await, (503, "failing: lease\n".to_owned()));

    let message = "leases.coordination.k8s.io \"lease\" is forbidden";
    let refusal = forbidden(message);
    let leases = || Match::default().resource("leases");
    server.faults().arm(Fault::new(refusal.clone()).on(leases()).once());
    let (_, refused) = manager("default");
    let error =
        timeout(60 * SECOND, refused.run(&Stop::new())).await.expect("it ends").unwrap_err().to_string();
    assert!(error.contains(message) && error.contains("grant"), "{error}");

    // A replica that has led before keeps running: the role may be granted again.
    let (probe, manager) = manager("default");
    let stop = Stop::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(&stop).await }
    });
    sleep(5 * SECOND).await;
    assert!(probe.is_leading());
    let fault = server.faults().arm(Fault::new(refusal).on(leases()));
    sleep(60 * SECOND).await;
    assert!(!probe.is_leading() && probe.refused().is_some() && !run.is_finished());
    server.faults().disarm(fault);
    sleep(60 * SECOND).await;
    assert!(probe.is_leading() && probe.refused().is_none());
    stop.stop();
    run.await.unwrap().unwrap();
}

/// The answer to an account that lacks a role.
fn forbidden(message: &str) -> FaultAction {
    let (reason, message) = ("Forbidden".into(), message.into());
    FaultAction::Status { code: 403, reason, message, retry_after_seconds: 0 }
}

async fn get(router: &Router, path: &str) -> (u16, String) {
    let request = http::Request::get(path).body(axum::body::Body::empty()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let code = answer.status().as_u16();
    (code, String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn c3_readiness_requires_synced_informers_and_optionally_leadership() {
    let (server, client) = server().await;
    let slow = Fault::new(FaultAction::Delay(5 * SECOND)).on(Match::default().resource("configmaps"));
    server.faults().arm(slow);
    let maps = maps(&client);
    let controller = Controller::builder("sites", &maps).build((), async |_, _: Key| done()).unwrap();
    let election = LeaderElection::new(client, "default", "lease").seed(1);
    let probe = election.probe();
    let manager = Manager::new().controller(controller).leader(election);
    let mut registry = Registry::default();
    ControllerMetrics::register(&mut registry);
    let asked = Health::new().synced(&manager).leader(&probe, true).metrics(Arc::new(registry)).router();
    let not_asked = Health::new().synced(&manager).leader(&probe, false).router();
    let stop = Stop::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(&stop).await }
    });
    settle().await;
    assert_eq!(get(&asked, "/readyz").await, (503, "failing: informers-of-sites, leading\n".to_owned()));
    assert_eq!(get(&asked, "/livez").await, (200, "ok\n".to_owned()));
    assert!(!probe.is_leading(), "informers are synced before the lease is acquired");
    sleep(20 * SECOND).await;
    for (router, path, code) in [
        (&asked, "/readyz", 200),
        (&not_asked, "/readyz", 200),
        (&asked, "/healthz", 200),
        (&asked, "/metrics", 200),
    ] {
        assert_eq!(get(router, path).await.0, code, "{path}");
    }
    assert_eq!(get(&not_asked, "/metrics").await.0, 404);
    assert!(get(&asked, "/metrics").await.1.ends_with("# EOF\n"));

    server.faults().arm(Fault::new(FaultAction::Disconnect).on(Match::default().resource("leases")));
    sleep(15 * SECOND).await;
    assert_eq!(get(&asked, "/readyz").await, (503, "failing: leading\n".to_owned()));
    assert_eq!((get(&not_asked, "/readyz").await.0, get(&asked, "/livez").await.0), (200, 200));
    server.faults().clear();
    sleep(30 * SECOND).await;
    assert!(probe.is_leading());
    stop.stop();
    run.await.unwrap().unwrap();
    assert!(!probe.is_leading(), "released");
}

#[tokio::test(start_paused = true)]
async fn the_metrics_of_all_parts_have_different_names() {
    let (_server, client) = server().await;
    let mut registry = Registry::default();
    let informers = InformerMetrics::register(&mut registry);
    let controllers = ControllerMetrics::register(&mut registry);
    let elections = LeaderMetrics::register(&mut registry);
    let client = RestMetrics::register(&mut registry).client(client, "east");
    let maps = Informer::<ConfigMap>::builder(client.clone()).metrics("maps", &informers).start().unwrap();
    let election = LeaderElection::new(client.clone(), "default", "lease").seed(1).metrics(&elections);
    let builder = Controller::builder("sites", &maps).metrics(&controllers).leader(election);
    let _running = Running::start(builder.build((), async |_, _: Key| done()).unwrap());
    Api::<ConfigMap>::default_namespaced(client).create(&PostParams::default(), &map("a")).await.unwrap();
    sleep(10 * SECOND).await;

    let (_, text) = get(&Health::new().metrics(Arc::new(registry)).router(), "/metrics").await;
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let families = families.collect::<Vec<_>>();
    for part in ["informer_", "controller_runtime_", "workqueue_", "leader_election_", "rest_client_"] {
        assert!(families.iter().any(|family| family.starts_with(part)), "{part}: {families:?}");
    }
    // The names of a family's samples are its own, too.
    let mut names = HashSet::new();
    for family in families {
        for suffix in ["", "_total", "_bucket", "_count", "_sum", "_created", "_info"] {
            assert!(names.insert(format!("{family}{suffix}")), "{family}{suffix} is not unique");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c8_dropping_a_controller_ends_its_term() {
    let (_server, client) = server().await;
    Api::<ConfigMap>::default_namespaced(client.clone())
        .create(&PostParams::default(), &map("a"))
        .await
        .unwrap();
    let log = Log::default();
    let election = LeaderElection::new(client.clone(), "default", "lease").seed(1);
    let probe = election.probe();
    // A task that a reconcile has started and tied to its term.
    let reconcile = |context: Context<Log>, _: Key| async move {
        let (term, log) = (context.term().cloned().ok_or(Error::new("no term"))?, context.data().clone());
        log.note("began");
        tokio::spawn(async move {
            term.lost().await;
            log.note("lost");
        });
        done()
    };
    let controller =
        Controller::builder("t", &maps(&client)).leader(election).build(log.clone(), reconcile).unwrap();
    let running = Running::start(controller);
    assert_eq!(log.next(1).await, ["began"]);
    assert!(probe.is_leading());
    running.task.abort();
    assert_eq!(timeout(SECOND, log.next(1)).await.unwrap(), ["lost"]);
    assert!(!probe.is_leading());
}

#[tokio::test(start_paused = true)]
async fn c8_a_lost_lease_cancels_work_until_it_is_reacquired() {
    let (server, client) = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let maps = maps(&client);
    let log = Log::default();
    let reconcile = |context: Context<Log>, key: Key| async move {
        let term = context.term().cloned().ok_or(Error::new("no term"))?;
        context.data().note(format!("{} begins at {}", key.name(), term.token().transitions));
        sleep(8 * SECOND).await;
        assert!(term.is_current());
        context.data().note(format!("{} ends", key.name()));
        done()
    };
    let election = LeaderElection::new(client, "default", "lease").seed(1);
    let controller = Controller::builder("t", &maps).leader(election).build(log.clone(), reconcile).unwrap();
    let running = Running::start(controller);
    api.create(&PostParams::default(), &map("a")).await.unwrap();
    assert_eq!(log.next(2).await, ["a begins at 0", "a ends"]);
    let fault =
        server.faults().arm(Fault::new(FaultAction::Disconnect).on(Match::default().resource("leases")));
    sleep(5 * SECOND).await;
    api.create(&PostParams::default(), &map("b")).await.unwrap();
    sleep(20 * SECOND).await;
    assert_eq!(log.take(), ["b begins at 0"], "the reconcile is cancelled");
    server.faults().disarm(fault);
    assert_eq!(log.next(2).await, ["b begins at 1", "b ends"], "the cancelled reconcile runs again");
    running.stop.stop();
    running.ended().await.unwrap();
}
