//! A fed resource is served with the resourceVersions of its source; watches that lag too far end.

use crate::support;

use bytes::Bytes;
use embedded_apiserver::{FeedError, Server};
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Empty};
use serde_json::{Value, json};
use support::Session;
use tower::ServiceExt as _;

fn node(name: &str, revision: u64) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": revision.to_string()}})
}

#[tokio::test(start_paused = true)]
async fn clients_see_the_fed_revisions() {
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    let feed = session.server.feed("", "v1", "nodes").unwrap();
    feed.put(&node("a", 1_000)).unwrap();
    feed.put(&node("b", 1_005)).unwrap();
    let list = session.json("GET", "/api/v1/nodes", Value::Null).await;
    assert_eq!(list["metadata"]["resourceVersion"], "1005");
    feed.put(&node("a", 1_010)).unwrap();
    feed.delete(&node("b", 1_011)).unwrap();
    feed.bookmark(2_000).unwrap();
    let watch = "/api/v1/nodes?watch=1&resourceVersion=1005&allowWatchBookmarks=true&timeoutSeconds=10";
    let answer = session.request("GET", watch, &[], Vec::new()).await;
    let events: Vec<Value> =
        serde_json::Deserializer::from_slice(&answer.body).into_iter().map(Result::unwrap).collect();
    let seen: Vec<(&str, &str)> = events
        .iter()
        .map(|event| {
            (
                event["type"].as_str().unwrap(),
                event["object"]["metadata"]["resourceVersion"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(seen, [("MODIFIED", "1010"), ("DELETED", "1011"), ("BOOKMARK", "2000"), ("BOOKMARK", "2000")]);
    assert!(matches!(
        feed.put(&node("c", 1_500)),
        Err(FeedError::OutOfOrder { given: 1_500, last: 2_000, .. })
    ));
    assert!(matches!(feed.put(&json!({"metadata": {"name": "c"}})), Err(FeedError::NoRevision { .. })));
    // Other resources continue from the latest fed revision.
    let other = session
        .json("POST", "/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "c"}}))
        .await;
    assert_eq!(other["metadata"]["resourceVersion"], "2001");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_behind_its_buffer_ends_without_an_error() {
    let session = Session::new(Server::builder().without_socket().watch_buffer(4).start().await.unwrap());
    let request =
        http::Request::get("/api/v1/nodes?watch=1&resourceVersion=5").body(Empty::<Bytes>::new()).unwrap();
    let response = session.server.service().oneshot(request).await.unwrap();
    let mut slow = response.into_body().into_data_stream();
    for n in 0..5 {
        session.json("POST", "/api/v1/nodes", json!({"metadata": {"name": format!("n-{n}")}})).await;
    }
    assert!(slow.next().await.is_none());
    // The watch can resume where it stopped: history reaches further back than the buffer.
    let again = session
        .request("GET", "/api/v1/nodes?watch=1&resourceVersion=5&timeoutSeconds=1", &[], Vec::new())
        .await;
    assert_eq!(again.body.iter().filter(|byte| **byte == b'\n').count(), 5);
}
