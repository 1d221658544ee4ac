//! The definition of a fault: an action, the requests it applies to, and a schedule.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A fault that the server injects into some requests.
///
/// ```
/// use embedded_apiserver::{Action, Fault, Match, Verb};
///
/// let fault = Fault::new(Action::CutAfterEvents(3)).on(Match::verb(Verb::Watch).resource("pods")).times(2);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use = "a fault does nothing until it is armed"]
pub struct Fault {
    pub(crate) action: Action,
    #[serde(default)]
    pub(crate) on: Match,
    #[serde(default)]
    pub(crate) schedule: Schedule,
}

/// What the fault does. *Events* are the frames of a watch: objects and bookmarks alike.
///
/// The action decides whether a write takes effect although its client gets no response. [`Status`](Self::Status),
/// [`Overloaded`](Self::Overloaded), [`Html`](Self::Html), [`Expired`](Self::Expired),
/// [`Disconnect`](Self::Disconnect) and [`Hang`](Self::Hang) replace the execution of the request: the write does not
/// happen. With [`CutAfterBytes`](Self::CutAfterBytes), the write happens and only the response is lost. With
/// [`Delay`](Self::Delay), it happens if the client waits that long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Action {
    /// Delays the request's execution, and therefore its response, by this much.
    Delay(Duration),
    /// Returns a `Status` instead of the response.
    #[serde(rename_all = "camelCase")]
    Status {
        /// The HTTP status code.
        code: u16,
        /// The reason, such as `InternalError`.
        reason: String,
        /// The message.
        message: String,
        /// The `Retry-After` header; 0 omits it.
        #[serde(default)]
        retry_after_seconds: u32,
    },
    /// Returns 429 in plain text, as a kube-apiserver does when it sheds load.
    #[serde(rename_all = "camelCase")]
    Overloaded {
        /// The `Retry-After` header.
        retry_after_seconds: u32,
    },
    /// Returns a web page instead of the response, as proxies do.
    Html {
        /// The HTTP status code; some proxies send 200.
        code: u16,
    },
    /// Returns 410 `Expired`: as the response to a list, in the stream of a watch.
    Expired,
    /// Breaks the connection before the request is executed: a write does not happen. Over HTTP/2, resets only the
    /// request's stream. For a write that happens but whose response is lost, use
    /// [`CutAfterBytes(0)`](Self::CutAfterBytes).
    Disconnect,
    /// Never responds. The request is not executed.
    Hang,
    /// Cuts the response body after this many bytes. The request is executed: a write happens.
    CutAfterBytes(u64),
    /// Breaks the connection after this many events.
    CutAfterEvents(u64),
    /// Ends the watch cleanly after this many events.
    EndAfterEvents(u64),
    /// Stalls the watch after this many events; the connection stays open.
    StallAfterEvents(u64),
    /// Sends an `ERROR` event after this many events, then ends the watch.
    ErrorAfterEvents {
        /// The number of events before it.
        events: u64,
        /// The status code.
        code: u16,
        /// The reason, such as `InternalError`.
        reason: String,
        /// The message.
        message: String,
    },
    /// Sends this event (counted from 0) twice.
    DuplicateEvent(u64),
    /// Sends only half of this event (counted from 0), then breaks the connection.
    TruncateEvent(u64),
    /// Sends no periodic bookmarks.
    SkipBookmarks,
    /// Sends no bookmark after the initial events.
    SkipInitialEventsEnd,
}

/// Which requests a fault applies to. Unset criteria match every request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// In JSON, a misspelled criterion would match every request.
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Match {
    verb: Option<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    path: Option<String>,
    user_agent: Option<String>,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verb {
    /// Read one object.
    Get,
    /// List a collection.
    List,
    /// Watch a collection.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE, of one object or of a collection.
    Delete,
}

/// How often a fault fires for matching requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Schedule {
    /// Every time.
    #[default]
    Always,
    /// This many times.
    Times(u64),
    /// A number of times, after a number of requests have passed.
    After {
        /// Requests that pass first.
        matches: u64,
        /// How often the fault fires after that.
        times: u64,
    },
    /// Each time with this probability, drawn from the server's seed.
    Probability(f64),
}

/// The properties of a request that a fault can match.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestInfo {
    /// The operation; `None` for discovery, health and similar requests.
    pub(crate) verb: Option<Verb>,
    /// The resource's plural name, or empty.
    pub(crate) resource: String,
    /// The namespace, or empty.
    pub(crate) namespace: String,
    /// The object's name, or empty.
    pub(crate) name: String,
    /// Path and query.
    pub(crate) path: String,
    /// The `User-Agent` header.
    pub(crate) user_agent: String,
}

// === impl Fault ===

impl Fault {
    /// A fault that fires for every request until it is restricted.
    pub fn new(action: Action) -> Self {
        Self { action, on: Match::default(), schedule: Schedule::Always }
    }

    /// Restricts the fault to matching requests.
    pub fn on(mut self, on: Match) -> Self {
        self.on = on;
        self
    }

    /// Fires this many times.
    pub fn times(mut self, times: u64) -> Self {
        self.schedule = Schedule::Times(times);
        self
    }

    /// Fires once.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Fires with this probability.
    pub fn probability(mut self, probability: f64) -> Self {
        self.schedule = Schedule::Probability(probability);
        self
    }

    /// Sets the schedule.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }
}

// === impl Match ===

impl Match {
    /// Matches requests with this verb.
    pub fn verb(verb: Verb) -> Self {
        Self { verb: Some(verb), ..Self::default() }
    }

    /// Matches requests for this resource, by its plural name.
    #[must_use]
    pub fn resource(mut self, plural: impl Into<String>) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// Matches requests for this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Matches requests for this object.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Matches requests whose path or query contains this text.
    #[must_use]
    pub fn path_contains(mut self, part: impl Into<String>) -> Self {
        self.path = Some(part.into());
        self
    }

    /// Matches requests whose user agent starts with this prefix.
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
