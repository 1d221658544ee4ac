//! A running server: kube-apiserver with its own etcd, and the faults that tests inject.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use kube_client::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::{net::TcpSocket, process::Command};

use crate::{
    Builder, Error, Programs, apiserver,
    command::output_of,
    credentials::{ADMIN, Credentials, User},
    etcd::Etcd,
    process::Process,
};

/// If this variable is set, the directories of servers (logs, data, kubeconfig) are kept.
const KEEP: &str = "KUBE_INFORMER_CONFORMANCE_KEEP";
/// The time limit of a graceful shutdown, in which the server drains its requests.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(70);

/// A kube-apiserver with its etcd. Dropping this value kills the processes.
///
/// The processes also end if the test is killed. Fields are dropped in the order of their declaration.
#[derive(Debug)]
pub struct RealServer {
    controller_manager: Option<Process>,
    apiserver: Option<Process>,
    etcd: Etcd,
    options: Builder,
    users: Vec<User>,
    revoked: Vec<String>,
    credentials: Credentials,
    /// Bound but not listening, so that the port stays reserved while kube-apiserver is down.
    _reserved: TcpSocket,
    address: SocketAddr,
    directory: TempDir,
}

impl RealServer {
    /// Returns the settings of a server that runs these programs.
    pub fn builder(programs: Programs) -> Builder {
        Builder::new(programs)
    }

    pub(crate) async fn start(options: Builder) -> Result<Self, Error> {
        let directory = tempfile::Builder::new()
            .prefix("kube-informer-conformance-")
            .disable_cleanup(std::env::var_os(KEEP).is_some())
            .tempdir()
            .map_err(Error::io("create a temporary directory"))?;
        let (reserved, address) = reserve_port().map_err(Error::io("reserve a loopback port"))?;
        let credentials = Credentials::create(directory.path())?;
        let users = options.all_users()?;
        credentials.write_kubeconfig(address.port(), &users)?;

        let etcd = Etcd::start(&options.programs, directory.path())?;
        let mut server = Self {
            controller_manager: None,
            apiserver: None,
            etcd,
            options,
            users,
            revoked: Vec::new(),
            credentials,
            _reserved: reserved,
            address,
            directory,
        };
        server.start_apiserver().await?;
        server.start_controllers()?;
        Ok(server)
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The directory of its logs, data and credentials.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The programs that it runs.
    pub fn programs(&self) -> &Programs {
        &self.options.programs
    }

    /// The path of a kubeconfig with a context per user, named like the user. The administrator's context is current.
    pub fn kubeconfig(&self) -> PathBuf {
        self.credentials.kubeconfig()
    }

    /// The ids of the processes that run for this server now.
    pub fn process_ids(&self) -> Vec<u32> {
        let programs = [self.controller_manager.as_ref(), self.apiserver.as_ref(), self.etcd.process()];
        programs.into_iter().flatten().map(Process::id).collect()
    }

    /// Returns a client configuration for the administrator. The client does not retry.
    ///
    /// # Errors
    ///
    /// Returns an error if the kubeconfig cannot be read.
    pub async fn config(&self) -> Result<Config, Error> {
        self.config_of(ADMIN).await
    }

    /// Returns a client configuration for one user. The client does not retry, so that tests see every response.
    ///
    /// # Errors
    ///
    /// Returns [`Error::UnknownUser`] if the user was not added to the builder.
    pub async fn config_of(&self, user: &str) -> Result<Config, Error> {
        if !self.users.iter().any(|known| known.name == user) {
            return Err(Error::UnknownUser(user.to_owned()));
        }
        let path = self.kubeconfig();
        let bad = |source| Error::Kubeconfig { path: path.clone(), source };
        let kubeconfig = Kubeconfig::read_from(&path).map_err(bad)?;
        let options = KubeConfigOptions { context: Some(user.to_owned()), ..Default::default() };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(bad)?;
        config.default_retry = false;
        Ok(config)
    }

    /// Returns a client for the administrator.
    ///
    /// # Errors
    ///
    /// Returns an error if the client cannot be created.
    pub async fn client(&self) -> Result<Client, Error> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// Returns a client for one user.
    ///
    /// # Errors
    ///
    /// Returns [`Error::UnknownUser`] if the user was not added to the builder.
    pub async fn client_of(&self, user: &str) -> Result<Client, Error> {
        Ok(Client::try_from(self.config_of(user).await?)?)
    }

    /// Runs kubectl as the administrator, with its own cache, and returns its output.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Command`] with its standard error if it fails.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String, Error> {
        self.kubectl_with(args, "").await
    }

    /// Runs kubectl with `input` on its standard input, such as a manifest for `apply -f -`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Command`] with its standard error if it fails.
    pub async fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String, Error> {
        let mut command = Command::new(self.programs().path("kubectl"));
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .arg("--cache-dir")
            .arg(self.directory().join("kubectl-cache"))
            .args(args)
            .env_clear()
            .env("HOME", self.directory());
        output_of(command, format!("kubectl {}", args.join(" ")), input).await
    }

    // === faults ===

    /// Shuts kube-apiserver down gracefully, as an upgrade would, and starts it again on the same port.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not start again.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.shut_down().await?;
        self.start_apiserver().await
    }

    /// Shuts kube-apiserver down gracefully. [`restart`](Self::restart) starts it again.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be signalled.
    pub async fn shut_down(&mut self) -> Result<(), Error> {
        match self.apiserver.take() {
            Some(apiserver) => apiserver.terminate(SHUTDOWN_LIMIT).await,
            None => Ok(()),
        }
    }

    /// Kills kube-apiserver as a crash would: connections are reset and new ones refused.
    /// [`restart`](Self::restart) starts it again.
    pub fn kill(&mut self) {
        self.apiserver = None;
    }

    /// Freezes kube-apiserver (SIGSTOP): its connections stay open and silent until [`thaw`](Self::thaw). It has
    /// stopped when this returns.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotRunning`] after a [`kill`](Self::kill).
    pub fn freeze(&self) -> Result<(), Error> {
        self.running()?.freeze()
    }

    /// Continues a frozen kube-apiserver (SIGCONT).
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotRunning`] after a [`kill`](Self::kill).
    pub fn thaw(&self) -> Result<(), Error> {
        self.running()?.signal(Signal::CONT)
    }

    /// Revokes a user's token, so that requests fail with 401. The server restarts to apply it. Do not revoke the
    /// administrator's token, which the harness needs.
    ///
    /// # Errors
    ///
    /// Returns [`Error::UnknownUser`], or an error if the server does not start again.
    pub async fn revoke(&mut self, user: &str) -> Result<(), Error> {
        self.config_of(user).await?;
        self.revoked.push(user.to_owned());
        self.restart().await
    }

    /// Undoes a [`revoke`](Self::revoke), with another restart.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not start again.
    pub async fn admit(&mut self, user: &str) -> Result<(), Error> {
        self.revoked.retain(|revoked| revoked != user);
        self.restart().await
    }

    /// Compacts etcd's history up to `revision`, or up to now, and returns the revision. It notifies kube-apiserver as
    /// the server's own compactor does. kube-apiserver may still replay events from its watch cache until it restarts.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Command`] if etcd refuses, for instance because the revision is compacted already.
    pub async fn etcd_compact(&self, revision: Option<u64>) -> Result<u64, Error> {
        self.etcd.compact(revision).await
    }

    /// The etcd, for [`RealServer::backup`] and [`RealServer::restore`].
    pub(crate) fn etcd_mut(&mut self) -> &mut Etcd {
        &mut self.etcd
    }

    fn running(&self) -> Result<&Process, Error> {
        self.apiserver.as_ref().ok_or(Error::NotRunning("kube-apiserver"))
    }

    pub(crate) async fn start_apiserver(&mut self) -> Result<(), Error> {
        let admitted = self.users.iter().filter(|user| !self.revoked.contains(&user.name));
        self.credentials.write_tokens(admitted)?;
        let flags = apiserver::flags(&self.options, &self.credentials, &self.etcd, self.address);
        let program = self.programs().path("kube-apiserver");
        let mut process = Process::start("kube-apiserver", &program, &flags, self.directory())?;
        apiserver::ready(&mut process, &self.client().await?, self.options.startup_limit).await?;
        self.apiserver = Some(process);
        Ok(())
    }

    fn start_controllers(&mut self) -> Result<(), Error> {
        if self.options.controllers.is_empty() {
            return Ok(());
        }
        let flags = [
            format!("--kubeconfig={}", self.kubeconfig().display()),
            format!("--controllers={}", self.options.controllers.join(",")),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let program = self.programs().path("kube-controller-manager");
        let process = Process::start("kube-controller-manager", &program, &flags, self.directory())?;
        self.controller_manager = Some(process);
        Ok(())
    }
}

/// Reserves a loopback port for as long as the socket lives. kube-apiserver can share it.
fn reserve_port() -> std::io::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}
