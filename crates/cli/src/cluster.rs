//! Which cluster, as whom, and in which namespace: kubectl's flags, and the client made of them.

use std::path::PathBuf;
use std::time::Duration;

use kube_client::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube_client::{Client, Config};
use kube_informer::{ClusterConfig, Compression};

use crate::failure::{Failure, root_cause};
use crate::kubeconfig;
use crate::list_limit::ListLimit;

/// Where the objects are, as kubectl's flags say it.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which cluster")]
pub(crate) struct ClusterFlags {
    /// The kubeconfig file; else $KUBECONFIG, ~/.kube/config, or the service account of the pod.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long)]
    pub(crate) context: Option<String>,
    /// The cluster of the kubeconfig.
    #[arg(long)]
    pub(crate) cluster: Option<String>,
    /// The user of the kubeconfig.
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Act as this user.
    #[arg(long = "as", value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// Act as a member of this group; may be repeated.
    #[arg(long = "as-group", value_name = "GROUP")]
    pub(crate) impersonate_groups: Vec<String>,
    /// Ask for lists in gzip: faster over a slow network. Watches are never compressed, so kinds are listed and not streamed.
    #[arg(long)]
    pub(crate) compress: bool,
    /// How long one request may take: 30s, 2m, or 0 for as long as data keeps coming. A watch is not limited.
    #[arg(long, value_name = "DURATION", default_value = "0", hide_default_value = true, value_parser = parse_timeout)]
    pub(crate) request_timeout: RequestTimeout,
    #[command(flatten)]
    pub(crate) list_limit: ListLimit,
}

/// The limit of `--request-timeout`, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestTimeout(pub(crate) Option<Duration>);

fn parse_timeout(text: &str) -> Result<RequestTimeout, String> {
    let limit = parse_duration(text).map_err(|error| format!("{error}, or 0 for no limit"))?;
    Ok(RequestTimeout((!limit.is_zero()).then_some(limit)))
}

/// As kubectl reads it: a number of seconds, or numbers with units.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let duration = text.parse::<jiff::SignedDuration>().ok();
    let duration = duration.and_then(|duration| Duration::try_from(duration).ok());
    duration.ok_or("give a duration such as 30s, 2m or 1m30s")
}

/// A cluster that can be asked.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) url: String,
    pub(crate) default_namespace: String,
    /// Lists come compressed.
    pub(crate) compress: bool,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) list_limit: ListLimit,
}

impl Cluster {
    /// Reads the configuration; nothing is sent yet.
    pub(crate) async fn connect(flags: &ClusterFlags) -> Result<Self, Failure> {
        let mut config = flags.config().await?;
        if let Some(user) = &flags.impersonate {
            config.auth_info.impersonate = Some(user.clone());
        }
        if !flags.impersonate_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(flags.impersonate_groups.clone());
        }
        let (url, default_namespace) = (shown(&config.cluster_url), config.default_namespace.clone());
        let mut own = ClusterConfig::default();
        if flags.compress {
            own = own.compress_lists(Compression::default());
        }
        // Reading files and the commands of auth providers blocks.
        let cluster = tokio::task::spawn_blocking(move || kube_informer::Cluster::configured(config, own));
        let cluster = cluster.await.map_err(|error| Failure::other("reading the configuration", &error))?;
        let cluster = cluster.map_err(|error| {
            Failure::NoCluster(format!("the credentials for {url} cannot be used: {}", root_cause(&error)))
        })?;
        let (request_timeout, compress, list_limit) =
            (flags.request_timeout.0, flags.compress, flags.list_limit);
        Ok(Self { client: cluster.client(), url, default_namespace, request_timeout, compress, list_limit })
    }
}

/// An address without the password that it may hold.
fn shown(url: &http::Uri) -> String {
    let text = url.to_string();
    match (text.split_once("://"), url.authority().and_then(|authority| authority.as_str().rsplit_once('@')))
    {
        (Some((scheme, rest)), Some((user, _))) => format!("{scheme}://{}", &rest[user.len() + 1..]),
        _ => text,
    }
}

impl ClusterFlags {
    async fn config(&self) -> Result<Config, Failure> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let chosen = self.context.is_some() || self.cluster.is_some() || self.user.is_some();
        let kubeconfig = match &self.kubeconfig {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        };
        let kubeconfig = match kubeconfig {
            Ok(kubeconfig) => kubeconfig,
            Err(error) if self.kubeconfig.is_none() && !chosen => {
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
                "the kubeconfig names no current context: choose one with --context".to_owned(),
            ),
            error => unreadable(&error),
        })
    }

    /// Where the kubeconfig is read from, for messages.
    fn location(&self) -> String {
        match &self.kubeconfig {
            Some(file) => file.display().to_string(),
            None => std::env::var("KUBECONFIG").unwrap_or_else(|_| "~/.kube/config".to_owned()),
        }
    }
}

/// Neither a kubeconfig nor a pod's service account.
fn nothing_found(error: &KubeconfigError) -> Failure {
    // Whoever has a kubeconfig that cannot be read wants to hear of that one.
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
        // Behind its first line, a parser's error quotes the file, credentials included.
        error => {
            let cause = root_cause(error);
            let cause = cause.lines().next().unwrap_or_default();
            Failure::NoCluster(format!("cannot use the kubeconfig: {cause}"))
        }
    }
}
