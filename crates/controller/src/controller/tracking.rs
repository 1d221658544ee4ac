//! The client of a reconcile: a layer over the controller's client that records writes.
//!
//! Every write that a reconcile makes through this client is recorded. Responses to writes of watched resources are read here before
//! the caller gets them. A write that ends without a definite answer (a lost connection, a 5xx, a conflict) is recorded as unknown.
//!
//! A caller may drop a write before it is answered, for example at a time limit. The server may execute it anyway, at any later
//! time, so the request continues in its own task, and the key waits for the answer.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use kube_client::client::Body;
use kube_client::{Client, Error};
use kube_core::ObjectMeta;
use kube_informer::Key;
use kube_informer::internals::in_process;
use tokio::pin;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tower::service_fn;
use tracing::Instrument;

use super::context::Run;
use super::expect::Named;
use super::request::{WriteOutcome, WriteRequest};
use super::tools::Tools;
use super::unsettled::UnsettledWrite;
use crate::deliberate_bug::deliberate_bug;
use crate::leader::{FencingToken, Term};
use crate::shards::{SlotPermit, SlotTerm};

/// The largest response to a write, in bytes. The server's own limit for objects is far below.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// How long a write continues after its caller has dropped it. A kube-apiserver abandons a write after 34 s. The key waits
/// meanwhile, so a dropped write cannot take effect after the key's next reconcile has started.
const DROPPED_MAX: Duration = Duration::from_secs(60);

/// The time limit of a write. Its key waits for the answer, so there must be a limit. A kube-apiserver answers within a minute.
const WRITE_MAX: Duration = Duration::from_secs(300);

/// Why a request of a slot was cancelled.
const SLOT_CUT: &str = "another replica gets the key's slot";

/// The writes that the reconciles of one term have sent. They are cancelled when the term ends: a replica that no longer leads must
/// not write.
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
    /// The number of the request.
    request: u64,
    /// The objects of the target that the cache had, or the key expected, when the request was sent.
    known: Vec<ObjectMeta>,
    outcome: SentOutcome,
    /// Present if several replicas share the work.
    permit: Option<SlotPermit>,
}

enum SentOutcome {
    /// The server may or may not have executed it.
    Unknown,
    /// The outcome is known. The key waits for the written state, or the server has changed nothing.
    Recorded,
    /// An object was deleted. The cache did not have it, and the response does not say when it was deleted.
    DeletedUnseen,
    /// These objects of a collection are deleted or are being deleted.
    Collection(Vec<ObjectMeta>),
}

/// The controller has no client.
#[derive(Debug, thiserror::Error)]
#[error("cannot send the request: controller `{0}` has no client; set one with `ControllerBuilder::client`")]
struct NoClient(Arc<str>);

/// A request was not sent, because the term of its reconcile is over.
#[derive(Debug, thiserror::Error)]
#[error("cannot send the request: the term {0} is over")]
struct StaleTerm(FencingToken);

/// A write was cancelled.
#[derive(Debug, thiserror::Error)]
#[error("cannot finish the request: {0}")]
struct Cancelled(String);

/// Sends the requests of one reconcile.
#[derive(Clone)]
struct Sender {
    tools: Arc<Tools>,
    key: Key,
    sent: SentWrites,
    term: Option<Term>,
    slot: Option<SlotTerm>,
}

/// A client that records the writes of a reconcile.
pub(super) fn tracked(run: &Run) -> Client {
    let Run { tools, key, sent, term, slot, .. } = run;
    let namespace = tools.client.as_ref().map_or("default", Client::default_namespace).to_owned();
    let (tools, key, sent) = (tools.clone(), key.clone(), sent.clone());
    let sender = Sender { tools, key, sent, term: term.clone(), slot: slot.clone() };
    let tracking = service_fn(move |request| sender.clone().send(request));
    Client::new(tracking, namespace)
}

impl Sender {
    async fn send(self, request: Request<Body>) -> Result<Response<Body>, Error> {
        let Self { tools, key, sent, term, slot } = self;
        let Some(client) = tools.client.clone() else {
            return Err(Error::Service(NoClient(tools.name.clone()).into()));
        };
        let permit = slot.as_ref().and_then(SlotTerm::permit);
        if let Some(term) = &term {
            check(term, permit.is_some() == slot.is_some())?;
        }
        let write = WriteRequest::of(&request).filter(|write| tools.watches(&Named::of(&write.target)));
        let Some(write) = write else {
            let mut was_sent = false;
            let send = current(term.as_ref(), &mut was_sent, client.send(request));
            return tokio::select! {
                biased;
                // A leaked request must not keep the slot.
                () = cut(slot.as_ref()) => Err(Error::Service(Cancelled(SLOT_CUT.to_owned()).into())),
                response = send => response,
            };
        };
        let in_flight = InFlight::new(tools, key, write, permit);
        sent.finish(in_flight.send(client, request, term), slot).await
    }
}

/// Checks that a term is current, immediately before a request is sent. The process may have been suspended, so the clock decides.
fn check(term: &Term, is_permitted: bool) -> Result<(), Error> {
    match is_permitted && term.is_current() || deliberate_bug("stale-term-sends") {
        true => Ok(()),
        false => Err(Error::Service(StaleTerm(term.token().clone()).into())),
    }
}

/// Sends a request, and checks at each step that the term is current, until the response begins. Credentials and a connection can
/// take time to establish, and the process may be suspended at any point. Sets `was_sent` when sending begins.
async fn current<T>(
    term: Option<&Term>,
    was_sent: &mut bool,
    send: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let Some(term) = term else {
        *was_sent = true;
        return send.await;
    };
    pin!(send);
    poll_fn(|context| {
        if let Err(stale) = check(term, true) {
            return Poll::Ready(Err(stale));
        }
        *was_sent = true;
        send.as_mut().poll(context)
    })
    .await
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

    /// Sends a write in a task, so that it continues if the caller drops this. A slot is not released before its writes have ended.
    async fn finish(
        &self,
        write: impl Future<Output = Result<Response<Body>, Error>> + Send + 'static,
        slot: Option<SlotTerm>,
    ) -> Result<Response<Body>, Error> {
        let caller = CancellationToken::new();
        let (ended, dropped) = (self.ended.clone(), caller.clone());
        let task = async move {
            let why = tokio::select! {
                biased;
                () = ended.cancelled() => "the controller has stopped or no longer leads".to_owned(),
                () = cut(slot.as_ref()) => SLOT_CUT.to_owned(),
                () = async { dropped.cancelled().await; sleep(DROPPED_MAX).await } => "its caller has dropped it".to_owned(),
                () = sleep(WRITE_MAX) => format!("timed out after {WRITE_MAX:?} waiting for the answer"),
                response = write => return response,
            };
            Err(Error::Service(Cancelled(why).into()))
        };
        let task = self.tasks.spawn(in_process(task.in_current_span()));
        let _caller = caller.drop_guard();
        match task.await {
            Ok(response) => response,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(Error::Service(Cancelled("the runtime is shutting down".to_owned()).into())),
        }
    }
}

/// Waits until the work on a slot must end.
async fn cut(slot: Option<&SlotTerm>) {
    match slot {
        Some(slot) => slot.cut().await,
        None => std::future::pending().await,
    }
}

// === impl InFlight ===

impl InFlight {
    fn new(tools: Arc<Tools>, key: Key, write: WriteRequest, permit: Option<SlotPermit>) -> Self {
        let known = tools.known(&key, &write.target);
        let request = tools.intake.writes.sent(&key);
        Self { tools, key, write, request, known, outcome: SentOutcome::Unknown, permit }
    }

    async fn send(
        mut self,
        client: Client,
        request: Request<Body>,
        term: Option<Term>,
    ) -> Result<Response<Body>, Error> {
        let mut was_sent = false;
        let sent = current(term.as_ref(), &mut was_sent, client.send(request)).await;
        if !was_sent {
            // The server has changed nothing.
            self.outcome = SentOutcome::Recorded;
        }
        let response = sent?;
        let code = response.status();
        if self.write.is_refused(code) {
            self.outcome = SentOutcome::Recorded;
        }
        if self.write.is_absent(code) {
            for meta in &self.known {
                self.expect(&Named::of(&self.write.target), meta, true);
            }
        }
        // Read here, because the time limit of a write includes the body: a dead connection may never deliver it.
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await.map_err(Error::Service)?.to_bytes();
        if code.is_success() {
            self.outcome = self.read(&body);
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }

    /// Reads a successful response.
    fn read(&self, body: &[u8]) -> SentOutcome {
        let named = Named::of(&self.write.target);
        match self.write.outcome(body) {
            Some(WriteOutcome::Written(meta)) => {
                self.expect(&named, &meta, false);
                SentOutcome::Recorded
            }
            Some(WriteOutcome::Gone(meta)) => {
                self.expect(&named, &meta, true);
                let is_known = self.known.iter().any(|known| known.uid == meta.uid);
                // Without a resourceVersion, an object that is not in the cache may be deleted there, or not created yet.
                match meta.resource_version.is_some() || is_known {
                    true => SentOutcome::Recorded,
                    false => SentOutcome::DeletedUnseen,
                }
            }
            Some(WriteOutcome::Collection(items)) => SentOutcome::Collection(items),
            None => SentOutcome::Unknown,
        }
    }

    fn expect(&self, named: &Named, meta: &ObjectMeta, gone: bool) {
        let is_shown = self.tools.expect(&self.key, named, meta, gone);
        if is_shown && let Some(permit) = &self.permit {
            self.tools.record_write(permit.slot_term(), named, meta);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Self { tools, key, write, request, outcome, permit, .. } = self;
        let WriteRequest { method, target, .. } = &*write;
        let writes = &tools.intake.writes;
        let unsettled = |may_have_deleted, deleted| {
            permit.iter().for_each(|permit| permit.slot_term().wrote_unknown());
            let target = target.clone();
            let write = UnsettledWrite { target, may_have_deleted, deleted, absent: None };
            writes.unsettled.unknown(key, write, &tools.removed);
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
