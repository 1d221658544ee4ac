//! The sample operator on a real kube-apiserver with the garbage collector: the same test as on the embedded server.

use kube_informer::Cluster;
use kube_informer_conformance::{Programs, RealServer};
use kube_informer_controller::Stop;
use prometheus_client::registry::Registry;
use website_operator::reconcile::Directory;
use website_operator::trial::{Trial, install};
use website_operator::{Settings, operator};

const SITES: usize = 100;
const DAMAGES: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn websites_converge_although_children_are_damaged_and_the_server_restarts() {
    let programs = Programs::required();
    let controllers = ["garbage-collector-controller"];
    let mut server = RealServer::builder(programs).controllers(controllers).start().await.unwrap();
    let directory = Directory::default();
    let trial = Trial { client: server.client().await.unwrap(), directory: directory.clone(), seed: 7 };
    install(&trial.client).await.unwrap();

    let stop = Stop::new();
    let mut replicas = Vec::new();
    for replica in ["one", "two"] {
        let settings = Settings { replica: replica.to_owned(), ..Settings::default() };
        let cluster = Cluster::from_config(server.config().await.unwrap()).unwrap();
        let (manager, _) = operator(cluster, directory.clone(), &settings, &mut Registry::default()).unwrap();
        let stop = stop.clone();
        replicas.push(tokio::spawn(async move { manager.run(&stop).await }));
    }
    trial.create(SITES).await.unwrap();
    let restart = async |number: usize| {
        if number == DAMAGES / 2 {
            server.restart().await.unwrap();
        }
    };
    trial.damage(SITES, DAMAGES, restart).await.unwrap();
    let sites = trial.converged().await.unwrap();
    assert!(sites > SITES / 2, "{sites}");
    stop.stop();
    for replica in replicas {
        replica.await.unwrap().unwrap();
    }
}
