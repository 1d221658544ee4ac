//! The server's state, shared by everything that answers requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::clock::{Chance, Clock};
use crate::crd::Definition;
use crate::faults::Faults;
use crate::http::WatchListMode;
use crate::objects::{Configurations, Definitions, TerminatingPods, Tokens, Unsupported};
use crate::resources::Registry;
use crate::storage::{Storage, Window};

/// What can be chosen about a server; the builder fills it.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) window: Window,
    pub(crate) watch_list: WatchListMode,
    /// Bytes of a request's body.
    pub(crate) body_bytes_max: usize,
    /// How long a list waits for a revision that is not there yet.
    pub(crate) fresh_wait: Duration,
    pub(crate) bookmark_interval: Duration,
    /// The least time a watch without `timeoutSeconds` lasts; the most is twice that.
    pub(crate) watch_timeout_min: Duration,
    /// Collect the dependents of deleted objects and empty terminating namespaces, as the controllers of a cluster do.
    pub(crate) garbage_collection: bool,
    /// Remove terminating pods when their grace period is over, as a kubelet does.
    pub(crate) pod_termination: bool,
    pub(crate) token: Option<String>,
    /// Hosts that a server without a token answers to in addition to its own.
    pub(crate) allowed_hosts: Vec<String>,
    /// Serve faults over HTTP, too.
    pub(crate) admin: bool,
    pub(crate) unsupported: Unsupported,
}

/// See the module's text.
pub(crate) struct Api {
    pub(crate) storage: Storage,
    registry: RwLock<Arc<Registry>>,
    pub(crate) clock: Clock,
    pub(crate) chance: Chance,
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    pub(crate) terminating: TerminatingPods,
    pub(crate) tokens: Tokens,
    pub(crate) configurations: Configurations,
    pub(crate) definitions: Definitions,
    /// Held while stored definitions become served ones: of two at a time, the one that read first must not register last.
    pub(crate) defining: Mutex<()>,
}

/// Without the token.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("window", &self.window)
            .field("watch_list", &self.watch_list)
            .field("has_token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

/// Without the objects, which may be Secrets.
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
            terminating: TerminatingPods::default(),
            tokens: Tokens::default(),
            configurations,
            definitions: Definitions::default(),
            defining: Mutex::default(),
        }
    }

    /// The resources as they are now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().clone()
    }

    /// Serves exactly these custom resources.
    pub(crate) fn register(&self, definitions: &[Arc<Definition>]) {
        let mut registry = self.registry.write();
        *registry = Arc::new(registry.with_custom(definitions, &self.storage));
    }
}
