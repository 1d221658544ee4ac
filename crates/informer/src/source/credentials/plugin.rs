//! Commands that print credentials: exec plugins (`ExecCredential` of `client.authentication.k8s.io`), and the commands of
//! `gcp` auth providers, their predecessors, which print a token alone or in JSON.
//!
//! A plugin runs when the first request needs it, when its credentials expire, and after the server has answered 401. It
//! runs once for all waiting requests, with limits on time and output, and is killed if the request that started it is
//! dropped.

use std::io::IsTerminal;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use kube_client::config::{AuthProviderConfig, ExecConfig, ExecInteractiveMode};
use kube_client::{Client, Config, Error};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use super::{Connect, CredentialsError, bearer};

/// Time limit of a plugin.
const TIME_MAX: Duration = Duration::from_secs(60);
/// Time limit of a plugin that can ask its user to log in.
const INTERACTIVE_TIME_MAX: Duration = Duration::from_secs(300);
/// Limit on a plugin's output in bytes: far more than any token or certificate.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Bytes of its standard error that an error shows.
const WORDS_BYTES_MAX: usize = 1 << 10;
/// Credentials are renewed this long before they expire: a request takes time.
const EXPIRY_MARGIN: SignedDuration = SignedDuration::from_secs(10);

/// A plugin, and the credentials it issued last.
pub(super) struct Plugin {
    exec: ExecConfig,
    command: String,
    prints: Prints,
    /// Credentials from the kubeconfig, used until they expire.
    given: Option<CredentialStatus>,
    config: Config,
    connect: Arc<Connect>,
    /// Locked while the plugin runs.
    last: Mutex<Option<Issued>>,
}

/// Credentials, and a client that uses them.
#[derive(Clone)]
pub(super) struct Issued {
    pub(super) client: Client,
    pub(super) header: Option<HeaderValue>,
    expires: Option<Timestamp>,
    identity: Option<Identity>,
    number: u64,
}

/// A client certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
struct Identity {
    certificate: String,
    key: String,
}

/// The output format of a plugin.
enum Prints {
    ExecCredential,
    /// A token, alone or in JSON at this path.
    Token {
        token_key: Option<String>,
        expiry_key: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<CredentialStatus>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CredentialStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

// === impl Plugin ===

impl Plugin {
    pub(super) fn new(
        exec: ExecConfig,
        config: Config,
        connect: Arc<Connect>,
    ) -> Result<Self, CredentialsError> {
        let command = exec.command.clone().filter(|command| !command.is_empty());
        let command = command.ok_or(CredentialsError::NoCommand)?;
        let prints = Prints::ExecCredential;
        Ok(Self { exec, command, prints, given: None, config, connect, last: Mutex::default() })
    }

    /// The command of an auth provider for which [`runs_command`] is true.
    pub(super) fn of_provider(
        mut provider: AuthProviderConfig,
        config: Config,
        connect: Arc<Connect>,
    ) -> Result<Self, CredentialsError> {
        let mut take = |name: &str| provider.config.remove(name).filter(|value| !value.is_empty());
        let words = |text: Option<String>| {
            text.map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let exec = ExecConfig {
            command: take("cmd-path"),
            args: words(take("cmd-args")),
            drop_env: words(take("cmd-drop-env")),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        };
        let prints = Prints::Token { token_key: take("token-key"), expiry_key: take("expiry-key") };
        let (token, expiration_timestamp) = (take("access-token"), take("expiry"));
        let given = (token.is_some() && expiration_timestamp.is_some()).then(|| CredentialStatus {
            token,
            expiration_timestamp,
            ..CredentialStatus::default()
        });
        Ok(Self { prints, given, ..Self::new(exec, config, connect)? })
    }

    /// Valid credentials.
    ///
    /// # Cancel safety
    /// Dropping the future kills the plugin; the next request starts it again.
    pub(super) async fn issued(&self) -> Result<Issued, Error> {
        let mut last = self.last.lock().await;
        if let (None, Some(given)) = (&*last, &self.given) {
            *last = Some(self.issue(given.clone(), None)?);
        }
        if let Some(issued) = last.as_ref().filter(|issued| issued.is_valid()) {
            return Ok(issued.clone());
        }
        let status = self.read(&self.run().await?)?;
        let issued = self.issue(status, last.as_ref())?;
        *last = Some(issued.clone());
        Ok(issued)
    }

    /// Discards credentials that the server refused: the next request runs the plugin.
    pub(super) async fn revoke(&self, issued: &Issued) {
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_mut().filter(|last| last.number == issued.number) {
            last.expires = Some(Timestamp::MIN);
        }
    }

    fn issue(&self, status: CredentialStatus, before: Option<&Issued>) -> Result<Issued, Error> {
        let expires = match &status.expiration_timestamp {
            Some(text) => Some(text.parse().map_err(|_| self.unusable("invalid expirationTimestamp"))?),
            None => None,
        };
        let identity = match (status.client_certificate_data, status.client_key_data) {
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (None, None) => None,
            _ => {
                return Err(self
                    .unusable("it has a certificate without a key, or a key without a certificate")
                    .into());
            }
        };
        let token = status.token.filter(|token| !token.trim().is_empty());
        if token.is_none() && identity.is_none() {
            return Err(self.unusable("it has neither a token nor a certificate").into());
        }
        let header = token.map(|token| bearer(&token)).transpose()?;
        let client = match before.filter(|before| before.identity == identity) {
            Some(before) => before.client.clone(),
            // Do not reuse connections made with another certificate.
            None => (self.connect)(&self.config_with(identity.as_ref()))?,
        };
        let number = before.map_or(0, |before| before.number + 1);
        Ok(Issued { client, header, expires, identity, number })
    }

    fn config_with(&self, identity: Option<&Identity>) -> Config {
        let mut config = self.config.clone();
        if let Some(Identity { certificate, key }) = identity {
            config.auth_info.client_certificate_data = Some(base64(certificate));
            config.auth_info.client_key_data = Some(base64(key).into());
        }
        config
    }

    fn read(&self, output: &[u8]) -> Result<CredentialStatus, CredentialsError> {
        match &self.prints {
            Prints::ExecCredential => self.read_credential(output),
            Prints::Token { token_key, expiry_key } => {
                self.read_token(output, token_key.as_deref(), expiry_key.as_deref())
            }
        }
    }

    fn read_json<'o, T: Deserialize<'o>>(&self, output: &'o [u8]) -> Result<T, CredentialsError> {
        // Do not show the invalid value: it may be a token.
        serde_json::from_slice(output).map_err(|error| {
            self.unusable(&format!("invalid JSON at line {}, column {}", error.line(), error.column()))
        })
    }

    fn read_token(
        &self,
        output: &[u8],
        token_key: Option<&str>,
        expiry_key: Option<&str>,
    ) -> Result<CredentialStatus, CredentialsError> {
        let Some(token_key) = token_key else {
            let token = std::str::from_utf8(output).map_err(|_| self.unusable("it is not UTF-8"))?;
            return Ok(CredentialStatus { token: Some(token.to_owned()), ..CredentialStatus::default() });
        };
        let printed = self.read_json::<Value>(output)?;
        let find = |key: &str| {
            let found = value_at(&printed, key).and_then(Value::as_str).map(str::to_owned);
            found.ok_or_else(|| self.unusable(&format!("it has no text at {key}")))
        };
        let expiration_timestamp = expiry_key.map(find).transpose()?;
        Ok(CredentialStatus {
            token: Some(find(token_key)?),
            expiration_timestamp,
            ..CredentialStatus::default()
        })
    }

    fn read_credential(&self, output: &[u8]) -> Result<CredentialStatus, CredentialsError> {
        let read = self.read_json::<ExecCredential>(output)?;
        if !matches!(read.kind.as_str(), "ExecCredential" | "") {
            return Err(self.unusable("it is of another kind"));
        }
        let expected = self.exec.api_version.as_deref().unwrap_or_default();
        if !expected.is_empty() && !read.api_version.is_empty() && read.api_version != expected {
            return Err(self.unusable(&format!("its apiVersion is not {expected}")));
        }
        read.status.ok_or_else(|| self.unusable("it has no status"))
    }

    fn unusable(&self, why: &str) -> CredentialsError {
        CredentialsError::NotACredential { command: self.name(), why: why.to_owned() }
    }

    /// The plugin's name, for messages.
    fn name(&self) -> String {
        let what = match self.prints {
            Prints::ExecCredential => "exec plugin",
            Prints::Token { .. } => "auth-provider command",
        };
        format!("{what} {:?}", self.command)
    }

    /// Runs the plugin. Returns its output.
    async fn run(&self) -> Result<Vec<u8>, CredentialsError> {
        let interactive = self.is_interactive()?;
        let limit = if interactive { INTERACTIVE_TIME_MAX } else { TIME_MAX };
        let timed_out = || CredentialsError::TimedOut { command: self.name(), limit };
        let mut running = self.start(interactive)?;
        tokio::time::timeout(limit, self.finish(&mut running)).await.map_err(|_| timed_out())?
    }

    async fn finish(&self, running: &mut PluginRun) -> Result<Vec<u8>, CredentialsError> {
        let failed = |error| self.not_started(error);
        let (stdout, stderr) = (running.child.stdout.take(), running.child.stderr.take());
        let output = async {
            let output = read_within(stdout, OUTPUT_BYTES_MAX).await.map_err(failed)?;
            let (command, limit) = (self.name(), OUTPUT_BYTES_MAX);
            output.ok_or(CredentialsError::TooMuchOutput { command, limit })
        };
        let (output, words) = tokio::try_join!(output, last_words(stderr).map(Ok))?;
        let status = running.child.wait().await.map_err(failed)?;
        if !status.success() {
            return Err(CredentialsError::Failed { command: self.name(), status, words });
        }
        Ok(output)
    }

    /// Whether the plugin may ask its user something.
    fn is_interactive(&self) -> Result<bool, CredentialsError> {
        let terminal = std::io::stdin().is_terminal();
        match &self.exec.interactive_mode {
            Some(ExecInteractiveMode::Never) => Ok(false),
            Some(ExecInteractiveMode::Always) if !terminal => {
                Err(CredentialsError::NoTerminal { command: self.name() })
            }
            _ => Ok(terminal),
        }
    }

    fn start(&self, interactive: bool) -> Result<PluginRun, CredentialsError> {
        let mut spec = json!({"interactive": interactive});
        if self.exec.provide_cluster_info {
            spec["cluster"] = serde_json::to_value(&self.exec.cluster).unwrap_or_default();
        }
        let info = json!({"kind": "ExecCredential", "apiVersion": self.exec.api_version, "spec": spec});
        let mut command = Command::new(&self.command);
        command.args(self.exec.args.iter().flatten());
        for variable in self.exec.env.iter().flatten() {
            if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
                command.env(name, value);
            }
        }
        if matches!(self.prints, Prints::ExecCredential) {
            command.env("KUBERNETES_EXEC_INFO", info.to_string());
        }
        for name in self.exec.drop_env.iter().flatten() {
            command.env_remove(name);
        }
        command.stdout(Stdio::piped()).kill_on_drop(true);
        if interactive {
            // It talks to its user through the terminal.
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
        } else {
            command.stdin(Stdio::null()).stderr(Stdio::piped());
            // A process group of its own, so that the plugin can be killed with its children. Interactive plugins have none:
            // it would keep them from reading the terminal.
            #[cfg(unix)]
            command.process_group(0);
        }
        let child = command.spawn().map_err(|error| self.not_started(error))?;
        Ok(PluginRun { child, has_group: !interactive })
    }

    fn not_started(&self, error: std::io::Error) -> CredentialsError {
        let hint = self.exec.install_hint.as_deref().map(str::trim).filter(|hint| !hint.is_empty());
        let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
        CredentialsError::NotStarted { command: self.name(), error, hint }
    }
}

impl Issued {
    fn is_valid(&self) -> bool {
        self.expires.is_none_or(|expires| Timestamp::now().duration_until(expires) > EXPIRY_MARGIN)
    }
}

/// Whether an auth provider gets its tokens from a command: `gcp` with a `cmd-path` and without a fixed token.
pub(super) fn runs_command(provider: &AuthProviderConfig) -> bool {
    let has = |name: &str| provider.config.get(name).is_some_and(|value| !value.is_empty());
    provider.name == "gcp" && has("cmd-path") && !provider.config.contains_key("id-token")
}

/// The value at a path in kubeconfig syntax: `{.credential.access_token}`, `a.b`, `$['a'][0]`.
fn value_at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let names = path.split(['{', '}', '$', '.', '[', ']', '\'', '"']).filter(|name| !name.is_empty());
    names.into_iter().try_fold(value, |value, name| match value {
        Value::Array(values) => values.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })
}

/// A running plugin. Dropping it kills it and its child processes.
struct PluginRun {
    child: Child,
    has_group: bool,
}

impl Drop for PluginRun {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.child.id().filter(|_| self.has_group)
            && let Some(group) = i32::try_from(group).ok().and_then(rustix::process::Pid::from_raw)
        {
            // It may have exited already.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        #[cfg(not(unix))]
        let _ = self.has_group;
    }
}

/// Reads a whole stream; `None` if it exceeds the limit.
async fn read_within(
    stream: Option<impl AsyncRead + Unpin>,
    bytes_max: usize,
) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(bytes_max as u64 + 1).read_to_end(&mut bytes).await?;
    }
    Ok((bytes.len() <= bytes_max).then_some(bytes))
}

/// Reads a stream to its end. Returns the last part of it after a colon; empty if the stream is empty.
async fn last_words(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let mut kept = Vec::new();
    let mut piece = vec![0; WORDS_BYTES_MAX];
    // A read error must not hide why the plugin failed.
    while let Ok(count @ 1..) = stream.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        let surplus = kept.len().saturating_sub(WORDS_BYTES_MAX);
        kept.drain(..surplus);
    }
    match String::from_utf8_lossy(&kept).trim() {
        "" => String::new(),
        words => format!(": {words}"),
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}
