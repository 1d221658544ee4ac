//! What a fault says.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Something that goes wrong for some requests.
///
/// ```
/// use embedded_apiserver::{Action, Fault, Match, Verb};
///
/// let fault = Fault::new(Action::CutAfterEvents(3)).on(Match::verb(Verb::Watch).resource("pods")).times(2);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use = "a fault does nothing until it is armed"]
pub struct Fault {
    pub(crate) action: Action,
    #[serde(default)]
    pub(crate) on: Match,
    #[serde(default)]
    pub(crate) schedule: Schedule,
}

/// What goes wrong. *Events* are the frames of a watch: objects and bookmarks alike.
///
/// Whether a write happened although its client got no answer depends on the action. It did not happen with
/// [`Status`](Self::Status), [`Overloaded`](Self::Overloaded), [`Html`](Self::Html), [`Expired`](Self::Expired),
/// [`Disconnect`](Self::Disconnect) and [`Hang`](Self::Hang), which take the place of the request's execution. It did happen
/// with [`CutAfterBytes`](Self::CutAfterBytes), which loses only the answer, and with [`Delay`](Self::Delay), if the client
/// waits that long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Action {
    /// The request is executed, and its answer comes, this much later.
    Delay(Duration),
    /// A `Status` instead of the answer.
    #[serde(rename_all = "camelCase")]
    Status {
        /// The HTTP status code.
        code: u16,
        /// Such as `InternalError`.
        reason: String,
        /// In words.
        message: String,
        /// For the header `Retry-After`; 0 for none.
        #[serde(default)]
        retry_after_seconds: u32,
    },
    /// 429 in plain text, as a kube-apiserver sheds load.
    #[serde(rename_all = "camelCase")]
    Overloaded {
        /// For the header `Retry-After`.
        retry_after_seconds: u32,
    },
    /// A web page instead of the answer, as proxies send.
    Html {
        /// The HTTP status code; proxies send 200, too.
        code: u16,
    },
    /// 410 `Expired`: as the answer to a list, in the stream of a watch.
    Expired,
    /// The connection breaks before the request is executed: a write does not happen. Over HTTP/2 only the request's stream is
    /// reset. For a write that happens and whose answer is lost, use [`CutAfterBytes(0)`](Self::CutAfterBytes).
    Disconnect,
    /// No answer, and no end. The request is not executed.
    Hang,
    /// The answer's body breaks off after so many bytes. The request is executed: a write happens.
    CutAfterBytes(u64),
    /// The connection breaks after so many events.
    CutAfterEvents(u64),
    /// The watch ends cleanly after so many events.
    EndAfterEvents(u64),
    /// The watch falls silent after so many events, and stays open.
    StallAfterEvents(u64),
    /// An `ERROR` event after so many events, then the end.
    ErrorAfterEvents {
        /// Events before it.
        events: u64,
        /// The status's code.
        code: u16,
        /// Such as `InternalError`.
        reason: String,
        /// In words.
        message: String,
    },
    /// This event (counted from 0) comes twice.
    DuplicateEvent(u64),
    /// Only half of this event (counted from 0) comes, and then the connection breaks.
    TruncateEvent(u64),
    /// No periodic bookmarks.
    SkipBookmarks,
    /// No bookmark behind the initial events.
    SkipInitialEventsEnd,
}

/// Which requests a fault strikes. Everything that is left open matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Match {
    verb: Option<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    path: Option<String>,
    user_agent: Option<String>,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Watches a collection, however it begins.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE, of one object or of many.
    Delete,
}

/// How often a fault strikes, of the requests that match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Schedule {
    /// Every time.
    #[default]
    Always,
    /// So many times, then never again.
    Times(u64),
    /// So many times, once so many have gone through unharmed.
    After {
        /// Requests that go through.
        matches: u64,
        /// Requests that are struck then.
        times: u64,
    },
    /// Each with this probability, by the server's seed.
    Probability(f64),
}

/// What a fault can match by.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestInfo {
    /// What it does; `None` for discovery, health and the like.
    pub(crate) verb: Option<Verb>,
    /// The resource's plural name, or empty.
    pub(crate) resource: String,
    /// The namespace, or empty.
    pub(crate) namespace: String,
    /// The object's name, or empty.
    pub(crate) name: String,
    /// Path and query.
    pub(crate) path: String,
    /// The header.
    pub(crate) user_agent: String,
}

// === impl Fault ===

impl Fault {
    /// Strikes every request, every time, until it is narrowed down.
    pub fn new(action: Action) -> Self {
        Self { action, on: Match::default(), schedule: Schedule::Always }
    }

    /// Only these requests.
    pub fn on(mut self, on: Match) -> Self {
        self.on = on;
        self
    }

    /// Only so many times.
    pub fn times(mut self, times: u64) -> Self {
        self.schedule = Schedule::Times(times);
        self
    }

    /// Only once.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Each time with this probability.
    pub fn probability(mut self, probability: f64) -> Self {
        self.schedule = Schedule::Probability(probability);
        self
    }

    /// By any schedule.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }
}

// === impl Match ===

impl Match {
    /// Requests that do this.
    pub fn verb(verb: Verb) -> Self {
        Self { verb: Some(verb), ..Self::default() }
    }

    /// Requests about this resource, by its plural name.
    #[must_use]
    pub fn resource(mut self, plural: impl Into<String>) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// Requests about this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Requests about this object.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Requests whose path or query contains this.
    #[must_use]
    pub fn path_contains(mut self, part: impl Into<String>) -> Self {
        self.path = Some(part.into());
        self
    }

    /// Requests whose user agent begins with this.
    #[must_use]
    pub fn user_agent(mut self, prefix: impl Into<String>) -> Self {
        self.user_agent = Some(prefix.into());
        self
    }

    pub(crate) fn matches(&self, request: &RequestInfo) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        self.verb.is_none_or(|verb| request.verb == Some(verb))
            && is(&self.resource, &request.resource)
            && is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
            && self.path.as_ref().is_none_or(|part| request.path.contains(part))
            && self.user_agent.as_ref().is_none_or(|prefix| request.user_agent.starts_with(prefix))
    }
}
