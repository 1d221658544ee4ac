//! The running server: kube-apiserver over its own etcd, and what tests do to it.

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

/// Set to anything, this variable keeps the servers' directories (logs, data, kubeconfig) and says where they are.
const KEEP: &str = "KUBE_INFORMER_CONFORMANCE_KEEP";
/// How long a server that is asked to end may take to drain its requests.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(70);

/// A kube-apiserver with its etcd, alive as long as this value.
///
/// The processes end with it however the test ends; the fields are dropped in the order in which they stand.
#[derive(Debug)]
pub struct RealServer {
    controller_manager: Option<Process>,
    apiserver: Option<Process>,
    etcd: Etcd,
    options: Builder,
    users: Vec<User>,
    revoked: Vec<String>,
    credentials: Credentials,
    /// Bound but not listening: the port stays this server's, also while kube-apiserver is down.
    _reserved: TcpSocket,
    address: SocketAddr,
    directory: TempDir,
}

impl RealServer {
    /// A server to be started with these programs.
    pub fn builder(programs: Programs) -> Builder {
        Builder::new(programs)
    }

    pub(crate) async fn start(options: Builder) -> Result<Self, Error> {
        let directory = tempfile::Builder::new()
            .prefix("kube-informer-conformance-")
            .disable_cleanup(std::env::var_os(KEEP).is_some())
            .tempdir()
            .map_err(Error::io("make a temporary directory"))?;
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The directory with its logs, data and credentials.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The programs it runs on.
    pub fn programs(&self) -> &Programs {
        &self.options.programs
    }

    /// A kubeconfig file with a context for each user, named like the user; the administrator's is current.
    pub fn kubeconfig(&self) -> PathBuf {
        self.credentials.kubeconfig()
    }

    /// The ids of the processes now running for this server.
    pub fn process_ids(&self) -> Vec<u32> {
        let programs = [self.controller_manager.as_ref(), self.apiserver.as_ref(), self.etcd.process()];
        programs.into_iter().flatten().map(Process::id).collect()
    }

    /// A client configuration of the administrator, without the client's own retries.
    ///
    /// # Errors
    ///
    /// If the kubeconfig cannot be read back.
    pub async fn config(&self) -> Result<Config, Error> {
        self.config_of(ADMIN).await
    }

    /// A client configuration of one user, without the client's own retries: tests want to see every answer.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownUser`] if the builder was not told of them.
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

    /// A client of the administrator.
    ///
    /// # Errors
    ///
    /// If the client cannot be made.
    pub async fn client(&self) -> Result<Client, Error> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// A client of one user.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownUser`] if the builder was not told of them.
    pub async fn client_of(&self, user: &str) -> Result<Client, Error> {
        Ok(Client::try_from(self.config_of(user).await?)?)
    }

    /// Runs kubectl as the administrator with its own cache, and gives what it printed.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] with its words if it fails.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String, Error> {
        self.kubectl_with(args, "").await
    }

    /// Runs kubectl with something on its standard input, such as a manifest for `apply -f -`.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] with its words if it fails.
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

    // What befalls servers.

    /// Ends kube-apiserver in order, as an upgrade would, and starts it again on the same port.
    ///
    /// # Errors
    ///
    /// If it does not come back.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.shut_down().await?;
        self.start_apiserver().await
    }

    /// Ends kube-apiserver in order; [`restart`](Self::restart) brings it back.
    ///
    /// # Errors
    ///
    /// If it cannot be signalled.
    pub async fn shut_down(&mut self) -> Result<(), Error> {
        match self.apiserver.take() {
            Some(apiserver) => apiserver.terminate(SHUTDOWN_LIMIT).await,
            None => Ok(()),
        }
    }

    /// Kills kube-apiserver as a crash would; connections are reset, new ones refused.
    /// [`restart`](Self::restart) brings it back.
    pub fn kill(&mut self) {
        self.apiserver = None;
    }

    /// Freezes kube-apiserver (SIGSTOP): its connections stay open and silent, until [`thaw`](Self::thaw). It has
    /// stopped when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] after a [`kill`](Self::kill).
    pub fn freeze(&self) -> Result<(), Error> {
        self.running()?.freeze()
    }

    /// Lets a frozen kube-apiserver go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] after a [`kill`](Self::kill).
    pub fn thaw(&self) -> Result<(), Error> {
        self.running()?.signal(Signal::CONT)
    }

    /// Makes a user's token worthless (401). The server learns of it by a restart. Not for the administrator,
    /// whom the harness needs itself.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownUser`], or if it does not come back.
    pub async fn revoke(&mut self, user: &str) -> Result<(), Error> {
        self.config_of(user).await?;
        self.revoked.push(user.to_owned());
        self.restart().await
    }

    /// Takes a [`revoke`](Self::revoke) back, by another restart.
    ///
    /// # Errors
    ///
    /// If the server does not come back.
    pub async fn admit(&mut self, user: &str) -> Result<(), Error> {
        self.revoked.retain(|revoked| revoked != user);
        self.restart().await
    }

    /// Makes etcd forget its history up to `revision`, or up to now, and gives the revision. kube-apiserver is told in the way
    /// its own compactor would; what its watch cache holds in memory it may still replay until it restarts.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] if etcd refuses, for instance because that was forgotten before.
    pub async fn etcd_compact(&self, revision: Option<u64>) -> Result<u64, Error> {
        self.etcd.compact(revision).await
    }

    /// The etcd, for [`RealServer::backup`] and its like.
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

/// A loopback port that nobody else is given while the socket lives, and that kube-apiserver can share.
fn reserve_port() -> std::io::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}
