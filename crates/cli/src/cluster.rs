//! kubectl's flags for the cluster, the user and the namespace, and the client built from them.

use std::path::PathBuf;
use std::time::Duration;

use kube_client::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube_client::{Client, Config};
use kube_informer::ClusterConfig;

use crate::failure::{Failure, root_cause};
use crate::kubeconfig;
use crate::list_limit::ListLimit;

/// The name of this program's requests, for example in audit logs.
const USER_AGENT: &str = concat!("kube-informer/", env!("CARGO_PKG_VERSION"));

/// The cluster to read from.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterFlags {
    /// Address of the API server, instead of the one in the kubeconfig: https://host:6443.
    #[arg(short, long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Do not verify the server's certificate. Anyone between you and the server can read and change the traffic.
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Kubeconfig file; by default $KUBECONFIG, ~/.kube/config, or the service account of the pod.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long)]
    pub(crate) context: Option<String>,
    /// Cluster of the kubeconfig.
    #[arg(long)]
    pub(crate) cluster: Option<String>,
    /// User of the kubeconfig.
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Impersonate this user.
    #[arg(long = "as", value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// Impersonate this group; can be repeated.
    #[arg(long = "as-group", value_name = "GROUP")]
    pub(crate) impersonate_groups: Vec<String>,
    /// Request lists in gzip: faster over a slow network. Watches are never compressed, so kinds are listed, not streamed.
    #[arg(long)]
    pub(crate) compress: bool,
    /// Time limit for one request, such as 30s or 2m; 0 means no limit while data arrives. Does not apply to watches.
    #[arg(long, value_name = "DURATION", default_value = "0", hide_default_value = true, value_parser = parse_timeout)]
    pub(crate) request_timeout: RequestTimeout,
    #[command(flatten)]
    pub(crate) list_limit: ListLimit,
}

/// Credentials that replace those of the kubeconfig. Commands that listen have a `--token` of their own instead.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct CredentialFlags {
    /// Bearer token for the API server. Other users of this machine can read command lines: prefer --token-file.
    #[arg(long, conflicts_with = "token_file")]
    token: Option<Hidden>,
    /// File with the bearer token for the API server. It is read again every minute.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// A value that is not printed for debugging.
#[derive(Clone)]
struct Hidden(String);

impl std::str::FromStr for Hidden {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// The limit set by `--request-timeout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestTimeout(pub(crate) Option<Duration>);

fn parse_timeout(text: &str) -> Result<RequestTimeout, String> {
    let limit = parse_duration(text).map_err(|error| format!("{error}, or 0 for no limit"))?;
    Ok(RequestTimeout((!limit.is_zero()).then_some(limit)))
}

/// Parses a duration like kubectl: a number of seconds, or numbers with units.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let duration = text.parse::<jiff::SignedDuration>().ok();
    let duration = duration.and_then(|duration| Duration::try_from(duration).ok());
    duration.ok_or("give a duration such as 30s, 2m or 1m30s")
}

/// A cluster that requests can be sent to.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) url: String,
    pub(crate) default_namespace: String,
    /// Lists are requested compressed.
    pub(crate) compress: bool,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) list_limit: ListLimit,
}

impl Cluster {
    /// Reads the configuration. Sends no request.
    pub(crate) async fn connect(flags: &ClusterFlags) -> Result<Self, Failure> {
        Self::connect_as(flags, &CredentialFlags::default()).await
    }

    /// Like [`connect`](Self::connect), with other credentials than those of the kubeconfig.
    pub(crate) async fn connect_as(
        flags: &ClusterFlags,
        credentials: &CredentialFlags,
    ) -> Result<Self, Failure> {
        let mut config = flags.config().await?;
        if flags.insecure_skip_tls_verify {
            config.accept_invalid_certs = true;
            (config.root_cert, config.root_cert_file) = (None, None);
        }
        credentials.apply(&mut config.auth_info)?;
        if let Some(user) = &flags.impersonate {
            config.auth_info.impersonate = Some(user.clone());
        }
        if !flags.impersonate_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(flags.impersonate_groups.clone());
        }
        config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(USER_AGENT)));
        let (url, default_namespace) = (shown(&config.cluster_url), config.default_namespace.clone());
        let mut own = ClusterConfig::default();
        own.compress_lists = flags.compress;
        // Reading files and the commands of auth providers blocks.
        let cluster = tokio::task::spawn_blocking(move || kube_informer::Cluster::configured(config, own));
        let cluster =
            cluster.await.map_err(|error| Failure::other("cannot read the configuration", &error))?;
        let cluster = cluster.map_err(|error| {
            Failure::NoCluster(format!("cannot use the credentials for {url}: {}", root_cause(&error)))
        })?;
        let (request_timeout, compress, list_limit) =
            (flags.request_timeout.0, flags.compress, flags.list_limit);
        Ok(Self { client: cluster.client(), url, default_namespace, request_timeout, compress, list_limit })
    }
}

/// An address without its password.
fn shown(url: &http::Uri) -> String {
    let text = url.to_string();
    match (text.split_once("://"), url.authority().and_then(|authority| authority.as_str().rsplit_once('@')))
    {
        (Some((scheme, rest)), Some((user, _))) => format!("{scheme}://{}", &rest[user.len() + 1..]),
        _ => text,
    }
}

impl CredentialFlags {
    /// Replaces the token, the user name and the plugin; client certificates stay, as in kubectl.
    fn apply(&self, auth: &mut AuthInfo) -> Result<(), Failure> {
        if self.token.is_none() && self.token_file.is_none() {
            return Ok(());
        }
        (auth.username, auth.password, auth.exec, auth.auth_provider) = (None, None, None, None);
        auth.token = self.token.as_ref().map(|token| token.0.clone().into());
        auth.token_file = match &self.token_file {
            None => None,
            Some(file) => {
                let cannot = |why: &str| {
                    Failure::Usage(format!("cannot read the token from {}: {why}", file.display()))
                };
                std::fs::File::open(file).map_err(|error| cannot(&error.to_string()))?;
                Some(file.to_str().ok_or_else(|| cannot("the path is not UTF-8"))?.to_owned())
            }
        };
        Ok(())
    }
}

impl ClusterFlags {
    async fn config(&self) -> Result<Config, Failure> {
        let server = self.server.as_deref().map(parse_server).transpose()?;
        match (self.kubeconfig_config().await, server) {
            (Ok(config), None) => Ok(config),
            (Ok(mut config), Some(server)) => {
                config.cluster_url = server;
                Ok(config)
            }
            // An address is enough, unless a kubeconfig or a part of it was requested.
            (Err(Failure::NoCluster(_)), Some(server)) if self.kubeconfig.is_none() && !self.has_chosen() => {
                Ok(Config::new(server))
            }
            (Err(failure), _) => Err(failure),
        }
    }

    fn has_chosen(&self) -> bool {
        self.context.is_some() || self.cluster.is_some() || self.user.is_some()
    }

    async fn kubeconfig_config(&self) -> Result<Config, Failure> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let kubeconfig = match &self.kubeconfig {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        };
        let kubeconfig = match kubeconfig {
            Ok(kubeconfig) => kubeconfig,
            Err(error) if self.kubeconfig.is_none() && !self.has_chosen() => {
                return Config::incluster().map_err(|_| nothing_found(&error));
            }
            Err(error) => return Err(unreadable(&error)),
        };
        let chosen = kubeconfig::Chosen {
            context: self.context.as_deref(),
            cluster: self.cluster.as_deref(),
            user: self.user.as_deref(),
        };
        kubeconfig::check(&kubeconfig, &chosen, &self.location())?;
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| match error {
            KubeconfigError::CurrentContextNotSet => Failure::NoCluster(
                "the kubeconfig has no current-context; choose one with --context".to_owned(),
            ),
            error => unreadable(&error),
        })
    }

    /// The location of the kubeconfig, for messages.
    fn location(&self) -> String {
        match &self.kubeconfig {
            Some(file) => file.display().to_string(),
            None => std::env::var("KUBECONFIG").unwrap_or_else(|_| "~/.kube/config".to_owned()),
        }
    }
}

fn parse_server(text: &str) -> Result<http::Uri, Failure> {
    let server = text.parse::<http::Uri>().ok().filter(|server| {
        matches!(server.scheme_str(), Some("http" | "https")) && server.authority().is_some()
    });
    server.ok_or_else(|| {
        Failure::Usage(format!("invalid --server {text:?}: use an address such as https://host:6443"))
    })
}

/// Neither a kubeconfig nor a pod's service account.
fn nothing_found(error: &KubeconfigError) -> Failure {
    // A kubeconfig that exists but cannot be read is the error to report.
    let missing = matches!(error, KubeconfigError::ReadConfig(error, _) if error.kind() == std::io::ErrorKind::NotFound)
        || matches!(error, KubeconfigError::FindPath);
    if !missing {
        return unreadable(error);
    }
    Failure::NoCluster(
        "no kubeconfig: give --kubeconfig FILE, set $KUBECONFIG or write ~/.kube/config\n\
         for a cluster to try it on, run `kube-informer demo`"
            .to_owned(),
    )
}

fn unreadable(error: &KubeconfigError) -> Failure {
    match error {
        KubeconfigError::ReadConfig(error, file) => {
            Failure::NoCluster(format!("cannot read the kubeconfig {}: {error}", file.display()))
        }
        // After its first line, a parser's error quotes the file, including credentials.
        error => {
            let cause = root_cause(error);
            let cause = cause.lines().next().unwrap_or_default();
            Failure::NoCluster(format!("cannot use the kubeconfig: {cause}"))
        }
    }
}
