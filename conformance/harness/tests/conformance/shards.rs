//! `shardSelector` with the feature gate `ShardedListAndWatch`, which exists since 1.36. Earlier servers ignore it.

use http::StatusCode;
use kube_client::Client;
use kube_informer_conformance::raw;
use kube_wire::shard::{ShardField, ShardSelector};
use serde_json::{Value, json};

use crate::common::both::{AnyServer, Features};
use crate::common::things::{THINGS, define, definition, post};
use crate::common::{MAPS, create, get, minor_version, names, version_of};

const ALL: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

on_both! {
    a_list_has_the_objects_of_its_shard: Features::Shards,
    a_shard_has_pages_of_its_own: Features::Shards,
    a_watch_has_the_events_of_its_shard: Features::Shards,
    an_invalid_shard_selector_is_an_internal_error: Features::Shards,
    a_server_without_the_gate_ignores_shard_selectors: Features::Default,
}

/// Both halves of the hashes.
fn halves(field: ShardField) -> [ShardSelector; 2] {
    [0, 1].map(|slot| ShardSelector::from_slots(field, [slot], 2).unwrap())
}

fn with_shard(path: &str, shard: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}shardSelector={}", shard.bytes().map(encode).collect::<String>())
}

/// The names of the objects that a shard selects, in order.
fn selected<'a>(list: &'a Value, shard: &ShardSelector) -> Vec<&'a str> {
    let text = |value: &'a Value| value.as_str().unwrap_or_default();
    let items = list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]);
    let items = items.filter(|metadata| shard.selects(text(&metadata["namespace"]), text(&metadata["uid"])));
    items.map(|metadata| text(&metadata["name"])).collect()
}

/// The names of the objects that the server returns for a shard: of all objects if it does not know the parameter.
fn returned<'a>(list: &'a Value, shard: &ShardSelector, known: bool) -> Vec<&'a str> {
    if known { selected(list, shard) } else { names(list) }
}

/// Whether the server knows the parameter.
async fn knows_shards(client: &Client) -> bool {
    minor_version(client).await >= 36
}

async fn a_list_has_the_objects_of_its_shard(_server: AnyServer, client: Client) {
    create(&client, &ALL).await;
    define(&client, &definition()).await;
    for name in ALL {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "default"}});
        post(&client, THINGS, &thing).await;
    }
    let known = knows_shards(&client).await;
    for field in [ShardField::Uid, ShardField::Namespace] {
        for shard in halves(field) {
            // (path, accepted types, whether the response names the shard)
            for (path, accept, named) in [
                (MAPS, raw::JSON, true),
                (&format!("{MAPS}?resourceVersion=0"), raw::JSON, true),
                (MAPS, METADATA, false),
                (THINGS, raw::JSON, false),
                ("/api/v1/namespaces", raw::JSON, true),
            ] {
                let whole = get(&client, path).await.json();
                let sharded = with_shard(path, &shard.to_string());
                let mut list = raw::get(&client, &sharded, accept).await.unwrap().json();
                if list["items"].is_null() {
                    // A kube-apiserver's empty list of metadata.
                    list["items"] = json!([]);
                }
                assert_eq!(names(&list), returned(&whole, &shard, known), "{path} as {accept}: {shard}");
                let info = if named && known { json!({"selector": shard.to_string()}) } else { Value::Null };
                assert_eq!(list["metadata"]["shardInfo"], info, "{path} as {accept}");
            }
        }
    }
    // Ranges are returned as written; printed by the server.
    let [first, second] = halves(ShardField::Uid);
    let text = format!("({second})||{first}").replace(", ", " ,");
    let list = get(&client, &with_shard(MAPS, &text)).await.json();
    assert_eq!(names(&list), ALL);
    let info = if known { json!({"selector": format!("{second} || {first}")}) } else { Value::Null };
    assert_eq!(list["metadata"]["shardInfo"], info);
}

async fn a_shard_has_pages_of_its_own(server: AnyServer, client: Client) {
    create(&client, &ALL).await;
    let known = knows_shards(&client).await;
    let whole = get(&client, MAPS).await.json();
    // From 1.37 on, a sharded list is not counted. The embedded server follows 1.36.
    let counted = server.is_embedded() || minor_version(&client).await <= 36;
    for shard in halves(ShardField::Uid) {
        let expected = returned(&whole, &shard, known);
        let path = with_shard(&format!("{MAPS}?limit=2"), &shard.to_string());
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let page = get(&client, &format!("{path}&continue={token}")).await.json();
            found.extend(names(&page).into_iter().map(str::to_owned));
            // A token is returned if any object follows, in this shard or not.
            let last = names(&page).last().map(|name| (*name).to_owned()).unwrap_or_default();
            let more = names(&page).len() == 2 && last != ALL[11];
            assert_eq!(page["metadata"]["continue"].is_string(), more, "{page}");
            let remains = page["metadata"]["remainingItemCount"].as_u64();
            assert_eq!(remains.is_some(), more && counted, "{page}");
            if token.is_empty() && more && counted {
                assert_eq!(remains, Some(10), "objects of all shards are counted");
            }
            match page["metadata"]["continue"].as_str() {
                Some(next) => next.clone_into(&mut token),
                None => break,
            }
        }
        assert_eq!(found, expected);
    }
    // Exactly one object, and objects after it that are not in the shard.
    let hash = kube_wire::shard::hash(whole["items"][0]["metadata"]["uid"].as_str().unwrap());
    let shard = ShardSelector::new(ShardField::Uid, [hash..=hash]).unwrap();
    let path = with_shard(&format!("{MAPS}?limit=1"), &shard.to_string());
    let first = get(&client, &path).await.json();
    assert_eq!(names(&first), ["a"]);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = get(&client, &format!("{path}&continue={token}")).await.json();
    let metadata = &second["metadata"];
    if known {
        assert_eq!((names(&second), &metadata["continue"]), (vec![], &Value::Null));
        assert_eq!(metadata["shardInfo"]["selector"], shard.to_string());
    } else {
        assert_eq!((names(&second), metadata["continue"].is_string()), (vec!["b"], true));
        assert_eq!(metadata["shardInfo"], Value::Null);
    }
}

async fn a_watch_has_the_events_of_its_shard(_server: AnyServer, client: Client) {
    let known = knows_shards(&client).await;
    let version = version_of(&get(&client, MAPS).await.json());
    create(&client, &ALL).await;
    let list = get(&client, MAPS).await.json();
    let from = format!("{MAPS}?watch=1&timeoutSeconds=60&allowWatchBookmarks=true");
    let streamed = format!("{from}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let mut deleted = Vec::new();
    for shard in halves(ShardField::Uid) {
        let expected = returned(&list, &shard, known);
        let [resumed, streamed] = [format!("{from}&resourceVersion={version}"), streamed.clone()]
            .map(|path| with_shard(&path, &shard.to_string()));
        let mut resumed = raw::watch(&client, &resumed, raw::JSON).await.unwrap();
        let mut streamed = raw::watch(&client, &streamed, raw::JSON).await.unwrap();
        for name in &expected {
            for watch in [&mut resumed, &mut streamed] {
                let event = watch.line().await.unwrap().unwrap();
                let found = (&event["type"], &event["object"]["metadata"]["name"]);
                assert_eq!(found, (&json!("ADDED"), &json!(name)), "{shard}");
            }
        }
        let end = streamed.line().await.unwrap().unwrap();
        // Some servers add more annotations.
        assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        assert!(end["object"]["metadata"].get("shardInfo").is_none());
        deleted.push((expected.into_iter().map(str::to_owned).collect::<Vec<_>>(), resumed, streamed));
    }
    for name in ALL {
        let api =
            kube_client::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client.clone(), "default");
        api.delete(name, &Default::default()).await.unwrap();
    }
    for (expected, mut resumed, mut streamed) in deleted {
        for name in &expected {
            for watch in [&mut resumed, &mut streamed] {
                // The server sends bookmarks at any time.
                let event = loop {
                    let event = watch.line().await.unwrap().unwrap();
                    if event["type"] != "BOOKMARK" {
                        break event;
                    }
                };
                let found = (&event["type"], &event["object"]["metadata"]["name"]);
                assert_eq!(found, (&json!("DELETED"), &json!(name)));
            }
        }
    }
}

async fn an_invalid_shard_selector_is_an_internal_error(_server: AnyServer, client: Client) {
    let [first, _] = halves(ShardField::Uid).map(|shard| shard.to_string());
    let [other, _] = halves(ShardField::Namespace).map(|shard| shard.to_string());
    let uid = "object.metadata.uid";
    let texts = [
        " ".to_owned(),
        "nonsense".to_owned(),
        "object.metadata.uid".to_owned(),
        "'text'".to_owned(),
        "other(object.metadata.uid, '0x0', '0x1')".to_owned(),
        format!("{first} && {first}"),
        format!("{first} || {first} && {first}"),
        format!("{first} == {first}"),
        format!("!{first}"),
        format!("{first} || {other}"),
        "shardRange()".to_owned(),
        format!("shardRange({uid}, '0x0')"),
        format!("shardRange('{uid}', '0x0', '0x1')"),
        "shardRange(f(), '0x0', '0x1')".to_owned(),
        "shardRange(f().uid, '0x0', '0x1')".to_owned(),
        "shardRange(uid, '0x0', '0x1')".to_owned(),
        "shardRange(object.metadata.name, '0x0', '0x1')".to_owned(),
        format!("shardRange({uid}, 0, 8)"),
        format!("shardRange({uid}, 1u, 8)"),
        format!("shardRange({uid}, 1.5, 8)"),
        format!("shardRange({uid}, true, 8)"),
        format!("shardRange({uid}, null, 8)"),
        format!("shardRange({uid}, x, 8)"),
        format!("shardRange({uid}, '0', '0x1')"),
        format!("shardRange({uid}, '0x', '0x1')"),
        format!("shardRange({uid}, '0x0', '0x1')"),
        format!("shardRange({uid}, '0x0000000000000000', '0x000000000000000001')"),
        format!("shardRange({uid}, '0x0000000000000000', '0x20000000000000000')"),
        format!("shardRange({uid}, '0x0000000000000000', '0xA000000000000000')"),
        format!("shardRange({uid}, '0x8000000000000000', '0x8000000000000000')"),
        format!("shardRange({uid}, '0x10000000000000000', '0x10000000000000000')"),
    ];
    let known = knows_shards(&client).await;
    for text in texts {
        for watch in ["", "?watch=1&timeoutSeconds=1"] {
            let answer = get(&client, &with_shard(&format!("{MAPS}{watch}"), &text)).await;
            if !known {
                assert_eq!(answer.status, StatusCode::OK, "{text}");
                continue;
            }
            let error = text.parse::<ShardSelector>().unwrap_err();
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": error.to_string(), "code": 500});
            assert_eq!((answer.status.as_u16(), answer.json()), (500, status), "{text}");
        }
    }
    for text in ["shardRange(", "a b", "(a", "a ||"].into_iter().filter(|_| known) {
        let message = get(&client, &with_shard(MAPS, text)).await.json()["message"].to_string();
        let words = "invalid shard selector: CEL parse error: Syntax error: ";
        assert!(message.contains(words), "{message}");
        assert!(text.parse::<ShardSelector>().unwrap_err().to_string().starts_with(words));
    }
}

async fn a_server_without_the_gate_ignores_shard_selectors(_server: AnyServer, client: Client) {
    create(&client, &ALL).await;
    let [first, _] = halves(ShardField::Uid).map(|shard| shard.to_string());
    for text in [&first, "nonsense"] {
        let list = get(&client, &with_shard(MAPS, text)).await.json();
        assert_eq!(names(&list), ALL, "{text}");
        assert!(list["metadata"].get("shardInfo").is_none(), "{text}");
    }
}
