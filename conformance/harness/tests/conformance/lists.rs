//! Responses to list requests, by resource version, match, limit and continue. The informer relies on these rules; if a
//! release changes one, these tests fail.

use http::StatusCode;
use kube_client::Client;
use kube_informer_conformance::raw;
use serde_json::Value;

use crate::common;
use crate::common::both::{AnyServer, Features};
use crate::common::{MAPS, create, get, names, version_of};

on_both! {
    resource_version_match_and_limit_choose_the_state_that_is_listed: Features::Default,
    all_pages_have_the_version_of_the_first: Features::Default,
    contradictory_list_options_are_rejected_with_a_reason: Features::Default,
    a_future_version_times_out_with_a_retry_delay: Features::Default,
    compacted_versions_are_expired_and_an_expired_page_offers_a_fresh_token: Features::Default,
    an_empty_list_has_items_and_built_in_items_omit_their_kind: Features::Default,
}

async fn resource_version_match_and_limit_choose_the_state_that_is_listed(
    _server: AnyServer,
    client: Client,
) {
    let [first, .., last] = create(&client, &["a", "b", "c", "d", "e"]).await[..] else { unreachable!() };
    let all = ["a", "b", "c", "d", "e"].as_slice();
    // (query, names in the response, whether there is another page, remaining items)
    let table: [(String, &[&str], bool, Option<u64>); 9] = [
        ("".into(), all, false, None),
        ("resourceVersion=0".into(), all, false, None),
        ("resourceVersion=0&limit=2".into(), all, false, None),
        ("limit=2".into(), &all[..2], true, Some(3)),
        ("limit=2&labelSelector=shop%3Dyes".into(), &all[..2], true, None),
        (format!("resourceVersion={first}"), all, false, None),
        (format!("resourceVersion={first}&limit=5"), &all[..1], false, None),
        (format!("resourceVersion={first}&resourceVersionMatch=Exact"), &all[..1], false, None),
        (format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan&limit=5"), all, false, None),
    ];
    for (query, expected, goes_on, remains) in table {
        let answer = get(&client, &format!("{MAPS}?{query}")).await;
        let list = answer.json();
        assert_eq!(answer.status, StatusCode::OK, "{query}: {list}");
        assert_eq!(names(&list), expected, "{query}");
        assert_eq!(list["metadata"]["continue"].is_string(), goes_on, "{query}");
        assert_eq!(list["metadata"]["remainingItemCount"].as_u64(), remains, "{query}");
        if expected.len() == 1 {
            assert_eq!(version_of(&list), first, "{query}");
        } else {
            assert!(version_of(&list) >= last, "{query}");
        }
    }
}

async fn all_pages_have_the_version_of_the_first(_server: AnyServer, client: Client) {
    create(&client, &["a", "b", "c"]).await;
    let first = get(&client, &format!("{MAPS}?limit=2")).await.json();
    create(&client, &["d"]).await;
    let next = next_page(&first);
    let second = get(&client, &format!("{MAPS}?limit=2&continue={next}")).await.json();
    assert_eq!(names(&second), ["c"], "objects created between the pages are not in the second");
    assert_eq!(version_of(&first), version_of(&second));
    assert!(second["metadata"]["continue"].is_null());
}

async fn contradictory_list_options_are_rejected_with_a_reason(_server: AnyServer, client: Client) {
    create(&client, &["a", "b"]).await;
    let page = get(&client, &format!("{MAPS}?limit=1")).await.json();
    let token = next_page(&page);
    let version = version_of(&page);
    // (query, status, part of the message)
    let table = [
        (
            "resourceVersionMatch=Exact".into(),
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0".into(),
            422,
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            format!("resourceVersionMatch=NotOlderThan&resourceVersion={version}&continue={token}"),
            422,
            "resourceVersionMatch is forbidden when continue is provided",
        ),
        (
            format!("resourceVersion={version}&continue={token}"),
            400,
            "specifying resource version is not allowed when using continue",
        ),
        ("continue=rubbish".into(), 400, "continue key is not valid"),
        ("resourceVersion=rubbish".into(), 400, "Invalid value: \"rubbish\""),
        ("sendInitialEvents=true".into(), 422, "sendInitialEvents is forbidden for list"),
        ("fieldSelector=data.a%3Db".into(), 400, "\"data.a\" is not a known field selector"),
    ];
    for (query, status, message) in table {
        let answer = get(&client, &format!("{MAPS}?{query}")).await;
        let refusal = answer.json();
        assert_eq!(answer.status.as_u16(), status, "{query}: {refusal}");
        assert_eq!(refusal["kind"], "Status", "{query}");
        assert!(refusal["message"].as_str().unwrap().contains(message), "{query}: {refusal}");
    }
}

async fn a_future_version_times_out_with_a_retry_delay(_server: AnyServer, client: Client) {
    let future = version_of(&get(&client, MAPS).await.json()) + 1_000_000;
    let at_least = get(&client, &format!("{MAPS}?resourceVersion={future}")).await;
    assert_too_large(&at_least);
    let exactly = get(&client, &format!("{MAPS}?resourceVersion={future}&resourceVersionMatch=Exact")).await;
    if common::minor_version(&client).await >= 34 {
        assert_too_large(&exactly);
    } else {
        // Up to 1.33 the server returns etcd's own message.
        assert_eq!(exactly.status, StatusCode::INTERNAL_SERVER_ERROR);
        let message = exactly.json()["message"].to_string();
        assert!(message.contains("required revision is a future revision"), "{message}");
    }
}

async fn compacted_versions_are_expired_and_an_expired_page_offers_a_fresh_token(
    mut server: AnyServer,
    client: Client,
) {
    let first = create(&client, &["a"]).await[0];
    create(&client, &["b", "c"]).await;
    let token = next_page(&get(&client, &format!("{MAPS}?limit=1")).await.json());
    create(&client, &["d"]).await;
    server.drop_history().await;

    let exact = get(&client, &format!("{MAPS}?resourceVersion={first}&resourceVersionMatch=Exact")).await;
    assert_expired(&exact);
    let page = get(&client, &format!("{MAPS}?limit=1&continue={token}")).await;
    assert_expired(&page);
    let fresh = next_page(&page.json());
    let rest = get(&client, &format!("{MAPS}?continue={fresh}")).await.json();
    assert_eq!(
        names(&rest),
        ["b", "c", "d"],
        "the fresh token continues at the same key in the current state"
    );
}

async fn an_empty_list_has_items_and_built_in_items_omit_their_kind(_server: AnyServer, client: Client) {
    let empty = get(&client, MAPS).await.json();
    assert_eq!((&empty["kind"], &empty["items"]), (&"ConfigMapList".into(), &Value::Array(vec![])));
    create(&client, &["a"]).await;
    let full = get(&client, MAPS).await.json();
    assert!(full["items"][0].get("kind").is_none());
    let heads = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let heads = raw::get(&client, MAPS, heads).await.unwrap().json();
    assert_eq!(heads["items"][0]["kind"], "PartialObjectMetadata");
}

fn next_page(list: &Value) -> String {
    list["metadata"]["continue"].as_str().unwrap_or_else(|| panic!("no continue token: {list}")).to_owned()
}

fn assert_expired(answer: &raw::Answer) {
    assert_eq!(answer.status, StatusCode::GONE, "{}", answer.json());
    assert_eq!(answer.json()["reason"], "Expired");
}

fn assert_too_large(answer: &raw::Answer) {
    let refusal = answer.json();
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT, "{refusal}");
    assert_eq!(refusal["reason"], "Timeout");
    assert_eq!(refusal["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{refusal}");
    assert_eq!(refusal["details"]["retryAfterSeconds"], 1);
    assert_eq!(answer.header("retry-after"), "1");
}
