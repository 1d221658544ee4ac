//! The settings of a server.

use std::time::Duration;

use crate::{
    Error, Programs, RealServer,
    credentials::{ADMIN, User},
};

/// Default time limit for a server to become ready. It takes seconds; a machine that is busy compiling needs more.
const STARTUP_LIMIT: Duration = Duration::from_secs(180);

/// Settings of a server: see [`RealServer::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    pub(crate) programs: Programs,
    pub(crate) feature_gates: Vec<(String, bool)>,
    pub(crate) flags: Vec<String>,
    pub(crate) users: Vec<(String, Vec<String>)>,
    pub(crate) controllers: Vec<String>,
    pub(crate) startup_limit: Duration,
}

impl Builder {
    pub(crate) fn new(programs: Programs) -> Self {
        Self {
            programs,
            feature_gates: Vec::new(),
            flags: Vec::new(),
            users: Vec::new(),
            controllers: Vec::new(),
            startup_limit: STARTUP_LIMIT,
        }
    }

    /// Sets whether the server streams the initial list of a watch (`sendInitialEvents`). The default depends on the
    /// version.
    pub fn watch_list(self, on: bool) -> Self {
        self.feature_gate("WatchList", on)
    }

    /// Sets a feature gate of kube-apiserver.
    pub fn feature_gate(mut self, name: &str, on: bool) -> Self {
        self.feature_gates.push((name.to_owned(), on));
        self
    }

    /// Turns the server's watch cache on or off. It is on by default. Without it every list and watch goes to etcd.
    pub fn watch_cache(self, on: bool) -> Self {
        self.flag(format!("--watch-cache={on}"))
    }

    /// Adds a flag to kube-apiserver. It comes last, so it overrides the flags of the harness.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Adds a user. RBAC objects grant permissions to the user or to its groups; without them everything is forbidden.
    pub fn user(mut self, name: &str, groups: &[&str]) -> Self {
        self.users.push((name.to_owned(), groups.iter().map(|&group| group.to_owned()).collect()));
        self
    }

    /// Runs a kube-controller-manager with these controllers only, such as `garbage-collector-controller` and
    /// `namespace-controller`. Without them namespaces stay in the phase `Terminating`, and
    /// owned objects are not collected.
    pub fn controllers<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.controllers.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// Sets the time limit of each start and restart. Default: three minutes.
    pub fn startup_limit(mut self, limit: Duration) -> Self {
        self.startup_limit = limit;
        self
    }

    /// Starts etcd, kube-apiserver and, if requested, kube-controller-manager. Returns when the server is ready and its
    /// namespaces exist.
    ///
    /// # Errors
    ///
    /// Returns an error with the end of the log if a program does not start.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the programs that were started.
    pub async fn start(self) -> Result<RealServer, Error> {
        RealServer::start(self).await
    }

    /// The administrator and the configured users.
    pub(crate) fn all_users(&self) -> Result<Vec<User>, Error> {
        let mut users = vec![User::new(ADMIN, &["system:masters"])?];
        for (name, groups) in &self.users {
            users.push(User::new(name, &groups.iter().map(String::as_str).collect::<Vec<_>>())?);
        }
        Ok(users)
    }
}
