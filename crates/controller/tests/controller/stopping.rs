//! Stopping a controller.

use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{Informer, Key};
use kube_informer_controller::{Action, Context, Controller, Error, Manager, RunError, Stop};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Three keys, two workers; each reconcile runs until it gets a permit.
async fn busy(world: &World) -> (Running, Log, Arc<Semaphore>) {
    for name in ["a", "b", "c"] {
        world.maps.put(named(name));
    }
    let (log, turns) = (Log::default(), Arc::new(Semaphore::new(0)));
    let reconcile = {
        let turns = turns.clone();
        move |context: Context<Log>, _: Key| {
            let turns = turns.clone();
            async move {
                context.data().note("began");
                turns.acquire().await.unwrap().forget();
                context.data().note("ended");
                done()
            }
        }
    };
    let controller = Controller::builder("t", &world.map_informer()).concurrency(2).grace(5 * SECOND);
    let running = Running::start(controller.build(log.clone(), reconcile).unwrap());
    log.next(2).await;
    (running, log, turns)
}

#[tokio::test(start_paused = true)]
async fn c7_stop_starts_nothing_new_and_finishes_running_reconciles() {
    let world = World::new();
    let (running, log, turns) = busy(&world).await;
    running.stop.stop();
    settle().await;
    world.maps.put(named("d"));
    assert!(!running.task.is_finished());
    turns.add_permits(3);
    running.ended().await.unwrap();
    assert_eq!(log.take(), ["ended", "ended"]);
    assert_eq!(turns.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn c7_reconciles_are_cancelled_after_the_grace_period() {
    let world = World::new();
    let (running, log, turns) = busy(&world).await;
    turns.add_permits(1);
    log.next(2).await; // one has ended, and the third begun
    running.stop.stop();
    let stopped_at = Instant::now();
    assert!(matches!(running.ended().await, Err(RunError::CutShort { unfinished: 2 })));
    assert_eq!(stopped_at.elapsed(), 5 * SECOND);
    turns.add_permits(10);
    settle().await;
    assert!(log.take().is_empty(), "nothing runs on");
}

#[tokio::test(start_paused = true)]
async fn c7_second_stop_cancels_immediately() {
    let world = World::new();
    let (running, log, turns) = busy(&world).await;
    let stopped_at = Instant::now();
    running.stop.stop();
    running.stop.stop();
    assert!(matches!(running.ended().await, Err(RunError::CutShort { unfinished: 2 })));
    assert_eq!(stopped_at.elapsed(), Duration::ZERO);
    turns.add_permits(10);
    settle().await;
    assert!(log.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_can_wait_for_stop() {
    let world = World::new();
    world.maps.put(named("a"));
    let log = Log::default();
    let reconcile = async |context: Context<Log>, _: Key| {
        assert!(!context.is_stopping());
        context.data().note("began");
        context.stopping().await;
        assert!(context.is_stopping());
        done()
    };
    let controller = Controller::builder("t", &world.map_informer()).build(log.clone(), reconcile).unwrap();
    let running = Running::start(controller);
    log.next(1).await;
    running.stop.stop();
    running.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn run_can_be_stopped_before_sync() {
    let world = World::new();
    world.maps.support_watch_list(kube_informer::testing::WatchListSupport::Refused);
    world.maps.fail_next_list(kube_informer::building_blocks::SourceError::Idle(SECOND));
    let (running, _log) = noting(Controller::builder("t", &world.map_informer()));
    settle().await;
    running.stop.stop();
    running.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manager_syncs_and_stops_controllers_together() {
    let world = World::new();
    world.maps.put(named("a"));
    world.pods.put(named("p"));
    let log = Log::default();
    let reconcile = |context: Context<Log>, key: Key| async move {
        context.data().note(key);
        done()
    };
    let maps = Controller::builder("maps", &world.map_informer()).build(log.clone(), reconcile).unwrap();
    let pods = Controller::builder("pods", &world.pod_informer()).build(log.clone(), reconcile).unwrap();
    let manager = Manager::new().controller(maps).controller(pods);
    let probes = manager.sync_probes();
    assert!(probes.iter().all(|probe| !probe.is_synced()));
    let stop = Stop::new();
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(&stop).await }
    });
    let mut both = log.next(2).await;
    both.sort();
    assert_eq!(both, ["web/a", "web/p"]);
    assert!(probes.iter().all(|probe| probe.is_synced()));
    assert_eq!(probes.iter().map(|probe| probe.name()).collect::<Vec<_>>(), ["maps", "pods"]);
    stop.stop();
    task.await.unwrap().unwrap();
    assert!(probes.iter().all(|probe| !probe.is_synced()), "the controllers have ended");
    sleep(SECOND).await;
    world.maps.put(named("a"));
    settle().await;
    assert!(log.take().is_empty(), "the listeners are removed");
}

/// More objects than the queue's capacity; the only worker never finishes.
fn overfull(world: &World) -> (Informer<ConfigMap>, Controller, Log) {
    for number in 0..10 {
        world.maps.put(named(&format!("m{number}")));
    }
    let (maps, log) = (world.map_informer(), Log::default());
    let reconcile = |context: Context<Log>, key: Key| async move {
        context.data().note(key);
        std::future::pending::<Result<Action, Error>>().await
    };
    let controller = Controller::builder("t", &maps).queue_capacity(3).build(log.clone(), reconcile).unwrap();
    (maps, controller, log)
}

#[tokio::test(start_paused = true)]
async fn c7_a_controller_that_ends_with_a_full_queue_frees_its_informers() {
    type End = fn(Controller, Log) -> futures::future::BoxFuture<'static, ()>;
    let stopped: End = |controller, log| {
        Box::pin(async move {
            let running = Running::start(controller);
            log.next(1).await;
            sleep(SECOND).await;
            running.stop.stop();
            running.stop.stop();
            assert!(matches!(running.ended().await, Err(RunError::CutShort { unfinished: 1 })));
        })
    };
    let dropped_running: End = |controller, log| {
        Box::pin(async move {
            let running = Running::start(controller);
            log.next(1).await;
            sleep(SECOND).await;
            running.task.abort();
            assert!(running.task.await.unwrap_err().is_cancelled());
        })
    };
    let dropped_built: End = |controller, _| {
        Box::pin(async move {
            sleep(SECOND).await;
            drop(controller);
        })
    };
    let ends = [("stopped", stopped), ("dropped running", dropped_running), ("dropped built", dropped_built)];
    for (how, end) in ends {
        let world = World::new();
        let (maps, controller, log) = overfull(&world);
        end(controller, log).await;
        assert!(timeout(60 * SECOND, maps.shutdown()).await.is_ok(), "{how}: a handler is still registered");
    }
}

#[tokio::test(start_paused = true)]
async fn c3_a_standby_is_synced_with_a_full_queue() {
    let world = World::new();
    let (maps, controller, _log) = overfull(&world);
    let manager = Manager::new().controller(controller);
    let [probe] = &manager.sync_probes()[..] else { panic!() };
    assert!(!probe.is_synced());
    maps.synced().await.unwrap();
    settle().await;
    assert!(probe.is_synced());
    drop(manager);
    assert!(!probe.is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_second_leader_election_is_an_error() {
    let server = embedded_apiserver::Server::builder().without_socket().seed(1).start().await.unwrap();
    let client = server.client().unwrap();
    let election =
        |name: &str| kube_informer_controller::LeaderElection::new(client.clone(), "default", name).seed(1);
    let world = World::new();
    let with_own = |name: &str| {
        let builder = Controller::builder(name, &world.map_informer()).leader(election(name));
        builder.build((), async |_, _: Key| done()).unwrap()
    };
    for manager in [
        Manager::new().controller(with_own("a")).controller(with_own("b")),
        Manager::new().leader(election("a")).controller(with_own("b")),
        Manager::new().controller(with_own("a")).leader(election("b")),
    ] {
        let error =
            timeout(60 * SECOND, manager.run(&Stop::new())).await.expect("the lease is refused").unwrap_err();
        let error = error.to_string();
        assert!(error.contains("default/a") && error.contains("default/b"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn stop_and_cancellation_token_convert_both_ways() {
    let token = tokio_util::sync::CancellationToken::new();
    let stop = Stop::from(token.clone());
    let world = World::new();
    let controller =
        Controller::builder("t", &world.map_informer()).build((), async |_, _: Key| done()).unwrap();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(&stop).await }
    });
    token.cancel();
    running.await.unwrap().unwrap();
    assert!(stop.is_stopping());

    let stop = Stop::new();
    let token = tokio_util::sync::CancellationToken::from(&stop);
    stop.stop();
    assert!(token.is_cancelled());
}
