//! Replays the recorded session of a kube-apiserver and compares every response field by field. Discovery and version
//! are from 1.37.1, everything else was recorded with 1.36.3.

use crate::replay;

use std::path::Path;
use std::time::Duration;

use embedded_apiserver::{Clock, Server};
use replay::{Capture, Replay};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/cap/configmaps";

/// Captures that are not compared, with reasons.
const NOT_COMPARED: &[(&str, &str)] = &[
    ("cr-table", "tables are not served"),
    ("list-table", "tables are not served"),
    ("pod-table", "tables are not served: the next clause of its Accept is served, in JSON"),
    ("watch-table", "tables are not served"),
    ("openapi-v3-root", "only the documents that kubectl needs are listed, without hashes"),
    ("readyz-verbose", "the checks belong to another server"),
    ("version", "the version is equal, the build is not"),
    ("discovery-not-modified", "the ETag differs: another test compares the rest"),
    ("discovery-aggregated-apis", "autoscaling/v1 is not served: compared without it"),
    ("list-unauthorized", "another test compares it, with a server that has a token"),
    ("discovery-apis-legacy", "autoscaling/v1 is not served: compared without it"),
    ("list-gzip-large", "recorded with other objects: read by the tests of kube-wire"),
];

/// Creates, updates and deletes a config map, as the recording did during its watch.
async fn three_changes(session: &Replay, name: &str) {
    session.json("POST", CONFIG_MAPS, changing(name, "a")).await;
    session.json("PUT", &format!("{CONFIG_MAPS}/{name}"), changing(name, "b")).await;
    session.json("DELETE", &format!("{CONFIG_MAPS}/{name}"), json!({})).await;
}

fn changing(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "demo", "n": "a"}}, "data": {"k": value}})
}

/// Watches as recorded while `happens` runs.
async fn watch_while(session: &mut Replay, name: &str, happens: impl AsyncFnOnce(&Replay)) {
    let capture = Capture::read(name);
    let answer = {
        let watching = session.send(&capture);
        let happening = async {
            // The watch is open now, because it is polled first.
            tokio::task::yield_now().await;
            happens(session).await;
        };
        let (answer, ()) = tokio::join!(watching, happening);
        answer
    };
    session.compare(&capture, &answer);
}

async fn session() -> Replay {
    let clock = Clock::starting_at(std::time::UNIX_EPOCH + Duration::from_secs(1_794_731_895));
    let server = Server::builder().without_socket().seed(36).clock(clock).start().await.unwrap();
    let session = Replay::new(server);
    session.json("POST", "/api/v1/namespaces", json!({"metadata": {"name": "cap"}})).await;
    for n in 0..5 {
        let object = json!({"metadata": {"name": format!("cm-{n}"), "labels": {"app": "demo", "n": n.to_string()}}, "data": {"k": n.to_string()}});
        session.json("POST", CONFIG_MAPS, object).await;
    }
    session
}

#[tokio::test(start_paused = true)]
async fn responses_match_a_kube_apiserver() {
    let mut session = session().await;
    lists(&mut session).await;
    watches(&mut session).await;
    writes(&mut session).await;
    custom_resources(&mut session).await;
    pods(&mut session).await;
    expired(&mut session).await;
    others(&mut session).await;
    namespace_deletion(&mut session).await;

    let missing: Vec<String> = all_captures()
        .into_iter()
        .filter(|name| {
            !session.checked.contains(name) && !NOT_COMPARED.iter().any(|(known, _)| known == name)
        })
        .collect();
    assert!(
        session.failures.is_empty(),
        "{} differ:\n{}",
        session.failures.len(),
        session.failures.join("\n")
    );
    assert_eq!(missing, Vec::<String>::new(), "neither compared nor listed in NOT_COMPARED");
}

fn all_captures() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/captures");
    let files =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        files.filter_map(|name| name.strip_suffix(".http").map(str::to_owned)).collect();
    // These need a feature gate, and objects with the recorded uids: compared in `shards.rs`.
    names.retain(|name| !name.starts_with("shard-"));
    names.sort();
    names
}

async fn lists(session: &mut Replay) {
    session
        .check(&[
            "list-json",
            "list-json-rv0",
            "list-protobuf",
            "list-limit2-page1",
            "list-limit2-page2",
            "list-limit2-protobuf-page1",
            "list-rv0-with-limit",
            "list-continue-with-rv",
            "list-bad-continue",
            "list-match-without-rv",
            "list-sendinitial-invalid",
            "list-labelselector-bad",
            "list-fieldselector-unsupported",
            "list-fieldselector-name",
            "list-exact-old",
            "list-partialmeta-json",
            "list-partialmeta-protobuf",
            "list-rv-toolarge-json",
            "list-rv-toolarge-protobuf",
            "list-cbor-not-acceptable",
            "list-404-resource",
            "get-protobuf",
            "get-missing",
            "get-missing-protobuf",
            "method-not-allowed",
            "unknown-path",
        ])
        .await;
}

async fn watches(session: &mut Replay) {
    watch_while(session, "watch-json", async |session| three_changes(session, "w-1").await).await;
    watch_while(session, "watch-protobuf", async |session| three_changes(session, "w-2").await).await;
    watch_while(session, "watch-partialmeta-json", async |session| three_changes(session, "w-3").await).await;
    watch_while(session, "watchlist-json", async |session| {
        // Read the initial events before making changes.
        tokio::time::sleep(Duration::from_millis(100)).await;
        three_changes(session, "w-4").await;
    })
    .await;
    watch_while(session, "watchlist-protobuf", async |session| {
        // In the recording, the first of two bookmarks, two seconds before the end, came between the changes.
        tokio::time::sleep(Duration::from_millis(1_900)).await;
        session.json("POST", CONFIG_MAPS, changing("w-5", "a")).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        session.json("PUT", &format!("{CONFIG_MAPS}/w-5"), changing("w-5", "b")).await;
        session.json("DELETE", &format!("{CONFIG_MAPS}/w-5"), json!({})).await;
    })
    .await;
    session.check(&["watch-rv-old", "watch-rv-old-protobuf"]).await;
    session
        .check(&[
            "watchlist-json-rv0",
            "watchlist-no-bookmarks",
            "watchlist-toolarge",
            "watchlist-invalid-no-match",
            "watch-rv0",
            "watch-rv-empty",
            "watch-toolarge",
            "watch-bad-rv",
        ])
        .await;
}

async fn writes(session: &mut Replay) {
    session
        .check(&[
            "post-create",
            "post-create-dryrun",
            "post-exists",
            "post-generatename",
            "post-warn-unknown-field",
            "post-strict-unknown-field",
            "post-bad-json",
            "post-bad-name",
            "post-no-name",
            "post-wrong-kind",
            "post-with-rv",
            "post-missing-namespace",
            "post-unknown-content-type",
            "put-unchanged",
            "put-no-rv",
            "put-conflict",
            "put-missing",
            "put-name-mismatch",
            "put-uid-mismatch",
            "patch-merge",
            "patch-json",
            "patch-json-test-fails",
            "patch-strategic",
            "patch-merge-stale-rv",
            "patch-missing",
            "apply-create",
            "apply-conflict",
            "apply-no-manager",
            "apply-force",
            "get-ssa",
            "delete-missing",
            "delete-precondition-uid",
        ])
        .await;
    let held = json!({"metadata": {"name": "fin", "finalizers": ["example.com/hold"]}});
    session.json("POST", CONFIG_MAPS, held).await;
    session
        .check(&["delete-with-finalizer", "delete-last-finalizer-patch", "deletecollection", "delete-json"])
        .await;
    session.check(&["lease-create", "lease-get-protobuf", "lease-put-no-rv"]).await;
    let mut large = Capture::read("post-too-large");
    large.sent =
        json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(4 << 20)}}).to_string().into();
    let answer = session.send(&large).await;
    session.compare(&large, &answer);
}

async fn custom_resources(session: &mut Replay) {
    session
        .check(&[
            "crd-create",
            "crd-get",
            "cr-create",
            "cr-list",
            "cr-list-protobuf-fallback",
            "cr-list-protobuf-only",
            "cr-partialmeta-protobuf",
            "cr-put-no-rv",
            "cr-strategic",
            "cr-status-patch",
            "cr-spec-patch",
            "cr-scale-get",
            "cr-fieldselector",
        ])
        .await;
}

async fn pods(session: &mut Replay) {
    session
        .check(&["pod-create", "pod-create-node", "pod-get-protobuf", "pod-put-status", "pod-fieldselector"])
        .await;
    session.check(&["pod-fieldselector-bad"]).await;
    watch_while(session, "watch-pod-deletes", async |session| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for name in ["pod-delete-unscheduled", "pod-delete-scheduled", "pod-delete-force"] {
            session.send(&Capture::read(name)).await;
        }
    })
    .await;
    // Repeat to compare the responses.
    for name in ["pod-create", "pod-create-node"] {
        session.send(&Capture::read(name)).await;
    }
    session
        .json("PATCH", "/api/v1/namespaces/cap/pods/p-2/status", json!({"status": {"phase": "Running"}}))
        .await;
    session.check(&["pod-delete-unscheduled", "pod-delete-scheduled", "pod-delete-force"]).await;

    let labelled = |app: &'static str| json!({"metadata": {"labels": {"app": app}}});
    watch_while(session, "watch-selector-transitions", async |session| {
        session.json("PATCH", &format!("{CONFIG_MAPS}/cm-1"), labelled("other")).await;
        session.json("PATCH", &format!("{CONFIG_MAPS}/cm-1"), labelled("demo")).await;
    })
    .await;
    three_changes(session, "w-6").await;
    session.check(&["watch-bookmark-near-end"]).await;
}

async fn expired(session: &mut Replay) {
    // The revisions of these captures are the last ones seen before.
    session.json("POST", CONFIG_MAPS, json!({"metadata": {"name": "after"}})).await;
    session.server.compact();
    session
        .check(&[
            "list-exact-compacted",
            "list-continue-expired",
            "list-continue-expired-protobuf",
            "watch-expired-json",
            "watch-expired-protobuf",
            "watchlist-old-rv",
        ])
        .await;
}

async fn others(session: &mut Replay) {
    session
        .check(&["healthz", "discovery-legacy-api-v1", "discovery-group-legacy", "discovery-aggregated-api"])
        .await;
}

async fn namespace_deletion(session: &mut Replay) {
    // Block the namespace with a finalizer: without controllers, a kube-apiserver never removes it.
    let held = json!({"metadata": {"name": "holds", "finalizers": ["example.com/hold"]}});
    session.json("POST", CONFIG_MAPS, held).await;
    session.check(&["namespace-delete", "post-terminating-namespace"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_token_is_rejected_like_a_kube_apiserver() {
    let server = Server::builder().without_socket().token("right").start().await.unwrap();
    let mut session = Replay::new(server);
    session.check(&["list-unauthorized"]).await;
    assert_eq!(session.failures, Vec::<String>::new());
}

/// Discovery as recorded, except for the one version that is not served.
#[tokio::test(start_paused = true)]
async fn discovery_lists_all_groups_but_one_version() {
    let session = Replay::new(Server::builder().without_socket().start().await.unwrap());
    let json = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();

    let capture = Capture::read("discovery-aggregated-apis");
    let answer = session.send(&capture).await;
    let mut theirs = json(&capture.body);
    for group in theirs["items"].as_array_mut().unwrap() {
        if group["metadata"]["name"] == "autoscaling" {
            group["versions"].as_array_mut().unwrap().retain(|version| version["version"] != "v1");
        }
    }
    assert_eq!(json(&answer.body), theirs);

    let capture = Capture::read("discovery-apis-legacy");
    let answer = session.send(&capture).await;
    let mut theirs = json(&capture.body);
    for group in theirs["groups"].as_array_mut().unwrap() {
        if group["name"] == "autoscaling" {
            group["versions"].as_array_mut().unwrap().retain(|version| version["version"] != "v1");
        }
    }
    assert_eq!(json(&answer.body), theirs);
}

#[tokio::test(start_paused = true)]
async fn cached_discovery_is_not_sent_again() {
    let mut session = Replay::new(Server::builder().without_socket().start().await.unwrap());
    let first = session.send(&Capture::read("discovery-aggregated-api")).await;
    let mut capture = Capture::read("discovery-not-modified");
    for (key, value) in &mut capture.request_headers {
        if key == "If-None-Match" {
            first.headers["etag"].to_str().unwrap().clone_into(value);
        }
    }
    let second = session.send(&capture).await;
    session.compare(&capture, &second);
    assert_eq!(session.failures, Vec::<String>::new());
    assert_eq!(second.headers["etag"], first.headers["etag"]);

    let definition = Capture::read("crd-create");
    session.send(&definition).await;
    let groups = Capture { path: "/apis".to_owned(), ..Capture::read("discovery-aggregated-api") };
    let text = String::from_utf8(session.send(&groups).await.body.to_vec()).unwrap();
    assert!(text.contains("\"things\""), "a custom resource is discovered immediately");
}
