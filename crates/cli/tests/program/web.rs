//! The query API, the event stream and the page of `serve` and `demo`, as a client sees them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use embedded_apiserver::{Action, Fault, Match, Verb};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::support::{Running, World};

/// In the data of a Secret, and in kubectl's copies of objects.
const VALUE: &str = "aHVudGVyMi1wbGFudGVk";
const COPY: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Everything that the page may load and do.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types 'none'";

/// The answer to a request.
struct Reply {
    code: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The message of a `Status`.
    fn refusal(&self) -> (u16, String) {
        let status = self.json();
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(self.code)), "{status}");
        (self.code, status["message"].as_str().unwrap().to_owned())
    }
}

/// A running `serve` or `demo`.
struct Site {
    process: Running,
    address: SocketAddr,
}

impl Site {
    async fn serve(world: &World, arguments: &[&str]) -> Self {
        let mut process = world.start(&[&["serve", "--port", "0"], arguments].concat());
        let line = process.line_with(&["mirroring"]).await;
        let site = Self { process, address: address(&line) };
        while site.get("/readyz").await.code != 200 {
            tokio::task::yield_now().await;
        }
        site
    }

    async fn demo(world: &World, arguments: &[&str]) -> Self {
        let mut process = world.start(&[&["demo", "--quiet"], arguments].concat());
        let line = process.line_with(&["page: "]).await;
        let site = Self { process, address: address(&line) };
        site.process_line("mirrored").await
    }

    async fn process_line(mut self, text: &str) -> Self {
        self.process.line_with(&[text]).await;
        self
    }

    async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "").await
    }

    async fn send(&self, method: &str, path: &str, headers: &str) -> Reply {
        self.send_as("localhost", method, path, headers).await
    }

    async fn send_as(&self, host: &str, method: &str, path: &str, headers: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let split = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..split].to_vec()).unwrap();
        let headers: BTreeMap<_, _> = head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let body = &answer[split + 4..];
        let body = match headers.get("transfer-encoding").map(String::as_str) {
            Some("chunked") => unchunked(body),
            _ => body.to_vec(),
        };
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { code, headers, body: String::from_utf8(body).unwrap() }
    }

    /// Opens the event stream.
    async fn stream(&self, query: &str, headers: &str) -> Events {
        let (reader, mut writer) = TcpStream::connect(self.address).await.unwrap().into_split();
        let request = format!("GET /api/v1/stream{query} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        writer.write_all(request.as_bytes()).await.unwrap();
        Events { lines: BufReader::new(reader).lines(), bytes: 0, _writer: writer }
    }
}

/// The body of an answer in chunks.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|window| window == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 2 + size + 2..];
    }
}

fn address(line: &str) -> SocketAddr {
    line.split("http://").nth(1).unwrap().split('/').next().unwrap().parse().unwrap()
}

/// An open event stream.
struct Events {
    lines: Lines<BufReader<OwnedReadHalf>>,
    /// Bytes of the lines that were read.
    bytes: u64,
    _writer: OwnedWriteHalf,
}

/// One event: its name, its id and its data.
#[derive(Debug)]
struct StreamEvent {
    name: String,
    id: String,
    data: Value,
}

impl Events {
    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<StreamEvent> {
        let mut event = StreamEvent { name: String::new(), id: String::new(), data: Value::Null };
        loop {
            let line = self.lines.next_line().await.ok()??;
            self.bytes += line.len() as u64 + 1;
            if let Some(name) = line.strip_prefix("event: ") {
                event.name = name.to_owned();
            } else if let Some(id) = line.strip_prefix("id: ") {
                event.id = id.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                event.data = serde_json::from_str(data).unwrap();
            } else if line.is_empty() && !event.name.is_empty() {
                return Some(event);
            }
        }
    }

    /// The next event with this name.
    async fn named(&mut self, name: &str) -> StreamEvent {
        loop {
            let event = self.next().await.expect("the stream goes on");
            if event.name == name {
                return event;
            }
        }
    }
}

/// A server with pods and planted values.
async fn world() -> World {
    let world = World::populated().await;
    let applied = json!({"data": {"pw": VALUE}}).to_string();
    let secret = json!({"metadata": {"name": "planted", "annotations": {COPY: applied.clone()}}, "data": {"pw": VALUE}});
    world.create("/api/v1/namespaces/default/secrets", secret).await;
    let map = json!({"metadata": {"name": "settings", "annotations": {COPY: applied, "team": "red"}}, "data": {"colour": "blue"}});
    world.create("/api/v1/namespaces/default/configmaps", map).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_come_as_json_ndjson_and_yaml() {
    let world = world().await;
    let site = Site::serve(&world, &["pods", "-A"]).await;
    let list = site.get("/api/v1/objects/pods").await;
    assert_eq!(list.headers["content-type"], "application/json");
    let list = list.json();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("List"), 3));
    assert_eq!(list["items"][0]["kind"], "Pod");
    assert!(list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().is_ok());

    let lines = site.get("/api/v1/objects/pods?format=ndjson").await.body;
    let names: Vec<_> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["metadata"]["name"].clone())
        .collect();
    assert_eq!(names.len(), 3, "{lines}");
    let yaml = site.send("GET", "/api/v1/objects/pods?namespace=shop", "accept: application/yaml\r\n").await;
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    assert!(yaml.body.starts_with("---\napiVersion: v1\nkind: Pod\n"), "{}", yaml.body);

    let pod = site.get("/api/v1/objects/pods/shop/web-1").await.json();
    assert_eq!(pod["spec"]["nodeName"], "node-7");
    let yaml = site.get("/api/v1/objects/pods/shop/web-1?format=yaml").await.body;
    assert!(yaml.contains("\n  nodeName: node-7\n"), "{yaml}");
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_selected_by_namespace_labels_fields_index_and_text() {
    let world = world().await;
    let site = Site::serve(&world, &["pods", "-A", "--index", "spec.nodeName"]).await;
    for (query, expected) in [
        ("", &["api-1", "api-2", "web-1"][..]),
        ("namespace=shop", &["web-1"]),
        ("labels=app%3Dapi", &["api-1", "api-2"]),
        ("field=spec.nodeName%3Dnode-7", &["api-1", "web-1"]),
        ("field=spec.nodeName%3Dnode-7&field=metadata.namespace%3Ddefault", &["api-1"]),
        ("index=spec.nodeName&value=node-7", &["api-1", "web-1"]),
        ("index=spec.nodeName&value=node-9", &[]),
        ("text=WEB", &["web-1"]),
        ("text=shop/", &["web-1"]),
    ] {
        let list = site.get(&format!("/api/v1/objects/pods?limit=100&{query}")).await.json();
        let names: Vec<_> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{query}");
        // Without a limit the order is another, but not the objects.
        let all = site.get(&format!("/api/v1/objects/pods?format=ndjson&{query}")).await.body;
        assert_eq!(all.lines().count(), expected.len(), "{query}");
    }
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_sorted_and_count_what_is_left() {
    let world = World::new().await;
    for number in (0..25).rev() {
        world.create_pod("default", &format!("pod-{number:02}"), "node-1").await;
    }
    let site = Site::serve(&world, &["pods", "-A"]).await;
    let mut names = Vec::new();
    for offset in [0, 10, 20, 30] {
        let path = format!("/api/v1/objects/pods?limit=10&offset={offset}&column=spec.nodeName");
        let page = site.get(&path).await.json();
        let items = page["items"].as_array().unwrap();
        let left = 25_usize.saturating_sub(offset + 10);
        assert_eq!(page["metadata"]["remainingItemCount"], left, "{offset}");
        for item in items {
            assert_eq!(item["columns"], json!(["node-1"]));
            names.push(item["name"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(names, (0..25).map(|number| format!("pod-{number:02}")).collect::<Vec<_>>());
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_group_by_one_or_two_fields() {
    let world = world().await;
    let site = Site::serve(&world, &["pods", "-A"]).await;
    let counts = site.get("/api/v1/counts/pods?by=spec.nodeName").await.json();
    assert_eq!(counts["objects"], 3);
    assert_eq!(
        counts["groups"],
        json!([{"values": ["node-7"], "count": 2}, {"values": ["node-8"], "count": 1}])
    );
    let counts = site.get("/api/v1/counts/pods?by=status.phase&by=metadata.namespace&limit=1").await.json();
    assert_eq!((&counts["groupCount"], counts["groups"].as_array().unwrap().len()), (&json!(2), 1));
    assert_eq!(counts["groups"][0], json!({"values": ["Pending", "default"], "count": 2}));
    assert_eq!(counts["omitted"], 1, "the groups beyond the limit are counted together");
    let counts =
        site.get("/api/v1/counts/pods?field=metadata.namespace%3Dshop&by=spec.hostname").await.json();
    assert_eq!(counts["groups"], json!([{"values": [null], "count": 1}]));
    assert_eq!(site.get("/api/v1/counts/pods").await.json()["objects"], 3);
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused_with_the_reason() {
    let world = world().await;
    let site = Site::serve(&world, &["pods,deploy", "-A"]).await;
    for (path, code, words) in [
        (
            "/api/v1/objects/widgets",
            404,
            "\"widgets\" is not mirrored; mirrored resources: pods, deployments.apps",
        ),
        ("/api/v1/objects/pods/shop/nothing", 404, "no object pods shop/nothing"),
        ("/api/v1/objects/pods?colour=red", 400, "unknown parameter \"colour\""),
        ("/api/v1/objects/pods?namespace=a&namespace=b", 400, "more than once"),
        ("/api/v1/objects/pods?labels=%3D%3D", 400, "selector"),
        ("/api/v1/objects/pods?field=spec..x%3D1", 400, "spec..x"),
        ("/api/v1/objects/pods?field=spec.nothing%3D1", 400, "spec.nothing"),
        ("/api/v1/objects/pods?index=spec.nodeName&value=x", 400, "unknown index"),
        ("/api/v1/objects/pods?index=spec.nodeName", 400, "together"),
        ("/api/v1/objects/pods?limit=many", 400, "from 0 to 10000"),
        ("/api/v1/objects/pods?format=xml", 400, "json, ndjson or yaml"),
        ("/api/v1/objects/pods?column=spec..x", 400, "spec..x"),
        ("/api/v1/counts/pods?by=a&by=b&by=c", 400, "more than 2 paths"),
        ("/api/v1/stream?kind=widgets", 404, "widgets"),
        ("/api/v1/stream?field=spec.nothing%3D1", 400, "spec.nothing"),
        ("/api/v1/demo", 404, "only the demo"),
    ] {
        let (found, message) = site.get(path).await.refusal();
        assert_eq!(found, code, "{path}: {message}");
        assert!(message.contains(words), "{path}: {message}");
    }
    // The plural alone is enough where it is unambiguous.
    assert_eq!(site.get("/api/v1/objects/deployments/shop/web").await.json()["kind"], "Deployment");
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_values_of_secrets_are_masked_and_filters_on_them_are_forbidden() {
    let world = world().await;
    let site = Site::serve(&world, &["secrets,configmaps", "-A"]).await;
    let copy = "metadata.annotations%5B%27kubectl.kubernetes.io/last-applied-configuration%27%5D";
    for path in [
        format!("/api/v1/objects/secrets?field=data.pw%3D{VALUE}"),
        "/api/v1/objects/secrets?column=data.pw".to_owned(),
        "/api/v1/objects/secrets?field=%7B.data%5B%27pw%27%5D%7D".to_owned(),
        "/api/v1/objects/secrets?index=data.pw&value=x".to_owned(),
        "/api/v1/counts/secrets?by=data.pw".to_owned(),
        format!("/api/v1/counts/secrets?by={copy}"),
        format!("/api/v1/counts/configmaps?by={copy}"),
        format!("/api/v1/stream?field=data.pw%3D{VALUE}"),
    ] {
        let (code, message) = site.get(&path).await.refusal();
        assert_eq!(code, 403, "{path}: {message}");
        assert!(message.contains("masked") && !message.contains(VALUE), "{path}: {message}");
    }
    let mut stream = site.stream("", "").await;
    stream.named("status").await;
    let changed =
        json!({"data": {"pw": "bmV3LXBsYW50ZWQ="}, "metadata": {"annotations": {COPY: "bmV3LXBsYW50ZWQ"}}});
    world.patch("/api/v1/namespaces/default/secrets/planted", changed.clone()).await;
    let change = stream.named("change").await;
    assert!(
        change.data["differences"]
            .as_array()
            .unwrap()
            .iter()
            .any(|difference| { *difference == json!({"path": "data.pw", "before": "***", "after": "***"}) }),
        "{change:?}"
    );
    world
        .patch("/api/v1/namespaces/default/configmaps/settings", json!({"metadata": changed["metadata"]}))
        .await;
    let other = stream.named("change").await;

    let mut texts = vec![change.data.to_string(), other.data.to_string()];
    for path in [
        "/api/v1/objects/secrets",
        "/api/v1/objects/secrets?format=ndjson",
        "/api/v1/objects/secrets?format=yaml",
        "/api/v1/objects/secrets/default/planted",
        "/api/v1/history/secrets/default/planted",
        "/api/v1/history/configmaps/default/settings",
        &format!("/api/v1/changes/{}", change.id),
        &format!("/api/v1/changes/{}", other.id),
        "/api/v1/graph/secrets/default/planted",
        "/api/v1/indexes/secrets/default/planted",
        "/api/v1/counts/secrets?by=type",
        "/api/v1/informers",
        "/debug/informers",
        "/metrics",
    ] {
        let reply = site.get(path).await;
        assert_eq!(reply.code, 200, "{path}: {}", reply.body);
        texts.push(reply.body);
    }
    for text in &texts {
        assert!(!text.contains("bmV3LXBsYW50ZWQ") && !text.contains(VALUE), "{text}");
        assert!(!text.contains("***0") && !text.contains("***a"), "a fingerprint is shown: {text}");
    }
    // Of other kinds, only kubectl's copy is masked.
    let map = site.get("/api/v1/objects/configmaps/default/settings").await.json();
    assert_eq!(
        (&map["data"]["colour"], &map["metadata"]["annotations"][COPY]),
        (&json!("blue"), &json!("***"))
    );
    assert_eq!(site.get("/api/v1/counts/configmaps?by=data.colour").await.code, 200);
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_serve_refuses_to_index_masked_values() {
    let world = world().await;
    for (kinds, path) in [
        ("secrets", "data.pw"),
        ("pods,secrets", "{.data['pw']}"),
        ("secrets", "stringData.pw"),
        ("configmaps", "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']"),
    ] {
        let ended = world.run(&["serve", kinds, "-A", "--port", "0", "--index", path]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{path}: {ended:?}");
        assert!(
            ended.stderr.contains("cannot index") && ended.stderr.contains("masked"),
            "{path}: {ended:?}"
        );
    }
    let site = Site::serve(&world, &["configmaps", "-A", "--index", "data.colour"]).await;
    assert_eq!(site.get("/api/v1/objects/configmaps?index=data.colour&value=blue").await.code, 200);
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_brings_changes_with_differences_and_can_be_resumed() {
    let world = world().await;
    let site = Site::serve(&world, &["pods,deploy", "-A"]).await;
    let mut stream = site.stream("?kind=pods", "").await;
    let hello = stream.named("hello").await;
    let status = stream.named("status").await;
    assert_eq!(status.data["informers"][0]["objects"], 3);

    world.set_phase("shop", "web-1", "Running").await;
    let first = stream.named("change").await;
    assert_eq!((&first.data["type"], &first.data["name"]), (&json!("MODIFIED"), &json!("web-1")));
    let phase = json!({"path": "status.phase", "before": "Pending", "after": "Running"});
    assert_eq!(first.data["differences"][0], phase);
    assert!(first.id.starts_with(hello.data["session"].as_str().unwrap()), "{first:?}");
    drop(stream);

    // Changes during the disconnect are sent next, and none is sent twice.
    world.create_pod("shop", "web-2", "node-7").await;
    world.delete("/api/v1/namespaces/shop/pods/web-2").await;
    let mut resumed = site.stream("?kind=pods", &format!("last-event-id: {}\r\n", first.id)).await;
    let mut types = Vec::new();
    while types.last() != Some(&json!("DELETED")) {
        types.push(resumed.named("change").await.data["type"].clone());
    }
    assert_eq!(types[0], "ADDED", "{types:?}");

    // Another run of the program has other numbers: the client is informed that it missed something.
    let mut stranger = site.stream("", "last-event-id: 0000000000000000-7\r\n").await;
    let skipped = stranger.named("skipped").await;
    assert!(skipped.data["reason"].as_str().unwrap().contains("restarted"), "{skipped:?}");

    // History is what was recorded of one object.
    let history = site.get("/api/v1/history/pods/shop/web-1").await.json();
    assert_eq!(history["changes"][0]["differences"][0], phase);
    assert_eq!(history["complete"], true);
    let gone = site.get("/api/v1/history/pods/shop/web-2").await.json();
    assert_eq!(gone["changes"][0]["type"], "DELETED");

    // The end of the program ends the stream.
    site.process.interrupt();
    while stranger.next().await.is_some() {}
    assert_eq!(site.process.end().await, 0);
}

/// The events of a resumed stream up to this change, without `hello` and `status`.
async fn missed_until(site: &Site, last_id: &str, name: &str) -> Vec<StreamEvent> {
    let mut stream = site.stream("", &format!("last-event-id: {last_id}\r\n")).await;
    let mut missed = Vec::new();
    loop {
        let event = stream.next().await.unwrap();
        let is_last = event.data["name"] == name;
        if matches!(event.name.as_str(), "change" | "skipped") {
            missed.push(event);
        }
        if is_last {
            return missed;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_stream_brings_the_newest_changes_after_the_gap() {
    let world = world().await;
    let site = Site::serve(&world, &["configmaps", "-A"]).await;
    let mut stream = site.stream("", "").await;
    stream.named("status").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    world.create(maps, json!({"metadata": {"name": "first"}})).await;
    let first = stream.named("change").await;
    drop(stream);
    let recorded = async |name: String| {
        while site.get(&format!("/api/v1/history/configmaps/default/{name}")).await.json()["total"] != 1 {
            tokio::task::yield_now().await;
        }
    };
    let names = |missed: &[StreamEvent]| {
        missed.iter().map(|event| event.data["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let expected = |from: usize, to: usize| (from..=to).map(|at| format!("map-{at}")).collect::<Vec<_>>();
    let create = async |from: usize, to: usize| {
        for name in expected(from, to) {
            world.create(maps, json!({"metadata": {"name": name}, "data": {"colour": "blue"}})).await;
        }
        recorded(format!("map-{to}")).await;
    };

    // As many as a new client can request.
    create(1, 100).await;
    let missed = missed_until(&site, &first.id, "map-100").await;
    assert_eq!(names(&missed), expected(1, 100));

    // If there are more, the newest ones follow the number of those left out.
    create(101, 150).await;
    let missed = missed_until(&site, &first.id, "map-150").await;
    assert_eq!((missed[0].name.as_str(), &missed[0].data["count"]), ("skipped", &json!(50)));
    assert_eq!(names(&missed[1..]), expected(51, 150));

    // Too large together: the same.
    let key = |at: usize| format!("{}-{at}", "k".repeat(150));
    let data: BTreeMap<_, _> = (0..10).map(|at| (key(at), "x".repeat(60))).collect();
    for name in expected(101, 150) {
        world.patch(&format!("{maps}/{name}"), json!({"data": data})).await;
    }
    world.create(maps, json!({"metadata": {"name": "last"}})).await;
    recorded("last".to_owned()).await;
    let missed = missed_until(&site, &missed.last().unwrap().id, "last").await;
    let (skipped, sent) = (&missed[0], &missed[1..]);
    let omitted = skipped.data["count"].as_u64().unwrap() as usize;
    assert_eq!((skipped.name.as_str(), omitted + sent.len()), ("skipped", 51));
    let mut newest = expected(101 + omitted, 150);
    newest.push("last".to_owned());
    assert_eq!(names(sent), newest);
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_an_object_survives_the_changes_of_others() {
    let world = world().await;
    let site = Site::serve(&world, &["pods,configmaps", "-A"]).await;
    let mut stream = site.stream("?kind=pods", "").await;
    stream.named("status").await;
    world.set_phase("shop", "web-1", "Running").await;
    let change = stream.named("change").await;
    drop(stream);
    // More than the journal keeps.
    let settings = "/api/v1/namespaces/default/configmaps/settings";
    for number in 0..4200 {
        world.patch(settings, json!({"data": {"number": number.to_string()}})).await;
    }
    let maps = "/api/v1/namespaces/default/configmaps";
    world.create(maps, json!({"metadata": {"name": "last"}})).await;
    while site.get("/api/v1/history/configmaps/default/last").await.json()["total"] != 1 {
        tokio::task::yield_now().await;
    }
    let history = site.get("/api/v1/history/pods/shop/web-1").await.json();
    assert_eq!((&history["total"], &history["complete"]), (&json!(1), &json!(true)), "{history}");
    assert_eq!(history["changes"][0]["id"], change.id);
    let detail = site.get(&format!("/api/v1/changes/{}", change.id)).await;
    let mut expected = history["changes"][0]["differences"].clone();
    expected[0]["segments"] = json!(["status", "phase"]);
    assert_eq!((detail.code, &detail.json()["differences"]), (200, &expected));

    // A history that has dropped changes says since when it is complete.
    let history = site.get("/api/v1/history/configmaps/default/settings").await.json();
    assert_eq!((&history["total"], &history["complete"]), (&json!(32), &json!(false)), "{history}");
    let oldest = history["changes"].as_array().unwrap().last().unwrap()["time"].as_i64().unwrap();
    let since = history["completeSince"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!((0..5000).contains(&(oldest - since.as_millisecond())), "{history}");
    let dropped = format!("{}-2", change.id.split_once('-').unwrap().0);
    assert_eq!(site.get(&format!("/api/v1/changes/{dropped}")).await.code, 404);
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_is_filtered_by_the_server() {
    let world = world().await;
    let site = Site::serve(&world, &["pods,deploy", "-A"]).await;
    let queries = [
        "?namespace=default",
        "?text=web-1",
        "?field=spec.nodeName%3Dnode-8",
        "?text=succeeded",
        "?kind=pods",
    ];
    let mut streams = Vec::new();
    for query in queries {
        let mut stream = site.stream(query, "").await;
        stream.named("status").await;
        streams.push(stream);
    }
    world.patch("/apis/apps/v1/namespaces/shop/deployments/web", json!({"spec": {"replicas": 5}})).await;
    world.set_phase("shop", "web-1", "Running").await;
    world.set_phase("default", "api-1", "Running").await;
    world.set_phase("default", "api-2", "Succeeded").await;
    for (stream, expected) in streams.iter_mut().zip(["api-1", "web-1", "api-2", "api-2", "web-1"]) {
        assert_eq!(stream.named("change").await.data["name"], expected);
    }
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_with_the_text_are_found_among_many_others() {
    let world = world().await;
    let site = Site::serve(&world, &["configmaps", "-A"]).await;
    let mut stream = site.stream("", "").await;
    stream.named("status").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    world.create(maps, json!({"metadata": {"name": "first"}})).await;
    let first = stream.named("change").await;
    drop(stream);
    world.create(maps, json!({"metadata": {"name": "needle"}})).await;
    for number in 0..150 {
        world.create(maps, json!({"metadata": {"name": format!("other-{number}")}})).await;
    }
    world.patch(&format!("{maps}/settings"), json!({"data": {"colour": "needle"}})).await;
    world.create(maps, json!({"metadata": {"name": "needle-last"}})).await;
    while site.get("/api/v1/history/configmaps/default/needle-last").await.json()["total"] != 1 {
        tokio::task::yield_now().await;
    }
    let expected = ["needle", "settings", "needle-last"];
    // A client that resumes, and a new one.
    let resumed = (String::new(), format!("last-event-id: {}\r\n", first.id));
    for (query, headers) in [resumed, ("&recent=100".to_owned(), String::new())] {
        let mut stream = site.stream(&format!("?text=needle{query}"), &headers).await;
        let mut names = Vec::new();
        while names.last().map(String::as_str) != Some("needle-last") {
            names.push(stream.named("change").await.data["name"].as_str().unwrap().to_owned());
        }
        assert_eq!(names, expected, "{query}");
    }
    // With a limit, the newest changes that match.
    let mut stream = site.stream("?text=needle&recent=2", "").await;
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &StreamEvent| event.data["name"] != "needle-last") {
        events.push(stream.next().await.unwrap());
    }
    let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["hello", "change", "change"]);
    assert_eq!(events[1].data["name"], "settings");
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_filter_rarely_matches_resumes_behind_the_changes_that_it_did_not_want() {
    let world = world().await;
    let site = Site::serve(&world, &["pods", "-A"]).await;
    let mut stream = site.stream("?namespace=shop", "").await;
    let session = stream.named("hello").await.data["session"].as_str().unwrap().to_owned();
    assert_eq!(stream.named("status").await.id, format!("{session}-0"));
    world.set_phase("default", "api-1", "Running").await;
    while stream.named("status").await.id != format!("{session}-1") {}
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_read_again_with_all_differences_and_whole_values() {
    let world = world().await;
    let site = Site::serve(&world, &["pods,configmaps", "-A"]).await;
    let mut stream = site.stream("", "").await;
    stream.named("status").await;
    let many: BTreeMap<_, _> = (0..30).map(|number| (format!("key-{number}"), "x".repeat(100))).collect();
    world.patch("/api/v1/namespaces/default/configmaps/settings", json!({"data": many.clone()})).await;
    let change = stream.named("change").await;
    assert_eq!(change.data["id"], change.id.as_str());
    assert_eq!((change.data["differences"].as_array().unwrap().len(), &change.data["more"]), (8, &json!(22)));
    let whole = site.get(&format!("/api/v1/changes/{}", change.id)).await.json();
    assert_eq!((whole["differences"].as_array().unwrap().len(), &whole["more"]), (30, &json!(0)));
    let value = &whole["differences"][0];
    assert_eq!((value.get("before"), &value["after"]), (None, &json!("x".repeat(100))));

    // Two changes as one, as the stream coalesces them.
    let longer = json!({"data": {"key-0": "y", "colour": "red"}});
    world.patch("/api/v1/namespaces/default/configmaps/settings", longer).await;
    let next = stream.named("change").await;
    let path = format!("/api/v1/changes/{}?first={}", next.id, change.data["sequence"]);
    let both = site.get(&path).await.json();
    assert_eq!((&both["coalesced"], both["differences"].as_array().unwrap().len()), (&json!(2), 31));
    let history = site.get("/api/v1/history/configmaps/default/settings?limit=1").await.json();
    assert_eq!((&history["total"], history["changes"].as_array().unwrap().len()), (&json!(2), 1));

    let session = change.id.split('-').next().unwrap();
    for missing in ["nothing", "0000000000000000-1", &format!("{session}-999"), &format!("{session}-x")] {
        assert_eq!(site.get(&format!("/api/v1/changes/{missing}")).await.refusal().0, 404, "{missing}");
    }
    world.set_phase("shop", "web-1", "Running").await;
    let other = stream.named("change").await;
    let path = format!("/api/v1/changes/{}?first={}", other.id, change.data["sequence"]);
    assert_eq!(site.get(&path).await.refusal().0, 400, "a change of another object");
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_beginning_of_a_stream_stays_within_the_budget() {
    let world = world().await;
    let site = Site::serve(&world, &["configmaps", "-A"]).await;
    let mut live = site.stream("", "").await;
    live.named("status").await;
    for number in 0..100 {
        let key = |at: usize| format!("{}-{at}", "k".repeat(150));
        let data: BTreeMap<_, _> =
            (0..10).map(|at| (key(at), format!("{number}-{}", "x".repeat(60)))).collect();
        world.patch("/api/v1/namespaces/default/configmaps/settings", json!({"data": data})).await;
    }
    // The journal has all of them once a later change arrives.
    let maps = "/api/v1/namespaces/default/configmaps";
    world.create(maps, json!({"metadata": {"name": "last"}})).await;
    while site.get("/api/v1/history/configmaps/default/last").await.json()["total"] != 1 {
        tokio::task::yield_now().await;
    }
    let mut stream = site.stream("?recent=100", "").await;
    assert_eq!(stream.next().await.unwrap().name, "hello");
    let skipped = stream.next().await.unwrap();
    assert_eq!(skipped.name, "skipped", "older changes are left out: {skipped:?}");
    let (mut sent, mut bytes, mut last) = (0, 0, String::new());
    loop {
        let event = stream.next().await.unwrap();
        if event.name != "change" {
            break;
        }
        sent += 1;
        bytes += event.data.to_string().len();
        last = event.data["name"].as_str().unwrap().to_owned();
    }
    assert_eq!(skipped.data["count"].as_u64().unwrap() + sent, 100);
    assert!(sent > 10 && bytes <= 64_000, "{sent} changes of {bytes} bytes");
    assert_eq!(last, "last", "the newest are sent");
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_back_off_in_one_of_several_namespaces_is_shown() {
    let world = world().await;
    let site = Site::serve(&world, &["pods", "-n", "default,shop"]).await;
    let informer = async || site.get("/api/v1/informers").await.json()["informers"][0].clone();
    while informer().await["state"]["state"] != "watching" {
        tokio::task::yield_now().await;
    }
    let before = informer().await;
    assert_eq!((&before["scopes"], &before["errors"]), (&json!({"count": 2, "watching": 2}), &json!(0)));
    let unavailable = Action::Status {
        code: 503,
        reason: "ServiceUnavailable".to_owned(),
        message: "planted".to_owned(),
        retry_after_seconds: 0,
    };
    for verb in [Verb::Watch, Verb::List] {
        let on = Match::verb(verb).resource("pods").namespace("shop");
        world.server.faults().arm(Fault::new(unavailable.clone()).on(on));
    }
    world.server.disconnect_all();
    // The other namespace recovers from the disconnection.
    let is_shown = |informer: &Value| {
        let state = &informer["state"];
        let names = (&state["state"], &state["namespace"], &informer["scopes"]["watching"]);
        names == (&json!("backing off"), &json!("shop"), &json!(1))
            && state["reason"].as_str().is_some_and(|reason| reason.contains("503"))
    };
    let mut found = informer().await;
    while !is_shown(&found) {
        tokio::task::yield_now().await;
        found = informer().await;
    }
    assert!(found["errors"].as_u64().unwrap() > 0, "{found}");
    // Each namespace has a version of its own. The list promises only the older one.
    world.set_phase("default", "api-1", "Running").await;
    let path = "/api/v1/objects/pods?limit=1";
    let versions = async || {
        let report = site.get("/debug/informers").await.json()["informers"][0].clone();
        let version = |at: usize| report["scopes"][at]["stored"].as_str().unwrap().parse::<u64>().unwrap();
        (version(0), version(1), report["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap())
    };
    let (mut first, mut second, mut complete) = versions().await;
    while first <= second {
        tokio::task::yield_now().await;
        (first, second, complete) = versions().await;
    }
    assert_eq!(complete, second);
    let list = site.get(path).await.json();
    assert_eq!(list["metadata"]["resourceVersion"], second.to_string());
    world.server.faults().clear();
    while informer().await["state"]["state"] != "watching" {
        tokio::task::yield_now().await;
    }
    assert_eq!(site.process.end().await, 0);
}

/// More than a stream sends in a second.
const CHANGES: u64 = 600;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_stays_within_its_rate_and_counts_what_it_leaves_out() {
    let world = World::new().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for number in 0..CHANGES {
        world.create(maps, json!({"metadata": {"name": format!("map-{number}")}})).await;
    }
    let site = Site::serve(&world, &["configmaps", "-A"]).await;
    let start = std::time::Instant::now();
    let mut stream = site.stream("", "").await;
    stream.named("status").await;
    // Together, the changes are several times larger than one second's budget.
    let key = |at: usize| format!("{}-{at}", "k".repeat(150));
    let data: BTreeMap<_, _> = (0..10).map(|at| (key(at), "x".repeat(60))).collect();
    for number in 0..CHANGES {
        world.patch(&format!("{maps}/map-{number}"), json!({"data": data})).await;
    }
    // Every change is either sent, part of a coalesced one, or counted.
    let mut accounted = 0;
    while accounted < CHANGES {
        let event = stream.next().await.unwrap();
        match event.name.as_str() {
            "change" => accounted += event.data["coalesced"].as_u64().unwrap(),
            "skipped" => accounted += event.data["count"].as_u64().unwrap(),
            _ => {}
        }
    }
    assert_eq!(accounted, CHANGES);
    // Sending what has arrived took the program at least this time, even if it was read slowly.
    let bytes_max = 256_000 * (start.elapsed().as_secs() + 1);
    assert!(stream.bytes <= bytes_max, "{} bytes in {:?}", stream.bytes, start.elapsed());
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_graph_shows_owners_and_owned_objects() {
    let world = World::new().await;
    let site = Site::demo(&world, &["--objects", "100", "--rate", "0.001"]).await;
    let pods = site.get("/api/v1/objects/pods?limit=1").await.json();
    let pod = &pods["items"][0];
    let (namespace, name) = (&pod["metadata"]["namespace"], &pod["metadata"]["name"]);
    let path = format!("/api/v1/graph/pods/{}/{}", namespace.as_str().unwrap(), name.as_str().unwrap());
    let graph = site.get(&path).await.json();
    let levels: Vec<_> = graph["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["kind"].clone(), node["level"].clone()))
        .collect();
    assert_eq!(
        levels,
        [(json!("Pod"), json!(0)), (json!("ReplicaSet"), json!(-1)), (json!("Deployment"), json!(-2))]
    );
    let deployment = graph["nodes"][2].clone();
    let path = format!(
        "/api/v1/graph/deployments/{}/{}",
        namespace.as_str().unwrap(),
        deployment["name"].as_str().unwrap()
    );
    let graph = site.get(&path).await.json();
    assert!(
        graph["nodes"].as_array().unwrap().iter().any(|node| node["name"] == *name && node["level"] == 2),
        "{graph}"
    );
    assert_eq!(graph["edges"].as_array().unwrap().len(), graph["nodes"].as_array().unwrap().len() - 1);
    let indexes = site
        .get(&format!("/api/v1/indexes/pods/{}/{}", namespace.as_str().unwrap(), name.as_str().unwrap()))
        .await
        .json();
    let rows = indexes["indexes"].as_array().unwrap();
    assert!(
        rows.contains(&json!({"name": "spec.nodeName", "values": [pod["spec"]["nodeName"]]})),
        "{indexes}"
    );
    // The index of the demo's controller.
    let owner = &pod["metadata"]["ownerReferences"][0]["uid"];
    assert!(rows.contains(&json!({"name": "owner-uid", "values": [owner]})), "{indexes}");
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_the_demo_can_be_switched_and_show_in_the_timeline() {
    let world = World::new().await;
    let site = Site::demo(&world, &["--objects", "100", "--rate", "50"]).await;
    let report = site.send("PUT", "/api/v1/demo/faults/unavailable", "").await.json();
    let fault =
        report["faults"].as_array().unwrap().iter().find(|fault| fault["name"] == "unavailable").unwrap();
    assert_eq!(fault["armed"], true);
    let backs_off = |informers: &Value| {
        let timeline = informers["informers"][0]["timeline"].as_array().unwrap().clone();
        timeline.iter().any(|segment| {
            segment["state"] == "backing off"
                && segment["reason"].as_str().is_some_and(|reason| reason.contains("503"))
        })
    };
    while !backs_off(&site.get("/api/v1/informers").await.json()) {
        tokio::task::yield_now().await;
    }
    site.send("DELETE", "/api/v1/demo/faults/unavailable", "").await;
    while site.get("/api/v1/informers").await.json()["informers"][0]["state"]["state"] != "watching" {
        tokio::task::yield_now().await;
    }
    assert_eq!(site.send("PUT", "/api/v1/demo/faults/fire", "").await.refusal().0, 404);
    let (code, message) = site.send("DELETE", "/api/v1/demo/faults/disconnect", "").await.refusal();
    assert_eq!((code, &*message), (400, "cannot switch off fault \"disconnect\": it happens once"));
    // A page from elsewhere cannot switch anything.
    let foreign = "origin: http://evil.example\r\n";
    assert_eq!(site.send("PUT", "/api/v1/demo/faults/slow", foreign).await.code, 403);
    let other_port = "origin: http://localhost:1\r\n";
    assert_eq!(site.send("PUT", "/api/v1/demo/faults/slow", other_port).await.code, 403);
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_counts_only_changes_that_were_made() {
    let world = World::new().await;
    // More than the loop can make, so most of them are dropped.
    let site = Site::demo(&world, &["--objects", "100", "--rate", "100000"]).await;
    let demo = loop {
        let demo = site.get("/api/v1/demo").await.json();
        if demo["simulatedChanges"].as_u64().unwrap() > 0 {
            break demo;
        }
    };
    assert!(demo["simulatedChanges"].as_u64() <= demo["revision"].as_u64(), "each takes a revision: {demo}");
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demos_clock_follows_the_timestamps_of_its_server() {
    let world = World::new().await;
    let site = Site::demo(&world, &["--objects", "100", "--rate", "50"]).await;
    let milliseconds = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let mut newest = 0;
    // Objects that are created while the demo runs have later timestamps.
    for _ in 0..3 {
        let newest_before = newest;
        while newest == newest_before {
            let pods = site.get("/api/v1/objects/pods").await.json();
            let created = pods["items"].as_array().unwrap().iter();
            let created =
                created.map(|pod| milliseconds(pod["metadata"]["creationTimestamp"].as_str().unwrap()));
            newest = created.max().unwrap();
        }
        loop {
            let clock = site.get("/api/v1/demo").await.json()["clock"].as_i64().unwrap();
            assert!(clock <= jiff::Timestamp::now().as_millisecond(), "{clock} is in the future");
            if clock >= newest {
                break;
            }
        }
    }
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demos_controller_shows_reconciles_and_failures_and_handlers_show_their_lag() {
    let world = World::new().await;
    let site = Site::demo(&world, &["--objects", "100", "--rate", "100"]).await;
    let mut events = site.stream("?kind=nodes", "").await;
    let is_armed =
        site.send("PUT", "/api/v1/demo/faults/failing", "").await.json()["faults"][4]["armed"].clone();
    assert_eq!(is_armed, true);
    let mut is_failing = true;
    loop {
        let status = events.named("status").await.data;
        let controller = &status["controllers"][0];
        let figure = |name: &str| controller[name].as_u64().unwrap_or(0);
        if is_failing && figure("failures") > 0 {
            assert_eq!(controller["name"], "availability");
            site.send("DELETE", "/api/v1/demo/faults/failing", "").await;
            is_failing = false;
        } else if !is_failing && figure("reconciles") > figure("failures") + 10 && figure("retries") > 0 {
            break;
        }
    }
    // Its writes come from a client of their own, and reach the mirrors.
    let clients = site.get("/api/v1/demo").await.json()["clients"].clone();
    assert!(clients.as_array().unwrap().iter().any(|client| client["name"] == "controller"), "{clients}");
    let report = site.get("/api/v1/informers").await.json();
    let names: Vec<_> = report["informers"][0]["handlers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|handler| &handler["name"])
        .collect();
    assert_eq!(names, ["journal", "terminal"]);
    assert!(!report["controllers"][0]["reconcilesPerSecond"].as_array().unwrap().is_empty(), "{report}");
}

/// The slots of each replica of the demo's controller.
fn slots(report: &Value) -> BTreeMap<&str, u64> {
    let replicas = report["sharing"].as_array().unwrap().iter();
    replicas
        .map(|replica| {
            assert_eq!(replica["name"], "availability", "{report}");
            (replica["replica"].as_str().unwrap(), replica["slots"].as_u64().unwrap())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demos_replicas_share_their_slots_and_hand_them_over() {
    let world = World::new().await;
    let site = Site::demo(&world, &["--objects", "100", "--rate", "100"]).await;
    let mut events = site.stream("?kind=nodes", "").await;
    // The first report may lack replicas, because it can be up to a second old.
    let sum = |slots: &BTreeMap<&str, u64>| slots.values().sum::<u64>();
    let shared = loop {
        let status = events.named("status").await.data;
        let slots = slots(&status);
        if sum(&slots) == 64 && slots.values().all(|slots| *slots > 0) {
            assert_eq!(slots.into_keys().collect::<Vec<_>>(), ["replica-1", "replica-2", "replica-3"]);
            break status;
        }
    };
    for replica in shared["sharing"].as_array().unwrap() {
        assert!(replica["members"] == 3 && replica["gained"].as_u64() > Some(0), "{replica}");
        assert!(replica["unownedSeconds"].as_f64().is_some() && replica["lost"].is_u64(), "{replica}");
    }
    let state = site.send("PUT", "/api/v1/demo/faults/replica", "").await.json();
    assert!(
        state["faults"]
            .as_array()
            .unwrap()
            .iter()
            .any(|fault| fault["name"] == "replica" && fault["armed"] == true)
    );
    assert_eq!(state["armed"], json!([]), "it is no fault of the server");
    loop {
        let status = events.named("status").await.data;
        let slots = slots(&status);
        if slots["replica-3"] == 0 && sum(&slots) == 64 {
            assert!(status["sharing"][2]["released"].as_u64() > Some(0), "{status}");
            break;
        }
    }
    for path in ["/debug/informers", "/api/v1/informers"] {
        let report = site.get(path).await.json();
        assert_eq!(slots(&report)["replica-3"], 0, "{path}: {report}");
    }
    let metrics = site.get("/metrics").await.body;
    assert!(
        metrics.contains("shard_slots_owned{replica=\"replica-3\",name=\"availability\"} 0\n"),
        "{metrics}"
    );
    site.send("DELETE", "/api/v1/demo/faults/replica", "").await;
    while slots(&events.named("status").await.data)["replica-3"] == 0 {}
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_of_the_demo_nothing_can_be_changed() {
    let world = world().await;
    let site = Site::serve(&world, &["pods", "-A"]).await;
    for path in ["/debug/informers", "/api/v1/informers"] {
        assert_eq!(site.get(path).await.json()["sharing"], json!([]), "{path}: no replica shares work");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        for path in ["/", "/api/v1/objects/pods", "/api/v1/demo/faults/slow", "/api/v1/stream"] {
            assert_eq!(site.send(method, path, "").await.code, 405, "{method} {path}");
        }
    }
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_the_page_and_the_api_are_protected_in_the_browser() {
    let world = world().await;
    let site = Site::serve(&world, &["pods", "-A"]).await;
    let page = site.get("/").await;
    assert_eq!((page.code, page.headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
    for path in ["/", "/assets/app.js", "/assets/page.css", "/api/v1/informers", "/nothing"] {
        let headers = site.get(path).await.headers;
        assert_eq!(headers["content-security-policy"], POLICY, "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "no-referrer", "{path}");
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin", "{path}");
    }
    for path in ["/", "/assets/app.js", "/api/v1/informers", "/api/v1/stream"] {
        assert_eq!(site.send_as("evil.example", "GET", path, "").await.code, 403, "{path}");
        assert_eq!(site.send("GET", path, "origin: http://evil.example\r\n").await.code, 403, "{path}");
    }
    let embedded = "sec-fetch-site: cross-site\r\n";
    assert_eq!(site.send("GET", "/api/v1/objects/pods", embedded).await.code, 403);
    assert_eq!(site.send("GET", "/", embedded).await.code, 200, "a link may lead to the page");
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_only_the_pages_files_are_open() {
    let world = world().await;
    let mut process = world.start(&["serve", "pods", "-A", "--port", "0", "--token", "right"]);
    let line = process.line_with(&["mirroring"]).await;
    let site = Site { process, address: address(&line) };
    assert_eq!(site.get("/").await.code, 200);
    assert_eq!(site.get("/assets/app.js").await.code, 200);
    for path in ["/api/v1", "/api/v1/objects/pods", "/api/v1/stream", "/api/v1/counts/pods"] {
        let reply = site.get(path).await;
        assert_eq!((reply.code, reply.headers["www-authenticate"].as_str()), (401, "Bearer"), "{path}");
    }
    let right = "authorization: Bearer right\r\n";
    assert_eq!(site.send("GET", "/api/v1", right).await.code, 200);
    // On loopback, the token does not make a rebound host acceptable.
    for path in ["/", "/assets/app.js", "/api/v1"] {
        assert_eq!(site.send_as("evil.example", "GET", path, right).await.code, 403, "{path}");
    }
    assert_eq!(site.process.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_starts_the_browser_with_the_pages_address() {
    let world = world().await;
    let opener = world.directory.path().join("xdg-open");
    let opened = world.directory.path().join("opened");
    let target = opened.display();
    std::fs::write(&opener, format!("#!/bin/sh\necho \"$1\" > {target}.new\nmv {target}.new {target}\n"))
        .unwrap();
    std::fs::set_permissions(&opener, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/bin:/usr/bin", world.directory.path().display());
    // Every address of this machine: the browser opens one that the program accepts as a host.
    let named = ["--token", "right", "--allowed-host", "mirror.example"];
    let everywhere =
        [&["serve", "pods", "--port", "0", "--open", "--address", "0.0.0.0"], &named[..]].concat();
    for (arguments, mark) in [
        (&["serve", "pods", "--port", "0", "--open"][..], "mirroring"),
        (&everywhere[..], "mirroring"),
        (&["demo", "--objects", "100", "--open"], "page: "),
    ] {
        let mut command = world.command(arguments);
        command.env("PATH", &path);
        let mut process = crate::support::start(command);
        let line = process.line_with(&[mark]).await;
        while !opened.exists() {
            tokio::task::yield_now().await;
        }
        let url = std::fs::read_to_string(&opened).unwrap();
        assert!(line.ends_with(url.trim()), "{line}: {url}");
        let site = Site { process, address: address(&line) };
        let host = site.address.to_string();
        assert_eq!(site.send_as(&host, "GET", "/", "").await.code, 200, "{line}");
        let process = site.process;
        std::fs::remove_file(&opened).unwrap();
        assert_eq!(process.end().await, 0);
    }
}

/// A command on the documentation's page, and the answer that it shows.
struct Example {
    path: String,
    headers: String,
    expected: Option<Value>,
}

fn examples(page: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut blocks = page.split("```").skip(1).step_by(2).peekable();
    while let Some(block) = blocks.next() {
        let Some(commands) = block.strip_prefix("sh\n") else { continue };
        let expected = blocks.peek().and_then(|next| next.strip_prefix("json\n"));
        for command in commands.lines().filter(|line| line.starts_with("curl ")) {
            let (_, rest) = command.split_once("http://127.0.0.1:8080").unwrap();
            let path = rest.split('\'').next().unwrap().to_owned();
            let header = command.split("-H '").nth(1).and_then(|rest| rest.split('\'').next());
            let headers = header.map(|header| format!("{header}\r\n")).unwrap_or_default();
            let expected = expected.map(|text| serde_json::from_str(text).unwrap());
            examples.push(Example { path, headers, expected });
        }
    }
    examples
}

/// Whether everything that is shown is in the answer; `"…"` stands for anything.
fn assert_shown(expected: &Value, found: &Value, at: &str) {
    match (expected, found) {
        (Value::String(text), _) if text == "…" => {}
        (Value::Object(expected), Value::Object(_)) => {
            expected
                .iter()
                .for_each(|(name, value)| assert_shown(value, &found[name], &format!("{at}.{name}")));
        }
        (Value::Array(expected), Value::Array(items)) => {
            assert!(expected.len() <= items.len(), "{at}: {found}");
            expected
                .iter()
                .zip(items)
                .for_each(|(value, item)| assert_shown(value, item, &format!("{at}[]")));
        }
        _ => assert_eq!(expected, found, "{at}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_documentation_answers_as_shown() {
    let world = world().await;
    let site = Site::serve(&world, &["pods,deploy,secrets", "-A", "--index", "spec.nodeName"]).await;
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http-api.md")).unwrap();
    let examples = examples(&page);
    assert!(examples.len() >= 12, "{}", examples.len());
    for Example { path, headers, expected } in examples {
        if let Some(query) = path.strip_prefix("/api/v1/stream") {
            let mut stream = site.stream(query, &headers).await;
            assert_eq!(stream.next().await.unwrap().name, "hello", "{path}");
            continue;
        }
        let reply = site.send("GET", &path, &headers).await;
        match expected {
            Some(expected) => assert_shown(&expected, &reply.json(), &path),
            None => assert_eq!(reply.code, 200, "{path}: {}", reply.body),
        }
    }
    assert_eq!(site.process.end().await, 0);
}

/// A list of many objects must not be held as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_read_slowly_does_not_grow_in_memory() {
    let world = World::new().await;
    let filler = "x".repeat(20_000);
    for number in 0..400 {
        let map = json!({"metadata": {"name": format!("map-{number}")}, "data": {"text": filler}});
        world.create("/api/v1/namespaces/default/configmaps", map).await;
    }
    let site = Site::serve(&world, &["configmaps", "-A"]).await;
    let before = crate::support::peak_memory(&site.process.child);
    let mut streams = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        stream
            .write_all(b"GET /api/v1/objects/configmaps HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        // Its head is there, so it is being written.
        stream.readable().await.unwrap();
        streams.push(stream);
    }
    // A ninth is refused: every one of them holds a snapshot.
    let (code, message) = site.get("/api/v1/objects/configmaps").await.refusal();
    assert_eq!(code, 503, "{message}");
    assert_eq!(site.get("/livez").await.code, 200);
    let grown = crate::support::peak_memory(&site.process.child) - before;
    assert!(grown < 32 << 20, "8 answers of 8 MB took {grown} bytes");
    drop(streams);
    let read = async {
        while site.get("/api/v1/objects/configmaps?format=ndjson").await.code != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), read)
        .await
        .expect("clients that have gone free their place");
    assert_eq!(site.process.end().await, 0);
}
