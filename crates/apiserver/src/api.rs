//! The server's state, shared by everything that answers requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::clock::{Chance, Clock};
use crate::crd::Definition;
use crate::faults::Faults;
use crate::http::{Tally, WatchListMode};
use crate::objects::{Configurations, Definitions, TerminatingPods, Tokens, Unsupported};
use crate::resources::Registry;
use crate::storage::{Storage, Window};

/// The server's settings; filled in by the builder.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) window: Window,
    pub(crate) watch_list: WatchListMode,
    /// Support `shardSelector`.
    pub(crate) sharded_list_and_watch: bool,
    /// Maximum size of a request body, in bytes.
    pub(crate) body_bytes_max: usize,
    /// How long a list waits for a revision that the server has not reached yet.
    pub(crate) fresh_wait: Duration,
    pub(crate) bookmark_interval: Duration,
    /// Minimum duration of a watch without `timeoutSeconds`; the maximum is twice this.
    pub(crate) watch_timeout_min: Duration,
    /// Collect the dependents of deleted objects and empty terminating namespaces, as the controllers of a cluster do.
    pub(crate) garbage_collection: bool,
    /// Remove terminating pods after their grace period, as a kubelet does.
    pub(crate) pod_termination: bool,
    pub(crate) token: Option<String>,
    /// Additional host names that a server without a token accepts.
    pub(crate) allowed_hosts: Vec<String>,
    /// Serve the fault endpoints over HTTP.
    pub(crate) admin: bool,
    pub(crate) unsupported: Unsupported,
}

/// The server's state; see the module documentation.
pub(crate) struct Api {
    pub(crate) storage: Storage,
    registry: RwLock<Arc<Registry>>,
    pub(crate) clock: Clock,
    pub(crate) chance: Chance,
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    pub(crate) tally: Tally,
    pub(crate) terminating: TerminatingPods,
    pub(crate) tokens: Tokens,
    pub(crate) configurations: Configurations,
    pub(crate) definitions: Definitions,
    /// How often every watch was asked for a bookmark.
    pub(crate) bookmark_requests: AtomicU64,
    /// Held while stored definitions are registered. Otherwise, of two concurrent registrations, the one that read
    /// first could register last.
    pub(crate) defining: Mutex<()>,
}

/// Omits the token.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("window", &self.window)
            .field("watch_list", &self.watch_list)
            .field("has_token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

/// Omits the objects, which may be Secrets.
impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            window: Window::default(),
            watch_list: WatchListMode::On,
            sharded_list_and_watch: false,
            body_bytes_max: 3 << 20,
            fresh_wait: Duration::from_secs(3),
            bookmark_interval: Duration::from_secs(60),
            watch_timeout_min: Duration::from_secs(30 * 60),
            garbage_collection: true,
            pod_termination: true,
            token: None,
            allowed_hosts: Vec::new(),
            admin: false,
            unsupported: Unsupported::Warn,
        }
    }
}

impl Api {
    pub(crate) fn new(options: Options, clock: Clock, chance: Chance) -> Self {
        let storage = Storage::new(options.window);
        let registry = Registry::builtin(&storage);
        let configurations = Configurations::new(&registry);
        let registry = RwLock::new(Arc::new(registry));
        let faults = Faults::new(chance.seed());
        Self {
            storage,
            registry,
            clock,
            chance,
            options,
            faults,
            tally: Tally::default(),
            terminating: TerminatingPods::default(),
            tokens: Tokens::default(),
            configurations,
            definitions: Definitions::default(),
            bookmark_requests: AtomicU64::new(0),
            defining: Mutex::default(),
        }
    }

    /// The resources currently served.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().clone()
    }

    /// Replaces the served custom resources with these.
    pub(crate) fn register(&self, definitions: &[Arc<Definition>]) {
        let mut registry = self.registry.write();
        *registry = Arc::new(registry.with_custom(definitions, &self.storage));
    }
}
