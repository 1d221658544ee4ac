//! The credentials of requests: tokens, token files, exec plugins and auth provider commands, as client-go handles them.
//!
//! kube runs commands without limits, blocks the calling thread, and prints their standard output (usually a token) when
//! they fail. It panics on a token with a line break, and rejects a token file with one. So tokens, token files and
//! commands are handled here; everything else (client certificates, passwords, OIDC) is left to kube.

mod error;
mod file;
mod plugin;

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use kube_client::client::Body;
use kube_client::{Client, Config, Error};
use secrecy::ExposeSecret;
use tower::Service;

use error::CredentialsError;
use file::TokenFile;
use plugin::Plugin;

/// Makes a client with the certificates, proxies and address of a configuration.
type Connect = dyn Fn(&Config) -> Result<Client, Error> + Send + Sync;

/// A client that sends the configuration's credentials with each request. `connect` makes the client below it, which gets
/// no token, token file or plugin.
///
/// # Errors
/// Returns an error if the address, a token or a token file is invalid, or `connect` fails. A plugin runs with the first
/// request.
pub(super) fn client(
    mut config: Config,
    connect: impl Fn(&Config) -> Result<Client, Error> + Send + Sync + 'static,
) -> Result<Client, Error> {
    complete_address(&mut config)?;
    let namespace = config.default_namespace.clone();
    let connect: Arc<Connect> = Arc::new(connect);
    let auth = &mut config.auth_info;
    if let Some(provider) = auth.auth_provider.take_if(|provider| plugin::runs_command(provider)) {
        let plugin = Plugin::of_provider(provider, config, connect)?;
        return Ok(Client::new(Authenticated(Arc::new(Credentials::Plugin(Box::new(plugin)))), namespace));
    }
    let is_kubes = auth.auth_provider.is_some() || (auth.username.is_some() && auth.password.is_some());
    // In kube's order of precedence.
    let source = if is_kubes {
        CredentialSource::Kube
    } else if let Some(token) = auth.token.take().filter(|token| !token.expose_secret().trim().is_empty()) {
        auth.token_file = None;
        auth.exec = None;
        CredentialSource::Token(bearer(token.expose_secret())?)
    } else if let Some(file) = auth.token_file.take() {
        auth.exec = None;
        CredentialSource::File(TokenFile::open(file.into())?)
    } else if let Some(exec) = auth.exec.take() {
        let plugin = Plugin::new(exec, config, connect)?;
        return Ok(Client::new(Authenticated(Arc::new(Credentials::Plugin(Box::new(plugin)))), namespace));
    } else {
        return connect(&config);
    };
    let below = connect(&config)?;
    Ok(Client::new(Authenticated(Arc::new(Credentials::Fixed { below, source })), namespace))
}

/// Completes an address like kubectl: one without a scheme is HTTPS if the configuration has certificates.
fn complete_address(config: &mut Config) -> Result<(), Error> {
    let url = &config.cluster_url;
    let Some(authority) = url.authority().filter(|authority| !authority.host().is_empty()) else {
        let url = without_password(url);
        return Err(CredentialsError::InvalidAddress { url: url.to_string() }.into());
    };
    if url.scheme().is_some() {
        return Ok(());
    }
    let auth = &config.auth_info;
    let has_identity = auth.client_certificate.is_some() || auth.client_certificate_data.is_some();
    let is_tls = config.root_cert.is_some() || config.accept_invalid_certs || has_identity;
    let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let url = Uri::builder().scheme(if is_tls { "https" } else { "http" }).authority(authority.clone());
    config.cluster_url = url.path_and_query(path).build().map_err(Error::HttpError)?;
    Ok(())
}

/// An address without user and password, for messages.
pub(super) fn without_password(url: &Uri) -> Uri {
    let Some((_, host)) = url.authority().and_then(|authority| authority.as_str().rsplit_once('@')) else {
        return url.clone();
    };
    let mut parts = url.clone().into_parts();
    parts.authority = host.parse().ok();
    Uri::from_parts(parts).unwrap_or_default()
}

/// A header with a token. Tokens from files and plugins often end with a line break.
fn bearer(token: &str) -> Result<HeaderValue, CredentialsError> {
    let header = HeaderValue::try_from(format!("Bearer {}", token.trim()));
    let mut header = header.map_err(|_| CredentialsError::InvalidToken)?;
    header.set_sensitive(true);
    Ok(header)
}

/// A client with credentials, as a service.
#[derive(Clone)]
struct Authenticated(Arc<Credentials>);

enum Credentials {
    Fixed { below: Client, source: CredentialSource },
    Plugin(Box<Plugin>),
}

/// Where the header of a request comes from.
enum CredentialSource {
    /// kube adds it.
    Kube,
    Token(HeaderValue),
    File(TokenFile),
}

impl Credentials {
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, Error> {
        match self {
            Self::Fixed { below, source } => {
                let header = match source {
                    CredentialSource::Kube => None,
                    CredentialSource::Token(header) => Some(header.clone()),
                    CredentialSource::File(file) => Some(file.header()?),
                };
                if let Some(header) = header {
                    request.headers_mut().insert(AUTHORIZATION, header);
                }
                below.send(request).await
            }
            Self::Plugin(plugin) => {
                let issued = plugin.issued().await?;
                if let Some(header) = &issued.header {
                    request.headers_mut().insert(AUTHORIZATION, header.clone());
                }
                let response = issued.client.send(request).await?;
                if response.status() == StatusCode::UNAUTHORIZED {
                    plugin.revoke(&issued).await;
                }
                Ok(response)
            }
        }
    }
}

impl Service<Request<Body>> for Authenticated {
    type Response = Response<Body>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Response<Body>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let credentials = self.0.clone();
        async move { credentials.send(request).await }.boxed()
    }
}
