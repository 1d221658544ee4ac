//! TLS that offers HTTP/2: kube's own connector offers HTTP/1.1 only.

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use kube_client::client::{ConfigExt, RustlsTlsError};
use kube_client::{Config, Error};

/// A connector with the configuration's certificates and server name; plain HTTP passes through.
pub(super) fn connector<H>(config: &Config, connector: H) -> Result<HttpsConnector<H>, Error> {
    let mut builder =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name
            .clone()
            .try_into()
            .map_err(|error| Error::RustlsTls(RustlsTlsError::InvalidServerName(error)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_http1().enable_http2().wrap_connector(connector))
}
