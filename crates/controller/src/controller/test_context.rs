//! Calling a reconcile directly, without a running controller.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use kube_client::Client;
use kube_client::client::Body;
use kube_informer::{Informer, Key};
use kube_workqueue::WorkQueue;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::context::{Context, Run};
use super::intake::Intake;
use super::request::{WriteRequest, WriteTarget};
use super::tools::Tools;
use super::tracking::SentWrites;
use super::trigger::Watched;
use super::writes::Writes;
use crate::leader::Term;
use crate::{Action, Error, Stop};

/// Creates contexts for tests of a reconcile: see [`Context::for_test`].
#[must_use = "`reconcile` calls a reconcile with a context"]
pub struct TestContext<D> {
    data: Arc<D>,
    client: Option<Client>,
    main: Option<SharedInformer>,
    others: Vec<SharedInformer>,
    field_manager: String,
    failures: u32,
    term: Option<Term>,
    stop: Stop,
    recorded: Recorded,
}

/// A write that a reconcile made. Prints as `PATCH /api/v1/namespaces/web/configmaps/settings`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecordedWrite {
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The body that was sent; `null` without one.
    pub body: Value,
}

/// Returns an informer with its kind erased.
type SharedInformer = Arc<dyn Fn() -> Box<dyn Watched> + Send + Sync>;

type Recorded = Arc<Mutex<WriteLog>>;

/// The writes that were not taken yet, and the number of all writes.
#[derive(Default)]
struct WriteLog {
    writes: Vec<RecordedWrite>,
    count: usize,
}

/// How long a key waits for its own writes. Keys of test contexts are not queued, so the limit is never reached.
const WRITE_WAIT: Duration = Duration::from_secs(30);

impl<D> Context<D> {
    /// Creates contexts to call a reconcile directly in a test, without a controller, a queue or a server.
    ///
    /// Writes through the context are recorded. By default they are answered with the object that was sent; reads are answered
    /// with 404. With [`main`](TestContext::main) or [`client`](TestContext::client) they go to a server, such as the embedded one.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kube_core::ObjectMeta;
    /// use kube_informer::testing::ScriptedSource;
    /// use kube_informer::{Informer, Key};
    /// use kube_informer_controller::{Action, Context, Error};
    /// # use serde_json::json;
    ///
    /// /// Every ConfigMap gets a Secret.
    /// async fn reconcile(ctx: Context, key: Key) -> Result<Action, Error> {
    ///     let metadata = ObjectMeta { name: Some(key.name().to_owned()), ..ObjectMeta::default() };
    ///     ctx.apply(&Secret { metadata, ..Secret::default() }).await?;
    ///     Ok(Action::Done)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let maps = ScriptedSource::new("v1", "ConfigMap");
    /// maps.put(json!({"metadata": {"namespace": "web", "name": "settings", "uid": "1"}}));
    /// let maps = Informer::<ConfigMap>::from_source(Arc::new(maps)).start()?;
    /// maps.synced().await?;
    ///
    /// let test = Context::for_test(()).main(&maps);
    /// assert_eq!(test.reconcile(reconcile, "web/settings").await?, Action::Done);
    ///
    /// let writes = test.take_writes();
    /// assert_eq!(writes[0].to_string(), "PATCH /api/v1/namespaces/web/secrets/settings");
    /// assert_eq!(writes[0].body["metadata"]["ownerReferences"][0]["name"], "settings");
    /// # Ok(()) }
    /// ```
    pub fn for_test(data: D) -> TestContext<D> {
        TestContext {
            data: Arc::new(data),
            client: None,
            main: None,
            others: Vec::new(),
            field_manager: "test".to_owned(),
            failures: 0,
            term: None,
            stop: Stop::new(),
            recorded: Recorded::default(),
        }
    }
}

impl<D> TestContext<D> {
    /// Uses the main informer of the controller, and its client. The owner references of [`Context::apply`] come from it.
    pub fn main<M: Send + Sync + 'static>(mut self, informer: &Informer<M>) -> Self {
        self.client = self.client.or_else(|| informer.client().cloned());
        self.main = Some(shared(informer));
        self
    }

    /// Adds another informer of the controller, such as that of its children: [`Context::informer`] returns it.
    pub fn informer<K: Send + Sync + 'static>(mut self, informer: &Informer<K>) -> Self {
        self.client = self.client.or_else(|| informer.client().cloned());
        self.others.push(shared(informer));
        self
    }

    /// Sends requests to this client's server.
    pub fn client(mut self, client: impl Into<Client>) -> Self {
        self.client = Some(client.into());
        self
    }

    /// Sets the field manager of applied objects. Default: `test`.
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = name.into();
        self
    }

    /// Sets the [term](Context::term) of leadership. Its token has these transitions: a later term has more. Default: no leader
    /// election.
    pub fn term(mut self, transitions: i32) -> Self {
        self.term = Some(Term::for_test(transitions));
        self
    }

    /// Ends the term of leadership, as when the lease is lost. A controller would also cancel the reconcile.
    pub fn lose_term(&self) {
        self.term.iter().for_each(Term::end);
    }

    /// Sets the number of failures before the call. Default: 0.
    pub fn failures(mut self, failures: u32) -> Self {
        self.failures = failures;
        self
    }

    /// Stops the contexts, as when a controller is stopped.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Calls a reconcile with a key such as `web/settings`.
    ///
    /// # Errors
    /// Returns the error of the reconcile, or that the key is invalid.
    pub async fn reconcile<F, R, E>(&self, reconcile: F, key: &str) -> Result<Action, Error>
    where
        F: FnOnce(Context<D>, Key) -> R,
        R: Future<Output = Result<Action, E>>,
        E: Into<Error>,
    {
        let key = key.parse::<Key>().map_err(Error::terminal)?;
        reconcile(self.context(&key), key).await.map_err(Into::into)
    }

    /// A context for a key.
    pub fn context(&self, key: &Key) -> Context<D> {
        let recording = Recording { client: self.client.clone(), recorded: self.recorded.clone() };
        let queue = WorkQueue::<Key>::builder().build();
        let tools = Tools {
            name: "test".into(),
            intake: Arc::new(Intake::new(queue, 1, Writes::new(WRITE_WAIT), None)),
            watched: self.main.iter().chain(&self.others).map(|informer| informer()).collect(),
            has_main: self.main.is_some(),
            first: 0,
            admits: None,
            client: Some(Client::new(recording, "default")),
            field_manager: self.field_manager.clone(),
            removed: CancellationToken::new(),
        };
        let run = Run {
            key: key.clone(),
            owner: tools.owner_uid(key),
            cleanups: Vec::new(),
            id: 0,
            failures: self.failures,
            tools: Arc::new(tools),
            stop: self.stop.clone(),
            term: self.term.clone(),
            slot: None,
            sent: SentWrites::default(),
            client: OnceLock::new(),
        };
        Context::with_shared(self.data.clone(), run)
    }

    /// The writes of all contexts so far, in order. Dry runs are not recorded.
    pub fn take_writes(&self) -> Vec<RecordedWrite> {
        std::mem::take(&mut self.recorded.lock().writes)
    }
}

impl WriteLog {
    /// Records a write. Returns its number.
    fn add(&mut self, write: RecordedWrite) -> usize {
        self.writes.push(write);
        self.count += 1;
        self.count
    }
}

fn shared<K: Send + Sync + 'static>(informer: &Informer<K>) -> SharedInformer {
    let informer = informer.clone();
    Arc::new(move || Box::new(informer.clone()))
}

impl fmt::Display for RecordedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl<D> fmt::Debug for TestContext<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestContext")
            .field("writes", &self.recorded.lock().writes.len())
            .finish_non_exhaustive()
    }
}

/// Records writes, and answers them if there is no server.
struct Recording {
    client: Option<Client>,
    recorded: Recorded,
}

impl Service<Request<Body>> for Recording {
    type Response = Response<Body>;
    type Error = kube_client::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, kube_client::Error>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), kube_client::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, recorded) = (self.client.clone(), self.recorded.clone());
        async move {
            let write = WriteRequest::of(&request);
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await?;
            let body = serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
            let write = write.map(|write| {
                let (method, path) = (parts.method.to_string(), parts.uri.path().to_owned());
                (write, recorded.lock().add(RecordedWrite { method, path, body: body.clone() }))
            });
            match client {
                Some(client) => client.send(Request::from_parts(parts, Body::from(bytes))).await,
                None => Ok(answer(&parts.method, write, body)),
            }
        }
        .boxed()
    }
}

/// The answer without a server: the object that was sent, as stored. Its generated name, uid and resourceVersion have the number of the
/// write.
fn answer(method: &Method, write: Option<(WriteRequest, usize)>, mut body: Value) -> Response<Body> {
    let (code, body) = match (method, write) {
        (&Method::DELETE, Some((write, _))) => (StatusCode::OK, deleted(&write.target)),
        (method, Some((write, number))) => {
            let WriteTarget { namespace, name, .. } = write.target;
            let name = name.unwrap_or_else(|| format!("generated-{number}"));
            if !body.is_object() {
                // A JSON patch.
                body = json!({});
            }
            body["metadata"]["name"] = name.into();
            if let Some(namespace) = namespace {
                body["metadata"]["namespace"] = namespace.into();
            }
            if body["metadata"]["uid"].is_null() {
                body["metadata"]["uid"] = format!("uid-{number}").into();
            }
            body["metadata"]["resourceVersion"] = number.to_string().into();
            (if *method == Method::POST { StatusCode::CREATED } else { StatusCode::OK }, body)
        }
        (_, None) => (StatusCode::NOT_FOUND, not_found()),
    };
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = code;
    response
}

fn deleted(target: &WriteTarget) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"name": target.name, "uid": "uid"}})
}

fn not_found() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
           "message": "the test has no server; name one with `client`"})
}
