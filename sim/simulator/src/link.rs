//! The network between one client and the server: a tower service that delays, cuts, corrupts and drops data.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use embedded_apiserver::{ApiBody, ApiService};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use http::{HeaderValue, Method, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use kube_client::client::Body;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::faults::USER_AGENT;
use crate::plan::{Action, Collection};
use crate::replay_event::EventReplay;
use crate::served::Served;
use crate::silence::{BookmarkIntervals, WatchSilence};
use crate::trace::Trace;

/// A client's connection to the server.
#[derive(Clone)]
pub(crate) struct Link {
    server: ApiService,
    name: Arc<str>,
    trace: Trace,
    state: Arc<watch::Sender<State>>,
    chance: Arc<Mutex<StdRng>>,
    next: Arc<Mutex<Option<BodyFault>>>,
    rejection: Arc<Mutex<Option<Rejection>>>,
    replays: Arc<AtomicBool>,
    bookmarks: BookmarkIntervals,
    observer: Arc<OnceLock<Observer>>,
    socket: Arc<OnceLock<Socket>>,
}

/// Receives every request when its process hands it to the socket.
type Socket = Box<dyn Fn(&Request<Body>) + Send + Sync>;

/// Receives the lists and watches that the server has answered.
type Observer = Box<dyn Fn(&Served) + Send + Sync>;

/// The current state of the link.
#[derive(Clone, Debug, Default)]
struct State {
    latency_max: Duration,
    refuses: bool,
    partitioned: bool,
    /// Watches of ConfigMaps transfer no data.
    holds_maps: bool,
    /// Connections with a lower number are reset.
    reset_below: u64,
    /// Connections with a lower number stay open, but transfer no more data.
    dead_below: u64,
    opened: u64,
}

/// A fault of a response body: of the next one that it can affect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyFault {
    /// The connection breaks after this many bytes.
    Cut(u64),
    /// The body ends cleanly after this many bytes.
    End(u64),
    /// The body turns into junk after this many bytes, and then the connection breaks.
    Junk(u64),
    /// Another body replaces it, with status 200.
    Garbage(u8),
    /// After this many bytes, a list or watch arrives one byte at a time. A watch does not end then.
    Drip(u64),
}

/// The server rejects the resourceVersion of the next request of this kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rejection {
    pub(crate) of: Collection,
    pub(crate) code: u16,
}

/// What the faults depend on.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// `None` for other requests.
    collection: Option<Collection>,
    /// A list or watch that begins at a resourceVersion. A check of the cached state does not count.
    has_version: bool,
    is_watch_of_maps: bool,
}

/// The pause between two bytes of a body that drips.
const DRIP_PAUSE: Duration = Duration::from_secs(20);

type Frames = BoxStream<'static, io::Result<Frame<Bytes>>>;

impl Link {
    pub(crate) fn new(server: ApiService, name: String, seed: u64, trace: Trace) -> Self {
        Self {
            server,
            name: name.into(),
            trace,
            state: Arc::new(watch::Sender::default()),
            chance: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
            next: Arc::default(),
            rejection: Arc::default(),
            replays: Arc::default(),
            bookmarks: BookmarkIntervals::default(),
            observer: Arc::default(),
            socket: Arc::default(),
        }
    }

    /// The client's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls `observer` with every list and watch when the server answers it. Only the first observer counts.
    pub(crate) fn observe(&self, observer: impl Fn(&Served) + Send + Sync + 'static) {
        let _ = self.observer.set(Box::new(observer));
    }

    /// Lets requests reach the server although their process is suspended, has crashed, or has dropped them, as requests that are in
    /// a socket do. Calls `socket` with each. Only the first call counts.
    pub(crate) fn through_socket(&self, socket: impl Fn(&Request<Body>) + Send + Sync + 'static) {
        let _ = self.socket.set(Box::new(socket));
    }

    pub(crate) fn latency(&self, max: Duration) {
        self.state.send_modify(|state| state.latency_max = max);
    }

    pub(crate) fn refuse(&self, refuses: bool) {
        self.state.send_modify(|state| {
            state.refuses = refuses;
            state.reset_below = if refuses { state.opened } else { state.reset_below };
        });
    }

    pub(crate) fn partition(&self, partitioned: bool) {
        self.state.send_modify(|state| state.partitioned = partitioned);
    }

    pub(crate) fn hold_maps(&self, holds_maps: bool) {
        self.state.send_modify(|state| state.holds_maps = holds_maps);
    }

    /// Silences all open connections without closing them.
    pub(crate) fn half_open(&self) {
        self.state.send_modify(|state| state.dead_below = state.opened);
    }

    pub(crate) fn reset(&self) {
        self.state.send_modify(|state| state.reset_below = state.opened);
    }

    pub(crate) fn strike_next(&self, fault: BodyFault) {
        *self.next.lock() = Some(fault);
    }

    /// Makes the server reject the resourceVersion of the next such request.
    pub(crate) fn reject_version(&self, rejection: Rejection) {
        *self.rejection.lock() = Some(rejection);
    }

    /// Makes a watch in JSON send an older state of an object again, after a newer one.
    pub(crate) fn replay_older_event(&self) {
        self.replays.store(true, Ordering::Relaxed);
    }

    /// Ends all faults, but silent connections stay silent, and dripping ones continue to drip.
    pub(crate) fn heal(&self) {
        *self.next.lock() = None;
        *self.rejection.lock() = None;
        self.replays.store(false, Ordering::Relaxed);
        self.state.send_modify(|state| {
            state.latency_max = Duration::ZERO;
            state.refuses = false;
            state.partitioned = false;
            state.holds_maps = false;
        });
    }

    async fn delay(&self) {
        let max = self.state.borrow().latency_max.as_millis() as u64;
        if max > 0 {
            let delay = self.chance.lock().random_range(0..=max);
            sleep(Duration::from_millis(delay)).await;
        }
    }

    /// Waits until a connection can transfer data.
    async fn passable(&self, connection: u64) -> io::Result<()> {
        let mut states = self.state.subscribe();
        let passable = states
            .wait_for(|state| {
                connection < state.reset_below || (connection >= state.dead_below && !state.partitioned)
            })
            .await
            .map(|state| connection >= state.reset_below);
        match passable {
            Ok(true) => Ok(()),
            _ => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    /// Completes when a connection is reset.
    async fn was_reset(&self, connection: u64) -> io::Error {
        let mut states = self.state.subscribe();
        let _ = states.wait_for(|state| connection < state.reset_below).await;
        io::ErrorKind::ConnectionReset.into()
    }

    async fn exchange(mut self, mut request: Request<Body>) -> io::Result<Response<StreamBody<Frames>>> {
        let agent = format!("{USER_AGENT}{}", self.name);
        request.headers_mut().insert(
            header::USER_AGENT,
            HeaderValue::from_str(&agent).unwrap_or(HeaderValue::from_static(USER_AGENT)),
        );
        let asked = format!(
            "{} {}",
            request.method(),
            request.uri().path_and_query().map_or("", |path| path.as_str())
        );
        self.delay().await;
        if self.state.borrow().refuses {
            self.trace.note(format_args!("{}: {asked}: refused", self.name));
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let mut connection = 0;
        // No connection waits for another one to open.
        self.state.send_if_modified(|state| {
            connection = state.opened;
            state.opened += 1;
            false
        });
        self.passable(connection).await?;
        let of = Asked::of(&request);
        if let Some(code) = self.rejects(of) {
            self.delay().await;
            self.trace.note(format_args!("{}: {asked}: {code}, as planned", self.name));
            return Ok(invalid_version(code));
        }
        // Only an informer that the oracle observes must notice silence.
        let is_watched = matches!(of.collection, Some(Collection::Watch | Collection::WatchList));
        let silence = is_watched && self.observer.get().is_some();
        let silence = silence.then(|| self.bookmarks.of(request.uri().path()));
        let served = Served::of(&request);
        let answered = tower::Service::call(&mut self.server, request);
        let response = tokio::select! {
            biased;
            error = self.was_reset(connection) => Err(error),
            response = answered => response,
        };
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                self.trace.note(format_args!("{}: {asked}: {error}", self.name));
                return Err(error);
            }
        };
        if let (Some(served), Some(observer)) = (served, self.observer.get())
            && response.status() == http::StatusCode::OK
        {
            observer(&served);
        }
        self.passable(connection).await?;
        self.delay().await;
        let fault = self.next.lock().take_if(|fault| fault.affects(of));
        self.trace.note(format_args!(
            "{}: {asked}: {}{}",
            self.name,
            response.status().as_u16(),
            Shown(fault)
        ));
        Ok(self.respond(response, (connection, of), fault, silence))
    }

    /// The status code with which the server rejects a request.
    fn rejects(&self, asked: Asked) -> Option<u16> {
        let is_meant =
            |rejection: &mut Rejection| asked.has_version && asked.collection == Some(rejection.of);
        let Rejection { of, code } = self.rejection.lock().take_if(is_meant)?;
        self.trace.count("fault", Action::RejectVersion { link: 0, of, code }.kind());
        Some(code)
    }

    fn respond(
        self,
        response: Response<ApiBody>,
        (connection, asked): (u64, Asked),
        fault: Option<BodyFault>,
        silence: Option<WatchSilence>,
    ) -> Response<StreamBody<Frames>> {
        let (mut head, body) = response.into_parts();
        if let Some(BodyFault::Garbage(which)) = fault {
            self.trace.count("fault", Action::Garbage { link: 0, which }.kind());
            head.status = http::StatusCode::OK;
            head.headers.remove(header::CONTENT_LENGTH);
            let (kind, text) = GARBAGE[usize::from(which) % GARBAGE.len()];
            head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            return Response::from_parts(head, whole(Bytes::from_static(text.as_bytes())));
        }
        let is_watch = asked.collection.is_some_and(|collection| collection != Collection::List);
        let is_json = head.headers.get(header::CONTENT_TYPE);
        let is_json = is_json.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let reading = Reading {
            link: self,
            body,
            connection,
            is_watch,
            is_of_maps: asked.is_watch_of_maps,
            fault,
            passed: 0,
            cut: false,
            ended: false,
            dripping: Bytes::new(),
            drips: false,
            replay: (is_watch && is_json).then(EventReplay::default),
            silence,
        };
        let frames = stream::unfold(reading, |mut reading| async move {
            let frame = reading.next().await?;
            Some((frame, reading))
        });
        Response::from_parts(head, StreamBody::new(frames.boxed()))
    }
}

/// A body that arrives as a whole.
fn whole(bytes: Bytes) -> StreamBody<Frames> {
    StreamBody::new(stream::once(async move { Ok(Frame::data(bytes)) }).boxed())
}

/// The response of a server that does not accept a resourceVersion.
fn invalid_version(code: u16) -> Response<StreamBody<Frames>> {
    let reason = if code == 500 { "InternalError" } else { "BadRequest" };
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": "invalid resource version: as planned",
    });
    let mut response = Response::new(whole(status.to_string().into()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

const GARBAGE: [(&str, &str); 4] = [
    ("text/html", "<html><body>please log in</body></html>"),
    ("application/json", "{}"),
    ("application/json", "null"),
    ("application/json", r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
];

/// A response body that passes through a link.
struct Reading {
    link: Link,
    body: ApiBody,
    connection: u64,
    is_watch: bool,
    /// A watch of ConfigMaps.
    is_of_maps: bool,
    fault: Option<BodyFault>,
    passed: u64,
    /// The connection breaks after the bytes that have passed.
    cut: bool,
    ended: bool,
    /// Bytes that arrive one at a time.
    dripping: Bytes,
    drips: bool,
    /// Only of a watch in JSON.
    replay: Option<EventReplay>,
    /// Measures the silence of an informer's watch.
    silence: Option<WatchSilence>,
}

impl Reading {
    async fn next(&mut self) -> Option<io::Result<Frame<Bytes>>> {
        if self.ended {
            return None;
        }
        if self.cut {
            self.ended = true;
            return Some(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if !self.dripping.is_empty() {
            return self.drip().await;
        }
        let frame = tokio::select! {
            biased;
            error = self.link.was_reset(self.connection) => Some(Err(error)),
            frame = self.body.frame() => frame,
        };
        if frame.is_none() && self.is_watch && matches!(self.fault, Some(BodyFault::Drip(_))) {
            // The last byte never arrives.
            self.begin_to_drip();
            self.ended = true;
            return Some(Err(self.link.was_reset(self.connection).await));
        }
        if self.is_of_maps {
            let is_reset = |state: &State| self.connection < state.reset_below;
            let mut states = self.link.state.subscribe();
            let _ = states.wait_for(|state| !state.holds_maps || is_reset(state)).await;
        }
        // A silent connection delivers neither data nor the end of the body.
        if let Err(error) = self.link.passable(self.connection).await {
            self.ended = true;
            return Some(Err(error));
        }
        self.link.delay().await;
        let bytes = match frame? {
            Ok(frame) => frame.into_data().ok()?,
            Err(error) => {
                self.ended = true;
                return Some(Err(error));
            }
        };
        self.pass(bytes)
    }

    /// Passes the next of the bytes that arrive one at a time.
    async fn drip(&mut self) -> Option<io::Result<Frame<Bytes>>> {
        let (link, connection) = (&self.link, self.connection);
        let passes = async {
            sleep(DRIP_PAUSE).await;
            link.passable(connection).await
        };
        let passes = tokio::select! {
            biased;
            error = link.was_reset(connection) => Err(error),
            passes = passes => passes,
        };
        if let Err(error) = passes {
            self.ended = true;
            return Some(Err(error));
        }
        self.silence.iter_mut().for_each(WatchSilence::passed);
        Some(Ok(Frame::data(self.dripping.split_to(1))))
    }

    fn begin_to_drip(&mut self) {
        if !std::mem::replace(&mut self.drips, true) {
            self.link.trace.count("fault", Action::Drip { link: 0, bytes: 0 }.kind());
            self.silence.iter().for_each(WatchSilence::drips);
        }
    }

    fn pass(&mut self, bytes: Bytes) -> Option<io::Result<Frame<Bytes>>> {
        let (from, to) = (self.passed, self.passed + bytes.len() as u64);
        self.passed = to;
        let Some(at) = self.fault.and_then(BodyFault::at).filter(|at| *at < to) else {
            self.silence.iter_mut().for_each(|silence| silence.passed_events(&bytes));
            if self.link.replays.load(Ordering::Relaxed)
                && let Some(older) = self.replay.as_mut().and_then(|replay| replay.after(&bytes))
            {
                self.link.replays.store(false, Ordering::Relaxed);
                self.link.trace.count("fault", Action::Replay { link: 0 }.kind());
                self.link.trace.note(format_args!("{}: an older event follows", self.link.name));
                return Some(Ok(Frame::data([&bytes[..], &older[..]].concat().into())));
            }
            return Some(Ok(Frame::data(bytes)));
        };
        let before = bytes.slice(..at.saturating_sub(from) as usize);
        if let Some(BodyFault::Drip(_)) = self.fault {
            self.begin_to_drip();
            self.silence.iter_mut().for_each(WatchSilence::passed);
            self.dripping = bytes.slice(before.len()..);
            return Some(Ok(Frame::data(before)));
        }
        let (kind, passes) = match self.fault {
            Some(BodyFault::End(_)) => {
                self.ended = true;
                ("end early", before)
            }
            Some(BodyFault::Junk(_)) => {
                self.cut = true;
                ("junk", [&before[..], &[0xff; 16]].concat().into())
            }
            _ => {
                self.cut = true;
                ("cut", before)
            }
        };
        self.link.trace.count("fault", kind);
        Some(Ok(Frame::data(passes)))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(Err(violation)) = self.silence.as_ref().map(WatchSilence::ends) {
            self.link.trace.fail(&format!("{}: {violation}", self.link.name));
        }
    }
}

impl BodyFault {
    /// The position at which it takes effect.
    fn at(self) -> Option<u64> {
        match self {
            Self::Cut(at) | Self::End(at) | Self::Junk(at) | Self::Drip(at) => Some(at),
            Self::Garbage(_) => None,
        }
    }

    /// Whether it can affect the response to this request.
    fn affects(self, asked: Asked) -> bool {
        match self {
            Self::Cut(_) | Self::End(_) | Self::Junk(_) | Self::Garbage(_) => true,
            Self::Drip(_) => asked.collection.is_some(),
        }
    }
}

impl Asked {
    fn of<B>(request: &Request<B>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let value = |name: &str| pairs.clone().find(|(found, _)| *found == name).map(|(_, value)| value);
        let version = value("resourceVersion");
        let collection = match value("watch") {
            _ if request.method() != Method::GET => None,
            Some(_) if value("sendInitialEvents").is_some() => Some(Collection::WatchList),
            Some(_) => Some(Collection::Watch),
            None => version.map(|_| Collection::List),
        };
        let is_check = pairs.any(|pair| pair == ("resourceVersionMatch", "Exact"));
        Self {
            collection,
            has_version: !is_check && version.is_some_and(|version| version != "0"),
            is_watch_of_maps: request.uri().path().ends_with("/configmaps") && query.contains("watch="),
        }
    }
}

struct Shown(Option<BodyFault>);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(fault) => write!(f, ", {fault:?}"),
            None => Ok(()),
        }
    }
}

impl tower::Service<Request<Body>> for Link {
    type Response = Response<StreamBody<Frames>>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(socket) = self.socket.get() else { return self.clone().exchange(request).boxed() };
        socket(&request);
        let exchange = tokio::spawn(self.clone().exchange(request));
        async move { exchange.await.map_err(io::Error::other)? }.boxed()
    }
}
