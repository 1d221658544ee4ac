//! Extreme numbers in requests, feeds, faults and options neither panic nor corrupt stored objects.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use embedded_apiserver::{Action, ApiBody, Clock, Fault, Match, Server, Verb};
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use serde_json::{Value, json};
use support::Session;
use tower::ServiceExt as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn session() -> Session {
    let clock = Clock::starting_at(UNIX_EPOCH);
    Session::new(Server::builder().without_socket().seed(1).clock(clock).start().await.unwrap())
}

impl Session {
    async fn running_pod(&self, name: &str, grace_seconds: i64, owner: Option<&Value>) -> Value {
        let owners: Vec<Value> = owner
            .iter()
            .map(|owner| json!({"apiVersion": "v1", "kind": "Pod", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}))
            .collect();
        let spec = json!({"nodeName": "node", "terminationGracePeriodSeconds": grace_seconds, "containers": [{"name": "c"}]});
        let metadata = json!({"name": name, "ownerReferences": owners});
        self.json("POST", PODS, json!({"metadata": metadata, "spec": spec})).await
    }

    /// An open watch.
    async fn watch(&self, path: &str) -> ApiBody {
        let request = Request::get(path).body(Empty::<Bytes>::new()).unwrap();
        let response = self.server.service().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.into_body()
    }
}

/// The events of the watch's next chunk.
async fn events(watch: &mut ApiBody) -> Vec<Value> {
    let chunk = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    serde_json::Deserializer::from_slice(&chunk).into_iter().map(Result::unwrap).collect()
}

fn is_timestamp(value: &Value) -> bool {
    // `2026-01-01T00:00:00Z`: clients cannot parse a longer year, and it cannot be stored.
    value.as_str().is_some_and(|text| text.len() == 20 && text.ends_with('Z'))
}

#[tokio::test(start_paused = true)]
async fn a_deletion_with_any_grace_period_keeps_the_object_intact() {
    let session = session().await;
    for (at, seconds) in [300_000_000_000, i64::MAX, i64::MAX - 1, 253_402_300_800].into_iter().enumerate() {
        let by_query = format!("query-{at}");
        session.running_pod(&by_query, 30, None).await;
        let path = format!("{PODS}/{by_query}?gracePeriodSeconds={seconds}");
        session.json("DELETE", &path, json!({})).await;
        let by_body = format!("body-{at}");
        session.running_pod(&by_body, 30, None).await;
        session.json("DELETE", &format!("{PODS}/{by_body}"), json!({"gracePeriodSeconds": seconds})).await;
        let by_spec = format!("spec-{at}");
        session.running_pod(&by_spec, seconds, None).await;
        session.json("DELETE", &format!("{PODS}/{by_spec}"), json!({})).await;
        let evicted = format!("evicted-{at}");
        session.running_pod(&evicted, 30, None).await;
        let eviction =
            json!({"metadata": {"name": evicted}, "deleteOptions": {"gracePeriodSeconds": seconds}});
        session.json("POST", &format!("{PODS}/{evicted}/eviction"), eviction).await;
        for name in [by_query, by_body, by_spec, evicted] {
            let pod = session.find(&format!("{PODS}/{name}")).await.unwrap();
            let metadata = &pod["metadata"];
            assert_eq!((&metadata["name"], &metadata["namespace"]), (&json!(name), &json!("default")));
            assert_eq!(metadata["deletionGracePeriodSeconds"], seconds, "{name}");
            assert!(
                is_timestamp(&metadata["deletionTimestamp"]),
                "{name}: {}",
                metadata["deletionTimestamp"]
            );
        }
    }
    let accept = [("accept", "application/vnd.kubernetes.protobuf")];
    assert_eq!(session.request("GET", PODS, &accept, Vec::new()).await.code, 200);
    let list = session.find(PODS).await.unwrap();
    assert!(list["items"].as_array().unwrap().iter().all(|pod| pod["metadata"]["uid"].is_string()));
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_any_timeout_delivers() {
    let session = session().await;
    for seconds in [i64::MAX, i64::MAX / 1000, 1 << 40] {
        let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}");
        let mut watch = session.watch(&path).await;
        let name = format!("m-{seconds}");
        session.json("POST", MAPS, json!({"metadata": {"name": name}})).await;
        let is_it = |event: &Value| event["object"]["metadata"]["name"] == name.as_str();
        while !events(&mut watch).await.iter().any(is_it) {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_request_with_an_expiration_out_of_range_is_invalid() {
    let session = session().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    session.json("POST", accounts, json!({"metadata": {"name": "robot"}})).await;
    let headers = [("content-type", "application/json")];
    for (seconds, code) in [
        (json!(i64::MAX), 422),
        (json!((1_u64 << 32) + 1), 422),
        (json!(1_u64 << 32), 201),
        (json!(600), 201),
        (json!(599), 422),
        (json!(i64::MIN), 422),
        (Value::Null, 201),
    ] {
        let request = json!({"spec": {"audiences": [], "expirationSeconds": seconds}});
        let path = format!("{accounts}/robot/token");
        let answer = session.request("POST", &path, &headers, request.to_string().into()).await;
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer.code, code, "{seconds}: {body}");
        if code == 422 {
            let start =
                "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: ";
            assert!(body["message"].as_str().unwrap().starts_with(start), "{body}");
        } else {
            assert!(is_timestamp(&body["status"]["expirationTimestamp"]), "{seconds}: {body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pod_removal_continues_after_an_endless_grace_period() {
    let session = session().await;
    let owner = session.running_pod("owner", 1, None).await;
    session.running_pod("endless", i64::MAX, Some(&owner)).await;
    session.running_pod("later", 5, None).await;
    session.json("DELETE", &format!("{PODS}/owner"), json!({})).await;
    session.json("DELETE", &format!("{PODS}/later"), json!({})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(session.find(&format!("{PODS}/owner")).await, None);
    assert_eq!(session.find(&format!("{PODS}/later")).await, None, "the task that removes pods has ended");
    let endless = session.find(&format!("{PODS}/endless")).await.unwrap();
    assert!(is_timestamp(&endless["metadata"]["deletionTimestamp"]));
}

#[tokio::test(start_paused = true)]
async fn pod_removal_continues_after_a_panic() {
    let broken = Arc::new(AtomicBool::new(false));
    let flag = broken.clone();
    let clock = Clock::new(move || {
        assert!(!flag.swap(false, Ordering::SeqCst), "a clock that panics once");
        UNIX_EPOCH
    });
    let server = Server::builder().without_socket().clock(clock).start().await.unwrap();
    let session = Session::new(server);
    for (name, grace_seconds) in [("first", 1), ("second", 5)] {
        session.running_pod(name, grace_seconds, None).await;
        session.json("DELETE", &format!("{PODS}/{name}"), json!({})).await;
    }
    broken.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!broken.load(Ordering::SeqCst), "the clock did not panic");
    assert_eq!(session.find(&format!("{PODS}/second")).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_largest_revision_is_rejected_or_awaited() {
    let session = session().await;
    session.json("POST", MAPS, json!({"metadata": {"name": "a"}})).await;
    let largest = u64::MAX;
    let list = session.request("GET", &format!("{MAPS}?resourceVersion={largest}"), &[], Vec::new()).await;
    assert_eq!(list.code, 504);
    let path = format!("{MAPS}?watch=1&resourceVersion={largest}&timeoutSeconds=5");
    assert_eq!(session.request("GET", &path, &[], Vec::new()).await.code, 200);
    session.server.faults().arm(Fault::new(Action::Expired).on(Match::verb(Verb::Watch)).once());
    let answer = session.request("GET", &path, &[], Vec::new()).await;
    let event: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(event["object"]["code"], 410);
    session.server.compact_to(u64::MAX);
    session.json("POST", MAPS, json!({"metadata": {"name": "b"}})).await;
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_from_the_future_is_rejected() {
    let session = session().await;
    for name in ["a", "b", "c", "d"] {
        session.json("POST", MAPS, json!({"metadata": {"name": name}})).await;
    }
    let token = json!({"v": "meta.k8s.io/v1", "rv": i64::MAX, "start": "a"}).to_string();
    let path = format!("{MAPS}?limit=1&continue={}", URL_SAFE_NO_PAD.encode(token));
    let next = json!({"v": "meta.k8s.io/v1", "rv": i64::MAX, "start": "/a\u{0}"}).to_string();
    let next = format!("{MAPS}?limit=3&continue={}", URL_SAFE_NO_PAD.encode(next));
    // The rest of a list is counted once per revision: it must not be counted for a revision that does not exist yet.
    assert_eq!(session.request("GET", &path, &[], Vec::new()).await.code, 504);
    for name in ["b", "c", "d"] {
        session.json("DELETE", &format!("{MAPS}/{name}"), json!({})).await;
    }
    for name in ["e", "f", "g", "h", "i"] {
        session.json("POST", MAPS, json!({"metadata": {"name": name}})).await;
    }
    assert_eq!(session.request("GET", &next, &[], Vec::new()).await.code, 504);
}

#[tokio::test(start_paused = true)]
async fn fed_revisions_do_not_exhaust_the_counter() {
    let session = session().await;
    let feed = session.server.feed("apps", "v1", "deployments").unwrap();
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = |revision: u64| {
        json!({
            "metadata": {"name": "d", "namespace": "default", "uid": "u", "resourceVersion": revision.to_string(), "generation": i64::MAX},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
        })
    };
    assert!(feed.put(&deployment(u64::MAX)).is_err());
    assert!(feed.put(&deployment(1 << 63)).is_err());
    assert!(feed.bookmark(u64::MAX).is_err());
    feed.put(&deployment(100)).unwrap();
    let deployments = "/apis/apps/v1/namespaces/default/deployments/d";
    let changed = session.json("PATCH", deployments, json!({"spec": {"replicas": 2}})).await;
    assert_eq!(changed["metadata"]["generation"], i64::MAX);
    session.json("DELETE", &format!("{deployments}?propagationPolicy=Foreground"), json!({})).await;
    feed.bookmark(i64::MAX as u64).unwrap();
    session.json("POST", MAPS, json!({"metadata": {"name": "a"}})).await;
    session.json("POST", MAPS, json!({"metadata": {"name": "b"}})).await;
    assert_eq!(session.find(MAPS).await.unwrap()["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_longest_durations_are_accepted() {
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
    let server = Server::builder()
        .without_socket()
        .clock(Clock::new(move || far))
        .bookmark_interval(Duration::MAX)
        .fresh_wait(Duration::MAX)
        .start()
        .await
        .unwrap();
    let session = Session::new(server);
    let created = session.json("POST", MAPS, json!({"metadata": {"name": "a"}})).await;
    assert!(is_timestamp(&created["metadata"]["creationTimestamp"]));
    let mut watch = session.watch(&format!("{MAPS}?watch=1&allowWatchBookmarks=true")).await;
    let first = events(&mut watch).await;
    assert!(first.iter().any(|event| event["object"]["metadata"]["name"] == "a"), "{first:?}");
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=1000";
    session.watch(&format!("{MAPS}?{query}")).await;
    for _ in 0..2 {
        session
            .server
            .faults()
            .arm(Fault::new(Action::Delay(Duration::MAX)).on(Match::verb(Verb::Get)).once());
    }
    let request = Request::get(format!("{MAPS}/a")).body(Empty::<Bytes>::new()).unwrap();
    let delayed = session.server.service().oneshot(request);
    assert!(tokio::time::timeout(Duration::from_secs(60), delayed).await.is_err(), "delayed for longer");
}
