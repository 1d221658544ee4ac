//! The embedded server, filled with objects. Each line on standard input is a command. The process ends at the end of
//! the input.

use std::io::{BufRead as _, Write as _};
use std::path::Path;

use embedded_apiserver::{Feed, Restart, Server};
use http::Request;
use http_body_util::BodyExt as _;
use kube_client::Client;
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::load::Load;
use crate::measure::{micros, report};
use crate::{Outcome, widgets};

/// Serves until the end of the standard input. The command `relist` closes all connections, changes an object and drops
/// the history.
pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let (directory, count) = (Path::new(arguments.word(1)?), arguments.number(2)?);
    let server = Server::builder().tls().sharded_list_and_watch(true).start().await?;
    let namespaces = arguments.option("--namespaces")?.unwrap_or(50);
    let mut crowd = Crowd::fill(&server, Load::of(arguments)?, count, namespaces).await?;
    std::fs::write(directory.join("kubeconfig"), server.kubeconfig().ok_or("no kubeconfig")?)?;
    report("ready", count, "objects");
    std::io::stdout().flush()?;
    let (sender, mut commands) = tokio::sync::mpsc::unbounded_channel();
    let reading = tokio::task::spawn_blocking(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    while let Some(command) = commands.recv().await {
        match command.as_str() {
            "relist" => {
                // Clients must not receive the change except by a list.
                server.refuse_connections().await;
                crowd.change(0)?;
                server.restart(&Restart::HistoryLost);
                server.accept_connections().await?;
            }
            other => return Err(format!("unknown command {other:?}").into()),
        }
    }
    // The parent process has exited.
    let _ = reading.await?;
    server.shutdown().await;
    Ok(())
}

/// The objects of a server, each with the managed fields of its writers.
pub(crate) struct Crowd {
    feed: Feed,
    load: Load,
    namespaces: u64,
    /// The managed fields of an object that two clients wrote: one its spec, one its status.
    managed: String,
    /// The uid of its owner, which is part of the managed fields.
    owner: Option<String>,
    version: u64,
}

impl Crowd {
    pub(crate) async fn fill(server: &Server, load: Load, count: u64, namespaces: u64) -> Outcome<Self> {
        let client = server.client()?;
        for number in 0..namespaces {
            let namespace = json!({"metadata": {"name": format!("team-{number}")}});
            send(&client, "POST", "/api/v1/namespaces", &namespace).await?;
        }
        if load == Load::Widgets {
            let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            send(&client, "POST", definitions, &widgets::definition()).await?;
        }
        let (group, version, plural) = load.resource();
        let mut model = load.object(0, namespaces);
        // No controller would remove them.
        if let Some(metadata) = model["metadata"].as_object_mut() {
            metadata.remove("finalizers");
        }
        let all = format!("{}/namespaces/{}/{plural}", load.root(), text(&model, "/metadata/namespace"));
        let one = format!("{all}/{}", text(&model, "/metadata/name"));
        let mut written =
            send(&client, "POST", &format!("{all}?fieldManager=kube-controller-manager"), &model).await?;
        if load.has_status() {
            let mut status = json!({
                "apiVersion": model["apiVersion"], "kind": model["kind"],
                "metadata": {"name": text(&model, "/metadata/name")}, "spec": model["spec"], "status": model["status"],
            });
            if load == Load::Widgets {
                // Only updates of custom resources need a resourceVersion, and a pod may have changed in the meantime.
                status["metadata"]["resourceVersion"] = written["metadata"]["resourceVersion"].clone();
            }
            written = send(&client, "PUT", &format!("{one}/status?fieldManager=kubelet"), &status).await?;
        }
        send(&client, "DELETE", &format!("{one}?gracePeriodSeconds=0"), &Value::Null).await?;
        let mut crowd = Self {
            feed: server.feed(group, version, plural).ok_or("the resource is not served")?,
            load,
            namespaces,
            managed: written["metadata"]["managedFields"].to_string(),
            owner: owner(&model).map(str::to_owned),
            version: micros(),
        };
        for number in 0..count {
            crowd.change(number)?;
        }
        Ok(crowd)
    }

    /// Creates or replaces an object.
    fn change(&mut self, number: u64) -> Outcome {
        let mut object = self.load.object(number, self.namespaces);
        let managed = match (&self.owner, owner(&object)) {
            (Some(model), Some(own)) => self.managed.replace(model, own),
            _ => self.managed.clone(),
        };
        object["metadata"]["managedFields"] = serde_json::from_str(&managed)?;
        self.version = micros().max(self.version + 1);
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        Ok(self.feed.put(&object)?)
    }
}

fn owner(object: &Value) -> Option<&str> {
    object.pointer("/metadata/ownerReferences/0/uid")?.as_str()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Outcome<Value> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let answer = client.send(request.body(body.into())?).await?;
    let (status, body) = (answer.status(), answer.into_body().collect().await?.to_bytes());
    if !status.is_success() {
        return Err(format!("{method} {path}: {status} {}", String::from_utf8_lossy(&body)).into());
    }
    Ok(serde_json::from_slice(&body)?)
}
