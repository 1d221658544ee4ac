//! The scripted source.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, ready};
use futures::stream::{self, StreamExt};
use kube_wire::{FieldSelector, ListHead, RawObject, Status, TypeMeta, WatchEvent};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::script::{self, ListStep, Script, WatchStep};
use super::server::{Checkpoint, Server, refusal};
use crate::Key;
use crate::source::{
    ListOptions, ListPart, ListStream, ListerWatcher, SourceError, VersionMatch, WatchOptions, WatchStream,
};

/// A source whose server a test controls. Clones are handles to the same server.
///
/// ```
/// use kube_informer::testing::ScriptedSource;
/// use serde_json::json;
///
/// let pods = ScriptedSource::new("v1", "Pod");
/// pods.put(json!({"metadata": {"namespace": "web", "name": "api"}}));
/// pods.close_watches();                 // a resumed watch still receives the next change
/// pods.delete("web/api");
/// pods.compact();                       // but now it cannot be resumed: 410
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedSource {
    inner: Arc<Mutex<ScriptedState>>,
    /// The number of requests, for callers that wait for one.
    requests: Arc<watch::Sender<usize>>,
}

/// A request that a source received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A list.
    List(ListOptions),
    /// A watch, or a watch-list.
    Watch(WatchOptions),
}

/// How the server handles `sendInitialEvents`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchListSupport {
    /// It streams the initial list and ends it with a bookmark.
    #[default]
    Full,
    /// It refuses with 422, like servers with the feature disabled.
    Refused,
    /// It ignores the parameter: an ordinary watch without the bookmark.
    Ignored,
    /// It streams the initial list and closes before the bookmark.
    ClosesEarly,
}

/// An open watch.
#[derive(Debug)]
struct Watcher {
    /// Where it began: it does not receive changes up to this revision. After a restore that may be in the future.
    after: u64,
    events: mpsc::UnboundedSender<Result<WatchEvent, SourceError>>,
}

#[derive(Debug)]
struct ScriptedState {
    server: Server,
    script: Script,
    watch_list: WatchListSupport,
    /// Whether a list at `"0"` is paginated, as on a server without a watch cache.
    pages_at_zero: bool,
    watchers: Vec<Watcher>,
    /// States that continue tokens refer to.
    pages: BTreeMap<String, (u64, Vec<RawObject>)>,
    requests: Vec<Request>,
}

// === impl ScriptedSource: the server's side ===

impl ScriptedSource {
    /// An empty server for one resource.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let inner = ScriptedState {
            server: Server::new(api_version, kind),
            script: Script::default(),
            watch_list: WatchListSupport::default(),
            pages_at_zero: false,
            watchers: Vec::new(),
            pages: BTreeMap::new(),
            requests: Vec::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)), requests: Arc::default() }
    }

    /// Creates or changes an object (JSON with `metadata.name`). Returns its resourceVersion.
    ///
    /// # Panics
    /// Panics if the object has no name.
    pub fn put(&self, object: Value) -> String {
        let mut inner = self.inner.lock();
        let event = inner.server.put(object);
        inner.send_change(&event);
        inner.server.revision.to_string()
    }

    /// Deletes an object, by `namespace/name` or `name`. Returns the deletion's resourceVersion if it existed.
    pub fn delete(&self, key: &str) -> Option<String> {
        let mut inner = self.inner.lock();
        let event = inner.server.delete(&key.parse().ok()?)?;
        inner.send_change(&event);
        Some(inner.server.revision.to_string())
    }

    /// The objects on the server.
    pub fn objects(&self) -> Vec<RawObject> {
        let inner = self.inner.lock();
        inner.server.objects.values().map(|object| inner.server.read(object)).collect()
    }

    /// The server's resourceVersion.
    pub fn resource_version(&self) -> String {
        self.inner.lock().server.revision.to_string()
    }

    /// Drops the history: resuming from an earlier resourceVersion gets 410, and so do pages in progress.
    pub fn compact(&self) {
        let mut inner = self.inner.lock();
        inner.server.compact();
        inner.pages.clear();
    }

    /// The server's state, to roll back to with [`restore`](Self::restore).
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.inner.lock().server.clone())
    }

    /// Rolls back to an older state, including the revision, as when etcd is restored from a backup. Closes all watches.
    pub fn restore(&self, checkpoint: &Checkpoint) {
        self.inner.lock().server.restore(&checkpoint.0);
        self.close_watches();
    }

    /// Sets how the server handles watch-lists from now on.
    pub fn support_watch_list(&self, support: WatchListSupport) {
        self.inner.lock().watch_list = support;
    }

    /// Whether lists at `"0"` are paginated too, as on a server without a watch cache.
    pub fn paginate_at_zero(&self, pages: bool) {
        self.inner.lock().pages_at_zero = pages;
    }
}

// === impl ScriptedSource: the network's side ===

impl ScriptedSource {
    /// Closes all open watches normally, as a server does at their timeout.
    pub fn close_watches(&self) {
        self.inner.lock().watchers.clear();
    }

    /// Breaks all open watches: the connection is reset.
    pub fn break_watches(&self) {
        self.fail_watches(script::reset());
    }

    /// Ends all open watches with an error.
    pub fn fail_watches(&self, error: impl Into<SourceError>) {
        let error = error.into();
        for watcher in self.inner.lock().watchers.drain(..) {
            let _ = watcher.events.send(Err(error.clone()));
        }
    }

    /// Sends an unreadable event on all open watches, which stay open.
    pub fn send_unreadable_event(&self) {
        for watcher in &self.inner.lock().watchers {
            let _ = watcher.events.send(Err(script::unreadable()));
        }
    }

    /// Sends an error event with this `Status` on all open watches.
    pub fn send_error(&self, status: Status) {
        self.inner.lock().send(&WatchEvent::Error(status));
    }

    /// Sends any event on all open watches, without changing the server's state.
    pub fn send(&self, event: &WatchEvent) {
        self.inner.lock().send(event);
    }

    /// Sends a bookmark at the current resourceVersion on all open watches.
    pub fn bookmark(&self) {
        let mut inner = self.inner.lock();
        let event = inner.server.bookmark(false);
        inner.send(&event);
    }

    /// An object as this source would send it, for [`send`](Self::send).
    pub fn object(&self, object: &Value) -> RawObject {
        self.inner.lock().server.read(object)
    }

    /// Makes the next list fail with this error.
    pub fn fail_next_list(&self, error: impl Into<SourceError>) {
        self.inner.lock().script.lists.push_back(ListStep::Fail(error.into()));
    }

    /// Breaks the next list after this many items.
    pub fn break_next_list_after(&self, items: usize) {
        self.inner.lock().script.lists.push_back(ListStep::BreakAfter(items, script::reset()));
    }

    /// Makes the next list claim this kind, such as `Table`.
    pub fn answer_next_list_with_kind(&self, kind: &str) {
        self.inner.lock().script.lists.push_back(ListStep::Kind(kind.to_owned()));
    }

    /// Makes the next list claim this resourceVersion; an empty one, as some aggregated APIs return, is allowed.
    pub fn answer_next_list_with_version(&self, version: &str) {
        self.inner.lock().script.lists.push_back(ListStep::Version(version.to_owned()));
    }

    /// Makes the next list, or page of one, return no items and this continue token.
    pub fn answer_next_list_with_token(&self, token: &str) {
        self.inner.lock().script.lists.push_back(ListStep::Token(token.to_owned()));
    }

    /// Adds an unreadable item to the next list.
    pub fn add_bad_item_to_next_list(&self) {
        self.inner.lock().script.lists.push_back(ListStep::BadItem);
    }

    /// Adds an item without a name to the next list.
    pub fn add_nameless_item_to_next_list(&self) {
        self.inner.lock().script.lists.push_back(ListStep::NamelessItem);
    }

    /// Makes the next watch (or watch-list) fail with this error.
    pub fn fail_next_watch(&self, error: impl Into<SourceError>) {
        self.inner.lock().script.watches.push_back(WatchStep::Fail(error.into()));
    }

    /// Refuses the connection of the next watch (or watch-list).
    pub fn refuse_next_watch(&self) {
        self.fail_next_watch(script::refused());
    }

    /// Opens the next watch (or watch-list) and closes it immediately.
    pub fn close_next_watch_immediately(&self) {
        self.inner.lock().script.watches.push_back(WatchStep::Close);
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.inner.lock().requests.clone()
    }

    /// Waits until this many requests were made in total. Returns them.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn requests_made(&self, count: usize) -> Vec<Request> {
        let mut requests = self.requests.subscribe();
        // Cannot fail: the sender lives in `self`.
        let _ = requests.wait_for(|made| *made >= count).await;
        self.requests()
    }

    /// The number of open watches.
    pub fn open_watches(&self) -> usize {
        let mut inner = self.inner.lock();
        inner.watchers.retain(|watcher| !watcher.events.is_closed());
        inner.watchers.len()
    }

    fn note(&self, request: Request) {
        self.inner.lock().requests.push(request);
        self.requests.send_modify(|made| *made += 1);
    }
}

// === impl ListerWatcher ===

impl ListerWatcher for ScriptedSource {
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ListStream, SourceError>> {
        self.note(Request::List(options.clone()));
        ready(self.inner.lock().list(&options)).boxed()
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<WatchStream, SourceError>> {
        self.note(Request::Watch(options.clone()));
        ready(self.inner.lock().watch(&options)).boxed()
    }

    fn expected_type(&self) -> Option<TypeMeta> {
        Some(self.inner.lock().server.type_meta().clone())
    }

    fn describe(&self) -> String {
        format!("scripted {}", self.inner.lock().server.type_meta())
    }
}

// === impl ScriptedState ===

impl ScriptedState {
    /// Sends the last change to the watches that began before it.
    fn send_change(&mut self, event: &WatchEvent) {
        let revision = self.server.revision;
        self.watchers
            .retain(|watcher| watcher.after >= revision || watcher.events.send(Ok(event.clone())).is_ok());
    }

    fn send(&mut self, event: &WatchEvent) {
        self.watchers.retain(|watcher| watcher.events.send(Ok(event.clone())).is_ok());
    }

    fn list(&mut self, options: &ListOptions) -> Result<ListStream, SourceError> {
        let step = self.script.lists.pop_front();
        if let Some(ListStep::Fail(error)) = step {
            return Err(error);
        }
        let (revision, items) = match step {
            Some(ListStep::Token(_)) => (self.server.revision, Vec::new()),
            _ => self.listed_state(options)?,
        };
        let mut head = ListHead::default();
        head.api_version = self.server.type_meta().api_version().to_owned();
        head.kind = format!("{}List", self.server.type_meta().kind());
        head.resource_version = revision.to_string();
        let mut page = items;
        let paginates = options.resource_version != "0" || self.pages_at_zero;
        if let Some(limit) = options.limit.filter(|_| paginates)
            && page.len() > limit as usize
        {
            let rest = page.split_off(limit as usize);
            head.continue_token = format!("{revision}-{}", rest.len());
            head.remaining_item_count = Some(rest.len() as i64);
            self.pages.insert(head.continue_token.clone(), (revision, rest));
        }
        let mut parts = page.into_iter().map(|item| Ok(ListPart::Item(item))).collect::<Vec<_>>();
        match step {
            Some(ListStep::BreakAfter(items, error)) => {
                parts.truncate(items);
                parts.push(Err(error));
            }
            Some(ListStep::Kind(kind)) => {
                head.kind = kind;
                parts.push(Ok(ListPart::End(head)));
            }
            Some(ListStep::Version(version)) => {
                head.resource_version = version;
                parts.push(Ok(ListPart::End(head)));
            }
            Some(ListStep::Token(token)) => {
                head.continue_token = token;
                parts.push(Ok(ListPart::End(head)));
            }
            Some(ListStep::BadItem) => {
                parts.insert(parts.len() / 2, Err(script::unreadable()));
                parts.push(Ok(ListPart::End(head)));
            }
            Some(ListStep::NamelessItem) => {
                let nameless = self.server.read(&Value::Object(serde_json::Map::new()));
                parts.insert(parts.len() / 2, Ok(ListPart::Item(nameless)));
                parts.push(Ok(ListPart::End(head)));
            }
            _ => parts.push(Ok(ListPart::End(head))),
        }
        Ok(stream::iter(parts).boxed())
    }

    /// The state that a list shows: the current one, or that of a list in progress.
    fn listed_state(&mut self, options: &ListOptions) -> Result<(u64, Vec<RawObject>), Status> {
        if !options.continue_token.is_empty() {
            return self
                .pages
                .remove(&options.continue_token)
                .ok_or_else(|| refusal(410, "Expired", "The provided continue parameter is too old", None));
        }
        self.check_not_in_the_future(&options.resource_version)?;
        let selector = options.field_selector.parse::<FieldSelector>();
        let selector = selector.map_err(|error| refusal(400, "BadRequest", &error.to_string(), None))?;
        let read = |objects: &BTreeMap<Key, Value>| {
            let in_namespace =
                |key: &Key| options.namespace.as_deref().is_none_or(|name| name == key.namespace());
            let selected = objects
                .iter()
                .filter(|(key, _)| in_namespace(key) && selector.may_select(key.namespace(), key.name()));
            selected.map(|(_, object)| self.server.read(object)).collect()
        };
        if options.version_match == Some(VersionMatch::Exact) {
            let revision = parse(&options.resource_version)?;
            return Ok((revision, read(&self.server.objects_at(revision)?)));
        }
        Ok((self.server.revision, read(&self.server.objects)))
    }

    fn watch(&mut self, options: &WatchOptions) -> Result<WatchStream, SourceError> {
        match self.script.watches.pop_front() {
            Some(WatchStep::Fail(error)) => return Err(error),
            Some(WatchStep::Close) => return Ok(stream::empty().boxed()),
            None => {}
        }
        let initial = self.initial_events(options)?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let closes = options.send_initial_events && self.watch_list == WatchListSupport::ClosesEarly;
        if !closes {
            let after = options.resource_version.parse().unwrap_or_default();
            self.watchers.push(Watcher { after, events: sender });
        }
        let live =
            stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
        Ok(stream::iter(initial).map(Ok).chain(live).boxed())
    }

    /// The events that a watch begins with.
    fn initial_events(&self, options: &WatchOptions) -> Result<Vec<WatchEvent>, Status> {
        let streams_state = options.send_initial_events && self.watch_list != WatchListSupport::Ignored;
        if streams_state && self.watch_list == WatchListSupport::Refused {
            let message =
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            return Err(refusal(422, "Invalid", message, None));
        }
        let from_nothing = matches!(options.resource_version.as_str(), "" | "0");
        if streams_state || from_nothing {
            if streams_state && self.check_not_in_the_future(&options.resource_version).is_err() {
                let cause = Some("ResourceVersionTooLarge");
                return Ok(vec![WatchEvent::Error(refusal(
                    504,
                    "Timeout",
                    "Too large resource version",
                    cause,
                ))]);
            }
            let objects = self.server.objects.values();
            let mut events =
                objects.map(|object| WatchEvent::Added(self.server.read(object))).collect::<Vec<_>>();
            if streams_state && self.watch_list == WatchListSupport::Full {
                events.push(self.server.bookmark(true));
            }
            return Ok(events);
        }
        let revision = parse(&options.resource_version)?;
        match self.server.since(revision) {
            Ok(events) => Ok(events),
            Err(status) => Ok(vec![WatchEvent::Error(status)]),
        }
    }

    fn check_not_in_the_future(&self, version: &str) -> Result<(), Status> {
        if version.is_empty() || parse(version)? <= self.server.revision {
            return Ok(());
        }
        let message = format!("Too large resource version: {version}, current: {}", self.server.revision);
        Err(refusal(504, "Timeout", &message, Some("ResourceVersionTooLarge")))
    }
}

fn parse(version: &str) -> Result<u64, Status> {
    version.parse().map_err(|_| refusal(400, "BadRequest", "invalid resource version", None))
}

/// Lookup by key.
impl ScriptedSource {
    /// The object with this key, if the server has it.
    pub fn get(&self, key: &Key) -> Option<RawObject> {
        let inner = self.inner.lock();
        inner.server.objects.get(key).map(|object| inner.server.read(object))
    }
}
