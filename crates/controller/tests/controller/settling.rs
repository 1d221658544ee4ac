//! `testing::settle`: what it waits for, and what it reports.

use std::time::Duration;

use embedded_apiserver::{Action as FaultAction, Fault, Match, Server, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use kube_informer::{Informer, Key};
use kube_informer_controller::testing::{self, RunningManager};
use kube_informer_controller::{Action, Context, Controller, Error, Manager};
use serde_json::{Value, json};

use crate::support::{self, Log};

/// The namespace `web` with a config map; no namespace matches `team=web`.
struct World {
    server: Server,
    maps: Informer<ConfigMap>,
    manager: RunningManager,
    log: Log,
}

async fn world() -> World {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "web", "name": "a"}});
    let server = Server::builder().without_socket().seed(1).objects([map]).start().await.unwrap();
    let maps = Informer::<ConfigMap>::builder(server.client().unwrap());
    let maps = maps.namespaces_matching("team=web").start().unwrap();
    let log = Log::default();
    let reconcile = async |ctx: Context<Log>, key: Key| {
        ctx.data().note(format!("{key}: {}", ctx.object::<ConfigMap>().is_some()));
        Ok::<_, Error>(Action::Done)
    };
    let controller = Controller::builder("t", &maps).build(log.clone(), reconcile).unwrap();
    let manager = testing::start(Manager::new().controller(controller));
    testing::settle(&server, &manager).await.unwrap();
    assert!(log.take().is_empty());
    World { server, maps, manager, log }
}

impl World {
    async fn set_team(&self, team: Value) {
        let namespaces = Api::<Namespace>::all(self.server.client().unwrap());
        let patch = Patch::Merge(json!({"metadata": {"labels": {"team": team}}}));
        namespaces.patch("web", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Breaks all watches. Namespaces meet this fault when they are watched or listed again.
    fn break_namespaces(&self, fault: &FaultAction) {
        for verb in [Verb::Watch, Verb::List] {
            let fault = Fault::new(fault.clone()).on(Match::verb(verb).resource("namespaces"));
            self.server.faults().arm(fault);
        }
        self.server.disconnect_all();
    }
}

/// The reason that `settle` reports for a controller whose reconciles all return this.
async fn reason(outcome: fn() -> Result<Action, Error>) -> String {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "web", "name": "a"}});
    let server = Server::builder().without_socket().seed(1).objects([map]).start().await.unwrap();
    let maps = Informer::<ConfigMap>::builder(server.client().unwrap()).namespaces(["web"]).start().unwrap();
    let reconcile = move |_: Context, _: Key| async move { outcome() };
    let controller = Controller::builder("t", &maps).build((), reconcile).unwrap();
    let manager = testing::start(Manager::new().controller(controller));
    testing::settle(&server, &manager).await.unwrap_err().reason
}

#[tokio::test(start_paused = true)]
async fn settle_names_what_is_left_to_do() {
    assert_eq!(reason(|| Err(Error::new("no disk"))).await, "controller `t`: web/a fails: no disk");
    // 700 ms does not divide the time limit, so the key is neither queued nor running at the end of the limit.
    let due = reason(|| Ok(Action::RequeueAfter(Duration::from_millis(700)))).await;
    assert!(due.starts_with("controller `t`: a key is due in "), "{due}");

    let world = world().await;
    world.manager.stop_handle().stop();
    support::settle().await;
    let error = testing::settle(&world.server, &world.manager).await.unwrap_err();
    assert_eq!(error.reason, "the manager has ended; `stop` returns why");
}

#[tokio::test(start_paused = true)]
async fn settle_waits_for_namespaces_that_begin_and_cease_to_match() {
    let world = world().await;
    world.break_namespaces(&FaultAction::Delay(Duration::from_secs(10)));
    world.set_team(json!("web")).await;
    testing::settle(&world.server, &world.manager).await.unwrap();
    assert_eq!(world.log.take(), ["web/a: true"]);

    world.break_namespaces(&FaultAction::Delay(Duration::from_secs(10)));
    world.set_team(json!("other")).await;
    testing::settle(&world.server, &world.manager).await.unwrap();
    assert_eq!(world.log.take(), ["web/a: false"]);
    assert_eq!(world.maps.lister().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn settle_names_the_watch_on_namespaces_that_fails() {
    let world = world().await;
    let refused = FaultAction::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no role allows it".into(),
        retry_after_seconds: 0,
    };
    world.break_namespaces(&refused);
    world.set_team(json!("web")).await;
    let error = testing::settle(&world.server, &world.manager).await.unwrap_err();
    let reason = &error.reason;
    assert!(reason.contains("its informer of configmaps has not reached resourceVersion"), "{reason}");
    assert!(reason.contains("namespaces") && reason.contains("no role allows it"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn settle_names_a_silent_watch_on_namespaces() {
    let world = world().await;
    world.break_namespaces(&FaultAction::Hang);
    world.set_team(json!("web")).await;
    let error = testing::settle(&world.server, &world.manager).await.unwrap_err();
    assert!(error.reason.contains("namespaces"), "{}", error.reason);
}
