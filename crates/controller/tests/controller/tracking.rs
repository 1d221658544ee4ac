//! Writes through the context's client: recorded without being reported.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use embedded_apiserver::{Action as FaultAction, ApiBody, Fault, Match, Server, Verb};
use futures::stream::pending;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::client::retry::RetryPolicy;
use kube_client::{Api, Client};
use kube_core::{ApiResource, DynamicObject, ObjectMeta};
use kube_informer::{Informer, Key};
use kube_informer_controller::testing::{self, RunningManager};
use kube_informer_controller::{
    Action, Context, Controller, ControllerMetrics, Error, Manager, Predicate, Stage, Trigger, WriteError,
    finalize,
};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

use crate::support::{Log, capture_logs, capture_logs_in_spans, done};

const SECOND: Duration = Duration::from_secs(1);

struct World {
    server: Server,
    maps: Informer<ConfigMap>,
    secrets: Informer<Secret>,
    write_wait_max: Duration,
}

fn object(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "default", "name": name}})
}

fn secret(name: &str) -> Secret {
    Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Secret::default()
    }
}

async fn world(objects: &[Value]) -> World {
    let server = Server::builder().without_socket().seed(1).objects(objects).start().await.unwrap();
    let maps =
        Informer::<ConfigMap>::builder(server.client().unwrap()).namespaces(["default"]).start().unwrap();
    let secrets = Informer::<Secret>::builder(server.client().unwrap()).start().unwrap();
    maps.synced().await.unwrap();
    secrets.synced().await.unwrap();
    World { server, maps, secrets, write_wait_max: 3600 * SECOND }
}

/// Cuts the watch on secrets: until it is reopened, the cache lags.
fn lag(server: &Server) {
    server.faults().arm(
        Fault::new(FaultAction::Delay(5 * SECOND)).on(Match::verb(Verb::Watch).resource("secrets")).once(),
    );
    server.disconnect_all();
}

/// Runs a controller of config maps that owns secrets. The first reconcile of a key calls `write`; each notes the secrets that the
/// cache has.
fn start<W, F>(world: &World, write: W) -> (RunningManager, Log)
where
    W: Fn(Context<Log>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    start_repeating(world, 1, write)
}

/// As `start`, with so many more reconciles at short intervals.
fn start_repeating<W, F>(world: &World, more: usize, write: W) -> (RunningManager, Log)
where
    W: Fn(Context<Log>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    let log = Log::default();
    let secrets = world.secrets.lister();
    let (write, writes) = (Arc::new(write), Arc::new(AtomicUsize::new(0)));
    let reconcile = move |ctx: Context<Log>, _: Key| {
        let mut names = secrets.list().iter().map(|secret| secret.name().to_owned()).collect::<Vec<_>>();
        names.sort();
        let (write, number) = (write.clone(), writes.fetch_add(1, Ordering::Relaxed));
        async move {
            ctx.data().note(format!("{names:?}"));
            match number {
                0 => write(ctx).await?,
                number if number >= more => return done(),
                _ => {}
            }
            // Queued again before the watch is back.
            Ok(Action::RequeueAfter(if number == 0 { SECOND / 1000 } else { SECOND / 10 }))
        }
    };
    let controller = Controller::builder("t", &world.maps)
        .owns(&world.secrets)
        .write_wait_max(world.write_wait_max)
        .build(log.clone(), reconcile)
        .unwrap();
    (testing::start(Manager::new().controller(controller)), log)
}

/// The notes of the two reconciles around a write that the cache receives late.
async fn around<W, F>(objects: &[Value], faults: &[Fault], write: W) -> Vec<String>
where
    W: Fn(Context<Log>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    around_in(&world(objects).await, faults, write).await
}

/// As `around`, in this world.
async fn around_in<W, F>(world: &World, faults: &[Fault], write: W) -> Vec<String>
where
    W: Fn(Context<Log>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    lag(&world.server);
    for fault in faults {
        world.server.faults().arm(fault.clone());
    }
    let (manager, log) = start_repeating(world, 200, write);
    log.next(1).await;
    testing::settle(&world.server, &manager).await.unwrap();
    let mut lines = log.take();
    lines.dedup();
    manager.stop().await.unwrap();
    lines
}

fn api(ctx: &Context<Log>) -> Api<Secret> {
    Api::namespaced(ctx.client(), "default")
}

#[tokio::test(start_paused = true)]
async fn c6_creations_patches_and_deletions_are_recorded_by_the_contexts_client() {
    let objects = [object("ConfigMap", "a"), object("Secret", "old")];
    let created = async |ctx: Context<Log>| {
        api(&ctx).create(&PostParams::default(), &secret("new")).await?;
        Ok(())
    };
    assert_eq!(around(&objects, &[], created).await, [r#"["new", "old"]"#]);
    let applied = async |ctx: Context<Log>| {
        ctx.apply(&secret("new")).await?;
        Ok(())
    };
    assert_eq!(around(&objects, &[], applied).await, [r#"["new", "old"]"#]);
    let deleted = async |ctx: Context<Log>| {
        api(&ctx).delete("old", &DeleteParams::default()).await?;
        Ok(())
    };
    assert_eq!(around(&objects, &[], deleted).await, ["[]"]);
    let created_and_deleted = async |ctx: Context<Log>| {
        api(&ctx).create(&PostParams::default(), &secret("new")).await?;
        ctx.delete(&secret("new")).await?;
        Ok(())
    };
    assert_eq!(around(&objects, &[], created_and_deleted).await, [r#"["old"]"#]);
    let collection = async |ctx: Context<Log>| {
        api(&ctx).create(&PostParams::default(), &secret("new")).await?;
        api(&ctx).delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        Ok(())
    };
    assert_eq!(around(&objects, &[], collection).await, ["[]"]);
}

#[tokio::test(start_paused = true)]
async fn c6_a_dry_run_does_not_defer_the_key() {
    let objects = [object("ConfigMap", "a"), object("Secret", "old")];
    let world = world(&objects).await;
    lag(&world.server);
    let (_manager, log) = start(&world, async |ctx: Context<Log>| {
        let dry_run = PatchParams::apply("t").dry_run();
        let patch = Patch::Apply(object("Secret", "new"));
        api(&ctx).patch("new", &dry_run, &patch).await?;
        api(&ctx).delete("old", &DeleteParams::default().dry_run()).await?;
        Ok(())
    });
    log.next(1).await;
    sleep(SECOND).await;
    assert_eq!(log.take(), [r#"["old"]"#], "reconciled although the watch is not back");
}

#[tokio::test(start_paused = true)]
async fn c6_an_unknown_outcome_is_settled_by_a_live_read() {
    let objects = [object("ConfigMap", "a"), object("Secret", "old")];
    let patch = || Match::verb(Verb::Patch).resource("secrets");
    let ignored = |ctx: Context<Log>| async move {
        // The reconcile does not even return the error.
        drop(ctx.apply(&secret("new")).await);
        Ok(())
    };
    // The write happened, and its answer was lost.
    let lost = Fault::new(FaultAction::CutAfterBytes(0)).on(patch()).once();
    assert_eq!(around(&objects, &[lost], ignored).await, [r#"["new", "old"]"#]);
    // The write did not happen, and the client cannot know.
    for action in [FaultAction::Disconnect, FaultAction::Html { code: 502 }] {
        let fault = Fault::new(action).on(patch()).once();
        assert_eq!(around(&objects, &[fault], ignored).await, [r#"["old"]"#]);
    }
    // The server does not answer the live read at first.
    let lost = Fault::new(FaultAction::CutAfterBytes(0)).on(patch()).once();
    let down = Fault::new(FaultAction::Disconnect).on(Match::verb(Verb::Get).resource("secrets")).times(3);
    assert_eq!(around(&objects, &[lost, down], ignored).await, [r#"["new", "old"]"#]);
    // A write that is dropped before the answer.
    let slow = Fault::new(FaultAction::Delay(10 * SECOND)).on(patch()).once();
    let dropped = |ctx: Context<Log>| async move {
        assert!(tokio::time::timeout(SECOND, ctx.apply(&secret("new"))).await.is_err());
        Ok(())
    };
    assert_eq!(around(&objects, &[slow], dropped).await, [r#"["new", "old"]"#], "it is executed after all");
    // A generated name that the client never learned.
    let lost =
        Fault::new(FaultAction::CutAfterBytes(0)).on(Match::verb(Verb::Create).resource("secrets")).once();
    let generated = |ctx: Context<Log>| async move {
        let metadata = ObjectMeta { generate_name: Some("new-".to_owned()), ..ObjectMeta::default() };
        let secret = Secret { metadata, ..Secret::default() };
        assert!(api(&ctx).create(&PostParams::default(), &secret).await.is_err());
        Ok(())
    };
    let lines = around(&objects, &[lost], generated).await;
    assert!(lines.len() == 1 && lines[0].contains("new-"), "{lines:?}");
}

/// As `world`. The requests of the controller have the user agent `controller`, and those of informers of secrets do not.
async fn world_with_agents(objects: &[Value]) -> World {
    let world = world(objects).await;
    let maps = Informer::<ConfigMap>::builder(tagged(&world.server, "controller"));
    let maps = maps.namespaces(["default"]).start().unwrap();
    maps.synced().await.unwrap();
    World { maps, ..world }
}

/// The controller's reads of secrets are refused.
fn refuses(verb: Verb, code: u16) -> Fault {
    let refused =
        FaultAction::Status { code, reason: "Refused".into(), message: "no".into(), retry_after_seconds: 0 };
    Fault::new(refused).on(Match::verb(verb).resource("secrets").user_agent("controller"))
}

/// The answer to a write of a secret is lost.
fn loses(verb: Verb) -> Fault {
    Fault::new(FaultAction::CutAfterBytes(0)).on(Match::verb(verb).resource("secrets")).once()
}

/// Applies an object, deletes one, or creates one with a generated name. Ignores the outcome.
async fn write_ignored(ctx: Context<Log>, verb: Verb) -> Result<(), Error> {
    let metadata = ObjectMeta { generate_name: Some("new-".to_owned()), ..ObjectMeta::default() };
    let generated = Secret { metadata, ..Secret::default() };
    match verb {
        Verb::Patch => drop(ctx.apply(&secret("new")).await),
        Verb::Delete => drop(api(&ctx).delete("old", &DeleteParams::default()).await),
        _ => drop(api(&ctx).create(&PostParams::default(), &generated).await),
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn c6_a_live_read_that_is_not_authenticated_is_repeated() {
    let objects = [object("ConfigMap", "a"), object("Secret", "old")];
    // What the cache has at the next reconcile.
    for (write, read, expected) in [
        (Verb::Patch, Verb::Get, r#"["new", "old"]"#),
        (Verb::Delete, Verb::List, "[]"),
        (Verb::Create, Verb::List, r#"["new-"#),
    ] {
        let world = world_with_agents(&objects).await;
        let faults = [loses(write), refuses(read, 401).times(3)];
        let lines = around_in(&world, &faults, move |ctx| write_ignored(ctx, write)).await;
        assert!(lines.len() == 1 && lines[0].starts_with(expected), "{write:?}: {lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_read_that_is_not_allowed_is_reported_and_releases_its_key() {
    let objects = [object("ConfigMap", "a"), object("Secret", "old")];
    for (write, reads) in [
        (Verb::Patch, &[Verb::Get][..]),
        (Verb::Delete, &[Verb::List, Verb::Get]),
        (Verb::Create, &[Verb::List]),
    ] {
        for code in [403, 405] {
            let world = world_with_agents(&objects).await;
            lag_long(&world.server);
            world.server.faults().arm(loses(write));
            for read in reads {
                world.server.faults().arm(refuses(*read, code));
            }
            let (logs, _guard) = capture_logs();
            let (_manager, log) = start(&world, move |ctx| write_ignored(ctx, write));
            assert_eq!(log.next(1).await, [r#"["old"]"#]);
            assert_eq!(
                second(&log).await,
                [r#"["old"]"#],
                "{write:?}: reconciled although the watch is not back"
            );
            let warning =
                |line: &String| line.starts_with("cannot find out whether a write succeeded; grant");
            assert_eq!(logs.take().into_iter().filter(warning).count(), reads.len(), "{write:?}, {code}");
        }
    }
    // Who may not list reads the object.
    let world = world_with_agents(&objects).await;
    let faults = [loses(Verb::Delete), refuses(Verb::List, 403)];
    assert_eq!(around_in(&world, &faults, |ctx| write_ignored(ctx, Verb::Delete)).await, ["[]"]);
}

#[tokio::test(start_paused = true)]
async fn c7_a_live_read_that_outlasts_the_stop_begins_no_reconcile() {
    let world = world(&[object("ConfigMap", "a")]).await;
    // The answer to the write is lost, and the server answers the live read late.
    let lost = Fault::new(FaultAction::CutAfterBytes(0)).on(Match::verb(Verb::Patch).resource("secrets"));
    let late = Fault::new(FaultAction::Delay(2 * SECOND)).on(Match::verb(Verb::Get).resource("secrets"));
    world.server.faults().arm(lost.once());
    world.server.faults().arm(late);
    let (manager, log) = start(&world, async |ctx: Context<Log>| {
        drop(ctx.apply(&secret("new")).await);
        Ok(())
    });
    log.next(1).await;
    sleep(SECOND).await;
    manager.stop().await.unwrap();
    assert!(log.take().is_empty(), "a reconcile began after the stop");
}

#[tokio::test(start_paused = true)]
async fn c6_a_deletion_counts_before_the_cache_has_seen_the_creation() {
    let objects = [object("ConfigMap", "a"), object("Secret", "old")];
    // The cache receives the creation long before the deletion.
    let one_by_one = || {
        let watch = Match::verb(Verb::Watch).resource("secrets");
        Fault::new(FaultAction::CutAfterEvents(1)).on(watch).times(20)
    };
    let lost =
        |verb| Fault::new(FaultAction::CutAfterBytes(0)).on(Match::verb(verb).resource("secrets")).once();
    let collection = async |ctx: Context<Log>| {
        api(&ctx).create(&PostParams::default(), &secret("new")).await?;
        drop(api(&ctx).delete_collection(&DeleteParams::default(), &ListParams::default()).await);
        Ok(())
    };
    let object = async |ctx: Context<Log>| {
        drop(api(&ctx).create(&PostParams::default(), &secret("new")).await);
        drop(api(&ctx).delete("new", &DeleteParams::default()).await);
        Ok(())
    };
    assert_eq!(around(&objects, &[one_by_one()], collection).await, ["[]"]);
    assert_eq!(around(&objects, &[one_by_one(), lost(Verb::Delete)], collection).await, ["[]"]);
    assert_eq!(around(&objects, &[one_by_one()], object).await, [r#"["old"]"#]);
    assert_eq!(around(&objects, &[one_by_one(), lost(Verb::Delete)], object).await, [r#"["old"]"#]);
    assert_eq!(around(&objects, &[one_by_one(), lost(Verb::Create)], object).await, [r#"["old"]"#]);
    let both = [one_by_one(), lost(Verb::Create), lost(Verb::Delete)];
    assert_eq!(around(&objects, &both, object).await, [r#"["old"]"#]);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_write_defers_its_key_beyond_the_limit() {
    let patch = || Match::verb(Verb::Patch).resource("secrets");
    // How long the server waits before it executes the write, when the key is reconciled again, and what the cache has then.
    for (delay, again, secrets) in [(40, 40, r#"["new"]"#), (100, 61, "[]")] {
        let world = World { write_wait_max: 5 * SECOND, ..world(&[object("ConfigMap", "a")]).await };
        world.server.faults().arm(Fault::new(FaultAction::Delay(delay * SECOND)).on(patch()).once());
        let (_manager, log) = start(&world, |ctx: Context<Log>| async move {
            assert!(tokio::time::timeout(SECOND, ctx.apply(&secret("new"))).await.is_err());
            Ok(())
        });
        assert_eq!(log.next(1).await, ["[]"]);
        let sent = tokio::time::Instant::now();
        assert_eq!(log.next(1).await, [secrets]);
        assert_eq!(sent.elapsed().as_secs(), again);
    }
    // The caller waits for the answer, outside its reconcile.
    let world = World { write_wait_max: 5 * SECOND, ..world(&[object("ConfigMap", "a")]).await };
    world.server.faults().arm(Fault::new(FaultAction::Delay(1000 * SECOND)).on(patch()).once());
    let (_manager, log) = start(&world, |ctx: Context<Log>| async move {
        tokio::spawn(async move {
            let error = Error::from(ctx.apply(&secret("new")).await.unwrap_err());
            ctx.data().note(format!("{error:#}"));
        });
        sleep(SECOND).await;
        Ok(())
    });
    log.next(1).await;
    let sent = tokio::time::Instant::now();
    let lines = log.next(2).await;
    assert_eq!(sent.elapsed().as_secs(), 300);
    assert!(
        lines.iter().any(|line| line.contains("timed out after 300s waiting for the answer")),
        "{lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refusal_whose_body_never_arrives_ends_the_write() {
    let World { server, secrets, write_wait_max, .. } =
        world(&[object("ConfigMap", "a"), object("Secret", "old")]).await;
    // The connection dies after the headers of a conflict.
    let dies = |response: http::Response<ApiBody>| {
        let (parts, body) = response.into_parts();
        let body = match parts.status {
            http::StatusCode::CONFLICT => {
                StreamBody::new(pending::<io::Result<Frame<Bytes>>>()).boxed_unsync()
            }
            _ => body.map_err(io::Error::other).boxed_unsync(),
        };
        http::Response::from_parts(parts, body)
    };
    let client = Client::new(ServiceBuilder::new().map_response(dies).service(server.service()), "default");
    let maps = Informer::<ConfigMap>::builder(client).namespaces(["default"]).start().unwrap();
    let world = World { server, maps, secrets, write_wait_max };
    let (_manager, log) = start(&world, |ctx: Context<Log>| async move {
        let error = api(&ctx).create(&PostParams::default(), &secret("old")).await.unwrap_err();
        ctx.data().note(format!("{:#}", Error::from(error)));
        Ok(())
    });
    let lines = log.next(2).await;
    assert!(lines[1].contains("timed out after 300s waiting for the answer"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn c6_a_dropped_write_ends_with_its_controller() {
    let world = world(&[object("ConfigMap", "a")]).await;
    let patch = Match::verb(Verb::Patch).resource("secrets");
    world.server.faults().arm(Fault::new(FaultAction::Delay(10 * SECOND)).on(patch).once());
    let (manager, log) = start(&world, |ctx: Context<Log>| async move {
        assert!(tokio::time::timeout(SECOND, ctx.apply(&secret("new"))).await.is_err());
        ctx.data().note("dropped");
        Ok(())
    });
    log.next(2).await;
    drop(manager);
    sleep(60 * SECOND).await;
    let api = Api::<Secret>::default_namespaced(world.server.client().unwrap());
    assert!(api.get("new").await.is_err(), "nothing is sent after the end");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_not_unknown() {
    let objects = [object("ConfigMap", "a"), object("Secret", "old")];
    let world = world(&objects).await;
    let reads = world
        .server
        .faults()
        .arm(Fault::new(FaultAction::Delay(Duration::ZERO)).on(Match::verb(Verb::Get).resource("secrets")));
    let (manager, log) = start(&world, async |ctx: Context<Log>| {
        assert!(api(&ctx).create(&PostParams::default(), &secret("_")).await.is_err(), "the name is invalid");
        Ok(())
    });
    log.next(1).await;
    testing::settle(&world.server, &manager).await.unwrap();
    assert_eq!(world.server.faults().fired(reads), Some(0));
}

#[tokio::test(start_paused = true)]
async fn apply_sets_owner_manager_and_namespace() {
    let world = world(&[object("ConfigMap", "a")]).await;
    let test = Context::for_test(()).main(&world.maps);
    let ctx = test.context(&Key::new("default", "a"));
    let written = ctx.apply(&secret("child")).await.unwrap();
    assert_eq!(written.metadata.namespace.as_deref(), Some("default"));
    let owner = &written.metadata.owner_references.as_ref().unwrap()[0];
    let uid = world.maps.lister().get(&Key::new("default", "a")).unwrap().uid().to_owned();
    assert_eq!((&*owner.api_version, &*owner.kind, &*owner.name, &owner.uid), ("v1", "ConfigMap", "a", &uid));
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
    assert_eq!(written.metadata.managed_fields.unwrap()[0].manager.as_deref(), Some("test"));

    let again = ctx.apply(&secret("child")).await.unwrap();
    assert_eq!(
        again.metadata.resource_version, written.metadata.resource_version,
        "an unchanged child is not written"
    );
    // An object that the server returned can be applied, too.
    ctx.apply(&world.server_secret("child").await).await.unwrap();

    let mut elsewhere = secret("child");
    elsewhere.metadata.namespace = Some("kube-system".to_owned());
    let error = ctx.apply(&elsewhere).await.unwrap_err();
    assert!(matches!(error, WriteError::OwnerNamespace { .. }), "{error}");
    let unowned = ctx.apply_unowned(&elsewhere).await.unwrap();
    assert_eq!(unowned.metadata.owner_references, None);
    let error = test.context(&Key::new("default", "gone")).apply(&secret("child")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot apply Secret default/child: its owner default/gone is not in the cache of the main informer, or was re-created during the reconcile"
    );
    assert!(matches!(ctx.apply(&secret("")).await, Err(WriteError::Invalid { .. })));
    let error = test.context(&Key::new("", "node")).apply_unowned(&secret("child")).await.unwrap_err();
    assert!(matches!(error, WriteError::Invalid { .. }), "a retry cannot help: {error}");
}

#[tokio::test(start_paused = true)]
async fn c4_writes_that_were_not_sent_are_terminal_errors() {
    let world = world(&[object("ConfigMap", "a")]).await;
    let test = Context::for_test(()).main(&world.maps);
    let (ctx, gone) = (test.context(&Key::new("default", "a")), test.context(&Key::new("default", "gone")));
    let mut elsewhere = secret("child");
    elsewhere.metadata.namespace = Some("kube-system".to_owned());
    for written in
        [gone.apply(&secret("child")).await, ctx.apply(&elsewhere).await, ctx.apply(&secret("")).await]
    {
        let error = Error::from(anyhow::Error::from(written.unwrap_err()).context("with context"));
        assert!(error.is_terminal(), "{error:#}");
    }
    let missing = ConfigMap { metadata: secret("missing").metadata, ..ConfigMap::default() };
    let refused = ctx.patch_status(&missing, &json!({})).await.unwrap_err();
    assert!(!Error::from(refused).is_terminal(), "the server may accept it later");
}

/// What happens to the object of a reconcile before it writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Superseded {
    Deleted,
    Recreated,
    DeletedBeforeFinalize,
}

struct Superseding {
    case: Superseded,
    log: Log,
    maps: Api<ConfigMap>,
    /// The uid of the object that is deleted.
    first: String,
}

/// Deletes the first object, and re-creates it or not, then applies a child that has the uid of the object as its name.
async fn supersede(ctx: Context<Superseding>, _: Key) -> Result<Action, Error> {
    let Superseding { case, log, maps, first } = ctx.data();
    let Some(map) = ctx.object::<ConfigMap>() else {
        log.note("gone");
        return done();
    };
    log.note(map.uid());
    if map.uid() == first {
        maps.delete("a", &DeleteParams::default()).await?;
        if *case == Superseded::Recreated {
            let again = ConfigMap { metadata: secret("a").metadata, ..ConfigMap::default() };
            maps.create(&PostParams::default(), &again).await?;
        }
        sleep(SECOND).await; // until the cache has it
    }
    if *case == Superseded::DeletedBeforeFinalize {
        let api = Api::default_namespaced(ctx.client());
        return finalize(&ctx, &api, "example.com/tidy", map.decode()?, |_| async { done() }).await;
    }
    ctx.apply(&secret(map.uid())).await?;
    done()
}

#[tokio::test(start_paused = true)]
async fn c4_a_deleted_or_recreated_object_supersedes_its_reconcile() {
    for case in [Superseded::Deleted, Superseded::Recreated, Superseded::DeletedBeforeFinalize] {
        let world = world(&[object("ConfigMap", "a")]).await;
        let maps = Api::<ConfigMap>::default_namespaced(world.server.client().unwrap());
        let first = maps.get("a").await.unwrap().metadata.uid.unwrap();
        let (log, (logs, _guard)) = (Log::default(), capture_logs());
        let data = Superseding { case, log: log.clone(), maps: maps.clone(), first: first.clone() };
        let mut registry = Registry::default();
        // Only the superseded reconcile queues the key of the deleted object.
        let trigger = Trigger::on(&world.maps).when(Predicate::deleted(|_| false));
        let builder = Controller::builder("t", trigger).metrics(&ControllerMetrics::register(&mut registry));
        let manager = testing::start(Manager::new().controller(builder.build(data, supersede).unwrap()));
        testing::settle(&world.server, &manager).await.unwrap();

        let second = maps.get_opt("a").await.unwrap().and_then(|map| map.metadata.uid);
        assert_eq!(log.take(), [&*first, second.as_deref().unwrap_or("gone")], "{case:?}: one more run");
        let secrets = Api::<Secret>::default_namespaced(world.server.client().unwrap());
        let secrets = secrets.list(&ListParams::default()).await.unwrap();
        let names = secrets.iter().filter_map(|secret| secret.metadata.name.clone()).collect::<Vec<_>>();
        assert_eq!(names, Vec::from_iter(second), "{case:?}: the first run has no child");
        let lines = logs.take().join("\n");
        assert!(!lines.contains("reconcile failed"), "{case:?}: {lines}");
        let mut metrics = String::new();
        encode(&mut metrics, &registry).unwrap();
        for line in [
            r#"controller_runtime_reconcile_errors_total{controller="t"} 0"#,
            r#"controller_runtime_reconcile_total{controller="t",result="requeue_after"} 1"#,
        ] {
            assert!(metrics.contains(line), "{case:?}: {metrics}");
        }
    }
}

impl World {
    async fn server_secret(&self, name: &str) -> Secret {
        Api::<Secret>::default_namespaced(self.server.client().unwrap()).get(name).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn delete_removes_only_the_object_of_the_uid() {
    let world = world(&[object("ConfigMap", "a"), object("Secret", "child")]).await;
    let ctx = Context::for_test(()).main(&world.maps).context(&Key::new("default", "a"));
    let mut other = world.server_secret("child").await;
    other.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    ctx.delete(&other).await.unwrap();
    let secret = world.server_secret("child").await;
    ctx.delete(&secret).await.unwrap();
    ctx.delete(&secret).await.unwrap();
    let api = Api::<Secret>::default_namespaced(world.server.client().unwrap());
    assert!(api.get("child").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn create_or_update_creates_updates_and_skips_equal_objects() {
    let world = world(&[object("ConfigMap", "a")]).await;
    let test = Context::for_test(()).main(&world.maps);
    let ctx = test.context(&Key::new("default", "a"));
    let colour = |colour: &'static str| {
        move |map: &mut ConfigMap| {
            map.data.get_or_insert_default().insert("colour".to_owned(), colour.to_owned());
        }
    };
    let initial = ConfigMap { metadata: secret("child").metadata, ..ConfigMap::default() };
    ctx.create_or_update(&initial, colour("red")).await.unwrap();
    ctx.create_or_update(&initial, colour("red")).await.unwrap();
    // Another writer is faster, twice.
    let conflict = FaultAction::Status {
        code: 409,
        reason: "Conflict".into(),
        message: "x".into(),
        retry_after_seconds: 0,
    };
    world.server.faults().arm(Fault::new(conflict).on(Match::verb(Verb::Update)).times(2));
    let written = ctx.create_or_update(&initial, colour("blue")).await.unwrap();
    assert_eq!(written.data.unwrap()["colour"], "blue");
    assert_eq!(written.metadata.owner_references.unwrap()[0].name, "a");
    let methods = test.take_writes().iter().map(|write| write.method.clone()).collect::<Vec<_>>();
    assert_eq!(methods, ["POST", "PUT", "PUT", "PUT"]);
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_are_applied_without_an_owner_and_created_or_updated_with_one() {
    let world = world(&[object("ConfigMap", "a")]).await;
    let test = Context::for_test(()).main(&world.maps);
    let ctx = test.context(&Key::new("default", "a"));
    let resource = ApiResource::erase::<Secret>(&());
    let dynamic = |name: &str, value: &str| {
        DynamicObject::new(name, &resource).within("default").data(json!({"stringData": {"value": value}}))
    };
    let applied = ctx.apply_unowned_as(&dynamic("x", "1"), &resource).await.unwrap();
    assert_eq!(applied.metadata.owner_references, None);
    assert_eq!(applied.metadata.managed_fields.unwrap()[0].manager.as_deref(), Some("test"));

    let set = |object: &mut DynamicObject| object.data["type"] = json!("Opaque");
    for _ in 0..2 {
        let written = ctx.create_or_update_as(&dynamic("y", "1"), &resource, set).await.unwrap();
        assert_eq!(written.metadata.owner_references.unwrap()[0].name, "a");
        assert_eq!(written.data["type"], "Opaque");
    }
    let set = |object: &mut DynamicObject| object.data["stringData"] = json!({"value": "2"});
    ctx.create_or_update_as(&dynamic("y", "1"), &resource, set).await.unwrap();
    assert_eq!(world.server_secret("y").await.data.unwrap()["value"].0, b"2");
    let methods = test.take_writes().iter().map(|write| write.method.clone()).collect::<Vec<_>>();
    assert_eq!(methods, ["PATCH", "POST", "PUT"]);
}

#[tokio::test(start_paused = true)]
async fn a_test_context_has_all_informers_a_field_manager_and_a_term() {
    let world = world(&[object("ConfigMap", "a"), object("Secret", "a")]).await;
    let test =
        Context::for_test(()).informer(&world.secrets).main(&world.maps).field_manager("operator").term(3);
    let ctx = test.context(&Key::new("default", "a"));
    let secrets = ctx.informer::<Secret>().unwrap();
    assert!(secrets.lister().get(ctx.key()).is_some());
    let written = ctx.apply(&secret("child")).await.unwrap();
    assert_eq!(written.metadata.owner_references.unwrap()[0].kind, "ConfigMap", "the main informer's");
    assert_eq!(written.metadata.managed_fields.unwrap()[0].manager.as_deref(), Some("operator"));

    let term = ctx.term().unwrap();
    assert_eq!(term.token().transitions, 3);
    assert!(term.is_current());
    test.lose_term();
    term.lost().await;
    assert!(!term.is_current());

    // Without a main informer nothing can own a child, although another informer has the key.
    let ctx = Context::for_test(()).informer(&world.secrets).context(&Key::new("default", "a"));
    assert!(ctx.term().is_none() && ctx.informer::<ConfigMap>().is_none());
    let error = ctx.apply(&secret("child")).await.unwrap_err();
    assert!(matches!(error, WriteError::NoOwner { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_test_context_has_a_client_failures_and_a_stop() {
    let World { server, .. } = world(&[]).await;
    let test = Context::for_test(()).client(server.client().unwrap()).failures(3);
    let ctx = test.context(&Key::new("default", "a"));
    let secrets = Api::<Secret>::default_namespaced(ctx.client());
    secrets.create(&PostParams::default(), &secret("new")).await.unwrap();
    let secrets = Api::<Secret>::default_namespaced(server.client().unwrap());
    assert!(secrets.get_opt("new").await.unwrap().is_some(), "the client's server has it");
    assert_eq!(test.take_writes().len(), 1);

    assert_eq!(ctx.failures(), 3);
    assert!(!ctx.is_stopping());
    test.stop();
    ctx.stopping().await;
    assert!(ctx.is_stopping() && test.context(ctx.key()).is_stopping());
}

#[tokio::test(start_paused = true)]
async fn a_controller_with_a_client_of_its_own_writes_with_it() {
    let world = world(&[object("ConfigMap", "a")]).await;
    let reconcile = async |ctx: Context<Log>, _: Key| {
        ctx.apply(&secret("applied")).await?;
        api(&ctx).create(&PostParams::default(), &secret("created")).await?;
        Ok::<_, Error>(Action::Done)
    };
    let builder = Controller::builder("t", &world.maps).client(tagged(&world.server, "writer"));
    let controller = builder.build(Log::default(), reconcile).unwrap();
    let manager = testing::start(Manager::new().controller(controller));
    testing::settle(&world.server, &manager).await.unwrap();
    let requests = world.server.requests();
    let written = |verb| {
        let counts = requests.iter().filter(move |count| count.verb == Some(verb));
        counts.map(|count| (&*count.user_agent, count.requests)).collect::<Vec<_>>()
    };
    assert_eq!(written(Verb::Patch), [("writer", 1)]);
    assert_eq!(written(Verb::Create), [("writer", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_test_context_without_a_server_answers_writes_and_has_no_objects() {
    let test = Context::for_test(());
    let ctx = test.context(&Key::new("web", "a"));
    let secrets = Api::<Secret>::namespaced(ctx.client(), "web");
    let metadata = ObjectMeta { generate_name: Some("a-".to_owned()), ..ObjectMeta::default() };
    let created = secrets.create(&PostParams::default(), &Secret { metadata, ..Secret::default() }).await;
    let ObjectMeta { name, namespace, uid, resource_version, .. } = created.unwrap().metadata;
    assert_eq!((name.as_deref(), namespace.as_deref()), (Some("generated-1"), Some("web")));
    assert!(uid.is_some() && resource_version.is_some());

    // A JSON patch is not an object.
    let patch = json!([{"op": "add", "path": "/immutable", "value": true}]);
    let request = http::Request::patch("/api/v1/namespaces/web/secrets/a")
        .header("Content-Type", "application/json-patch+json")
        .body(serde_json::to_vec(&patch).unwrap());
    let patched = ctx.client().request::<Secret>(request.unwrap()).await.unwrap();
    assert_eq!(patched.metadata.name.as_deref(), Some("a"));

    let deleted = secrets.delete("a", &DeleteParams::default()).await.unwrap().right().unwrap();
    assert!(deleted.is_success());
    let error = secrets.get("a").await.unwrap_err();
    assert!(error.to_string().contains("the test has no server"), "{error}");
    assert!(secrets.get_opt("a").await.unwrap().is_none());

    let writes = test.take_writes();
    let lines = writes.iter().map(ToString::to_string).collect::<Vec<_>>();
    let collection = "/api/v1/namespaces/web/secrets";
    assert_eq!(
        lines,
        [format!("POST {collection}"), format!("PATCH {collection}/a"), format!("DELETE {collection}/a")]
    );
    assert_eq!(writes[1].body, patch);
    assert!(test.take_writes().is_empty());

    // Names, uids and resourceVersions do not repeat after the writes were taken.
    let metadata = ObjectMeta { generate_name: Some("a-".to_owned()), ..ObjectMeta::default() };
    let created = secrets.create(&PostParams::default(), &Secret { metadata, ..Secret::default() }).await;
    let ObjectMeta { name, uid, resource_version, .. } = created.unwrap().metadata;
    let numbered = (name.as_deref(), uid.as_deref(), resource_version.as_deref());
    assert_eq!(numbered, (Some("generated-4"), Some("uid-4"), Some("4")));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_unchanged_is_not_written() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                     "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let world = world(&[object("ConfigMap", "a"), pod]).await;
    let pods = Api::<k8s_openapi::api::core::v1::Pod>::default_namespaced(world.server.client().unwrap());
    let ctx = Context::for_test(()).main(&world.maps).context(&Key::new("default", "a"));
    let pod = pods.get("p").await.unwrap();
    assert!(ctx.patch_status(&pod, &json!({"phase": "Running"})).await.unwrap());
    let pod = pods.get("p").await.unwrap();
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert!(!ctx.patch_status(&pod, pod.status.as_ref().unwrap()).await.unwrap());
    let mut other = pod.clone();
    other.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    let error = ctx.patch_status(&other, &json!({"phase": "Failed"})).await.unwrap_err();
    assert_eq!(error.code(), Some(409), "{error}");
}

#[tokio::test(start_paused = true)]
async fn finalize_takes_dynamic_objects() {
    let world = world(&[object("ConfigMap", "a")]).await;
    let resource = ApiResource::erase::<ConfigMap>(&());
    let maps =
        Informer::dynamic(world.server.client().unwrap(), &resource).namespaces(["default"]).start().unwrap();
    let log = Log::default();
    let reconcile = {
        let (maps, resource) = (maps.clone(), resource.clone());
        move |ctx: Context<Log>, key: Key| {
            let (object, resource) = (maps.lister().get(&key), resource.clone());
            async move {
                let Some(object) = object else { return done() };
                let api = Api::<DynamicObject>::namespaced_with(ctx.client(), key.namespace(), &resource);
                let log = ctx.data().clone();
                let stage = |stage| async move {
                    match stage {
                        Stage::Apply(_) => log.note("apply"),
                        Stage::Cleanup(_) => log.note("clean up"),
                    }
                    done()
                };
                finalize(&ctx, &api, "example.com/tidy", object.decode()?, stage).await
            }
        }
    };
    let controller = Controller::builder("t", &maps).build(log.clone(), reconcile).unwrap();
    let manager = testing::start(Manager::new().controller(controller));
    testing::settle(&world.server, &manager).await.unwrap();
    log.take();
    let api = Api::<ConfigMap>::default_namespaced(world.server.client().unwrap());
    assert_eq!(api.get("a").await.unwrap().metadata.finalizers.unwrap(), ["example.com/tidy"]);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    testing::settle(&world.server, &manager).await.unwrap();
    assert_eq!(log.take(), ["clean up"]);
    assert!(api.get("a").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_controller_without_a_client_says_so() {
    let source = kube_informer::testing::ScriptedSource::new("v1", "ConfigMap");
    source.put(json!({"metadata": {"namespace": "web", "name": "a", "uid": "1"}}));
    let maps = Informer::<ConfigMap>::from_source(Arc::new(source)).start().unwrap();
    let log = Log::default();
    let reconcile = async |ctx: Context<Log>, _: Key| {
        let error = Error::from(ctx.apply(&secret("x")).await.unwrap_err());
        ctx.data().note(format!("{error:#}"));
        done()
    };
    let controller = Controller::builder("t", &maps).build(log.clone(), reconcile).unwrap();
    let _manager = testing::start(Manager::new().controller(controller));
    let line = log.next(1).await.remove(0);
    assert!(
        line.contains(
            "cannot send the request: controller `t` has no client; set one with `ControllerBuilder::client`"
        ),
        "{line}"
    );
}

/// A client whose requests the server's faults can match.
pub fn tagged(server: &Server, name: &'static str) -> Client {
    let tag = move |mut request: http::Request<kube_client::client::Body>| {
        request.headers_mut().insert(http::header::USER_AGENT, http::HeaderValue::from_static(name));
        request
    };
    let service = ServiceBuilder::new().map_request(tag).service(server.service());
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn delete_without_a_uid_reports_a_conflict() {
    let world = world(&[object("ConfigMap", "a"), object("Secret", "child")]).await;
    let ctx = Context::for_test(()).main(&world.maps).context(&Key::new("default", "a"));
    let denied = FaultAction::Status {
        code: 409,
        reason: "Conflict".into(),
        message: "denied by a webhook".into(),
        retry_after_seconds: 0,
    };
    world.server.faults().arm(Fault::new(denied).on(Match::verb(Verb::Delete)));
    let error = ctx.delete(&secret("child")).await.unwrap_err();
    assert_eq!(error.code(), Some(409), "{error}");
}

/// A client that repeats requests after a 504, and a gateway that loses the answer to the first request of this method: the server
/// executes it, and the gateway answers 504.
fn repeating(server: &Server, method: http::Method) -> Client {
    let (service, lost) = (server.service(), Arc::new(AtomicBool::new(false)));
    let gateway = service_fn(move |request: http::Request<kube_client::client::Body>| {
        let is_lost = request.method() == method && !lost.swap(true, Ordering::Relaxed);
        let service = service.clone();
        async move {
            let mut response = service.oneshot(request).await.map_err(BoxError::from)?;
            if is_lost {
                *response.status_mut() = http::StatusCode::GATEWAY_TIMEOUT;
            }
            Ok::<_, BoxError>(response)
        }
    });
    let retry = RetryLayer::new(RetryPolicy::default());
    Client::new(ServiceBuilder::new().layer(retry).service(gateway), "default")
}

#[tokio::test(start_paused = true)]
async fn c6_a_write_that_the_client_repeated_is_awaited() {
    let objects = [object("ConfigMap", "a"), object("Secret", "old")];
    for (method, expected) in [(http::Method::DELETE, "[]"), (http::Method::POST, r#"["new", "old"]"#)] {
        let world = world(&objects).await;
        let client = repeating(&world.server, method.clone());
        let maps = Informer::<ConfigMap>::builder(client).namespaces(["default"]).start().unwrap();
        maps.synced().await.unwrap();
        let world = World { maps, ..world };
        lag(&world.server);
        let (_manager, log) = start(&world, move |ctx: Context<Log>| {
            let method = method.clone();
            async move {
                let code = match method {
                    http::Method::DELETE => api(&ctx).delete("old", &DeleteParams::default()).await.err(),
                    _ => api(&ctx).create(&PostParams::default(), &secret("new")).await.err(),
                };
                let code = code.map(|error| match error {
                    kube_client::Error::Api(status) => status.code,
                    error => panic!("{error}"),
                });
                assert!(matches!(code, Some(404 | 409)), "{code:?}");
                Ok(())
            }
        });
        assert_eq!(log.next(1).await, [r#"["old"]"#]);
        assert_eq!(log.next(1).await, [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_a_reconcile_and_of_its_writes_are_in_its_span() {
    let world = world(&[object("ConfigMap", "a"), object("ConfigMap", "b")]).await;
    let (logs, _guard) = capture_logs_in_spans();
    let reconcile = async |ctx: Context<()>, _: Key| {
        tracing::info!(target: "kube_informer_controller", "reconciling");
        ctx.apply(&secret("new")).await.unwrap_err();
        Ok::<_, Error>(Action::RequeueAfter(SECOND))
    };
    // No request is answered.
    let answer = |_: http::Request<kube_client::client::Body>| async {
        Err::<http::Response<kube_client::client::Body>, _>(BoxError::from("broken"))
    };
    let builder = Controller::builder("t", &world.maps).owns(&world.secrets).concurrency(1);
    let builder = builder.client(Client::new(service_fn(answer), "default"));
    let _manager = testing::start(Manager::new().controller(builder.build((), reconcile).unwrap()));
    // Before the next reconcile of a key, its write is settled, which fails.
    sleep(2 * SECOND).await;

    let logs = logs.take();
    let spans_of = |message: &str| {
        let lines = logs.iter().filter(|line| line.starts_with(message));
        lines.map(|line| line.split_once(" in span ").map_or("", |(_, span)| span)).collect::<Vec<_>>()
    };
    let reconciles =
        [r#"reconcile controller="t" key=default/a id=0"#, r#"reconcile controller="t" key=default/b id=1"#];
    assert_eq!(spans_of("reconciling"), reconciles);
    assert_eq!(spans_of("the outcome of a write is unknown"), reconciles, "the task of a write emits it");
    let outside = spans_of("cannot find out whether an earlier write succeeded");
    assert!(outside.len() > 1 && outside.iter().all(|span| span.is_empty()), "{logs:#?}");
}

/// Cuts the watch on secrets, and opens it again only after an hour.
fn lag_long(server: &Server) {
    let late = Fault::new(FaultAction::Delay(3600 * SECOND));
    server.faults().arm(late.on(Match::verb(Verb::Watch).resource("secrets")));
    server.disconnect_all();
}

/// Waits for the second reconcile. Without its write in the cache, it would begin after an hour.
async fn second(log: &Log) -> Vec<String> {
    let began = tokio::time::Instant::now();
    let lines = log.next(1).await;
    assert!(began.elapsed() < 60 * SECOND, "{:?}: {lines:?}", began.elapsed());
    lines
}

#[tokio::test(start_paused = true)]
async fn c6_a_relist_without_an_event_of_the_object_releases_its_key() {
    let world = world(&[object("ConfigMap", "a")]).await;
    lag(&world.server);
    let (_manager, log) = start(&world, async |ctx: Context<Log>| {
        api(&ctx).create(&PostParams::default(), &secret("new")).await?;
        api(&ctx).delete("new", &DeleteParams::default()).await?;
        Ok(())
    });
    assert_eq!(log.next(1).await, ["[]"]);
    sleep(SECOND).await;
    // The watch cannot resume, and the list has nothing new.
    world.server.compact();
    assert_eq!(second(&log).await, ["[]"]);
}

/// Informers of the secrets of another type.
async fn of_other_types(server: &Server, types: &[&str]) -> Vec<Informer<Secret>> {
    let mut informers = Vec::new();
    for secret_type in types {
        let builder = Informer::<Secret>::builder(server.client().unwrap());
        let informer = builder.fields(format!("type={secret_type}")).start().unwrap();
        informer.synced().await.unwrap();
        informers.push(informer);
    }
    informers
}

#[tokio::test(start_paused = true)]
async fn c6_a_write_that_field_selectors_exclude_defers_its_key_until_the_informers_have_reached_it() {
    for types in [&["example.com/one"][..], &["example.com/one", "example.com/two"]] {
        let world = world(&[object("ConfigMap", "a")]).await;
        let informers = of_other_types(&world.server, types).await;
        let log = Log::default();
        let reconcile = async |ctx: Context<Log>, _: Key| {
            ctx.data().note("reconcile");
            ctx.apply(&secret("new")).await?;
            Ok::<_, Error>(Action::RequeueAfter(SECOND))
        };
        let builder = Controller::builder("t", &world.maps).write_wait_max(Duration::MAX);
        let builder = informers.iter().fold(builder, |builder, informer| builder.watches(informer, |_| []));
        let _manager =
            testing::start(Manager::new().controller(builder.build(log.clone(), reconcile).unwrap()));
        log.next(1).await;
        sleep(10 * SECOND).await;
        assert!(log.take().is_empty(), "no informer has reached the write");
        world.server.send_bookmarks();
        sleep(10 * SECOND).await;
        assert!(
            log.take().len() > 1,
            "the write is in the cache of no informer, and an unchanged object is not written"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn c6_a_key_does_not_wait_for_a_namespace_that_no_longer_matches() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web", "labels": {"team": "web"}}});
    let World { server, maps, write_wait_max, .. } = world(&[object("ConfigMap", "a"), namespace]).await;
    let secrets = Informer::<Secret>::builder(server.client().unwrap());
    let secrets = secrets.namespaces_matching("team=web").start().unwrap();
    secrets.synced().await.unwrap();
    let world = World { server, maps, secrets, write_wait_max };
    lag_long(&world.server);
    let namespaces = Api::<Namespace>::all(world.server.client().unwrap());
    let (_manager, log) = start(&world, move |ctx: Context<Log>| {
        let namespaces = namespaces.clone();
        async move {
            let created = Api::<Secret>::namespaced(ctx.client(), "web");
            created.create(&PostParams::default(), &secret("new")).await?;
            let patch = Patch::Merge(json!({"metadata": {"labels": {"team": "other"}}}));
            namespaces.patch("web", &PatchParams::default(), &patch).await?;
            Ok(())
        }
    });
    assert_eq!(log.next(1).await, ["[]"]);
    assert_eq!(second(&log).await, ["[]"]);
}

#[tokio::test(start_paused = true)]
async fn c6_a_key_whose_written_object_is_missing_is_reconciled_again() {
    let world = world(&[object("ConfigMap", "a")]).await;
    lag(&world.server);
    let (log, secrets, is_first) = (Log::default(), world.secrets.lister(), Arc::new(AtomicBool::new(true)));
    let others = Api::<Secret>::namespaced(world.server.client().unwrap(), "default");
    let reconcile = move |ctx: Context<Log>, _: Key| {
        let (others, secrets, is_first) = (others.clone(), secrets.clone(), is_first.clone());
        async move {
            let is_missing = secrets.list().is_empty();
            ctx.data().note(format!("missing: {is_missing}"));
            if is_missing {
                api(&ctx).create(&PostParams::default(), &secret("new")).await?;
            }
            if is_first.swap(false, Ordering::Relaxed) {
                others.delete("new", &DeleteParams::default()).await?;
            }
            done()
        }
    };
    let builder = Controller::builder("t", &world.maps).owns(&world.secrets).write_wait_max(3600 * SECOND);
    let _manager = testing::start(Manager::new().controller(builder.build(log.clone(), reconcile).unwrap()));
    assert_eq!(log.next(1).await, ["missing: true"]);
    sleep(SECOND).await;
    // The watch cannot resume. The list shows neither the creation nor the deletion, so no event queues the key.
    world.server.compact();
    assert_eq!(second(&log).await, ["missing: true"]);
    sleep(60 * SECOND).await;
    assert!(log.take().is_empty(), "the second object is in the cache");
}
