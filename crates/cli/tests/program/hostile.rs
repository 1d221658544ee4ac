//! Hostile servers and objects: nothing they send controls the terminal or exhausts memory.

use embedded_apiserver::{Action, Fault, Match};
use serde_json::{Value, json};

use crate::raw_server::RawServer;
use crate::serve::{address_of, ask};
use crate::support::{World, run, start};
use crate::terminal::{OnTerminal, USUAL};

/// Sets the title, fills the clipboard, rings, overwrites the line, and does it again with C1 and bidirectional controls.
const HOSTILE: &str =
    "a\u{1b}]0;owned\u{7}\u{1b}]52;c;cm0=\u{7}\rb\u{9d}0;owned\u{9c}\u{9b}31m\u{202e}c\u{2066}d\u{7f}";

fn is_harmless(text: &str) -> bool {
    !text.contains(|c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

async fn world() -> World {
    let world = World::new().await;
    let event = json!({"metadata": {"name": "e"}, "type": "Warning", "reason": "Bad", "message": HOSTILE,
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    world.create("/api/v1/namespaces/default/events", event).await;
    let map = json!({"metadata": {"name": "m", "annotations": {"note": HOSTILE}}, "data": {"text": HOSTILE, "lines": format!("a\n{HOSTILE}\n")}});
    world.create("/api/v1/namespaces/default/configmaps", map).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn g2_control_characters_of_objects_are_shown_and_not_sent() {
    let world = world().await;
    for arguments in [
        &["get", "events"][..],
        &["get", "events", "--server-print=false"],
        &["get", "events", "-o", "wide", "--color=always"],
        &["get", "cm", "-o", "custom-columns=TEXT:.data.text"],
        &["get", "cm", "-o", &format!("custom-columns=T{HOSTILE}:.metadata.name")],
        &["get", "cm", "--index", "data.text"],
        &["get", "cm", "-o", "json"],
        &["get", "cm", "-o", "yaml"],
        &["get", "cm", "--index", "data.text", "-o", "json"],
        &["get", "cm", "--index", "data.text", "-o", "yaml"],
    ] {
        let printed = world.output(arguments).await;
        assert!(is_harmless(&printed), "{arguments:?}: {printed:?}");
        assert!(printed.contains("owned") || printed.contains("T^["), "{arguments:?}: {printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g2_control_characters_of_errors_are_escaped_in_the_reports_of_serve() {
    let world = world().await;
    let hostile = Action::Status {
        code: 503,
        reason: "ServiceUnavailable".into(),
        message: HOSTILE.into(),
        retry_after_seconds: 0,
    };
    world.server.faults().arm(Fault::new(hostile).on(Match::default().resource("configmaps")));
    let mut serve = world.start(&["serve", "cm", "-A", "--port", "0"]);
    let address = address_of(&mut serve).await;
    for path in ["/debug/informers", "/api/v1/informers"] {
        loop {
            let (code, report) = ask(address, &format!("GET {path}"), "").await;
            assert_eq!(code, 200, "{path}: {report}");
            assert!(is_harmless(&report), "{path}: {report:?}");
            if report.contains("owned") {
                break;
            }
        }
    }
    assert_eq!(serve.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g2_json_and_yaml_mean_the_same_with_controls_escaped() {
    let world = world().await;
    let json = world.output(&["get", "cm", "m", "-o", "json"]).await;
    let yaml = world.output(&["get", "cm", "m", "-o", "yaml"]).await;
    let one: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(one["data"]["text"], HOSTILE);
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), one);
    // In a pipe a template is printed byte for byte, as kubectl does.
    assert_eq!(world.output(&["get", "cm", "m", "-o", "jsonpath={.data.text}"]).await, HOSTILE);
}

#[tokio::test(flavor = "multi_thread")]
async fn g2_text_of_objects_cannot_control_the_terminal() {
    let world = world().await;
    let all = ["get", "cm", "m", "-o", "jsonpath={.data.text}"];
    for arguments in [&["watch", "events"][..], &["watch", "cm", "-o", "jsonpath={.data.text}"], &all] {
        let mut terminal = OnTerminal::start(&world, arguments, USUAL, false);
        terminal.until("owned").await;
        if arguments[0] == "watch" {
            terminal.ctrl_c().await;
        }
        let written = terminal.written.replace("\r\n", "\n");
        for part in ["\u{1b}]", "\u{7}", "\u{9d}", "\u{9b}", "\u{202e}", "\u{2066}", "\rb"] {
            assert!(!written.contains(part), "{arguments:?}: {part:?} in {written:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g2_control_characters_of_refusals_are_not_sent_to_the_standard_error() {
    let world = World::populated().await;
    for code in [400, 403, 404, 500] {
        let message = format!("no\nkube-informer: spoofed {HOSTILE}");
        let refusal = Action::Status { code, reason: "X".into(), message, retry_after_seconds: 0 };
        world.server.faults().arm(Fault::new(refusal).on(Match::default().resource("pods")));
        for arguments in [&["get", "pods"][..], &["get", "pods", "-o", "yaml"]] {
            let ended = world.run(arguments).await;
            assert_ne!(ended.code, 0);
            assert!(is_harmless(&ended.stderr), "{arguments:?}: {:?}", ended.stderr);
            assert!(!ended.stderr.contains("\nkube-informer: spoofed"), "{arguments:?}: {}", ended.stderr);
        }
        world.server.faults().clear();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_an_endless_answer_ends_with_an_error_and_bounded_memory() {
    for endless in ["/api", "/api/v1/namespaces/default/pods"] {
        let server = RawServer::start(move |path| {
            (path.split('?').next() == Some(endless)).then(|| RawServer::endless("{\"kind\":\"", "x"))
        })
        .await;
        let world = World::at(&server.url()).await;
        let ended = run(world.command_with_memory(1 << 30, &["get", "pods"])).await;
        assert_eq!(ended.code, 1, "{endless}: {ended:?}");
        assert!(ended.stderr.contains("more than 64 MiB"), "{endless}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_not_padded_to_its_longest_value() {
    let world = World::new().await;
    let long = "x".repeat(500_000);
    for (name, value) in [("long", long.as_str()), ("a", "1"), ("b", "2"), ("c", "3")] {
        let map = json!({"metadata": {"name": name}, "data": {"v": value}});
        world.create("/api/v1/namespaces/default/configmaps", map).await;
    }
    let table = world.output(&["get", "cm", "--index", "data.v"]).await;
    assert!(table.contains(&long) && table.len() < long.len() + 2000, "{} bytes", table.len());
}

/// Objects on each page of a list without an end.
const PAGE: u64 = 500;

/// A server whose lists of pods always have another page, with a new token each time, and whose stream of the initial state never
/// ends.
pub(crate) async fn paging_server(page: impl Fn(u64) -> Value + Send + Sync + 'static) -> RawServer {
    RawServer::start(move |path| {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if path != "/api/v1/namespaces/default/pods" {
            return None;
        }
        if query.contains("watch=") {
            return Some(RawServer::stream("", |number| {
                let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default",
                    "name": format!("p{number}"), "resourceVersion": "1"}});
                format!("{}\n", json!({"type": "ADDED", "object": pod}))
            }));
        }
        let token = query.split('&').find_map(|pair| pair.strip_prefix("continue="));
        let number = token.map_or(0, |token| token.parse::<u64>().unwrap());
        let mut page = page(number);
        page["metadata"] = json!({"resourceVersion": "1", "continue": (number + 1).to_string()});
        Some(RawServer::json(page.to_string()))
    })
    .await
}

pub(crate) fn pod_list(number: u64) -> Value {
    let pod = |at: u64| {
        json!({"metadata": {"namespace": "default", "name": format!("p{number}-{at}"), "resourceVersion": "1",
        "annotations": {"note": "x".repeat(1000)}}})
    };
    let items = (0..PAGE).map(pod).collect::<Vec<_>>();
    json!({"kind": "PodList", "apiVersion": "v1", "items": items})
}

fn pod_table(number: u64) -> Value {
    let row = |at: u64| json!({"cells": [format!("p{number}-{at}"), "x".repeat(1000)]});
    let rows = (0..PAGE).map(row).collect::<Vec<_>>();
    let column =
        |name: &str| json!({"name": name, "type": "string", "format": "", "description": "", "priority": 0});
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [column("Name"), column("Note")], "rows": rows})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_without_an_end_is_an_error_and_nothing_of_it_is_printed() {
    let lists = paging_server(pod_list).await;
    let tables = paging_server(pod_table).await;
    for (server, arguments) in [
        (&lists, &["get", "pods", "-o", "json"][..]),
        (&lists, &["get", "pods", "-o", "yaml"]),
        (&lists, &["get", "pods", "-o", "name"]),
        (&lists, &["get", "pods", "-o", "jsonpath={.items}"]),
        (&lists, &["get", "pods", "--field", "metadata.name=p0-1"]),
        (&lists, &["get", "pods", "--index", "metadata.namespace"]),
        (&lists, &["get", "pods", "--server-print=false"]),
        (&tables, &["get", "pods"]),
    ] {
        let world = World::at(&server.url()).await;
        for (limit, words) in [
            (["--max-list-objects", "2000"], "more than 2000 objects; raise --max-list-objects"),
            (["--max-list-mib", "1"], "more than 1 MiB; raise --max-list-mib"),
        ] {
            let ended = run(world.command_with_memory(1 << 30, &[arguments, &limit].concat())).await;
            assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{arguments:?}: {}", ended.stderr);
            assert!(ended.stderr.contains(words), "{arguments:?}: {ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_within_its_limits_is_printed_whole() {
    let world = World::populated().await;
    for limits in [["--max-list-objects", "3"], ["--max-list-objects", "0"], ["--max-list-mib", "0"]] {
        for format in [&["-o", "name"][..], &["--no-headers"]] {
            let printed = world.output(&[&["get", "pods", "-A"], format, &limits].concat()).await;
            assert_eq!(printed.lines().count(), 3, "{limits:?} {format:?}: {printed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_of_a_list_without_an_end_reports_it_and_stores_nothing() {
    let server = paging_server(pod_list).await;
    let world = World::at(&server.url()).await;
    for arguments in [
        &["watch", "pods", "-o", "name"][..],
        // Listed, not streamed.
        &["watch", "pods", "-o", "name", "--compress"],
        &["serve", "pods", "--port", "0"],
    ] {
        let arguments = [arguments, &["--max-list-objects", "2000"]].concat();
        let mut running = start(world.command_with_memory(1 << 30, &arguments));
        running.error_with("more than 2000 objects").await;
        running.interrupt();
        let mut printed = String::new();
        while let Some(line) = running.stdout.next_line().await.unwrap() {
            printed += &line;
        }
        assert!(!printed.contains("pod/p"), "{arguments:?}: {printed}");
        assert_eq!(running.child.wait().await.unwrap().code(), Some(0), "{arguments:?}");
    }
}
