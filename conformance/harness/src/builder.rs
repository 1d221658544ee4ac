//! What a server should be like, said before it starts.

use std::time::Duration;

use crate::{
    Error, Programs, RealServer,
    credentials::{ADMIN, User},
};

/// How long a server may take to get ready, if nothing else is said. It takes seconds; a machine whose cores are
/// all busy compiling needs the rest.
const STARTUP_LIMIT: Duration = Duration::from_secs(180);

/// A server to be started: see [`RealServer::builder`].
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

    /// Whether the server streams the initial state of a watch (`sendInitialEvents`). The version's default holds
    /// if this is not said.
    pub fn watch_list(self, on: bool) -> Self {
        self.feature_gate("WatchList", on)
    }

    /// Switches a feature gate of kube-apiserver.
    pub fn feature_gate(mut self, name: &str, on: bool) -> Self {
        self.feature_gates.push((name.to_owned(), on));
        self
    }

    /// Switches the server's watch cache, which is on by default. Without it every list and watch goes to etcd.
    pub fn watch_cache(self, on: bool) -> Self {
        self.flag(format!("--watch-cache={on}"))
    }

    /// Adds a flag to kube-apiserver's; it comes last, so it wins over what the harness says itself.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Adds a user who may do nothing but what RBAC objects grant to them or to their groups.
    pub fn user(mut self, name: &str, groups: &[&str]) -> Self {
        self.users.push((name.to_owned(), groups.iter().map(|&group| group.to_owned()).collect()));
        self
    }

    /// Runs a kube-controller-manager with these controllers only, such as `garbage-collector-controller` and
    /// `namespace-controller`. Without them namespaces stay terminating, and owned objects stay.
    pub fn controllers<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.controllers.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// How long each start (and restart) may take before it is an error; three minutes if not said.
    pub fn startup_limit(mut self, limit: Duration) -> Self {
        self.startup_limit = limit;
        self
    }

    /// Starts etcd, kube-apiserver and what else was asked for; returns when the server is ready and its
    /// namespaces exist.
    ///
    /// # Errors
    ///
    /// Whatever keeps a program from starting, with the end of its log.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills what was started.
    pub async fn start(self) -> Result<RealServer, Error> {
        RealServer::start(self).await
    }

    /// The administrator and the users asked for.
    pub(crate) fn all_users(&self) -> Result<Vec<User>, Error> {
        let mut users = vec![User::new(ADMIN, &["system:masters"])?];
        for (name, groups) in &self.users {
            users.push(User::new(name, &groups.iter().map(String::as_str).collect::<Vec<_>>())?);
        }
        Ok(users)
    }
}
