//! The program itself, on the embedded server: what it logs, and what it leaves behind when it is stopped.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "what cannot be is a test's failure")]

use std::process::Stdio;

use embedded_apiserver::{Action, Fault, Match, Server, Verb};
use k8s_openapi::api::events::v1::Event;
use kube_client::Api;
use kube_client::api::PostParams;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use website_operator::trial::{NAMESPACE, install};
use website_operator::{Website, WebsiteSpec};

/// The program against a server, and its log.
struct Program {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    _directory: tempfile::TempDir,
}

impl Program {
    fn start(server: &Server) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("kubeconfig");
        std::fs::write(&config, server.kubeconfig().unwrap()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_website-operator"))
            .env("KUBECONFIG", &config)
            .env("LISTEN_ADDRESS", "127.0.0.1:0")
            .env_remove("RUST_LOG")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, log, _directory: directory }
    }

    /// Waits for a line with all of these words.
    async fn logs(&mut self, words: &[&str]) -> String {
        let mut lines = Vec::new();
        while let Some(line) = self.log.next_line().await.unwrap() {
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
            lines.push(line);
        }
        panic!("it ended without {words:?}:\n{}", lines.join("\n"));
    }
}

fn website(name: &str) -> Website {
    Website::new(name, WebsiteSpec { host: "x".into(), html: String::new(), replicas: 1 })
}

#[tokio::test]
async fn c10_failures_are_logged_and_pending_events_sent_before_exit() {
    let server = Server::builder().seed(7).start().await.unwrap();
    let client = server.client().unwrap();
    install(&client).await.unwrap();
    let refused = Action::Status {
        code: 422,
        reason: "Invalid".into(),
        message: "this service will not do".into(),
        retry_after_seconds: 0,
    };
    let services = server.faults().arm(Fault::new(refused).on(Match::verb(Verb::Patch).resource("services")));
    // Events are slow: some wait when the program is stopped.
    let slow = Action::Delay(std::time::Duration::from_millis(50));
    server.faults().arm(Fault::new(slow).on(Match::verb(Verb::Create).resource("events")));
    let mut program = Program::start(&server);
    let sites = Api::<Website>::namespaced(client.clone(), NAMESPACE);
    sites.create(&PostParams::default(), &website("site-0")).await.unwrap();
    let line = program.logs(&["reconcile failed", "site-0"]).await;
    assert!(line.contains("WARN") && line.contains("this service will not do"), "{line}");

    server.faults().disarm(services);
    const SITES: usize = 10;
    for number in 1..SITES {
        sites.create(&PostParams::default(), &website(&format!("site-{number}"))).await.unwrap();
    }
    let is_reconciled = |site: &Website| site.status.is_some();
    while !sites.list(&Default::default()).await.unwrap().iter().all(is_reconciled) {
        tokio::task::yield_now().await;
    }
    let process = program.child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().await.unwrap().success());
    // It has to be read to its end, or it waits for its log.
    while program.log.next_line().await.unwrap().is_some() {}
    assert!(program.child.wait().await.unwrap().success());
    let events = Api::<Event>::namespaced(client, NAMESPACE).list(&Default::default()).await.unwrap().items;
    let about = |site: &str| {
        events.iter().any(|event| {
            let regards = event.regarding.as_ref().and_then(|object| object.name.as_deref());
            regards == Some(site) && event.reason.as_deref() == Some("Reconciled")
        })
    };
    let missing =
        (0..SITES).map(|number| format!("site-{number}")).filter(|site| !about(site)).collect::<Vec<_>>();
    assert_eq!(missing, Vec::<String>::new(), "events of the last reconciles are lost");
}
