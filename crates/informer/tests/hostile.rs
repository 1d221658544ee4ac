//! Servers, and proxies in between, that send anything: the error is clear and short, the cache keeps its state, memory is bounded,
//! and everything recovers once the server behaves.
//!
//! A program of its own, because it measures the memory of the process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hostile_http2;
mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Config;
use kube_informer::building_blocks::{
    Fifo, FifoConfig, ListWatch, ListerWatcher, Reflector, ReflectorConfig, ReflectorState, Resource,
    SourceError, Store, StoreSink, WatchOptions,
};
use kube_informer::{Cluster, ClusterConfig, EncodingPreference, Informer, Scope, WatchList};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use support::bodies::{answering, list_of, pieces, trickle, whole};
use support::raw_server::{
    Answer, JSON, Mood, PROTOBUF, RawServer, Stage, TOKEN, bytes, bytes_then_silence, endless, endless_of,
    forever, head, json as answer_json, list, pod, refuse,
};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Tests that measure memory, or use much, run one at a time.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Fails a test that waits for something that does not happen. Nothing waits this long otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than the time after which an unanswered request retires its connection.
const LIST_IDLE_MAX: Duration = Duration::from_millis(1200);

/// The longest error report.
const REPORT_BYTES_MAX: usize = 2 << 10;

/// The limit if nothing large is read: only buffers of connections.
const SMALL: usize = 4 << 20;
/// The limit if many small frames arrive before any is read.
const BURST: usize = 16 << 20;
/// The limit if one object of the maximum size, 8 MiB, is read.
const ONE_OBJECT: usize = 40 << 20;

/// One hostile server.
struct Case {
    name: &'static str,
    stage: Stage,
    answer: Answer,
    /// A part of the first report.
    says: &'static str,
    /// The limit for memory, in addition to what is held before.
    memory_max: usize,
}

fn case(name: &'static str, stage: Stage, says: &'static str, memory_max: usize, answer: Answer) -> Case {
    Case { name, stage, answer, says, memory_max }
}

/// The objects of a store: key and resourceVersion.
type State = BTreeMap<String, String>;

fn state_of(store: &Store) -> State {
    let objects = store.snapshot().into_objects();
    objects.map(|object| (object.key().to_string(), object.resource_version().to_owned())).collect()
}

fn state_in(mood: Mood) -> State {
    let text = |pod: &Value, field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
    let (_, pods) = mood.pods();
    pods.iter().map(|pod| (format!("web/{}", text(pod, "name")), text(pod, "resourceVersion"))).collect()
}

/// Waits and pauses that do not slow the tests down.
fn quick(stage: Stage) -> ReflectorConfig {
    let mut config = support::listing();
    config.watch_list = if stage == Stage::WatchList { WatchList::On } else { WatchList::Off };
    config.backoff.first = Duration::from_millis(20);
    config.backoff.longest = Duration::from_millis(20);
    config.watch_interval_min = Duration::ZERO;
    config.watch_answer_max = Duration::from_millis(500);
    config.watch_list_quiet_max = Duration::from_millis(500);
    config
}

/// A reflector, its store, and what was observed.
struct Client {
    store: Arc<Store>,
    reports: mpsc::UnboundedReceiver<String>,
    status: watch::Receiver<kube_informer::building_blocks::ReflectorStatus>,
    /// Every state that the store had.
    states: watch::Receiver<Vec<State>>,
    tasks: tokio::task::JoinSet<()>,
}

impl Client {
    fn start(config: Config, own: ClusterConfig, mut reflector: ReflectorConfig) -> Self {
        let cluster = Cluster::configured(config, own).unwrap();
        let source = ListWatch::new(cluster.client(), Resource::of::<Pod>())
            .encoding(EncodingPreference::Json)
            .list_idle_max(LIST_IDLE_MAX);
        let (reporter, reports) = mpsc::unbounded_channel();
        reflector.on_error = Some(Arc::new(move |report| drop(reporter.send(report.to_string()))));
        let (queue, store) = (Fifo::new(FifoConfig::default()), Arc::new(Store::default()));
        let sink = Arc::new(StoreSink::new(queue.clone(), store.clone()));
        let reflector = Reflector::new(Arc::new(source), sink, Scope::default(), reflector);
        let status = reflector.status();
        let (sender, states) = watch::channel(Vec::new());
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(reflector.run());
        let applied = store.clone();
        tasks.spawn(async move {
            while let Some(deltas) = queue.take().await {
                applied.apply(deltas.deltas());
                deltas.done();
                sender.send_modify(|states| states.push(state_of(&applied)));
            }
        });
        Self { store, reports, status, states, tasks }
    }

    /// Waits until the store has this state and the reflector watches.
    async fn has(&mut self, state: &State) {
        let reached = async {
            loop {
                self.states.wait_for(|states| states.last() == Some(state)).await.unwrap();
                let watching = |status: &kube_informer::building_blocks::ReflectorStatus| {
                    matches!(status.state, ReflectorState::Watching)
                };
                self.status.wait_for(watching).await.unwrap();
                if state_of(&self.store) == *state {
                    break;
                }
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, reached).await;
        assert!(in_time.is_ok(), "{:?}, {:?}", self.status.borrow().state, state_of(&self.store));
    }

    /// The first report about what the server sent; expired versions make the client list again.
    async fn report(&mut self) -> String {
        let reported = async {
            loop {
                let report = self.reports.recv().await.unwrap();
                if !report.contains("410 Expired") {
                    return report;
                }
            }
        };
        let reported = tokio::time::timeout(PATIENCE, reported).await;
        reported.unwrap_or_else(|_| panic!("no report; {:?}", self.status.borrow().state))
    }
}

/// Runs a case. Returns what is wrong.
async fn run(case: &Case) -> Vec<String> {
    let server = RawServer::start(case.stage, case.answer.clone()).await;
    let mut own = ClusterConfig::default();
    own.compress_lists = case.name.contains("compress_lists");
    own.unpacked_bytes_max = 32 << 20;
    let mut client = Client::start(server.config(), own, quick(case.stage));
    let mut wrong = endure(&mut client, |mood| server.enter(mood), case.says, case.memory_max).await;
    wrong.extend(unauthorized(&server.authorizations()));
    client.tasks.shutdown().await;
    wrong
}

/// Makes a server that behaves hostile, and then makes it behave again. Returns what is wrong.
async fn endure(client: &mut Client, enter: impl Fn(Mood), says: &str, memory_max: usize) -> Vec<String> {
    client.has(&state_in(Mood::Before)).await;
    let baseline = MEMORY.current_usage();
    MEMORY.reset_peak_usage();

    enter(Mood::Hostile);
    let report = client.report().await;
    enter(Mood::After);
    client.has(&state_in(Mood::After)).await;

    let held = MEMORY.peak_usage().saturating_sub(baseline);
    let mut wrong = Vec::new();
    if !report.contains(says) {
        wrong.push(format!("reports {report:?}"));
    }
    if report.len() > REPORT_BYTES_MAX {
        wrong.push(format!("reports {} bytes", report.len()));
    }
    if held > memory_max {
        wrong.push(format!("{} KiB held, allowed {}", held >> 10, memory_max >> 10));
    }
    let expected = [state_in(Mood::Before), state_in(Mood::After)];
    if let Some(other) = client.states.borrow().iter().find(|state| !expected.contains(state)) {
        wrong.push(format!("the cache had {other:?}"));
    }
    wrong
}

/// Whether a request lacked the credentials.
fn unauthorized(authorizations: &[Option<String>]) -> Option<String> {
    let sent = Some(format!("Bearer {TOKEN}"));
    authorizations
        .iter()
        .any(|authorization| *authorization != sent)
        .then(|| "a request without credentials".to_owned())
}

async fn run_all(cases: &[Case]) {
    let mut wrong = Vec::new();
    for case in cases {
        for what in run(case).await {
            wrong.push(format!("{:?}: {}: {what}", case.stage, case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// === answers ===

fn gzip(text: &[u8], times: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    (0..times).for_each(|_| encoder.write_all(text).unwrap());
    encoder.finish().unwrap()
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// The bookmark at the end of a streamed list.
fn initial_end(version: &str) -> String {
    let mut end = pod("", version);
    end["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    event("BOOKMARK", &end)
}

/// A list with these bytes as its items.
fn list_with(items: impl AsRef<[u8]>) -> Vec<u8> {
    let list = list("20", &[]).to_string();
    let at = list.find("[]").unwrap() + 1;
    [&list.as_bytes()[..at], items.as_ref(), &list.as_bytes()[at..]].concat()
}

/// The pods of [`Mood::Hostile`], and one more item.
fn pods_and(item: impl AsRef<[u8]>) -> Vec<u8> {
    let (_, pods) = Mood::Hostile.pods();
    let pods = pods.iter().map(Value::to_string).collect::<Vec<_>>().join(",");
    list_with([pods.as_bytes(), b",", item.as_ref()].concat())
}

/// A whole answer that repeats lines: each 64 KiB.
fn lines(line: &str) -> &'static [u8] {
    let times = (64 << 10) / line.len();
    Box::leak(line.repeat(times).into_bytes().into_boxed_slice())
}

/// What any response can be.
fn responses(stage: Stage) -> Vec<Case> {
    let is_watch = matches!(stage, Stage::Watch | Stage::WatchList);
    vec![
        case("endless headers", stage, "connection broken: message head is too large", SMALL, {
            endless_of("HTTP/1.1 200 OK\r\n", lines("x-header: some value\r\n"))
        }),
        case("huge header value", stage, "connection broken: message head is too large", SMALL, {
            endless("HTTP/1.1 200 OK\r\nx-header: ")
        }),
        case("no HTTP", stage, "connection broken: invalid HTTP version parsed", SMALL, endless("SSH-2.0 ")),
        case("closed without an answer", stage, "connection broken: ", SMALL, bytes("", "")),
        case("content-length bomb", stage, "connection broken: ", SMALL, {
            bytes(&JSON.replace("\r\n\r\n", "\r\ncontent-length: 99999999999\r\n\r\n"), "{\"kind\":")
        }),
        case("invalid content-length", stage, "connection broken: ", SMALL, {
            bytes(&JSON.replace("\r\n\r\n", "\r\ncontent-length: 99999999999999999999999\r\n\r\n"), "{}")
        }),
        case("chunk-size bomb", stage, "connection broken: ", SMALL, {
            let chunked = JSON.replace("\r\n\r\n", "\r\ntransfer-encoding: chunked\r\n\r\n");
            bytes(&chunked, "fffffffffffffffff\r\n{")
        }),
        case("unrequested gzip", stage, "content with the encoding `gzip`", SMALL, {
            let head = JSON.replace("\r\n\r\n", "\r\ncontent-encoding: gzip\r\n\r\n");
            bytes(&head, gzip(&[b' '; 64 << 10], 1024))
        }),
        case("login page", stage, "content of type `text/html`; is there a proxy in between?", SMALL, {
            bytes(&JSON.replace("application/json", "text/html"), "<html><form>Log in</form></html>")
        }),
        case(
            "endless login page",
            stage,
            "content of type `text/html`; is there a proxy in between?",
            SMALL,
            endless(&JSON.replace("application/json", "text/html")),
        ),
        case("huge content type", stage, "content of type `xxxxx", SMALL, {
            bytes(&JSON.replace("application/json", &"x".repeat(100 << 10)), "{}")
        }),
        case("login page as JSON", stage, "malformed JSON", SMALL, {
            bytes(JSON, "<html><form>Log in</form></html>\n".repeat(10))
        }),
        case("protobuf as JSON", stage, "malformed JSON", SMALL, {
            bytes(JSON, [&b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06PodList\n"[..]; 100].concat())
        }),
        case(
            "JSON as protobuf",
            stage,
            if is_watch { "the length is implausible" } else { "missing `k8s" },
            SMALL,
            {
                let text =
                    if is_watch { event("ADDED", &pod("a", "9")) } else { list("10", &[]).to_string() };
                bytes_then_silence(PROTOBUF, text)
            },
        ),
        // Error bodies.
        case("endless error body", stage, "500 InternalError", SMALL, endless(&head("500 Error"))),
        case("endless JSON error body", stage, "500 InternalError", SMALL, {
            endless(&format!("{}{{\"kind\":\"Status\",\"message\":\"", head("500 Error")))
        }),
        case(
            "long message",
            stage,
            "400 BadRequest: mmmm",
            SMALL,
            refuse(400, "BadRequest", &"m".repeat(60 << 10)),
        ),
        case("deeply nested error body", stage, "500 InternalError", SMALL, {
            bytes(&head("500 Error"), format!("{{\"kind\":\"Status\",\"details\":{}", "[".repeat(60 << 10)))
        }),
        case("error body in invalid UTF-8", stage, "500 InternalError", SMALL, {
            bytes(&head("500 Error"), vec![0xff; 10_000])
        }),
        case("login page as an error", stage, "an HTML page, not from a Kubernetes API server", SMALL, {
            bytes(&head("403 Forbidden").replace("application/json", "text/html"), "<html>Log in</html>")
        }),
    ]
}

fn of_lists(stage: Stage) -> Vec<Case> {
    let unreadable = "cannot read one object: ";
    let (deep, zeros) = ("[".repeat(1 << 20), "0".repeat(29));
    let versions = ["abc", "-5", &format!("1{zeros}")].map(|version| {
        let answer = answer_json("200 OK", &list(version, &Mood::Hostile.pods().1));
        case("version", stage, "400 BadRequest: invalid resource version", SMALL, answer)
    });
    let mut cases = vec![
        case("endless list", stage, "limit on object size in bytes exceeded", ONE_OBJECT, {
            endless(&format!("{JSON}{{\"kind\":\"PodList\",\"items\":[{{\"metadata\":{{\"name\":\""))
        }),
        case("endless member", stage, "", ONE_OBJECT, endless(&format!("{JSON}{{\"kind\":\""))),
        case("endless other members", stage, "truncated JSON list", SMALL, {
            endless_of(&format!("{JSON}{{"), lines("\"member\":0,"))
        }),
        case("endless space", stage, "truncated JSON list", SMALL, {
            endless_of(&format!("{JSON}{{\"items\":["), lines("  \n"))
        }),
        case("truncated list", stage, "truncated JSON list", SMALL, bytes(JSON, &pods_and("{}")[..200])),
        case(
            "invalid UTF-8 outside of strings",
            stage,
            "malformed JSON",
            SMALL,
            bytes(JSON, pods_and([0xff, 0xfe])),
        ),
        case(
            "item {}",
            stage,
            "it needs a name",
            SMALL,
            bytes(JSON, list_with(format!("{{}},{}", pod("a", "9")))),
        ),
        case("item 12", stage, unreadable, SMALL, bytes(JSON, list_with(format!("12,{}", pod("a", "9"))))),
        case("duplicate metadata", stage, unreadable, SMALL, {
            bytes(JSON, pods_and(r#"{"metadata":{"name":"x"},"metadata":{"name":"y"}}"#))
        }),
        case("label that is not UTF-8", stage, unreadable, SMALL, {
            let labelled = [&br#"{"metadata":{"name":"x","labels":{"x":""#[..], &[0xff], br#""}}}"#];
            bytes(JSON, pods_and(labelled.concat()))
        }),
        case("item nested too deeply for its end", stage, "truncated JSON list", ONE_OBJECT, {
            bytes(JSON, format!("{{\"kind\":\"PodList\",\"items\":[{{\"spec\":{deep}"))
        }),
        case(
            "version of 100 KB",
            stage,
            "its resourceVersion has 102400 bytes, at most 1024 are accepted",
            SMALL,
            answer_json("200 OK", &list(&"7".repeat(100 << 10), &Mood::Hostile.pods().1)),
        ),
        case("another kind", stage, "expected a list of v1/Pod, but the server sent", SMALL, {
            answer_json("200 OK", &json!({"kind": "x".repeat(100 << 10), "apiVersion": "v1", "items": []}))
        }),
        case("length bomb in protobuf", stage, "", SMALL, {
            // An envelope, a list of 2^40 bytes, an item of 2^39 bytes.
            let bomb = b"k8s\0\x12\x80\x80\x80\x80\x80\x20\x12\x80\x80\x80\x80\x80\x10".to_vec();
            bytes(PROTOBUF, [bomb, vec![b'x'; 8 << 10]].concat())
        }),
    ];
    // The second page's resourceVersion does not count.
    if stage == Stage::List {
        cases.extend(versions);
    } else {
        cases.retain(|case| !case.name.starts_with("version"));
    }
    cases
}

fn of_watches(stage: Stage) -> Vec<Case> {
    let bookmark = initial_end;
    // A list is streamed again: without these, it would be empty.
    let known = match stage {
        Stage::WatchList => event("ADDED", &pod("a", "9")) + &event("ADDED", &pod("b", "10")),
        _ => String::new(),
    };
    let mut cases = vec![
        case("endless line", stage, "limit on object size in bytes exceeded", ONE_OBJECT, {
            endless(&format!("{JSON}{{\"type\":\"MODIFIED\",\"object\":{{\"spec\":\""))
        }),
        case(
            "truncated event",
            stage,
            "truncated",
            SMALL,
            bytes(JSON, &event("MODIFIED", &pod("a", "12"))[..60]),
        ),
        case("interleaved events", stage, "malformed", SMALL, {
            let changed = event("MODIFIED", &pod("a", "12"));
            bytes_then_silence(JSON, format!("{}{changed}{}", &changed[..60], &changed[60..]))
        }),
        case(
            "invalid UTF-8",
            stage,
            "malformed",
            SMALL,
            bytes_then_silence(JSON, [&[0xff; 1000][..], b"\n"].concat()),
        ),
        case("event without an object", stage, "", SMALL, bytes_then_silence(JSON, "{\"type\":\"ADDED\"}\n")),
        case("duplicate metadata", stage, "duplicate metadata", SMALL, {
            let metadata = "\"object\":{\"metadata\":{\"name\":\"y\",\"resourceVersion\":\"12\"},";
            let event = event("ADDED", &pod("x", "12")).replacen("\"object\":{", metadata, 1);
            bytes_then_silence(JSON, format!("{known}{event}{}", bookmark("12")))
        }),
        case("label that is not UTF-8", stage, "a label's value must be a string", SMALL, {
            let labelled =
                [&br#"{"type":"ADDED","object":{"metadata":{"name":"x","labels":{"x":""#[..], &[0xff]];
            bytes_then_silence(
                JSON,
                [known.as_bytes(), &labelled.concat(), b"\"}}}}\n", bookmark("12").as_bytes()].concat(),
            )
        }),
        case("event nested too deeply for its end", stage, "truncated", ONE_OBJECT, {
            let deep = "[".repeat(1 << 20);
            bytes(JSON, format!("{{\"type\":\"ADDED\",\"object\":{{\"spec\":{deep}"))
        }),
        case("object 12", stage, "", SMALL, bytes_then_silence(JSON, "{\"type\":\"ADDED\",\"object\":12}\n")),
        case("object {}", stage, " name", SMALL, {
            // A complete list, except for the name of `b`.
            let events =
                event("ADDED", &pod("a", "9")) + "{\"type\":\"ADDED\",\"object\":{}}\n" + &bookmark("11");
            bytes_then_silence(JSON, events)
        }),
        case("unknown type of 100 KB", stage, "invalid event: unknown type `xxxx", SMALL, {
            bytes_then_silence(JSON, event(&"x".repeat(100 << 10), &pod("a", "9")))
        }),
        case("another kind", stage, "invalid event: expected v1/Pod, found", SMALL, {
            bytes_then_silence(
                JSON,
                event("ADDED", &json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}})),
            )
        }),
        case("length bomb in protobuf", stage, "the length is implausible", SMALL, {
            bytes_then_silence(PROTOBUF, [0xff; 8])
        }),
        case("error event with a message of 1 MiB", stage, "mmmm", ONE_OBJECT, {
            let status =
                json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "m".repeat(1 << 20)});
            bytes_then_silence(JSON, event("ERROR", &status))
        }),
    ];
    match stage {
        Stage::Watch => {
            for version in ["abc", "-5", "1000000000000000000000000000000"] {
                cases.push(case("version", stage, "400 BadRequest: invalid resource version", SMALL, {
                    bytes(JSON, bookmark(version))
                }));
            }
        }
        _ => cases.push(case("version of 100 KB", stage, "its resourceVersion has 102400 bytes", SMALL, {
            bytes_then_silence(JSON, bookmark(&"7".repeat(100 << 10)))
        })),
    }
    cases
}

#[tokio::test]
async fn promise_1_hostile_servers_are_reported_survived_and_bounded() {
    let _turn = TURN.lock().await;
    let mut cases = vec![
        case("closed", Stage::Connect, "connection broken: ", SMALL, bytes("", "")),
        case("endless greeting", Stage::Connect, "connection broken: ", SMALL, endless("220 smtp ")),
        case("silence, then closed", Stage::Connect, "connection broken: ", SMALL, bytes("HTTP/1.1", "")),
        case("endless 100 Continue", Stage::List, "nothing received for 1.2s", SMALL, {
            forever(lines("HTTP/1.1 100 Continue\r\n\r\n"))
        }),
        case(
            "headers without an end",
            Stage::Watch,
            "timed out after 500ms waiting for the response",
            SMALL,
            bytes_then_silence("HTTP/1.1 200 OK\r\n", ""),
        ),
        case(
            "gzip bomb with compress_lists",
            Stage::List,
            "response too large: more than 33554432 bytes uncompressed",
            SMALL,
            {
                let head = JSON.replace("\r\n\r\n", "\r\ncontent-encoding: gzip\r\n\r\n");
                bytes(&head, gzip(&[b' '; 64 << 10], 1024))
            },
        ),
        case("broken gzip with compress_lists", Stage::List, "", SMALL, {
            bytes(&JSON.replace("\r\n\r\n", "\r\ncontent-encoding: gzip\r\n\r\n"), "no gzip at all")
        }),
        case("tokens in circles", Stage::Page, "the server repeats a `continue` token", SMALL, {
            let turn = Arc::new(AtomicUsize::new(0));
            Arc::new(move |stream| {
                let mut page = list("10", &[pod("b", "10")]);
                page["metadata"]["continue"] = json!(["x", "y"][turn.fetch_add(1, Ordering::Relaxed) % 2]);
                answer_json("200 OK", &page)(stream)
            })
        }),
    ];
    for stage in [Stage::List, Stage::Page] {
        cases.extend(responses(stage));
        cases.extend(of_lists(stage));
    }
    for stage in [Stage::WatchList, Stage::Watch] {
        cases.extend(responses(stage));
        cases.extend(of_watches(stage));
    }
    run_all(&cases).await;
}

#[tokio::test]
async fn a_redirect_is_an_error_and_no_other_server_is_contacted() {
    let _turn = TURN.lock().await;
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = elsewhere.local_addr().unwrap();
    let mut cases = Vec::new();
    for stage in [Stage::List, Stage::Page, Stage::WatchList, Stage::Watch] {
        for code in
            ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"]
        {
            let head =
                format!("HTTP/1.1 {code}\r\nlocation: http://{address}/login\r\nconnection: close\r\n\r\n");
            cases.push(case("redirect", stage, "but redirects are not followed", SMALL, bytes(&head, "")));
        }
    }
    run_all(&cases).await;
    // If the client had followed the redirect, its connection would be in the listener's queue.
    let connected = tokio::time::timeout(Duration::ZERO, elsewhere.accept()).await;
    assert!(connected.is_err(), "{connected:?}");
}

#[tokio::test]
async fn strange_but_valid_objects_are_accepted_within_bounds() {
    let _turn = TURN.lock().await;
    let labels = (0..100_000).map(|n| (format!("label-{n}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    let mut labelled = pod("b", "12");
    labelled["metadata"]["labels"] = Value::Object(labels);
    let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let nested = pod("b", "12").to_string().replacen('{', &format!("{{\"spec\":{deep},"), 1);
    let utf8 = [
        br#"{"metadata":{"namespace":"web","name":"b","uid":"uid-b","resourceVersion":"12"},"spec":{"x":""#,
        &[0xff, 0xfe][..],
        br#""}}"#,
    ]
    .concat();
    // The last member counts, as for client-go.
    let duplicates =
        br#"{"metadata":{"namespace":"web","name":"b","uid":"uid-b","name":"a","resourceVersion":"7",
        "name":"b","resourceVersion":"12"},"spec":1,"spec":2}"#;
    let objects = [
        ("labels", labelled.to_string().into_bytes()),
        ("nesting", nested.into_bytes()),
        ("UTF-8", utf8),
        ("duplicate members", duplicates.map(|byte| if byte == b'\n' { b' ' } else { byte }).to_vec()),
    ];
    let mut wrong = Vec::new();
    for (name, object) in objects {
        for stage in [Stage::List, Stage::Page, Stage::WatchList, Stage::Watch] {
            match accepted(stage, &object).await {
                Ok(held) if held <= ONE_OBJECT => {}
                Ok(held) => wrong.push(format!("{name} in {stage:?}: {} KiB", held >> 10)),
                Err(why) => wrong.push(format!("{name} in {stage:?}: {why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sends pod `b` of version 12 as these bytes. Returns how much memory that takes, or what the client reports.
async fn accepted(stage: Stage, object: &[u8]) -> Result<usize, String> {
    let first = pod("a", "9").to_string();
    let line = |kind: &str, object: &[u8]| {
        // Of duplicate members, the last counts.
        let ignored = r#"{"type":"DELETED","object":{"metadata":{"namespace":"web","name":"a"}}"#;
        [format!("{ignored},\"type\":\"{kind}\",\"object\":").as_bytes(), object, b"}\n"].concat()
    };
    let answer = match stage {
        // The first page has pod `a`.
        Stage::Page => bytes(JSON, list_with(object)),
        Stage::Watch => bytes_then_silence(JSON, line("MODIFIED", object)),
        Stage::WatchList => {
            let events =
                [line("ADDED", first.as_bytes()), line("ADDED", object), initial_end("12").into_bytes()];
            bytes_then_silence(JSON, events.concat())
        }
        _ => bytes(JSON, list_with([first.as_bytes(), b",", object].concat())),
    };
    let server = RawServer::start(stage, answer).await;
    let mut client = Client::start(server.config(), ClusterConfig::default(), quick(stage));
    client.has(&state_in(Mood::Before)).await;
    let baseline = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    server.enter(Mood::Hostile);
    let mut expected = state_in(Mood::Before);
    expected.insert("web/b".to_owned(), "12".to_owned());
    let stored = client.states.wait_for(|states| states.last() == Some(&expected));
    if tokio::time::timeout(PATIENCE, stored).await.is_err() {
        return Err(format!(
            "{:?} stored, {:?} reported",
            state_of(&client.store),
            client.reports.try_recv()
        ));
    }
    server.enter(Mood::After);
    client.has(&state_in(Mood::After)).await;
    let held = MEMORY.peak_usage().saturating_sub(baseline);
    client.tasks.shutdown().await;
    Ok(held)
}

#[tokio::test]
async fn an_event_with_an_older_version_changes_nothing() {
    let _turn = TURN.lock().await;
    let older = event("MODIFIED", &pod("a", "5")) + &event("DELETED", &pod("b", "5"));
    let server = RawServer::start(Stage::Watch, bytes_then_silence(JSON, older)).await;
    let mut client = Client::start(server.config(), ClusterConfig::default(), quick(Stage::Watch));
    client.has(&state_in(Mood::Before)).await;
    let watches = client.status.borrow().watches;
    server.enter(Mood::Hostile);
    let watched = client.status.wait_for(|status| status.watches > watches);
    tokio::time::timeout(PATIENCE, watched).await.unwrap().unwrap();
    server.enter(Mood::After);
    client.has(&state_in(Mood::After)).await;
    let expected = [state_in(Mood::Before), state_in(Mood::After)];
    assert!(
        client.states.borrow().iter().all(|state| expected.contains(state)),
        "{:?}",
        client.states.borrow()
    );
    client.tasks.shutdown().await;
}

#[tokio::test]
async fn a_connection_that_fails_is_reported_with_its_cause() {
    let _turn = TURN.lock().await;
    // Nothing listens there.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let report = |config| async {
        let mut client = Client::start(config, ClusterConfig::default(), quick(Stage::List));
        let report = client.report().await;
        client.tasks.shutdown().await;
        report
    };
    let refused = report(Config::new(format!("http://{address}").parse().unwrap())).await;
    assert!(refused.contains("cannot connect to the API server: "), "{refused}");
    assert!(refused.contains("onnection refused (os error 111); check the address"), "{refused}");
    assert_eq!(refused.matches("onnection refused").count(), 1, "{refused}");
    // A server that does not speak TLS.
    let server = RawServer::start(Stage::Connect, endless("220 smtp ")).await;
    server.enter(Mood::Hostile);
    let mut config = server.config();
    config.cluster_url = config.cluster_url.to_string().replace("http:", "https:").parse().unwrap();
    let no_tls = report(config).await;
    assert!(no_tls.contains("cannot connect to the API server: "), "{no_tls}");
    assert!(!no_tls.contains("ServiceError") && no_tls.len() < REPORT_BYTES_MAX, "{no_tls}");
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_reported_with_its_cause() {
    let _turn = TURN.lock().await;
    let certified = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let (server, other) = (certified("127.0.0.1"), certified("127.0.0.1"));
    let key = rustls::pki_types::PrivateKeyDer::try_from(server.signing_key.serialize_der()).unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![server.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::new(format!("https://{}", listener.local_addr().unwrap()).parse().unwrap());
    config.root_cert = Some(vec![other.cert.der().to_vec()]);
    tokio::spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
        while let Ok((stream, _)) = listener.accept().await {
            let _ = acceptor.accept(stream).await;
        }
    });
    let mut client = Client::start(config, ClusterConfig::default(), quick(Stage::List));
    let report = client.report().await;
    client.tasks.shutdown().await;
    let says = "cannot list: cannot connect to the API server: invalid peer certificate: ";
    assert!(report.contains(says), "{report}");
}

// === one byte at a time: without sockets, with paused time ===

/// Nothing but this text, a byte every `pause`.
async fn overdue(text: &str, pause: Duration) -> (SourceError, Duration) {
    let text = text.to_owned();
    let source = answering(move |_| http::Response::new(trickle(&text, 1, pause)));
    let mut options = WatchOptions::default();
    options.timeout = Some(Duration::from_secs(300));
    let began = Instant::now();
    let mut events = source.watch(options).await.unwrap();
    let Some(Err(error)) = events.next().await else { panic!("no error") };
    (error, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_dripping_watch_ends_a_minute_after_its_time() {
    let drip = Duration::from_secs(29);
    let (error, after) = overdue(&"\n".repeat(1000), drip).await;
    assert_eq!(error.to_string(), "the watch did not end after 300s as requested");
    assert_eq!(after, Duration::from_secs(360));
    let (error, after) = overdue(&event("ADDED", &pod("a", &"7".repeat(1000))), drip).await;
    assert_eq!(
        error.to_string(),
        "the watch did not end after 300s as requested, and its last event is incomplete"
    );
    assert_eq!(after, Duration::from_secs(360));
    // Even if there is always another byte.
    let source = answering(|_| {
        let newlines = futures::stream::repeat_with(|| pieces("\n", 1, Duration::from_millis(10))).flatten();
        http::Response::new(http_body_util::BodyExt::boxed_unsync(http_body_util::StreamBody::new(newlines)))
    });
    let mut options = WatchOptions::default();
    options.timeout = Some(Duration::from_secs(300));
    let error = source.watch(options).await.unwrap().next().await.unwrap().unwrap_err();
    assert!(matches!(error, SourceError::Overdue { within_event: false, .. }), "{error}");
}

/// An informer whose lists are good, and what it reported.
fn informer(
    watches: impl Fn() -> support::bodies::Trickle + Clone + Send + Sync + 'static,
) -> (Informer<Pod>, Arc<parking_lot::Mutex<Vec<String>>>, Arc<AtomicUsize>) {
    let lists = Arc::new(AtomicUsize::new(0));
    let listed = lists.clone();
    let source = answering(move |request| {
        let query = request.uri().query().unwrap_or_default();
        http::Response::new(match query.contains("watch=") {
            true => watches(),
            false => {
                listed.fetch_add(1, Ordering::Relaxed);
                whole(&list_of(10))
            }
        })
    });
    let reports = Arc::<parking_lot::Mutex<Vec<String>>>::default();
    let reported = reports.clone();
    let informer = Informer::<Pod>::from_source(Arc::new(source)).reflector(support::listing());
    let informer = informer.on_error(move |report| reported.lock().push(report.to_string()));
    (informer.start().unwrap(), reports, lists)
}

#[tokio::test(start_paused = true)]
async fn an_event_that_never_ends_is_followed_by_a_relist() {
    let text = event("ADDED", &pod("a", &"7".repeat(5000)));
    let (pods, reports, lists) = informer(move || trickle(&text, 1, Duration::from_secs(29)));
    pods.synced().await.unwrap();
    // Two watches of at most 10 minutes, and a minute each.
    tokio::time::sleep(Duration::from_secs(23 * 60)).await; // paused time: nothing sleeps
    let reports = reports.lock().clone();
    assert!(reports[0].contains("its last event is incomplete; resuming"), "{reports:?}");
    assert!(reports[1].contains("its last event is incomplete; relisting"), "{reports:?}");
    assert!(lists.load(Ordering::Relaxed) > 1, "{reports:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_newlines_is_resumed_and_nothing_is_lost() {
    let (pods, reports, _) = informer(|| trickle(&"\n".repeat(10_000), 1, Duration::from_secs(29)));
    pods.synced().await.unwrap();
    tokio::time::sleep(Duration::from_secs(23 * 60)).await; // paused time: nothing sleeps
    let reports = reports.lock().clone();
    assert!(reports.len() >= 2, "{reports:?}");
    assert!(reports.iter().all(|report| report.contains("as requested; resuming")), "{reports:?}");
    assert_eq!(pods.lister().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_absurd_retry_after_delays_by_ten_minutes_at_most() {
    for retry_after in ["10000000000000000000", "18446744073709551615", "99999999999999999999999", "-1"] {
        let is_first = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let source = answering(move |request| {
            let mut answer =
                http::Response::new(match request.uri().query().unwrap_or_default().contains("watch=") {
                    true => trickle("\n", 1, Duration::MAX),
                    false => whole(&list_of(10)),
                });
            if is_first.swap(false, Ordering::Relaxed) {
                *answer.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
                answer.headers_mut().insert(http::header::RETRY_AFTER, retry_after.parse().unwrap());
            }
            answer
        });
        let began = Instant::now();
        let pods =
            Informer::<Pod>::from_source(Arc::new(source)).reflector(support::listing()).start().unwrap();
        pods.synced().await.unwrap();
        assert!(began.elapsed() <= Duration::from_secs(600), "{retry_after}: {:?}", began.elapsed());
    }
}
