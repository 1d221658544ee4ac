//! `shardSelector`: as recorded from a kube-apiserver 1.36.3 with the feature gate `ShardedListAndWatch`, and the shards
//! of all lists and watches together.

use crate::replay;
use crate::support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use embedded_apiserver::{Feed, Server};
use kube_wire::shard::{ShardField, ShardSelector};
use kube_wire::{Encoding, Limits, ListDecoder, ObjectReader, Projection};
use replay::{Capture, Replay};
use serde_json::{Value, json};
use support::Session;

const MAPS: &str = "/api/v1/namespaces/shard/configmaps";

async fn server(sharded: bool) -> Server {
    Server::builder().without_socket().seed(5866).sharded_list_and_watch(sharded).start().await.unwrap()
}

// === the recordings ===

#[tokio::test(start_paused = true)]
async fn responses_match_a_kube_apiserver() {
    let mut session = Replay::new(server(true).await);
    let feed = session.server.feed("", "v1", "configmaps").unwrap();
    // Objects with the recorded uids, which decide the shard.
    let all = json_of(&Capture::read("shard-list-both").body);
    feed_list(&feed, &all);
    session
        .check(&[
            "shard-list-and",
            "shard-list-bad-field",
            "shard-list-bad-range",
            "shard-list-bad-syntax",
            "shard-list-both",
            "shard-list-empty-range",
            "shard-list-first-half",
            "shard-list-mixed-fields",
            "shard-list-namespace",
            "shard-list-paged",
            "shard-list-protobuf",
            "shard-list-rv0",
            "shard-list-second-half",
            "shard-list-short-hex",
        ])
        .await;

    let watch = Capture::read("shard-watch-first-half");
    let recorded = serde_json::Deserializer::from_slice(&watch.body).into_iter::<Value>().map(Result::unwrap);
    let mut changes: Vec<Value> = recorded.filter(|event| event["type"] != "BOOKMARK").collect();
    // The changes of the other half at that time.
    for (name, version) in [("cm-1", "222"), ("cm-3", "224")] {
        let items = all["items"].as_array().unwrap();
        let mut object = items.iter().find(|item| item["metadata"]["name"] == name).unwrap().clone();
        object["metadata"]["resourceVersion"] = version.into();
        changes.push(json!({"type": "DELETED", "object": object}));
    }
    changes.sort_by_key(|event| event["object"]["metadata"]["resourceVersion"].to_string());
    let (answer, ()) = tokio::join!(session.send(&watch), async {
        tokio::task::yield_now().await;
        for change in &changes {
            match change["type"].as_str().unwrap() {
                "DELETED" => feed.delete(&change["object"]).unwrap(),
                _ => feed.put(&change["object"]).unwrap(),
            }
        }
    });
    session.compare(&watch, &answer);
    session.check(&["shard-watchlist-first-half"]).await;

    let mut without = Replay::new(server(false).await);
    let feed = without.server.feed("", "v1", "configmaps").unwrap();
    feed_list(&feed, &json_of(&Capture::read("shard-list-gate-off").body));
    without.check(&["shard-list-gate-off", "shard-list-gate-off-bad"]).await;

    assert_eq!([session.failures, without.failures].concat(), Vec::<String>::new());
    let mut checked = [session.checked, without.checked].concat();
    checked.sort();
    assert_eq!(checked, recordings(), "every recording is compared");
}

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/captures")
}

fn recordings() -> Vec<String> {
    let files = std::fs::read_dir(captures()).unwrap();
    let files = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = files
        .filter_map(|name| name.strip_suffix(".http").map(str::to_owned))
        .filter(|name| name.starts_with("shard-"))
        .collect();
    names.sort();
    names
}

fn json_of(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

fn feed_list(feed: &Feed, list: &Value) {
    for item in list["items"].as_array().unwrap() {
        feed.put(item).unwrap();
    }
    // A bookmark at the last object's revision is out of order, and not needed.
    let _ = feed.bookmark(list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap());
}

// === all shards together ===

/// The selectors of four shards, over slots that are not adjacent.
fn shards(field: ShardField) -> [ShardSelector; 4] {
    [0, 1, 2, 3].map(|first| ShardSelector::from_slots(field, (first..64).step_by(4), 64).unwrap())
}

fn with_shard(path: &str, shard: &ShardSelector) -> String {
    let value: String = form_urlencoded::byte_serialize(shard.to_string().as_bytes()).collect();
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}shardSelector={value}")
}

/// Sixty config maps in three namespaces, and twenty custom resources.
async fn populated() -> Session {
    let session = Session::new(server(true).await);
    let definition = json_of(&std::fs::read(captures().join("crd-create.sent")).unwrap());
    session.json("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    for namespace in ["red", "green", "blue"] {
        session.json("POST", "/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
        for n in 0..20 {
            let map =
                json!({"metadata": {"name": format!("cm-{n}"), "labels": {"half": (n % 2).to_string()}}});
            session.json("POST", &format!("/api/v1/namespaces/{namespace}/configmaps"), map).await;
        }
    }
    for n in 0..20 {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": format!("t-{n}")}, "spec": {"size": 1}});
        session.json("POST", "/apis/example.com/v1/namespaces/red/things", thing).await;
    }
    session
}

/// Lists in this encoding; returns uids in order.
async fn uids(session: &Session, path: &str, accept: &str) -> Vec<String> {
    let answer = session.request("GET", path, &[("accept", accept)], Vec::new()).await;
    assert_eq!(answer.code, 200, "{path}");
    let encoding = Encoding::from_content_type(answer.headers["content-type"].to_str().unwrap()).unwrap();
    let mut list = ListDecoder::new(encoding, ObjectReader::new(Projection::default(), Limits::default()));
    list.push(answer.body);
    std::iter::from_fn(|| list.next_item()).map(|item| item.unwrap().head().uid().to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_lists_of_all_shards_are_the_whole_list() {
    let session = populated().await;
    let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let cases = [
        ("/api/v1/configmaps", "application/json"),
        ("/api/v1/configmaps", "application/vnd.kubernetes.protobuf"),
        ("/api/v1/configmaps", metadata),
        ("/api/v1/configmaps?resourceVersion=0", "application/json"),
        ("/api/v1/configmaps?labelSelector=half%3D1", "application/json"),
        ("/api/v1/namespaces/red/configmaps", "application/json"),
        ("/apis/example.com/v1/things", "application/json"),
        ("/api/v1/namespaces", "application/json"),
    ];
    for (path, accept) in cases {
        let whole = uids(&session, path, accept).await;
        assert!(!whole.is_empty(), "{path}");
        for field in [ShardField::Uid, ShardField::Namespace] {
            let mut all = Vec::new();
            for shard in shards(field) {
                let part = uids(&session, &with_shard(path, &shard), accept).await;
                if field == ShardField::Uid {
                    assert!(part.iter().all(|uid| shard.selects("", uid)), "{path}");
                }
                all.extend(part);
            }
            let unique: BTreeSet<&String> = all.iter().collect();
            assert_eq!(unique.len(), all.len(), "{path} by {field}: no object is in two shards");
            assert_eq!(unique, whole.iter().collect(), "{path} by {field}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_typed_lists_of_built_in_kinds_name_their_shard() {
    let session = populated().await;
    let [shard, ..] = shards(ShardField::Uid);
    let maps = with_shard("/api/v1/configmaps", &shard);
    let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    for (path, accept, named) in [
        (&maps, "application/json", true),
        (&maps, metadata, false),
        (&with_shard("/apis/example.com/v1/things", &shard), "application/json", false),
    ] {
        let list = json_of(&session.request("GET", path, &[("accept", accept)], Vec::new()).await.body);
        let expected = if named { json!({"selector": shard.to_string()}) } else { Value::Null };
        assert_eq!(list["metadata"]["shardInfo"], expected, "{path} as {accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_pages_of_a_shard_add_up_to_its_list() {
    let session = populated().await;
    for shard in shards(ShardField::Uid) {
        let path = with_shard("/api/v1/configmaps", &shard);
        let whole = uids(&session, &path, "application/json").await;
        let (mut paged, mut token, mut counts) = (Vec::new(), String::new(), Vec::new());
        loop {
            let page = session.json("GET", &format!("{path}&limit=3&continue={token}"), Value::Null).await;
            let items = page["items"].as_array().unwrap();
            paged.extend(items.iter().map(|item| item["metadata"]["uid"].as_str().unwrap().to_owned()));
            counts.extend(page["metadata"]["remainingItemCount"].as_u64());
            match page["metadata"]["continue"].as_str() {
                Some(next) => next.clone_into(&mut token),
                None => break,
            }
        }
        assert_eq!(paged, whole);
        assert_eq!(counts.first(), Some(&57), "all objects but those of the first page are counted");
        assert!(counts.is_sorted_by(|a, b| a > b), "{counts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_page_of_a_shard_may_be_empty() {
    let session = populated().await;
    let whole = uids(&session, "/api/v1/configmaps", "application/json").await;
    // Exactly the first object's hash.
    let hash = kube_wire::shard::hash(&whole[0]);
    let shard = ShardSelector::new(ShardField::Uid, [hash..=hash]).unwrap();
    let path = with_shard("/api/v1/configmaps?limit=1", &shard);
    let first = session.json("GET", &path, Value::Null).await;
    assert_eq!(first["items"].as_array().unwrap().len(), 1);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = session.json("GET", &format!("{path}&continue={token}"), Value::Null).await;
    assert_eq!(second["items"], json!([]));
    assert_eq!(second["metadata"]["continue"], Value::Null);
}

/// The types and uids of a watch's events, without bookmarks.
async fn events(session: &Session, path: &str) -> Vec<(String, String)> {
    let answer = session.request("GET", path, &[], Vec::new()).await;
    assert_eq!(answer.code, 200, "{path}");
    let events = serde_json::Deserializer::from_slice(&answer.body).into_iter::<Value>().map(Result::unwrap);
    let events = events.filter(|event| event["type"] != "BOOKMARK");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events.map(|event| (text(&event["type"]), text(&event["object"]["metadata"]["uid"]))).collect()
}

#[tokio::test(start_paused = true)]
async fn the_watches_of_all_shards_are_the_whole_watch() {
    let session = populated().await;
    let list = session.json("GET", "/api/v1/configmaps", Value::Null).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let maps = "/api/v1/namespaces/red/configmaps";
    for n in 0..20 {
        let patch = json!({"metadata": {"labels": {"half": "2"}}});
        session.json("PATCH", &format!("{maps}/cm-{n}"), patch).await;
        session.json("POST", maps, json!({"metadata": {"name": format!("new-{n}")}})).await;
        session.json("DELETE", &format!("{maps}/cm-{n}"), json!({})).await;
    }
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for query in [&format!("resourceVersion={version}"), "resourceVersion=0", initial] {
        let path = format!("/api/v1/configmaps?watch=1&timeoutSeconds=1&{query}");
        let whole = events(&session, &path).await;
        assert!(whole.len() >= 60, "{query}");
        let mut all = 0;
        for shard in shards(ShardField::Uid) {
            let part = events(&session, &with_shard(&path, &shard)).await;
            let expected = whole.iter().filter(|(_, uid)| shard.selects("", uid)).cloned();
            assert_eq!(part, expected.collect::<Vec<_>>(), "{query}");
            all += part.len();
        }
        assert_eq!(all, whole.len(), "{query}");
    }
    let by_label = format!(
        "/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion={version}&labelSelector=half%3D1"
    );
    for shard in shards(ShardField::Uid) {
        let path = with_shard(&by_label, &shard);
        let left = events(&session, &path).await;
        assert!(left.iter().all(|(kind, uid)| kind == "DELETED" && shard.selects("", uid)), "{left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_shard_of_a_collection_is_deleted() {
    let session = populated().await;
    let maps = "/api/v1/namespaces/red/configmaps";
    let whole = uids(&session, maps, "application/json").await;
    let [shard, ..] = shards(ShardField::Uid);
    session.json("DELETE", &with_shard(maps, &shard), json!({})).await;
    let left = uids(&session, maps, "application/json").await;
    let expected: Vec<String> = whole.into_iter().filter(|uid| !shard.selects("", uid)).collect();
    assert_eq!(left, expected);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_selector_is_an_internal_error() {
    let session = Session::new(server(true).await);
    let message =
        "invalid shard selector: unexpected expression kind 3; expected shardRange() call or || operator";
    let path = format!("{MAPS}?shardSelector=nonsense");
    for (method, path) in [("GET", &path), ("GET", &format!("{path}&watch=1")), ("DELETE", &path)] {
        let answer = session.request(method, path, &[], Vec::new()).await;
        let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "code": 500});
        assert_eq!((answer.code, json_of(&answer.body)), (500, expected), "{method} {path}");
    }
    // Other parameters are checked first; an empty selector selects everything.
    for (query, code) in [("labelSelector=%21%21&shardSelector=x", 400), ("shardSelector=", 200)] {
        let answer = session.request("GET", &format!("{MAPS}?{query}"), &[], Vec::new()).await;
        assert_eq!(answer.code, code, "{query}");
    }
}
