//! The client of a reconcile: a layer over the controller's client that records writes.
//!
//! A reconcile cannot forget to report a write that it makes through this client. Responses of writes to watched resources are read
//! here before the caller gets them. A write that ends without a definite answer (a lost connection, a 5xx) is recorded as unknown.
//!
//! A caller may drop a write before it is answered, for example at a time limit. The server may execute it anyway, at any later
//! time, so the request goes on in a task of its own, and the key waits for its answer.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use kube_client::client::Body;
use kube_client::{Client, Error};
use kube_core::ObjectMeta;
use kube_informer::Key;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tower::service_fn;
use tracing::Instrument;

use super::expect::Named;
use super::request::{WriteOutcome, WriteRequest};
use super::tools::Tools;
use super::unsettled::UnsettledWrite;

/// The largest response to a write, in bytes. The server's own limit for objects is far below.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// How long a write continues after its caller has dropped it. kube-apiserver itself gives a write up after 34 s. The key waits
/// meanwhile, so a dropped write does not change what the key's next reconcile reads.
const DROPPED_MAX: Duration = Duration::from_secs(60);

/// How long a write takes at most, because its key waits for it. A kube-apiserver answers within a minute.
const WRITE_MAX: Duration = Duration::from_secs(300);

/// The writes that the reconciles of one term have sent. They end with the term: a replica that no longer leads sends nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct SentWrites {
    tasks: TaskTracker,
    ended: CancellationToken,
}

/// A write that was sent. If it is dropped before its outcome is known, the outcome is unknown.
struct InFlight {
    tools: Arc<Tools>,
    key: Key,
    write: WriteRequest,
    /// Its number.
    request: u64,
    /// The uids of the target that the cache had, or the key expected, when the request was sent.
    cached: Vec<String>,
    outcome: SentOutcome,
}

enum SentOutcome {
    /// It may or may not have been executed.
    Unknown,
    /// The response says what happened, and the key waits for that; or nothing happened.
    Recorded,
    /// An object was deleted. The cache did not have it, and the response does not say when it was deleted.
    DeletedUnseen,
    /// These objects of a collection are deleted or are being deleted.
    Collection(Vec<ObjectMeta>),
}

/// The controller has no client.
#[derive(Debug, thiserror::Error)]
#[error("controller `{0}` has no client; set one with `ControllerBuilder::client`")]
struct NoClient(Arc<str>);

/// A write was cancelled.
#[derive(Debug, thiserror::Error)]
#[error("cannot finish the request: {0}")]
struct Cancelled(String);

/// A client that records the writes of `key`.
pub(super) fn tracked(tools: &Arc<Tools>, key: &Key, sent: &SentWrites) -> Client {
    let namespace = tools.client.as_ref().map_or("default", Client::default_namespace).to_owned();
    let (tools, key, sent) = (tools.clone(), key.clone(), sent.clone());
    let tracking = service_fn(move |request| {
        let (tools, key, sent) = (tools.clone(), key.clone(), sent.clone());
        async move { send(tools, key, &sent, request).await }
    });
    Client::new(tracking, namespace)
}

async fn send(
    tools: Arc<Tools>,
    key: Key,
    sent: &SentWrites,
    request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let Some(client) = tools.client.clone() else {
        return Err(Error::Service(NoClient(tools.name.clone()).into()));
    };
    let write = WriteRequest::of(&request).filter(|write| tools.watches(&Named::of(&write.target)));
    let Some(write) = write else { return client.send(request).await };
    let in_flight = InFlight::new(tools, key, write);
    sent.finish(in_flight.send(client, request)).await
}

// === impl SentWrites ===

impl SentWrites {
    /// Cancels all writes when it is dropped.
    pub(super) fn guard(&self) -> DropGuard {
        self.ended.clone().drop_guard()
    }

    /// Cancels all writes, and waits until none is left.
    pub(super) async fn cancel(&self) {
        self.ended.cancel();
        self.finished().await;
    }

    /// Waits until no write is left.
    pub(super) async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Sends a write in a task, so that it continues if the caller drops this.
    async fn finish(
        &self,
        write: impl Future<Output = Result<Response<Body>, Error>> + Send + 'static,
    ) -> Result<Response<Body>, Error> {
        let caller = CancellationToken::new();
        let (ended, dropped) = (self.ended.clone(), caller.clone());
        let task = async move {
            let why = tokio::select! {
                biased;
                () = ended.cancelled() => "the controller has stopped or no longer leads".to_owned(),
                () = async { dropped.cancelled().await; sleep(DROPPED_MAX).await } => "its caller has dropped it".to_owned(),
                () = sleep(WRITE_MAX) => format!("timed out after {WRITE_MAX:?} waiting for the answer"),
                response = write => return response,
            };
            Err(Error::Service(Cancelled(why).into()))
        };
        let task = self.tasks.spawn(task.in_current_span());
        let _caller = caller.drop_guard();
        match task.await {
            Ok(response) => response,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(Error::Service(Cancelled("the runtime is shutting down".to_owned()).into())),
        }
    }
}

// === impl InFlight ===

impl InFlight {
    fn new(tools: Arc<Tools>, key: Key, write: WriteRequest) -> Self {
        let cached = match &write.target.name {
            Some(name) if write.is_deletion() => {
                let object = Key::new(write.target.namespace.as_deref().unwrap_or_default(), name);
                let expected = tools.expected(&key, &Named::of(&write.target));
                let expected = expected.into_iter().filter(|(other, _)| *other == object);
                let cached = tools.cached_uids(&Named::of(&write.target), &object);
                cached.into_iter().chain(expected.map(|(_, uid)| uid)).collect()
            }
            _ => Vec::new(),
        };
        let request = tools.intake.writes.sent(&key);
        Self { tools, key, write, request, cached, outcome: SentOutcome::Unknown }
    }

    async fn send(mut self, client: Client, request: Request<Body>) -> Result<Response<Body>, Error> {
        let response = client.send(request).await?;
        let code = response.status();
        if self.write.is_refused(code) {
            self.outcome = SentOutcome::Recorded;
        }
        if !code.is_success() {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await.map_err(Error::Service)?.to_bytes();
        self.outcome = self.read(&body);
        Ok(Response::from_parts(parts, Body::from(body)))
    }

    /// Reads a successful response.
    fn read(&self, body: &[u8]) -> SentOutcome {
        let named = Named::of(&self.write.target);
        match self.write.outcome(body) {
            Some(WriteOutcome::Written(meta)) => {
                self.tools.expect(&self.key, &named, &meta, false);
                SentOutcome::Recorded
            }
            Some(WriteOutcome::Gone(meta)) => {
                self.tools.expect(&self.key, &named, &meta, true);
                let uid = meta.uid.unwrap_or_default();
                // Without a resourceVersion, an object that is not in the cache may be deleted there, or not created yet.
                match meta.resource_version.is_some() || self.cached.contains(&uid) {
                    true => SentOutcome::Recorded,
                    false => SentOutcome::DeletedUnseen,
                }
            }
            Some(WriteOutcome::Collection(items)) => SentOutcome::Collection(items),
            None => SentOutcome::Unknown,
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Self { tools, key, write, request, outcome, .. } = self;
        let WriteRequest { method, target, .. } = &*write;
        let writes = &tools.intake.writes;
        let unsettled = |may_have_deleted, deleted| {
            let target = target.clone();
            writes.unsettled.unknown(key, UnsettledWrite { target, may_have_deleted, deleted, absent: None });
        };
        match std::mem::replace(outcome, SentOutcome::Recorded) {
            SentOutcome::Recorded => {}
            SentOutcome::Collection(deleted) => unsettled(false, deleted),
            SentOutcome::DeletedUnseen => unsettled(true, Vec::new()),
            SentOutcome::Unknown => {
                tracing::debug!(%key, %method, path = target.path, name = target.name, "the outcome of a write is unknown");
                unsettled(write.is_deletion(), Vec::new());
            }
        }
        if let Some((key, priority)) = writes.answered(key, *request) {
            tools.intake.add(key, priority);
        }
    }
}
