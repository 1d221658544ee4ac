//! The website operator of a run, with a leader election of its own. Other clients damage its websites and their children.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use kube_informer_controller::Stop;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use website_operator::reconcile::Directory;
use website_operator::trial::{NAMESPACE, Trial, install};
use website_operator::{Settings, operator};

use crate::link::Link;
use crate::plan::WebsitePlan;
use crate::world::World;

/// The pause before an operator that ended restarts.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// The operator and its websites.
pub(crate) struct Websites {
    pub(crate) link: Link,
    /// A client without faults.
    client: Client,
    directory: Directory,
    sites: usize,
    stop: Stop,
    running: JoinHandle<()>,
}

impl Websites {
    pub(crate) async fn start(world: &Arc<World>, plan: WebsitePlan, seed: u64) -> io::Result<Self> {
        let client = Client::new(world.server.service(), NAMESPACE);
        install(&client).await.map_err(io::Error::other)?;
        let link = Link::new(world.server.service(), "websites".to_owned(), seed, world.trace.clone());
        let (directory, stop) = (Directory::default(), Stop::new());
        let settings = Settings {
            replica: "websites".to_owned(),
            concurrency: plan.concurrency.into(),
            seed: Some(seed),
            ..Settings::default()
        };
        let running = keep_running(
            world.clone(),
            Client::new(link.clone(), NAMESPACE),
            directory.clone(),
            settings,
            stop.clone(),
        );
        let running = tokio::spawn(running);
        let websites = Self { link, client, directory, sites: plan.sites.into(), stop, running };
        websites.trial(seed).create(websites.sites).await.map_err(io::Error::other)?;
        Ok(websites)
    }

    /// Changes or deletes a website or one of its children.
    pub(crate) async fn damage(&self, how: u16) -> io::Result<()> {
        let trial = self.trial(how.into());
        trial.damage(self.sites, 1, async |_| {}).await.map_err(io::Error::other)
    }

    /// Describes how the children differ from their websites; `None` if they do not.
    pub(crate) async fn differs(&self) -> io::Result<Option<String>> {
        let (_, wrong) = self.trial(0).look().await.map_err(io::Error::other)?;
        Ok(wrong.first().map(|wrong| format!("websites: promise C1 is broken: {wrong}")))
    }

    pub(crate) async fn stop(self) {
        self.stop.stop();
        let _ = self.running.await;
    }

    fn trial(&self, seed: u64) -> Trial {
        Trial { client: self.client.clone(), directory: self.directory.clone(), seed }
    }
}

/// Restarts the operator as a Deployment would. It ends with an error if the server refuses its informers or its lease.
async fn keep_running(
    world: Arc<World>,
    client: Client,
    directory: Directory,
    settings: Settings,
    stop: Stop,
) {
    while !stop.is_stopping() {
        match operator(client.clone(), directory.clone(), &settings, &mut Registry::default()) {
            Ok((manager, _)) => {
                if let Err(error) = manager.run(&stop).await {
                    world.trace.note(format_args!("websites: {error}"));
                }
            }
            Err(error) => world.trace.fail(&format!("cannot build the website operator: {error:#}")),
        }
        tokio::select! {
            biased;
            () = sleep(RESTART_AFTER) => {}
            () = stop.stopping() => {}
        }
    }
}
