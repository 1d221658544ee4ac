//! One controller over several clusters that come and go.

use std::time::Duration;

use embedded_apiserver::{Action as FaultAction, Fault, Match, Server, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::Api;
use kube_client::api::{DeleteParams, PostParams};
use kube_core::ObjectMeta;
use kube_informer::{Index, Informer, Key};
use kube_informer_controller::testing;
use kube_informer_controller::{Action, BuildError, ClusterTriggers, Context, Controller, Error, Manager};
use serde_json::json;
use tokio::time::sleep;

use crate::support::{Log, Running, done, settle};

async fn server(maps: &[&str]) -> Server {
    let map = |name: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name}});
    let maps = maps.iter().map(map).collect::<Vec<_>>();
    Server::builder().without_socket().seed(1).objects(maps).start().await.unwrap()
}

fn triggers(server: &Server) -> ClusterTriggers<ConfigMap> {
    let maps =
        Informer::<ConfigMap>::builder(server.client().unwrap()).namespaces(["default"]).start().unwrap();
    let secrets = Informer::<Secret>::builder(server.client().unwrap()).start().unwrap();
    ClusterTriggers::on(&maps).owns(&secrets)
}

/// Each ConfigMap gets a Secret of its name, in its own cluster.
async fn reconcile(ctx: Context<Log>, key: Key) -> Result<Action, Error> {
    let Some(map) = ctx.object::<ConfigMap>() else {
        ctx.data().note(format!("{key} gone"));
        return done();
    };
    let secrets = ctx.informer::<Secret>().map(|secrets| secrets.lister().count());
    ctx.data().note(format!("{key} {secrets:?}"));
    let metadata = ObjectMeta { name: Some(map.name().to_owned()), ..ObjectMeta::default() };
    ctx.apply(&Secret { metadata, ..Secret::default() }).await?;
    done()
}

async fn secrets(server: &Server) -> Vec<String> {
    let secrets = Api::<Secret>::default_namespaced(server.client().unwrap());
    let secrets = secrets.list(&kube_client::api::ListParams::default()).await.unwrap();
    secrets.into_iter().filter_map(|secret| secret.metadata.name).collect()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines.dedup();
    lines
}

#[tokio::test(start_paused = true)]
async fn c1_clusters_are_added_and_removed_while_the_controller_runs() {
    let (east, west) = (server(&["a", "b"]).await, server(&["a"]).await);
    let log = Log::default();
    let controller = Controller::of_clusters("t").concurrency(2).build(log.clone(), reconcile).unwrap();
    let clusters = controller.clusters();
    clusters.add("east", triggers(&east)).unwrap();
    assert!(!clusters.is_synced("east"));
    let manager = testing::start(Manager::new().controller(controller));
    testing::settle_clusters(&[("east", &east)], &manager).await.unwrap();
    assert!(clusters.is_synced("east"));
    assert_eq!(secrets(&east).await, ["a", "b"]);
    log.take();

    clusters.add("west", triggers(&west)).unwrap();
    testing::settle_clusters(&[("east", &east), ("west", &west)], &manager).await.unwrap();
    assert_eq!(
        (secrets(&west).await, clusters.names()),
        (vec!["a".to_owned()], vec!["east".to_owned(), "west".to_owned()])
    );
    let lines = sorted(log.take());
    assert!(lines.iter().all(|line| line.starts_with("west//default/a ")), "{lines:?}");

    // A child of the removed cluster is not restored, one of another cluster is.
    assert!(clusters.remove("east") && !clusters.remove("east"));
    for server in [&east, &west] {
        let api = Api::<Secret>::default_namespaced(server.client().unwrap());
        api.delete("a", &DeleteParams::default()).await.unwrap();
    }
    testing::settle_clusters(&[("west", &west)], &manager).await.unwrap();
    assert_eq!((secrets(&east).await, secrets(&west).await), (vec!["b".to_owned()], vec!["a".to_owned()]));

    // It comes back under the same name.
    clusters.add("east", triggers(&east)).unwrap();
    testing::settle_clusters(&[("east", &east), ("west", &west)], &manager).await.unwrap();
    assert_eq!(secrets(&east).await, ["a", "b"]);
    manager.stop().await.unwrap();
    let error = clusters.add("north", triggers(&west)).unwrap_err();
    assert!(matches!(error, BuildError::Ended { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_keys_that_arrive_while_a_cluster_is_added_are_reconciled() {
    let east = server(&["a", "b", "c"]).await;
    let maps = Informer::<ConfigMap>::builder(east.client().unwrap()).start().unwrap();
    let of_kind = Informer::<Secret>::builder(east.client().unwrap()).start().unwrap();
    maps.synced().await.unwrap();
    let log = Log::default();
    let controller = Controller::of_clusters("t").build(log.clone(), reconcile).unwrap();
    let clusters = controller.clusters();
    let manager = testing::start(Manager::new().controller(controller));
    // An index that is computed slowly, after the listener of the ConfigMaps was registered.
    let slow = Index::by("slow", |_| {
        (0..20_000).for_each(|_| std::thread::yield_now());
        [String::new()]
    });
    let triggers = ClusterTriggers::on(&maps).watches_related(&of_kind, &slow, |_| [String::new()]);
    clusters.add("east", triggers).unwrap();
    testing::settle_clusters(&[("east", &east)], &manager).await.unwrap();
    assert_eq!(secrets(&east).await, ["a", "b", "c"]);
    manager.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn c3_a_cluster_is_reconciled_when_it_is_synced_and_delays_no_other() {
    let (east, west) = (server(&["a"]).await, server(&["b"]).await);
    let child = Secret {
        metadata: ObjectMeta { name: Some("other".to_owned()), ..ObjectMeta::default() },
        ..Secret::default()
    };
    let api = Api::<Secret>::default_namespaced(east.client().unwrap());
    api.create(&PostParams::default(), &child).await.unwrap();
    // Its config maps are listed immediately, its secrets late.
    for verb in [Verb::List, Verb::Watch] {
        let late =
            Fault::new(FaultAction::Delay(Duration::from_secs(60))).on(Match::verb(verb).resource("secrets"));
        east.faults().arm(late);
    }
    let log = Log::default();
    let controller = Controller::of_clusters("t").build(log.clone(), reconcile).unwrap();
    let clusters = controller.clusters();
    clusters.add("east", triggers(&east)).unwrap();
    clusters.add("west", triggers(&west)).unwrap();
    let manager = testing::start(Manager::new().controller(controller));
    testing::settle_clusters(&[("west", &west)], &manager).await.unwrap();
    assert!(clusters.is_synced("west") && !clusters.is_synced("east"));
    assert!(log.take().iter().all(|line| line.starts_with("west//")));
    sleep(Duration::from_secs(300)).await;
    settle().await;
    assert_eq!(log.take()[0], "east//default/a Some(1)", "it sees the secret");
    manager.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn c3_a_full_queue_does_not_delay_a_new_cluster() {
    let (here, east) = (server(&["a"]).await, server(&["b"]).await);
    let maps = Informer::<ConfigMap>::builder(here.client().unwrap()).start().unwrap();
    let keys = futures::stream::iter((0..10).map(|number| Key::new("default", &format!("s{number}"))));
    let builder = Controller::builder("t", &maps).queue_capacity(1).reconcile_on(keys);
    let reconcile = async |_: Context, _: Key| -> Result<Action, Error> { std::future::pending().await };
    let controller = builder.build((), reconcile).unwrap();
    let clusters = controller.clusters();
    let _running = Running::start(controller);
    sleep(Duration::from_secs(1)).await;
    clusters.add("east", triggers(&east)).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(clusters.is_synced("east"));
}

#[tokio::test(start_paused = true)]
async fn settling_ignores_failing_keys_of_other_and_removed_clusters() {
    let (east, west) = (server(&["a"]).await, server(&["b"]).await);
    let reconcile = async |_: Context, key: Key| match key.cluster() {
        Some("west") => Err(Error::new("no disk")),
        _ => done(),
    };
    let controller = Controller::of_clusters("t").build((), reconcile).unwrap();
    let clusters = controller.clusters();
    clusters.add("east", triggers(&east)).unwrap();
    clusters.add("west", triggers(&west)).unwrap();
    let manager = testing::start(Manager::new().controller(controller));
    testing::settle_clusters(&[("east", &east)], &manager).await.unwrap();
    let both = [("east", &east), ("west", &west)];
    let error = testing::settle_clusters(&both, &manager).await.unwrap_err();
    assert_eq!(error.reason, "controller `t`: west//default/b fails: no disk");

    assert!(clusters.remove("west"));
    testing::settle_clusters(&both, &manager).await.unwrap();
    manager.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn c6_the_writes_of_a_cluster_are_awaited_in_its_informers() {
    let (east, west) = (server(&["a"]).await, server(&["a"]).await);
    let log = Log::default();
    let reconcile = async |ctx: Context<Log>, key: Key| {
        let secrets = ctx.informer::<Secret>().map(|secrets| secrets.lister().count());
        ctx.data().note(format!("{key} {secrets:?}"));
        if secrets == Some(0) {
            let metadata = ObjectMeta { name: Some("new".to_owned()), ..ObjectMeta::default() };
            ctx.apply(&Secret { metadata, ..Secret::default() }).await?;
            return Ok(Action::RequeueAfter(Duration::from_millis(1)));
        }
        done()
    };
    let controller = Controller::of_clusters("t")
        .write_wait_max(Duration::from_secs(3600))
        .build(log.clone(), reconcile)
        .unwrap();
    let clusters = controller.clusters();
    clusters.add("east", triggers(&east)).unwrap();
    clusters.add("west", triggers(&west)).unwrap();
    let manager = testing::start(Manager::new().controller(controller));
    let servers = [("east", &east), ("west", &west)];
    testing::settle_clusters(&servers, &manager).await.unwrap();
    let lines = log.take();
    for cluster in ["east", "west"] {
        let of_cluster = lines.iter().filter(|line| line.starts_with(cluster)).collect::<Vec<_>>();
        let stale = of_cluster.iter().filter(|line| line.ends_with("Some(0)")).count();
        assert_eq!(stale, 1, "{lines:?}");
    }
    manager.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_has_any_name_that_is_not_empty() {
    const ARN: &str = "arn:aws:eks:eu-west-1:123456789012:cluster/prod";
    let (prod, log) = (server(&["a"]).await, Log::default());
    let controller = Controller::of_clusters("t").build(log.clone(), reconcile).unwrap();
    let clusters = controller.clusters();
    let error = clusters.add("", triggers(&prod)).unwrap_err();
    assert_eq!(error.to_string(), "cannot add a cluster to controller `t`: its name is empty");
    clusters.add(ARN, triggers(&prod)).unwrap();
    let manager = testing::start(Manager::new().controller(controller));
    testing::settle_clusters(&[(ARN, &prod)], &manager).await.unwrap();
    assert_eq!((secrets(&prod).await, clusters.names()), (vec!["a".to_owned()], vec![ARN.to_owned()]));
    assert!(log.take()[0].starts_with(&format!("{ARN}//default/a ")));
    assert!(clusters.remove(ARN));
    manager.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn c6_a_write_that_outlives_its_cluster_does_not_defer_keys_of_the_new_one() {
    let (old, new) = (server(&["a"]).await, server(&["a"]).await);
    let late = Fault::new(FaultAction::Delay(Duration::from_secs(10)));
    old.faults().arm(late.on(Match::verb(Verb::Patch).resource("secrets")));
    let log = Log::default();
    let repeated = async |ctx: Context<Log>, key: Key| {
        let _done = reconcile(ctx, key).await?;
        Ok::<_, Error>(Action::RequeueAfter(Duration::from_secs(1)))
    };
    let controller = Controller::of_clusters("t")
        .concurrency(2)
        .write_wait_max(Duration::MAX)
        .build(log.clone(), repeated)
        .unwrap();
    let clusters = controller.clusters();
    clusters.add("east", triggers(&old)).unwrap();
    let manager = testing::start(Manager::new().controller(controller));
    log.next(1).await;
    clusters.add("east", triggers(&new)).unwrap();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(secrets(&old).await, ["a"], "the write of the old cluster was executed");
    log.take();
    sleep(Duration::from_secs(20)).await;
    assert!(log.take().len() > 10, "the key is reconciled in the new cluster");
    manager.stop().await.unwrap();
}
