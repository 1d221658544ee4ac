//! For any sequence of writes, lists, watches and compactions, each watcher gets exactly the events of a simple model:
//! a log of all changes.

use std::collections::BTreeMap;
use std::pin::Pin;

use bytes::Bytes;
use embedded_apiserver::{ApiService, Server};
use futures::{Stream, StreamExt as _};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use proptest::prelude::*;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Past events available to new watches.
const HISTORY: usize = 6;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Put {
        name: u8,
        app: bool,
        value: u8,
    },
    Delete {
        name: u8,
    },
    /// Watches from a known revision, counted back from the latest.
    Watch {
        back: usize,
        scope: Scope,
    },
    /// Watches from the current state on.
    WatchState {
        scope: Scope,
    },
    /// Lists, checks the list, and watches from its revision.
    ListAndWatch {
        scope: Scope,
    },
    /// Lists at a known revision.
    ListExact {
        back: usize,
        scope: Scope,
    },
    Compact,
    /// Reads the pending events of the watch.
    Read {
        watch: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope {
    All,
    Namespace(u8),
    App(bool),
}

/// `TYPE namespace/name@revision=value`.
type Seen = String;

#[derive(Clone, Debug, PartialEq)]
struct Object {
    app: bool,
    value: u8,
    revision: u64,
}

/// All changes so far: revision, key, before, after.
#[derive(Default)]
struct Model {
    log: Vec<(u64, (String, String), Option<Object>, Option<Object>)>,
    compacted: u64,
}

struct Watcher {
    scope: Scope,
    stream: Pin<Box<dyn Stream<Item = Bytes>>>,
    seen: Vec<Seen>,
    expected_first: Vec<Seen>,
    after: u64,
    expired: bool,
}

impl Scope {
    fn query(self) -> (String, &'static str) {
        match self {
            Self::All => ("/api/v1/configmaps".to_owned(), ""),
            Self::Namespace(n) => (format!("/api/v1/namespaces/{}/configmaps", namespace(n)), ""),
            Self::App(true) => ("/api/v1/configmaps".to_owned(), "&labelSelector=app%3Dyes"),
            Self::App(false) => ("/api/v1/configmaps".to_owned(), "&labelSelector=app%21%3Dyes"),
        }
    }

    fn holds(self, key: &(String, String), object: Option<&Object>) -> bool {
        let Some(object) = object else { return false };
        match self {
            Self::All => true,
            Self::Namespace(n) => key.0 == namespace(n),
            Self::App(app) => object.app == app,
        }
    }
}

fn namespace(n: u8) -> &'static str {
    if n.is_multiple_of(2) { "default" } else { "kube-system" }
}

impl Model {
    fn state_at(&self, revision: u64) -> BTreeMap<(String, String), Object> {
        let mut state = BTreeMap::new();
        for (_, key, _, after) in self.log.iter().take_while(|(at, ..)| *at <= revision) {
            match after {
                Some(object) => state.insert(key.clone(), object.clone()),
                None => state.remove(key),
            };
        }
        state
    }

    fn listed(&self, revision: u64, scope: Scope) -> Vec<String> {
        let state = self.state_at(revision);
        let shown = state.iter().filter(|(key, object)| scope.holds(key, Some(object)));
        shown.map(|(key, object)| show(key, object.revision, object.value)).collect()
    }

    fn events_after(&self, revision: u64, scope: Scope) -> Vec<Seen> {
        let later = self.log.iter().filter(|(at, ..)| *at > revision);
        let seen = later.filter_map(|(at, key, before, after)| {
            let was = scope.holds(key, before.as_ref());
            let is = scope.holds(key, after.as_ref());
            let (kind, object) = match (was, is) {
                (false, false) => return None,
                (false, true) => ("ADDED", after),
                (true, true) => ("MODIFIED", after),
                (true, false) => ("DELETED", before),
            };
            Some(format!("{kind} {}", show(key, *at, object.as_ref()?.value)))
        });
        seen.collect()
    }

    fn record(&mut self, revision: u64, key: (String, String), after: Option<Object>) {
        let before = self.state_at(revision - 1).get(&key).cloned();
        self.log.push((revision, key, before, after));
        if self.log.len() > HISTORY {
            self.compacted = self.compacted.max(self.log[self.log.len() - HISTORY - 1].0);
        }
    }
}

fn show(key: &(String, String), revision: u64, value: u8) -> String {
    format!("{}/{}@{revision}={value}", key.0, key.1)
}

fn show_json(object: &Value) -> String {
    let metadata = &object["metadata"];
    let text = |name: &str| metadata[name].as_str().unwrap().to_owned();
    let revision = text("resourceVersion").parse().unwrap();
    show(&(text("namespace"), text("name")), revision, object["data"]["v"].as_str().unwrap().parse().unwrap())
}

async fn call(service: &ApiService, method: &str, path: &str, body: Value) -> (u16, Value) {
    let request =
        Request::builder().method(method).uri(path).body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let response = service.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

async fn open(service: &ApiService, scope: Scope, revision: &str) -> Pin<Box<dyn Stream<Item = Bytes>>> {
    let (path, selector) = scope.query();
    let path = format!("{path}?watch=1&resourceVersion={revision}{selector}");
    let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
    let response = service.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    Box::pin(response.into_body().into_data_stream().map(Result::unwrap))
}

impl Watcher {
    /// Reads available data without waiting.
    fn read(&mut self) {
        let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
        while let std::task::Poll::Ready(Some(bytes)) = self.stream.poll_next_unpin(context) {
            for event in serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>() {
                let event = event.unwrap();
                let kind = event["type"].as_str().unwrap();
                let seen = match kind {
                    "ERROR" => format!("ERROR {}", event["object"]["code"]),
                    _ => format!("{kind} {}", show_json(&event["object"])),
                };
                self.seen.push(seen);
            }
        }
    }

    fn check(&mut self, model: &Model) {
        self.read();
        let mut expected = std::mem::take(&mut self.expected_first);
        if self.expired {
            expected.push("ERROR 410".to_owned());
        } else {
            expected.extend(model.events_after(self.after, self.scope));
        }
        assert_eq!(self.seen, expected, "{:?} after {}", self.scope, self.after);
    }
}

async fn run(steps: Vec<Step>) {
    let server = Server::builder().without_socket().seed(3).history(HISTORY).start().await.unwrap();
    let service = server.service();
    let mut model = Model::default();
    let mut watchers: Vec<Watcher> = Vec::new();
    let (_, first) = call(&service, "GET", "/api/v1/configmaps", Value::Null).await;
    let mut newest: u64 = first["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let mut revisions = vec![newest];
    for step in steps {
        match step {
            Step::Put { name, app, value } => {
                let key = (namespace(name).to_owned(), format!("c-{name}"));
                let labels = if app { json!({"app": "yes"}) } else { json!({}) };
                let object =
                    json!({"metadata": {"name": key.1, "labels": labels}, "data": {"v": value.to_string()}});
                let path = format!("/api/v1/namespaces/{}/configmaps", key.0);
                let exists = model.state_at(newest).contains_key(&key);
                let (code, written) = if exists {
                    call(&service, "PUT", &format!("{path}/{}", key.1), object).await
                } else {
                    call(&service, "POST", &path, object).await
                };
                assert!(code < 300, "{written}");
                let revision: u64 = written["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                if revision > newest {
                    newest = revision;
                    revisions.push(revision);
                    model.record(revision, key, Some(Object { app, value, revision }));
                } else {
                    let known = &model.state_at(newest)[&key];
                    assert_eq!(
                        (known.app, known.value),
                        (app, value),
                        "only an unchanged write keeps its revision"
                    );
                }
            }
            Step::Delete { name } => {
                let key = (namespace(name).to_owned(), format!("c-{name}"));
                let path = format!("/api/v1/namespaces/{}/configmaps/{}", key.0, key.1);
                let exists = model.state_at(newest).contains_key(&key);
                let (code, _) = call(&service, "DELETE", &path, json!({})).await;
                assert_eq!(code, if exists { 200 } else { 404 });
                if exists {
                    newest += 1;
                    revisions.push(newest);
                    model.record(newest, key, None);
                }
            }
            Step::Watch { back, scope } => {
                let after = revisions[revisions.len() - 1 - back % revisions.len()];
                let expired = after < model.compacted;
                let stream = open(&service, scope, &after.to_string()).await;
                watchers.push(Watcher {
                    scope,
                    stream,
                    seen: Vec::new(),
                    expected_first: Vec::new(),
                    after,
                    expired,
                });
            }
            Step::WatchState { scope } => {
                let stream = open(&service, scope, "0").await;
                let state = model.listed(newest, scope);
                let expected_first = state.iter().map(|object| format!("ADDED {object}")).collect();
                watchers.push(Watcher {
                    scope,
                    stream,
                    seen: Vec::new(),
                    expected_first,
                    after: newest,
                    expired: false,
                });
            }
            Step::ListAndWatch { scope } => {
                let (path, selector) = scope.query();
                let (_, list) =
                    call(&service, "GET", &format!("{path}?limit=0{selector}"), Value::Null).await;
                let items: Vec<String> = list["items"].as_array().unwrap().iter().map(show_json).collect();
                assert_eq!(items, model.listed(newest, scope));
                let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
                let after = revision.parse().unwrap();
                let stream = open(&service, scope, revision).await;
                watchers.push(Watcher {
                    scope,
                    stream,
                    seen: Vec::new(),
                    expected_first: Vec::new(),
                    after,
                    expired: false,
                });
            }
            Step::ListExact { back, scope } => {
                let at = revisions[revisions.len() - 1 - back % revisions.len()];
                let (path, selector) = scope.query();
                let path = format!("{path}?resourceVersion={at}&resourceVersionMatch=Exact{selector}");
                let (code, list) = call(&service, "GET", &path, Value::Null).await;
                if at < model.compacted {
                    assert_eq!((code, &list["reason"]), (410, &json!("Expired")));
                } else {
                    let items: Vec<String> =
                        list["items"].as_array().unwrap().iter().map(show_json).collect();
                    assert_eq!(items, model.listed(at, scope), "at {at}");
                }
            }
            Step::Compact => {
                server.compact();
                model.compacted = newest;
            }
            Step::Read { watch } if !watchers.is_empty() => {
                let at = watch % watchers.len();
                watchers[at].read();
            }
            Step::Read { .. } => {}
        }
    }
    for watcher in &mut watchers {
        watcher.check(&model);
    }
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![Just(Scope::All), (0u8..2).prop_map(Scope::Namespace), any::<bool>().prop_map(Scope::App),]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..5, any::<bool>(), 0u8..3).prop_map(|(name, app, value)| Step::Put { name, app, value }),
        3 => (0u8..5).prop_map(|name| Step::Delete { name }),
        2 => (0usize..12, scope()).prop_map(|(back, scope)| Step::Watch { back, scope }),
        1 => scope().prop_map(|scope| Step::WatchState { scope }),
        1 => scope().prop_map(|scope| Step::ListAndWatch { scope }),
        2 => (0usize..12, scope()).prop_map(|(back, scope)| Step::ListExact { back, scope }),
        1 => Just(Step::Compact),
        2 => (0usize..8).prop_map(|watch| Step::Read { watch }),
    ]
}

/// Any sequence of steps. `fuzz/fuzz_targets/server_model.rs` uses it, too.
pub(crate) fn history() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..60)
}

/// Runs the steps in virtual time.
pub(crate) fn check_history(steps: Vec<Step>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(run(steps));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_watcher_sees_the_events_of_the_model(steps in history()) {
        check_history(steps);
    }
}
