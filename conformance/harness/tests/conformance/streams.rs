//! `Cluster` as a general client, through a real kube-apiserver to a kubelet: followed logs, `exec`, concurrent writes.

use futures::future::try_join_all;
use http::Request;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube_client::Client;
use kube_client::api::{Api, Patch, PatchParams, PostParams};
use kube_client::client::Body;
use kube_informer::Cluster;
use kube_informer_conformance::{Programs, RealServer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common;
use crate::common::kubelet::{Kubelet, LOG_LINE};

const POD: &str = "/api/v1/namespaces/default/pods/web";
/// More than the 100 streams that kube-apiserver allows per connection.
const LOGS: usize = 150;

async fn server() -> (RealServer, Kubelet, Client) {
    let server = RealServer::builder(Programs::required()).start().await.unwrap();
    let client = Cluster::from_config(server.config().await.unwrap()).unwrap().client();
    let kubelet = Kubelet::start().await;
    let nodes: Api<Node> = Api::all(client.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": "node"}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = Patch::Merge(json!({"status": kubelet.node_status()}));
    nodes.patch_status("node", &PatchParams::default(), &status).await.unwrap();
    let pod = json!({"metadata": {"name": "web"}, "spec": {"nodeName": "node",
        "containers": [{"name": "main", "image": "example/main:1"}]}});
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    (server, kubelet, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_14_a_write_goes_through_while_more_logs_are_followed_than_a_connection_carries() {
    let (_server, _kubelet, client) = server().await;
    let follow = async |_| {
        let log = Request::get(format!("{POD}/log?follow=true")).body(Body::empty()).unwrap();
        let mut answer = client.send(log).await?;
        assert_eq!(answer.status(), 200);
        let first = answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first, LOG_LINE);
        Ok::<_, kube_client::Error>(answer)
    };
    let logs = try_join_all((0..LOGS).map(follow)).await.unwrap();
    let versions = common::create(&client, &["written"]).await;
    assert_eq!(versions.len(), 1);
    drop(logs);
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_14_exec_takes_a_connection_over_in_both_directions() {
    let (_server, _kubelet, client) = server().await;
    let exec = Request::get(format!("{POD}/exec?command=cat&stdin=true&stdout=true"))
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "MDEyMzQ1Njc4OWFiY2RlZg==")
        .header("sec-websocket-protocol", "v4.channel.k8s.io")
        .body(Body::empty())
        .unwrap();
    let answer = client.send(exec).await.unwrap();
    assert_eq!(answer.status(), 101);
    let mut connection = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    connection.write_all(b"hello").await.unwrap();
    let mut echoed = [0; 5];
    connection.read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, b"hello");
}
