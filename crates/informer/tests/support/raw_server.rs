//! A server that answers byte for byte what a test wants, at one stage of a request, until the test makes it behave.
//!
//! It has three states, one after the other: pods `a` and `b`, hostile, and pods `a` and `c`. Each request has a connection of its
//! own, which ends with the state.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use kube_client::Config;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The token that the client sends.
pub const TOKEN: &str = "s3cret";

/// Where the server is hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// As soon as a client connects, before its request.
    Connect,
    /// Lists.
    List,
    /// The second page of a list.
    Page,
    /// Watches that begin with the complete state.
    WatchList,
    /// Other watches.
    Watch,
}

/// Writes an answer.
pub type Answer = Arc<dyn Fn(TcpStream) -> BoxFuture<'static, io::Result<()>> + Send + Sync>;

/// What the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Before,
    Hostile,
    After,
}

/// The answer to a request.
pub enum Reply {
    /// The hostile answer of the test.
    Hostile,
    /// A complete response: its status line and its body.
    Whole(&'static str, Value),
    /// A watch that begins with these events. It ends with [`last_bookmark`] when the server enters another state.
    Watch(String),
}

pub struct RawServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    stage: Stage,
    answer: Answer,
    mood: watch::Sender<Mood>,
    connections: AtomicUsize,
    authorizations: Mutex<Vec<Option<String>>>,
}

/// The 64 KiB that endless answers repeat.
static CHUNK: [u8; 64 << 10] = [b'x'; 64 << 10];

/// How many bytes an endless answer has: more than any bound on memory.
const ENDLESS: usize = 64 << 20;

/// The same for answers of small parts, which the client parses one by one.
const ENDLESS_PARTS: usize = 16 << 20;

pub const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
pub const PROTOBUF: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.kubernetes.protobuf\r\nconnection: close\r\n\r\n";

// === answers ===

/// These bytes, and then the end.
pub fn bytes(head: &str, body: impl Into<Vec<u8>>) -> Answer {
    let text = Arc::new([head.as_bytes().to_vec(), body.into()].concat());
    Arc::new(move |mut stream| {
        let text = text.clone();
        Box::pin(async move { stream.write_all(&text).await })
    })
}

/// These bytes, and then silence.
pub fn bytes_then_silence(head: &str, body: impl Into<Vec<u8>>) -> Answer {
    let text = Arc::new([head.as_bytes().to_vec(), body.into()].concat());
    Arc::new(move |mut stream| {
        let text = text.clone();
        Box::pin(async move {
            stream.write_all(&text).await?;
            // Until the client goes away.
            stream.read(&mut [0; 1]).await.map(drop)
        })
    })
}

/// A beginning, and then the letter `x`.
pub fn endless(beginning: &str) -> Answer {
    repeated(beginning, &CHUNK, ENDLESS)
}

/// A beginning, then a small part, repeated.
pub fn endless_of(beginning: &str, again: &'static [u8]) -> Answer {
    repeated(beginning, again, ENDLESS_PARTS)
}

/// These bytes, repeated until the client disconnects.
pub fn forever(again: &'static [u8]) -> Answer {
    Arc::new(move |mut stream| {
        Box::pin(async move {
            loop {
                stream.write_all(again).await?;
            }
        })
    })
}

fn repeated(beginning: &str, again: &'static [u8], bytes: usize) -> Answer {
    let beginning = beginning.to_owned();
    Arc::new(move |mut stream| {
        let beginning = beginning.clone();
        Box::pin(async move {
            stream.write_all(beginning.as_bytes()).await?;
            for _ in 0..bytes / again.len() {
                stream.write_all(again).await?;
            }
            stream.shutdown().await
        })
    })
}

/// An answer in JSON.
pub fn json(code: &str, body: &Value) -> Answer {
    bytes(&head(code), body.to_string())
}

/// The head of an answer in JSON.
pub fn head(code: &str) -> String {
    JSON.replace("200 OK", code)
}

// === the objects ===

pub fn pod(name: &str, version: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "web", "name": name,
        "uid": format!("uid-{name}"), "resourceVersion": version}})
}

pub fn list(version: &str, items: &[Value]) -> Value {
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
}

impl Mood {
    /// The pods, and their resourceVersion.
    pub fn pods(self) -> (&'static str, Vec<Value>) {
        match self {
            Self::Before | Self::Hostile => ("10", vec![pod("a", "9"), pod("b", "10")]),
            Self::After => ("60", vec![pod("a", "9"), pod("c", "60")]),
        }
    }
}

// === impl RawServer ===

impl RawServer {
    pub async fn start(stage: Stage, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mood = watch::Sender::new(Mood::Before);
        let (connections, authorizations) = Default::default();
        let shared = Arc::new(Shared { stage, answer, mood, connections, authorizations });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::Relaxed);
                let serving = serving.clone();
                tokio::spawn(async move {
                    let mut mood = serving.mood.subscribe();
                    let now = *mood.borrow_and_update();
                    tokio::select! {
                        // A client that goes away ends its answer.
                        _ = serving.serve(stream, now) => {}
                        _ = mood.changed(), if now != Mood::Before => {}
                    }
                });
            }
        });
        Self { address, shared }
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new(format!("http://{}", self.address).parse().unwrap());
        config.auth_info.token = Some(TOKEN.to_owned().into());
        config
    }

    /// What it does from now on. Connections of a hostile server are closed.
    pub fn enter(&self, mood: Mood) {
        self.shared.mood.send_replace(mood);
    }

    /// The `authorization` of each request.
    pub fn authorizations(&self) -> Vec<Option<String>> {
        self.shared.authorizations.lock().clone()
    }
}

impl Shared {
    async fn serve(&self, mut stream: TcpStream, mood: Mood) -> io::Result<()> {
        if mood == Mood::Hostile && self.stage == Stage::Connect {
            return (self.answer)(stream).await;
        }
        let mut reader = BufReader::new(&mut stream);
        let mut request = String::new();
        reader.read_line(&mut request).await?;
        let (mut header, mut authorization) = (String::new(), None);
        while reader.read_line(&mut header).await? > 2 {
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("authorization")
            {
                authorization = Some(value.trim().to_owned());
            }
            header.clear();
        }
        self.authorizations.lock().push(authorization);
        let query =
            request.split(' ').nth(1).and_then(|path| path.split_once('?')).map_or("", |(_, query)| query);
        match reply(self.stage, mood, query) {
            Reply::Hostile => (self.answer)(stream).await,
            Reply::Whole(code, body) => json(code, &body)(stream).await,
            Reply::Watch(events) => {
                stream.write_all(format!("{JSON}{events}").as_bytes()).await?;
                self.end_with(mood, stream).await
            }
        }
    }

    /// Waits for the end of this state, and ends the watch with a bookmark: the client made progress, and resumes.
    async fn end_with(&self, mood: Mood, mut stream: TcpStream) -> io::Result<()> {
        let _ = self.mood.subscribe().wait_for(|now| *now != mood).await;
        stream.write_all(last_bookmark().as_bytes()).await
    }
}

/// How a server that is hostile at one stage answers a request with this query.
pub fn reply(hostile_at: Stage, mood: Mood, query: &str) -> Reply {
    let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let version = parameter("resourceVersion").unwrap_or("0");
    if version.parse::<u64>().is_err() {
        return Reply::Whole("400 BadRequest", status(400, "BadRequest", "invalid resource version"));
    }
    // The client then trusts this server: whether it was restored from a backup is tested elsewhere.
    if parameter("resourceVersionMatch") == Some("Exact") {
        return Reply::Whole("400 BadRequest", status(400, "BadRequest", "unsupported"));
    }
    let stage = match (parameter("watch"), parameter("sendInitialEvents"), parameter("continue")) {
        (Some(_), Some(_), _) => Stage::WatchList,
        (Some(_), None, _) => Stage::Watch,
        (None, _, Some(_)) => Stage::Page,
        (None, _, None) => Stage::List,
    };
    if mood == Mood::Hostile && stage == hostile_at {
        return Reply::Hostile;
    }
    let (now, items) = mood.pods();
    match stage {
        // Everything is listed again: the version is from another state.
        Stage::Watch if mood == Mood::Hostile || version != now => {
            Reply::Whole("410 Expired", status(410, "Expired", "too old"))
        }
        Stage::Watch => Reply::Watch(String::new()),
        Stage::WatchList => {
            let mut events = String::new();
            for item in items {
                events += &format!("{}\n", json!({"type": "ADDED", "object": item}));
            }
            let end = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": now,
                "annotations": {"k8s.io/initial-events-end": "true"}}});
            Reply::Watch(events + &format!("{}\n", json!({"type": "BOOKMARK", "object": end})))
        }
        Stage::List if mood == Mood::Hostile && hostile_at == Stage::Page => {
            let mut page = list(now, &items[..1]);
            page["metadata"]["continue"] = json!("next");
            Reply::Whole("200 OK", page)
        }
        _ => Reply::Whole("200 OK", list(now, &items)),
    }
}

/// The last event of a watch: the client made progress, and resumes.
pub fn last_bookmark() -> String {
    let bookmark = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "11"}});
    format!("{}\n", json!({"type": "BOOKMARK", "object": bookmark}))
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "code": code, "reason": reason, "message": message})
}

/// An error response.
pub fn refuse(code: u16, reason: &str, message: &str) -> Answer {
    json(&format!("{code} {reason}"), &status(code, reason, message))
}
