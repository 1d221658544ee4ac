//! A controller with a leader election: copies the ConfigMaps of one namespace to Secrets that they own.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::api::ListParams;
use kube_client::{Api, Client, Config};
use kube_core::ObjectMeta;
use kube_informer::{Cluster, Informer};
use kube_informer_controller::{Action, Context, Controller, Error, LeaderElection, RunError, Stop};
use tokio::task::JoinHandle;

use crate::Outcome;
use crate::clients::marked;

const NAMESPACE: &str = "team-0";
const COPY_OF: &str = "soak/copy-of";
const RESTART_AFTER: Duration = Duration::from_secs(1);

pub(crate) struct Mirror {
    stop: Stop,
    running: JoinHandle<Result<(), String>>,
}

impl Mirror {
    pub(crate) fn start(config: Config) -> Outcome<Self> {
        let cluster = Cluster::from_config(marked(config))?;
        let stop = Stop::new();
        let running = tokio::spawn(keep_running(cluster, stop.clone()));
        Ok(Self { stop, running })
    }

    /// A ConfigMap whose copy is missing or outdated, or a copy without its ConfigMap.
    pub(crate) async fn difference(client: &Client) -> Outcome<Option<String>> {
        let versions = |list: Vec<(String, String)>| list.into_iter().collect::<BTreeMap<_, _>>();
        let maps = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE)
            .list_metadata(&ListParams::default().labels("app=soak"))
            .await?
            .items
            .into_iter()
            .filter_map(|map| Some((map.metadata.name?, map.metadata.resource_version?)));
        let copies = Api::<Secret>::namespaced(client.clone(), NAMESPACE)
            .list_metadata(&ListParams::default().labels("app=copy"))
            .await?
            .items
            .into_iter()
            .filter_map(|copy| {
                let of = copy.metadata.annotations?.remove(COPY_OF)?;
                Some((copy.metadata.name?, of))
            });
        let (maps, copies) = (versions(maps.collect()), versions(copies.collect()));
        let missing = maps.iter().find(|(name, version)| copies.get(*name) != Some(version));
        let missing =
            missing.map(|(name, version)| format!("copy of {name} at {version} is {:?}", copies.get(name)));
        Ok(missing.or_else(|| {
            (copies.len() != maps.len()).then(|| format!("{} copies of {}", copies.len(), maps.len()))
        }))
    }

    pub(crate) async fn stop(self) -> Outcome {
        self.stop.stop();
        Ok(self.running.await??)
    }
}

/// Restarts the controller as a Deployment would. It ends with an error if the server refuses its informers.
async fn keep_running(cluster: Cluster, stop: Stop) -> Result<(), String> {
    while !stop.is_stopping() {
        match run(cluster.clone(), &stop).await {
            Ok(()) | Err(RunError::CutShort { .. }) => {}
            Err(error) => println!("controller: {error}"),
        }
        tokio::select! {
            biased;
            () = stop.stopping() => {}
            () = tokio::time::sleep(RESTART_AFTER) => {}
        }
    }
    Ok(())
}

async fn run(cluster: Cluster, stop: &Stop) -> Result<(), RunError> {
    let maps = Informer::<ConfigMap>::builder(&cluster).namespaces([NAMESPACE]).labels("app=soak").start();
    let copies = Informer::<Secret>::builder(&cluster).namespaces([NAMESPACE]).labels("app=copy").start();
    let (Ok(maps), Ok(copies)) = (maps, copies) else { unreachable!("the selectors are valid") };
    let controller = Controller::builder("mirror", &maps)
        .owns(&copies)
        .concurrency(4)
        .leader(LeaderElection::new(&cluster, NAMESPACE, "mirror"))
        .build((), reconcile);
    let ended = match controller {
        Ok(controller) => controller.run(stop).await,
        Err(error) => unreachable!("{error}"),
    };
    maps.shutdown().await;
    copies.shutdown().await;
    ended
}

async fn reconcile(context: Context<()>, _: kube_informer::Key) -> Result<Action, Error> {
    let Some(map) = context.object::<ConfigMap>() else { return Ok(Action::Done) };
    let copy = Secret {
        metadata: ObjectMeta {
            name: Some(map.name().to_owned()),
            namespace: Some(map.namespace().to_owned()),
            labels: Some(BTreeMap::from([("app".to_owned(), "copy".to_owned())])),
            annotations: Some(BTreeMap::from([(COPY_OF.to_owned(), map.resource_version().to_owned())])),
            ..ObjectMeta::default()
        },
        string_data: map.decode()?.data.clone(),
        ..Secret::default()
    };
    context.apply(&copy).await?;
    Ok(Action::Done)
}
