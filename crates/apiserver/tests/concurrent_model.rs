//! Concurrent writers, deleters, readers and watchers against a model: the log of all changes, which one watch records.
//!
//! The scheduler decides how requests overlap, so a run cannot be repeated exactly. The checks hold for every order: a response must be
//! right at some moment between the request and the response, and each change belongs to one request.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use embedded_apiserver::Server;
use futures::{FutureExt as _, Stream, StreamExt as _};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use support::Session;
use tokio::sync::watch;
use tower::ServiceExt as _;

const WRITERS: u64 = 4;
const REQUESTS_PER_WRITER: u64 = 150;
/// The writers use few names, so that they meet.
const NAMES: u64 = 6;
const NAMESPACES: [&str; 2] = ["east", "west"];
/// How often each writer counts the shared counter up.
const COUNTS_PER_WRITER: u64 = 40;
const READS: u64 = 120;
const COUNTER: &str = "/api/v1/namespaces/default/configmaps/counter";

/// Which objects a list or watch returns.
#[derive(Clone, Copy, Debug)]
enum Scope {
    All,
    Namespace(&'static str),
    Label(&'static str),
}

/// A request that changes something, and its response.
#[derive(Debug)]
struct Write {
    what: Change,
    /// The server's revisions before the request and after the response.
    sent: u64,
    answered: u64,
    code: u16,
    response: Value,
}

#[derive(Clone, Debug)]
enum Change {
    Create(String),
    /// With the resourceVersion that the object must have.
    Replace(String, Option<String>),
    Patch(String),
    Delete(String),
    DeleteAll(&'static str, &'static str),
    DeleteNamespace(&'static str),
    CreateNamespace,
}

/// A list, and the revisions around it.
#[derive(Debug)]
struct Listed {
    scope: Scope,
    sent: u64,
    answered: u64,
    revision: u64,
    items: Vec<Value>,
}

/// A watch: the revision after which it began, and its events.
struct Watched {
    scope: Scope,
    after: u64,
    events: Vec<Value>,
}

/// All changes: by key, the revisions and the states after them; `None` for a deletion.
#[derive(Default)]
struct Log {
    states: BTreeMap<String, Vec<(u64, Option<Value>)>>,
    deleted: BTreeMap<u64, Value>,
    keys: BTreeMap<u64, String>,
}

// === the requests ===

impl Scope {
    fn path(self) -> (String, String) {
        match self {
            Self::All => ("/api/v1/configmaps".to_owned(), String::new()),
            Self::Namespace(name) => (format!("/api/v1/namespaces/{name}/configmaps"), String::new()),
            Self::Label(team) => ("/api/v1/configmaps".to_owned(), format!("&labelSelector=team%3D{team}")),
        }
    }

    fn has(self, object: &Value) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(name) => object["metadata"]["namespace"] == name,
            Self::Label(team) => object["metadata"]["labels"]["team"] == team,
        }
    }

    fn draw(chance: &mut StdRng) -> Self {
        match chance.random_range(0..4) {
            0 => Self::All,
            1 => Self::Label("red"),
            2 => Self::Label("blue"),
            _ => Self::Namespace(NAMESPACES[chance.random_range(0..2)]),
        }
    }
}

async fn write(session: &Session, what: Change, body: Value) -> Write {
    let (method, path) = match &what {
        Change::Create(key) => ("POST", path_of(key).rsplit_once('/').unwrap().0.to_owned()),
        Change::Replace(key, _) => ("PUT", path_of(key)),
        Change::Patch(key) => ("PATCH", path_of(key)),
        Change::Delete(key) => ("DELETE", path_of(key)),
        Change::DeleteAll(namespace, team) => {
            ("DELETE", format!("/api/v1/namespaces/{namespace}/configmaps?labelSelector=team%3D{team}"))
        }
        Change::DeleteNamespace(name) => ("DELETE", format!("/api/v1/namespaces/{name}")),
        Change::CreateNamespace => ("POST", "/api/v1/namespaces".to_owned()),
    };
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let sent = session.server.revision();
    let headers = [("content-type", content_type)];
    let answer = session.request(method, &path, &headers, body.to_string().into()).await;
    let answered = session.server.revision();
    let response = without_kind(serde_json::from_slice(&answer.body).unwrap());
    Write { what, sent, answered, code: answer.code, response }
}

fn path_of(key: &str) -> String {
    let (namespace, name) = key.split_once('/').unwrap();
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

/// One writer's random requests. No two writes have the same value.
async fn write_often(session: Arc<Session>, writer: u64) -> Vec<Write> {
    let mut chance = StdRng::seed_from_u64(writer);
    let mut writes = Vec::new();
    let mut read: BTreeMap<String, String> = BTreeMap::new();
    for number in 0..REQUESTS_PER_WRITER {
        let namespace = NAMESPACES[chance.random_range(0..2)];
        let key = format!("{namespace}/map-{}", chance.random_range(0..NAMES));
        let team = ["red", "blue"][chance.random_range(0..2)];
        let value = format!("{writer}-{number}");
        let mut object = json!({
            "metadata": {"name": key.split_once('/').unwrap().1, "labels": {"team": team}},
            "data": {"value": value},
        });
        let what = match chance.random_range(0..100) {
            0..35 => Change::Create(key.clone()),
            35..55 => {
                let version = read.get(&key).filter(|_| chance.random_bool(0.7)).cloned();
                if let Some(version) = &version {
                    object["metadata"]["resourceVersion"] = version.as_str().into();
                }
                Change::Replace(key.clone(), version)
            }
            55..70 => Change::Patch(key.clone()),
            70..92 => Change::Delete(key.clone()),
            92..96 => Change::DeleteAll(namespace, team),
            _ => Change::DeleteNamespace(namespace),
        };
        let is_namespace = matches!(what, Change::DeleteNamespace(_));
        let is_delete =
            matches!(what, Change::Delete(_) | Change::DeleteAll(..) | Change::DeleteNamespace(_));
        let done = write(&session, what, if is_delete { json!({}) } else { object }).await;
        if let Some(version) = done.response["metadata"]["resourceVersion"].as_str() {
            read.insert(key, version.to_owned());
        }
        writes.push(done);
        if is_namespace {
            let named = json!({"metadata": {"name": namespace}});
            writes.push(write(&session, Change::CreateNamespace, named).await);
        }
        // A reader in the same task sees the write, or a later state.
        if let Write { code: 200 | 201, what: Change::Create(key) | Change::Patch(key), response, .. } =
            writes.last().unwrap()
            && let Some(found) = session.find(&path_of(key)).await
        {
            assert!(revision(&found) >= revision(response), "{found} is older than {response}");
        }
    }
    writes
}

/// Reads the counter, and writes it with the version that was read, until that succeeds.
async fn count_up(session: Arc<Session>) {
    for _ in 0..COUNTS_PER_WRITER {
        loop {
            let mut counter = session.find(COUNTER).await.unwrap();
            let count: u64 = counter["data"]["count"].as_str().unwrap().parse().unwrap();
            counter["data"]["count"] = (count + 1).to_string().into();
            let headers = [("content-type", "application/json")];
            let code = session.request("PUT", COUNTER, &headers, counter.to_string().into()).await.code;
            if code == 200 {
                break;
            }
            assert_eq!(code, 409);
        }
    }
}

/// Lists again and again, whole or in pages, and now and then watches from there on.
async fn read_often(session: Arc<Session>, ended: watch::Receiver<bool>) -> (Vec<Listed>, Vec<Watched>) {
    let mut chance = StdRng::seed_from_u64(99);
    let (mut lists, mut watches) = (Vec::new(), Vec::new());
    for _ in 0..READS {
        let scope = Scope::draw(&mut chance);
        let listed = list(&session, scope, [0, 3][chance.random_range(0..2)]).await;
        if chance.random_bool(0.2) {
            watches.push(tokio::spawn(observe(session.clone(), scope, listed.revision, ended.clone())));
        }
        lists.push(listed);
    }
    let mut watched = Vec::new();
    for watch in watches {
        watched.push(watch.await.unwrap());
    }
    (lists, watched)
}

async fn list(session: &Session, scope: Scope, limit: u32) -> Listed {
    let (path, selector) = scope.path();
    let sent = session.server.revision();
    let (mut items, mut next, mut answered) = (Vec::new(), String::new(), None);
    loop {
        let page = format!("{path}?limit={limit}{selector}{next}");
        let page = session.json("GET", &page, Value::Null).await;
        // The first page decides which state the others have.
        let answered = *answered.get_or_insert_with(|| session.server.revision());
        items.extend(page["items"].as_array().unwrap().iter().cloned().map(without_kind));
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => {
                let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
                next = format!("&continue={token}");
            }
            _ => return Listed { scope, sent, answered, revision: revision(&page), items },
        }
    }
}

/// Watches after a revision, until the writers have ended and all events are read.
async fn observe(
    session: Arc<Session>,
    scope: Scope,
    after: u64,
    mut ended: watch::Receiver<bool>,
) -> Watched {
    let (path, selector) = scope.path();
    let path = format!("{path}?watch=1&resourceVersion={after}{selector}");
    let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
    let response = session.server.service().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut stream = Box::pin(response.into_body().into_data_stream().map(Result::unwrap));
    let mut bytes = Vec::new();
    loop {
        tokio::select! {
            chunk = stream.next() => bytes.extend(chunk.expect("the watch stays open")),
            _ = ended.wait_for(|ended| *ended) => break,
        }
    }
    bytes.extend(pending(&mut stream));
    let events = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>();
    let events = events.map(Result::unwrap).filter(|event| event["type"] != "BOOKMARK");
    let events = events.map(|mut event| {
        event["object"] = without_kind(event["object"].take());
        event
    });
    Watched { scope, after, events: events.collect() }
}

/// What a stream has without waiting.
fn pending(stream: &mut (impl Stream<Item = Bytes> + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Some(chunk)) = stream.next().now_or_never() {
        bytes.extend(chunk);
    }
    bytes
}

/// The items of a list do not name their kind.
fn without_kind(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.remove("kind");
        members.remove("apiVersion");
    }
    object
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn key(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!("{}/{}", metadata["namespace"].as_str().unwrap(), metadata["name"].as_str().unwrap())
}

// === the checks ===

impl Log {
    /// Reads the events of a watch of everything. Per key, they must be a valid sequence; revisions grow.
    fn read(events: &[Value]) -> Self {
        let mut log = Self::default();
        let mut newest = 0;
        for event in events {
            let (object, kind) = (&event["object"], event["type"].as_str().unwrap());
            let (key, at) = (key(object), revision(object));
            assert!(at > newest, "revision {at} follows {newest}: {event}");
            newest = at;
            let states = log.states.entry(key.clone()).or_default();
            let before = states.last().and_then(|(_, state)| state.as_ref());
            let expected = if before.is_some() { ["MODIFIED", "DELETED"] } else { ["ADDED", "ADDED"] };
            assert!(expected.contains(&kind), "{kind} of {key} at {at}, expected {expected:?}");
            if let Some(before) = before {
                assert_eq!(before["metadata"]["uid"], object["metadata"]["uid"], "{key} at {at}");
            }
            if kind == "DELETED" {
                log.deleted.insert(at, object.clone());
            }
            states.push((at, (kind != "DELETED").then(|| object.clone())));
            log.keys.insert(at, key);
        }
        log
    }

    /// An object at a revision.
    fn at(&self, key: &str, revision: u64) -> Option<&Value> {
        let states = self.states.get(key)?;
        let next = states.partition_point(|(at, _)| *at <= revision);
        states[..next].last()?.1.as_ref()
    }

    /// Whether something held for an object at a moment from `sent` to `answered`.
    fn held(&self, key: &str, sent: u64, answered: u64, holds: impl Fn(Option<&Value>) -> bool) -> bool {
        let changes = self.states.get(key).into_iter().flatten().map(|(at, _)| *at);
        let moments = changes.filter(|at| (sent + 1..=answered).contains(at)).chain([sent]);
        moments.into_iter().any(|at| holds(self.at(key, at)))
    }

    fn listed(&self, scope: Scope, revision: u64) -> Vec<&Value> {
        let states = self.states.keys().filter_map(|key| self.at(key, revision));
        states.filter(|object| scope.has(object)).collect()
    }

    /// The events of a watch: an object that leaves its scope is deleted there.
    fn events(&self, scope: Scope, after: u64) -> Vec<Value> {
        let mut events = Vec::new();
        for (at, key) in self.keys.range(after + 1..) {
            let before = self.at(key, at - 1).filter(|object| scope.has(object));
            let now = self.at(key, *at).filter(|object| scope.has(object));
            let (kind, object) = match (before, now) {
                (None, None) => continue,
                (None, Some(now)) => ("ADDED", now.clone()),
                (Some(_), Some(now)) => ("MODIFIED", now.clone()),
                (Some(before), None) => {
                    let mut object = self.deleted.get(at).unwrap_or(before).clone();
                    object["metadata"]["resourceVersion"] = at.to_string().into();
                    ("DELETED", object)
                }
            };
            events.push(json!({"type": kind, "object": object}));
        }
        events
    }

    /// Checks a response, and returns the revision of the change that it caused.
    fn check(&self, write: &Write) -> Option<u64> {
        let Write { what, sent, answered, code, response } = write;
        let held =
            |key: &str, holds: &dyn Fn(Option<&Value>) -> bool| self.held(key, *sent, *answered, holds);
        match (what, code) {
            (Change::Create(key) | Change::Replace(key, _) | Change::Patch(key), 200 | 201) => {
                let at = revision(response);
                assert!((sent + 1..=*answered).contains(&at), "{write:?}");
                assert_eq!(self.at(key, at), Some(response), "the log differs from the response at {at}");
                if let Change::Replace(_, Some(version)) = what {
                    let before = self.at(key, at - 1).map(revision);
                    assert_eq!(before.map(|at| at.to_string()).as_ref(), Some(version), "{write:?}");
                }
                return Some(at);
            }
            (Change::Create(key), 409) => assert!(held(key, &|object| object.is_some()), "{write:?}"),
            (Change::Replace(key, Some(version)), 409) => {
                let differs = |object: Option<&Value>| {
                    object.is_none_or(|object| revision(object).to_string() != *version)
                };
                assert!(held(key, &differs), "{write:?}");
            }
            (Change::Replace(key, _) | Change::Patch(key) | Change::Delete(key), 404) => {
                assert!(held(key, &|object| object.is_none()), "{write:?}");
            }
            (Change::Delete(key), 200) => {
                let uid = &response["details"]["uid"];
                let mut deleted = self.deleted.range(sent + 1..=*answered);
                let found = deleted.find(|(_, object)| object["metadata"]["uid"] == *uid);
                let (at, object) = found.unwrap_or_else(|| panic!("not deleted when answered: {write:?}"));
                assert_eq!(self.keys[at], *key, "{object}");
                return Some(*at);
            }
            (Change::DeleteAll(namespace, team), 200) => {
                let scope = Scope::Namespace(namespace);
                for object in self.listed(scope, *sent) {
                    if object["metadata"]["labels"]["team"] == *team {
                        let is_same = |found: Option<&Value>| found == Some(object);
                        let stays = self.at(&key(object), *answered);
                        assert!(!is_same(stays), "{object} stays after {write:?}");
                    }
                }
            }
            // A namespace that terminates or is gone; another writer deletes or creates it.
            (Change::Create(_), 403 | 404) | (Change::DeleteNamespace(_), 200 | 404 | 409) => {}
            (Change::CreateNamespace, 201 | 409) => {}
            unexpected => panic!("unexpected response {unexpected:?}: {response}"),
        }
        None
    }

    /// Whether the objects that a namespace had when its deletion was requested are gone when the request is answered.
    fn is_emptied_by(&self, write: &Write) -> bool {
        let Change::DeleteNamespace(name) = write.what else { return false };
        let left = self.listed(Scope::Namespace(name), write.answered);
        left.iter().all(|object| revision(object) > write.sent)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_agree_with_the_log_of_changes() {
    let session = Arc::new(Session::new(Server::builder().without_socket().start().await.unwrap()));
    for name in NAMESPACES {
        session.json("POST", "/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
    }
    let began = session.server.revision();
    let counter = json!({"metadata": {"name": "counter"}, "data": {"count": "0"}});
    session.json("POST", "/api/v1/namespaces/default/configmaps", counter).await;
    let (end, ended) = watch::channel(false);
    let scopes = [Scope::All, Scope::Namespace("east"), Scope::Label("red"), Scope::Label("blue")];
    let observers = scopes.map(|scope| tokio::spawn(observe(session.clone(), scope, began, ended.clone())));
    let reader = tokio::spawn(read_often(session.clone(), ended));
    let counters: Vec<_> = (0..WRITERS).map(|_| tokio::spawn(count_up(session.clone()))).collect();
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(write_often(session.clone(), writer))).collect();
    let mut writes = Vec::new();
    for writer in writers {
        writes.extend(writer.await.unwrap());
    }
    for counter in counters {
        counter.await.unwrap();
    }
    let counter = session.find(COUNTER).await.unwrap();
    assert_eq!(counter["data"]["count"], (WRITERS * COUNTS_PER_WRITER).to_string(), "an update was lost");
    end.send_replace(true);
    let (lists, later) = reader.await.unwrap();
    let mut watched = Vec::new();
    for observer in observers {
        watched.push(observer.await.unwrap());
    }
    watched.extend(later);

    let log = Log::read(&watched[0].events);
    check_all(&log, &writes, &lists, &watched);
    for name in NAMESPACES {
        session.request("DELETE", &format!("/api/v1/namespaces/{name}"), &[], Vec::new()).await;
        assert_eq!(session.find(&format!("/api/v1/namespaces/{name}")).await, None, "{name} is not empty");
    }
}

fn check_all(log: &Log, writes: &[Write], lists: &[Listed], watched: &[Watched]) {
    let mut caused = BTreeSet::new();
    for write in writes {
        if let Some(at) = log.check(write) {
            assert!(caused.insert(at), "two requests caused revision {at}");
        }
    }
    // Deletions also follow from those of collections and namespaces.
    for (at, key) in &log.keys {
        if key == "default/counter" {
            continue;
        }
        let deletes = |write: &Write| {
            let concerns = match &write.what {
                Change::DeleteAll(namespace, _) | Change::DeleteNamespace(namespace) => {
                    key.starts_with(namespace)
                }
                // An object that is created while its namespace is emptied is deleted again.
                Change::Create(created) => created == key && write.code == 201,
                _ => false,
            };
            concerns && (write.sent + 1..=write.answered).contains(at)
        };
        let is_explained =
            caused.contains(at) || (log.deleted.contains_key(at) && writes.iter().any(deletes));
        assert!(is_explained, "no request caused the change of {key} at {at}");
    }
    // The request that began a deletion empties the namespace; others are answered while it is emptied.
    let mut deletions = BTreeMap::<String, Vec<&Write>>::new();
    for write in writes {
        if let Write { what: Change::DeleteNamespace(_), code: 200, response, .. } = write {
            deletions.entry(response["metadata"]["uid"].to_string()).or_default().push(write);
        }
    }
    for deletion in deletions.values() {
        let is_emptied = deletion.iter().any(|write| log.is_emptied_by(write));
        assert!(is_emptied, "objects outlived their namespace: {deletion:?}");
    }
    for list in lists {
        assert!((list.sent..=list.answered).contains(&list.revision), "{list:?}");
        let items: Vec<_> = list.items.iter().collect();
        assert_eq!(items, log.listed(list.scope, list.revision), "{:?} at {}", list.scope, list.revision);
    }
    for watch in watched {
        let expected = log.events(watch.scope, watch.after);
        assert_eq!(watch.events.len(), expected.len(), "{:?} after {}", watch.scope, watch.after);
        for (event, expected) in watch.events.iter().zip(&expected) {
            assert_eq!(event, expected, "{:?} after {}", watch.scope, watch.after);
        }
    }
}
