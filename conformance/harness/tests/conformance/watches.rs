//! Responses to watch requests: the streamed initial list, live events, and the ways in which a watch ends.

use http::StatusCode;
use kube_client::Client;
use kube_informer_conformance::raw;
use prost::Message;
use serde_json::Value;

use crate::common::both::{AnyServer, Features};
use crate::common::{MAPS, create, get, version_of};

/// The query of a client that requests a streamed initial list.
const WATCH_LIST: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=60";
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

on_both! {
    a_watch_list_streams_objects_in_key_order_then_a_bookmark_then_live_events: Features::WatchLists,
    a_protobuf_watch_list_is_frames_of_enveloped_objects: Features::WatchLists,
    a_watch_without_a_version_begins_like_a_watch_list: Features::WatchLists,
    a_watch_from_a_version_receives_all_later_events_and_ends_at_its_timeout: Features::Default,
    an_object_enters_and_leaves_a_selector_as_added_and_deleted: Features::Default,
    a_watch_from_a_compacted_version_ends_with_an_expired_error: Features::Default,
    a_watch_list_from_a_future_version_reports_an_error_event: Features::WatchLists,
    contradictory_watch_options_are_rejected_with_a_reason: Features::WatchLists,
    a_server_without_watch_lists_rejects_them_and_still_watches: Features::NoWatchLists,
}

async fn a_watch_list_streams_objects_in_key_order_then_a_bookmark_then_live_events(
    _server: AnyServer,
    client: Client,
) {
    create(&client, &["b", "a", "c"]).await;
    let mut watch = raw::watch(&client, &format!("{MAPS}?{WATCH_LIST}"), raw::JSON).await.unwrap();
    assert_eq!(watch.status, StatusCode::OK);
    assert_eq!(watch.headers["content-type"], "application/json");
    for name in ["a", "b", "c"] {
        let event = watch.line().await.unwrap().unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&"ADDED".into(), &name.into()));
        assert_eq!(
            (&event["object"]["apiVersion"], &event["object"]["kind"]),
            (&"v1".into(), &"ConfigMap".into())
        );
    }
    let end = watch.line().await.unwrap().unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["kind"], "ConfigMap");
    assert_eq!(end["object"]["metadata"]["annotations"][INITIAL_EVENTS_END], "true");

    let [live] = create(&client, &["d"]).await[..] else { unreachable!() };
    assert!(live > version_of(&end["object"]));
    let event = watch.line().await.unwrap().unwrap();
    assert_eq!(event["type"], "ADDED");
    assert_eq!(version_of(&event["object"]), live);
}

async fn a_protobuf_watch_list_is_frames_of_enveloped_objects(_server: AnyServer, client: Client) {
    let versions = create(&client, &["a", "b"]).await;
    let list = raw::get(&client, MAPS, raw::PROTOBUF).await.unwrap();
    assert_eq!(list.header("content-type"), raw::PROTOBUF);
    let (kind, list) = unwrap::<proto::ConfigMapList>(&list.body);
    assert_eq!(kind, ("v1".to_owned(), "ConfigMapList".to_owned()));
    let listed: Vec<u64> =
        list.items.iter().map(|item| item.metadata().resource_version.parse().unwrap()).collect();
    assert_eq!(listed, versions);

    let mut watch = raw::watch(&client, &format!("{MAPS}?{WATCH_LIST}"), raw::PROTOBUF).await.unwrap();
    assert_eq!(watch.headers["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    for expected in [("ADDED", "a", None), ("ADDED", "b", None), ("BOOKMARK", "", Some("true"))] {
        let frame = watch.frame().await.unwrap().unwrap();
        let event = proto::WatchEvent::decode(frame).unwrap();
        let (kind, object) = unwrap::<proto::ConfigMap>(&event.object.unwrap_or_default().raw);
        assert_eq!(kind, ("v1".to_owned(), "ConfigMap".to_owned()));
        let metadata = object.metadata();
        let end = metadata.annotations.get(INITIAL_EVENTS_END).map(String::as_str);
        assert_eq!((event.r#type.as_str(), metadata.name.as_str(), end), expected);
    }
}

async fn a_watch_without_a_version_begins_like_a_watch_list(_server: AnyServer, client: Client) {
    create(&client, &["a"]).await;
    for version in ["", "&resourceVersion=0"] {
        let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=60{version}");
        let mut watch = raw::watch(&client, &path, raw::JSON).await.unwrap();
        assert_eq!(watch.line().await.unwrap().unwrap()["type"], "ADDED", "{path}");
        let end = watch.line().await.unwrap().unwrap();
        assert_eq!(end["object"]["metadata"]["annotations"][INITIAL_EVENTS_END], "true", "{path}");
    }
}

async fn a_watch_from_a_version_receives_all_later_events_and_ends_at_its_timeout(
    _server: AnyServer,
    client: Client,
) {
    let [first, second, third] = create(&client, &["a", "b", "c"]).await[..] else { unreachable!() };
    let path = format!("{MAPS}?watch=1&resourceVersion={first}&timeoutSeconds=1");
    let events = to_the_end(&client, &path).await;
    let received: Vec<_> = events.iter().map(|event| version_of(&event["object"])).collect();
    assert_eq!(received, [second, third]);
}

async fn an_object_enters_and_leaves_a_selector_as_added_and_deleted(_server: AnyServer, client: Client) {
    create(&client, &["a"]).await;
    let start = version_of(&get(&client, MAPS).await.json());
    for label in ["yes", "no"] {
        label_map(&client, "a", label).await;
    }
    let left = version_of(&get(&client, &format!("{MAPS}/a")).await.json());
    let path = format!("{MAPS}?watch=1&resourceVersion={start}&labelSelector=sale%3Dyes&timeoutSeconds=1");
    let events = to_the_end(&client, &path).await;
    let received: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(received, ["ADDED", "DELETED"]);
    assert_eq!(version_of(&events[1]["object"]), left, "with the new version");
    assert_eq!(events[1]["object"]["metadata"]["labels"]["sale"], "yes", "and the old content");
}

async fn a_watch_from_a_compacted_version_ends_with_an_expired_error(mut server: AnyServer, client: Client) {
    let old = create(&client, &["a", "b"]).await[0];
    server.drop_history().await;
    let events = to_the_end(&client, &format!("{MAPS}?watch=1&resourceVersion={old}")).await;
    let [error] = &events[..] else { panic!("expected one event, got {events:?}") };
    assert_eq!((&error["type"], &error["object"]["code"]), (&"ERROR".into(), &410.into()));
    assert_eq!(error["object"]["reason"], "Expired");
    let message = error["object"]["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("too old resource version: {old} (")), "{message}");
}

async fn a_watch_list_from_a_future_version_reports_an_error_event(_server: AnyServer, client: Client) {
    let future = version_of(&get(&client, MAPS).await.json()) + 1_000_000;
    let events = to_the_end(&client, &format!("{MAPS}?{WATCH_LIST}&resourceVersion={future}")).await;
    let error = &events[0];
    assert_eq!((&error["type"], &error["object"]["code"]), (&"ERROR".into(), &504.into()), "{error}");
    assert_eq!(error["object"]["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{error}");
}

async fn contradictory_watch_options_are_rejected_with_a_reason(_server: AnyServer, client: Client) {
    // (query, status, part of the message)
    let table = [
        (
            "sendInitialEvents=true",
            422,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=1", 422, "is forbidden for watch"),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
            422,
            "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"",
        ),
        ("resourceVersion=rubbish", 500, "strconv.ParseUint"),
    ];
    for (query, status, message) in table {
        let answer = get(&client, &format!("{MAPS}?watch=1&{query}")).await;
        let refusal = answer.json();
        assert_eq!(answer.status.as_u16(), status, "{query}: {refusal}");
        assert!(refusal["message"].as_str().unwrap_or_default().contains(message), "{query}: {refusal}");
    }
}

async fn a_server_without_watch_lists_rejects_them_and_still_watches(_server: AnyServer, client: Client) {
    let answer = get(&client, &format!("{MAPS}?{WATCH_LIST}")).await;
    assert_eq!(answer.status.as_u16(), 422);
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    let reason = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    assert!(message.contains(reason), "{message}");

    create(&client, &["a"]).await;
    let events = to_the_end(&client, &format!("{MAPS}?watch=1&timeoutSeconds=1")).await;
    assert_eq!(events[0]["object"]["metadata"]["name"], "a");
}

/// Sets the label `sale`.
async fn label_map(client: &Client, name: &str, sale: &str) {
    let patch = serde_json::json!({"metadata": {"labels": {"sale": sale}}}).to_string();
    let request = http::Request::patch(format!("{MAPS}/{name}"))
        .header("content-type", "application/merge-patch+json")
        .body(patch.into_bytes().into())
        .unwrap();
    assert!(client.send(request).await.unwrap().status().is_success());
}

async fn to_the_end(client: &Client, path: &str) -> Vec<Value> {
    let mut watch = raw::watch(client, path, raw::JSON).await.unwrap();
    assert_eq!(watch.status, StatusCode::OK);
    let mut events = Vec::new();
    while let Some(event) = watch.line().await.unwrap() {
        events.push(event);
    }
    events
}

/// The kind and the content of an enveloped message.
fn unwrap<M: Message + Default>(bytes: &[u8]) -> ((String, String), M) {
    let unknown = bytes.strip_prefix(b"k8s\0").expect("the envelope's magic number");
    let unknown = proto::Unknown::decode(unknown).unwrap();
    let kind = unknown.type_meta.unwrap_or_default();
    ((kind.api_version, kind.kind), M::decode(&unknown.raw[..]).unwrap())
}

/// The fields of Kubernetes' messages that these tests read, by their numbers on the wire.
mod proto {
    use std::collections::BTreeMap;

    #[derive(prost::Message)]
    pub(crate) struct Unknown {
        #[prost(message, optional, tag = "1")]
        pub(crate) type_meta: Option<TypeMeta>,
        #[prost(bytes, tag = "2")]
        pub(crate) raw: Vec<u8>,
    }

    #[derive(prost::Message)]
    pub(crate) struct TypeMeta {
        #[prost(string, tag = "1")]
        pub(crate) api_version: String,
        #[prost(string, tag = "2")]
        pub(crate) kind: String,
    }

    #[derive(prost::Message)]
    pub(crate) struct WatchEvent {
        #[prost(string, tag = "1")]
        pub(crate) r#type: String,
        #[prost(message, optional, tag = "2")]
        pub(crate) object: Option<RawExtension>,
    }

    #[derive(prost::Message)]
    pub(crate) struct RawExtension {
        #[prost(bytes, tag = "1")]
        pub(crate) raw: Vec<u8>,
    }

    #[derive(prost::Message)]
    pub(crate) struct ConfigMapList {
        #[prost(message, repeated, tag = "2")]
        pub(crate) items: Vec<ConfigMap>,
    }

    #[derive(prost::Message)]
    pub(crate) struct ConfigMap {
        #[prost(message, optional, tag = "1")]
        metadata: Option<ObjectMeta>,
    }

    #[derive(prost::Message)]
    pub(crate) struct ObjectMeta {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(string, tag = "6")]
        pub(crate) resource_version: String,
        #[prost(btree_map = "string, string", tag = "12")]
        pub(crate) annotations: BTreeMap<String, String>,
    }

    impl ConfigMap {
        pub(crate) fn metadata(&self) -> &ObjectMeta {
            self.metadata.as_ref().expect("every object has metadata")
        }
    }
}
