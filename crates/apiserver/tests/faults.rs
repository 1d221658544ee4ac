//! Faults from a client's perspective.

use crate::support;

use std::time::Duration;

use embedded_apiserver::{Action, Clock, Fault, Match, Restart, Schedule, Server, Verb, WatchListMode};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use support::Session;
use tower::ServiceExt as _;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/configmaps?watch=1&allowWatchBookmarks=true&timeoutSeconds=300";

async fn session() -> Session {
    let clock = Clock::starting_at(std::time::UNIX_EPOCH);
    Session::new(Server::builder().without_socket().seed(1).clock(clock).start().await.unwrap())
}

async fn with_objects(count: usize) -> Session {
    let session = session().await;
    for n in 0..count {
        session.json("POST", CONFIG_MAPS, json!({"metadata": {"name": format!("cm-{n}")}})).await;
    }
    session
}

/// The events of a watch, and how it ended.
async fn watch(session: &Session, path: &str) -> (Vec<String>, &'static str) {
    let request = http::Request::get(path).body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
    let Ok(response) = session.server.service().oneshot(request).await else {
        return (Vec::new(), "refused");
    };
    let mut body = response.into_body().into_data_stream();
    let mut text = Vec::new();
    let end = loop {
        match tokio::time::timeout(Duration::from_secs(3600), body.next()).await {
            Err(_) => break "silence",
            Ok(None) => break "end",
            Ok(Some(Err(_))) => break "broken",
            Ok(Some(Ok(bytes))) => text.extend_from_slice(&bytes),
        }
    };
    let text = String::from_utf8(text).unwrap();
    let events = text.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|_| json!({"type": "HALF"}));
        let object = &event["object"];
        let ends = object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
        let what = object["metadata"]["name"].as_str().or(object["reason"].as_str()).unwrap_or(if ends {
            "initial-events-end"
        } else {
            ""
        });
        format!("{} {what}", event["type"].as_str().unwrap()).trim_end().to_owned()
    });
    (events.collect(), end)
}

#[tokio::test(start_paused = true)]
async fn streams_break_stall_and_repeat_as_configured() {
    let on_watch = || Match::verb(Verb::Watch).resource("configmaps");
    let error = Action::ErrorAfterEvents {
        events: 1,
        code: 500,
        reason: "InternalError".into(),
        message: "x".into(),
    };
    let (zero, one, end) = ("ADDED cm-0", "ADDED cm-1", "BOOKMARK initial-events-end");
    let cases = [
        (Action::CutAfterEvents(1), vec![zero], "broken"),
        (Action::CutAfterBytes(10), vec!["HALF"], "broken"),
        (Action::EndAfterEvents(2), vec![zero, one], "end"),
        (Action::StallAfterEvents(1), vec![zero], "silence"),
        (error, vec![zero, "ERROR InternalError"], "end"),
        (Action::DuplicateEvent(0), vec![zero, zero, one, end], "end"),
        (Action::TruncateEvent(1), vec![zero, "HALF"], "broken"),
        (Action::SkipInitialEventsEnd, vec![zero, one], "end"),
        (Action::Expired, vec!["ERROR Expired"], "end"),
        (Action::Disconnect, vec![], "refused"),
    ];
    for (action, events, end) in cases {
        let session = with_objects(2).await;
        session.server.faults().arm(Fault::new(action.clone()).on(on_watch()).once());
        assert_eq!(
            watch(&session, WATCH).await,
            (events.iter().map(|e| (*e).to_owned()).collect(), end),
            "{action:?}"
        );
        let (_, healthy) = watch(&session, WATCH).await;
        assert_eq!(healthy, "end", "after {action:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn responses_are_replaced_as_configured() {
    let session = session().await;
    let faults = session.server.faults();
    faults.arm(Fault::new(Action::Overloaded { retry_after_seconds: 7 }).on(Match::verb(Verb::List)).once());
    let answer = session.request("GET", CONFIG_MAPS, &[], Vec::new()).await;
    assert_eq!((answer.code, answer.headers["retry-after"].to_str().unwrap()), (429, "7"));
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/plain"));

    let unavailable = Action::Status {
        code: 503,
        reason: "ServiceUnavailable".into(),
        message: "come back later".into(),
        retry_after_seconds: 2,
    };
    faults.arm(Fault::new(unavailable).once());
    let answer = session.request("GET", CONFIG_MAPS, &[], Vec::new()).await;
    let status: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(
        (answer.code, &status["reason"], &status["details"]["retryAfterSeconds"]),
        (503, &json!("ServiceUnavailable"), &json!(2))
    );

    faults.arm(Fault::new(Action::Html { code: 200 }).once());
    let answer = session.request("GET", CONFIG_MAPS, &[], Vec::new()).await;
    assert_eq!((answer.code, answer.headers["content-type"].to_str().unwrap()), (200, "text/html"));

    faults.arm(Fault::new(Action::Expired).once());
    assert_eq!(session.request("GET", CONFIG_MAPS, &[], Vec::new()).await.code, 410);

    faults.arm(Fault::new(Action::Delay(Duration::from_secs(5))).once());
    let before = tokio::time::Instant::now();
    assert_eq!(session.request("GET", CONFIG_MAPS, &[], Vec::new()).await.code, 200);
    assert_eq!(before.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_fault_fires_by_match_count_and_probability() {
    let session = session().await;
    let faults = session.server.faults();
    let secrets = Fault::new(Action::Html { code: 502 }).on(Match::default().resource("secrets"));
    let after = secrets.clone().schedule(Schedule::After { matches: 1, times: 2 });
    let id = faults.arm(after);
    let mut codes = Vec::new();
    for _ in 0..5 {
        codes.push(session.request("GET", "/api/v1/secrets", &[], Vec::new()).await.code);
        assert_eq!(session.request("GET", "/api/v1/pods", &[], Vec::new()).await.code, 200);
    }
    assert_eq!(codes, [200, 502, 502, 200, 200]);
    assert_eq!(faults.fired(id), Some(2));
    faults.disarm(id);
    let id = faults.arm(secrets.probability(0.5));
    for _ in 0..200 {
        session.request("GET", "/api/v1/secrets", &[], Vec::new()).await;
    }
    let struck = faults.fired(id).unwrap();
    assert!((60..140).contains(&struck), "{struck} of 200");
    faults.clear();
    assert_eq!(faults.fired(id), None);
}

#[tokio::test(start_paused = true)]
async fn a_restart_loses_history_or_restores_a_backup() {
    let session = with_objects(1).await;
    let backup = session.server.backup();
    let list = session.json("GET", CONFIG_MAPS, json!(null)).await;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    session.json("POST", CONFIG_MAPS, json!({"metadata": {"name": "later"}})).await;

    let old = format!("{WATCH}&resourceVersion={revision}");
    assert_eq!(watch(&session, &format!("{old}&timeoutSeconds=1")).await.0[0], "ADDED later");
    session.server.restart(&Restart::HistoryLost);
    assert_eq!(watch(&session, &old).await, (vec!["ERROR Expired".to_owned()], "end"));

    session.server.restart(&Restart::FromBackup(backup));
    let list = session.json("GET", CONFIG_MAPS, json!(null)).await;
    assert_eq!(
        (list["metadata"]["resourceVersion"].as_str(), list["items"].as_array().unwrap().len()),
        (Some(&*revision), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn watch_lists_can_be_off_or_ignored() {
    let path = "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
    for (mode, code) in [(WatchListMode::On, 200), (WatchListMode::Off, 422), (WatchListMode::Ignored, 200)] {
        let server = Server::builder().without_socket().watch_list(mode).start().await.unwrap();
        let session = Session::new(server);
        assert_eq!(session.request("GET", path, &[], Vec::new()).await.code, code, "{mode:?}");
    }
}

#[tokio::test]
async fn the_port_refuses_and_accepts_again() {
    let server = Server::start().await.unwrap();
    let address = server.address().unwrap();
    let connect = || tokio::net::TcpStream::connect(address);
    let mut open = connect().await.unwrap();
    server.refuse_connections().await;
    assert_eq!(connect().await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    let mut byte = [0];
    let read = tokio::io::AsyncReadExt::read(&mut open, &mut byte).await;
    assert!(matches!(read, Ok(0) | Err(_)), "the open connection was closed");
    server.accept_connections().await.unwrap();
    connect().await.unwrap();
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn faults_can_be_armed_over_http_where_that_is_enabled() {
    let server = Server::builder().without_socket().admin_endpoint(true).start().await.unwrap();
    let session = Session::new(server);
    let fault = json!({"action": {"html": {"code": 502}}, "on": {"verb": "list"}, "schedule": {"times": 1}});
    session.json("POST", "/faults", fault).await;
    assert_eq!(session.request("GET", CONFIG_MAPS, &[], Vec::new()).await.code, 502);
    assert_eq!(session.request("GET", CONFIG_MAPS, &[], Vec::new()).await.code, 200);
    assert_eq!(session.json("GET", "/faults", json!(null)).await[0]["fired"], 1);

    let closed = Session::new(Server::builder().without_socket().start().await.unwrap());
    assert_eq!(closed.request("GET", "/faults", &[], Vec::new()).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_fault_with_an_unknown_field_is_rejected_and_not_armed() {
    let server = Server::builder().without_socket().admin_endpoint(true).start().await.unwrap();
    let session = Session::new(server);
    let html = json!({"html": {"code": 502}});
    for (field, fault) in [
        ("pathContains", json!({"action": html, "on": {"pathContains": "/pods"}})),
        ("useragent", json!({"action": html, "on": {"verb": "list", "useragent": "capture"}})),
        ("match", json!({"action": html, "match": {"verb": "list"}})),
        ("retryAfter", json!({"action": {"html": {"code": 502, "retryAfter": 1}}})),
        ("retryAfter", json!({"action": {"overloaded": {"retryAfterSeconds": 1, "retryAfter": 1}}})),
        ("millis", json!({"action": {"delay": {"secs": 0, "nanos": 0, "millis": 5}}})),
        ("after", json!({"action": html, "schedule": {"after": {"matches": 1, "times": 1, "after": 2}}})),
    ] {
        let answer = session.request("POST", "/faults", &[], fault.to_string().into()).await;
        let status: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((answer.code, &status["reason"]), (400, &json!("BadRequest")), "{fault}");
        let message = status["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("invalid fault: unknown field `{field}`")), "{message}");
    }
    assert_eq!(session.json("GET", "/faults", json!(null)).await, json!([]));
}
