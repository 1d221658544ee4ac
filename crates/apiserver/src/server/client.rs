//! A `kube` client for the server.

use kube_client::{Client, Config};

use super::Server;

/// Why no client could be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// `kube` rejected the configuration.
    #[error("cannot create a client for the server: {0}")]
    Client(#[from] kube_client::Error),
}

impl Server {
    /// A client for the server: over its socket or, if it has none, directly over the service.
    ///
    /// # Errors
    /// If `kube` rejects the configuration.
    pub fn client(&self) -> Result<Client, ClientError> {
        match self.config() {
            Some(config) => Ok(Client::try_from(config)?),
            None => Ok(Client::new(self.service(), "default")),
        }
    }

    /// A client's configuration; `None` without a socket.
    pub fn config(&self) -> Option<Config> {
        let url = self.url()?.parse().ok()?;
        let mut config = Config::new(url);
        config.root_cert = self.identity.as_ref().map(|identity| vec![identity.ca_der.clone()]);
        config.auth_info.token = self.api.options.token.clone().map(Into::into);
        Some(config)
    }
}
