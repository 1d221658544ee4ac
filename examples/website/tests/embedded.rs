//! The operator on the embedded server, end to end: a thousand websites, two replicas, and connections that keep breaking.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::time::Duration;

use embedded_apiserver::{Action, Fault, Match, Server, Verb};
use http::{HeaderValue, Request, header::USER_AGENT};
use k8s_openapi::api::events::v1::Event;
use kube_client::api::PostParams;
use kube_client::client::Body;
use kube_client::{Api, Client};
use kube_informer_controller::Stop;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tower::ServiceBuilder;
use website_operator::reconcile::Directory;
use website_operator::trial::{NAMESPACE, Trial, install};
use website_operator::{Settings, Website, WebsiteSpec, operator};

const SITES: usize = 1000;
const DAMAGES: usize = 1500;

struct Replica {
    stop: Stop,
    task: JoinHandle<()>,
}

/// A client whose requests carry this user agent.
fn client(server: &Server, name: &'static str) -> Client {
    let tag = move |mut request: Request<Body>| {
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(name));
        request
    };
    Client::new(ServiceBuilder::new().map_request(tag).service(server.service()), NAMESPACE)
}

impl Replica {
    fn start(server: &Server, name: &'static str, seed: u64, directory: &Directory) -> Self {
        let settings = Settings { replica: name.to_owned(), seed: Some(seed), ..Settings::default() };
        let client = client(server, name);
        let (manager, _) = operator(client, directory.clone(), &settings, &mut Registry::default()).unwrap();
        let stop = Stop::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { manager.run(&stop).await.unwrap() }
        });
        Self { stop, task }
    }
}

/// What goes wrong for the operator all the time.
fn arm(server: &Server) {
    let operator = || Match::default().user_agent("operator");
    let watch = || Match::verb(Verb::Watch).user_agent("operator");
    let apply = || Match::verb(Verb::Patch).user_agent("operator");
    for (action, on, probability) in [
        (Action::Disconnect, operator(), 0.02),
        (Action::Overloaded { retry_after_seconds: 1 }, operator(), 0.01),
        (Action::Html { code: 502 }, apply(), 0.02),
        // The write is made, and the answer is lost.
        (Action::CutAfterBytes(20), apply(), 0.02),
        (Action::CutAfterEvents(20), watch(), 0.5),
        (Action::Expired, watch(), 0.1),
        (Action::DuplicateEvent(3), watch(), 0.2),
    ] {
        server.faults().arm(Fault::new(action).on(on).probability(probability));
    }
}

#[tokio::test(start_paused = true)]
async fn c1_a_thousand_websites_converge_under_faults() {
    let server = Server::builder().without_socket().seed(7).start().await.unwrap();
    let directory = Directory::default();
    let trial = Trial { client: client(&server, "trial"), directory: directory.clone(), seed: 7 };
    install(&trial.client).await.unwrap();
    arm(&server);
    let one = Replica::start(&server, "operator-one", 1, &directory);
    let _two = Replica::start(&server, "operator-two", 2, &directory);
    trial.create(SITES).await.unwrap();
    let between = async |number: usize| {
        if number.is_multiple_of(10) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        match number {
            500 => drop(
                server.faults().arm(Fault::new(Action::Hang).on(Match::default().user_agent("operator-two"))),
            ),
            // If the stopped replica leads, the other takes over.
            750 => {
                server.faults().clear();
                arm(&server);
            }
            1000 => one.stop.stop(),
            _ => {}
        }
    };
    trial.damage(SITES, DAMAGES, between).await.unwrap();
    server.faults().clear();
    let sites = trial.converged().await.unwrap();
    assert!(sites > SITES / 2, "{sites}");
    assert!(one.task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn an_invalid_website_reports_its_error_and_is_not_retried() {
    let server = Server::builder().without_socket().seed(7).start().await.unwrap();
    let client = client(&server, "test");
    install(&client).await.unwrap();
    let replica = Replica::start(&server, "operator", 1, &Directory::default());
    let api = Api::<Website>::namespaced(client.clone(), NAMESPACE);
    let spec = WebsiteSpec { host: "x".into(), html: String::new(), replicas: -1 };
    api.create(&PostParams::default(), &Website::new("odd", spec)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let site = api.get("odd").await.unwrap();
    assert_eq!(site.status.unwrap().problem.as_deref(), Some("invalid replicas -1: must not be negative"));
    let events = Api::<Event>::namespaced(client, NAMESPACE).list(&Default::default()).await.unwrap().items;
    let warnings = events.iter().filter(|event| event.reason.as_deref() == Some("InvalidSpec")).count();
    assert_eq!(warnings, 1);
    replica.stop.stop();
    replica.task.await.unwrap();
}
