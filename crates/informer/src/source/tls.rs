//! TLS that offers HTTP/2, or only HTTP/1.1 for upgrades. kube's own connector never offers HTTP/2.

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use kube_client::client::{ConfigExt, RustlsTlsError};
use kube_client::{Config, Error};

use super::self_signed::SelfSignedVerifier;

/// The protocols that a connection offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offers {
    /// HTTP/1.1 only: for upgrades.
    Http1,
    /// HTTP/2, or else HTTP/1.1.
    Http2,
}

/// A connector with the configuration's certificates and server name; unencrypted HTTP passes through.
pub(super) fn connector<H>(
    config: &Config,
    connector: H,
    offers: Offers,
) -> Result<HttpsConnector<H>, Error> {
    choose_crypto_provider();
    let mut tls = config.rustls_client_config()?;
    // In a cluster, kube reloads the authorities from their file.
    if let (Some(authorities), None, false) =
        (&config.root_cert, &config.root_cert_file, config.accept_invalid_certs)
    {
        SelfSignedVerifier::install(&mut tls, authorities)
            .map_err(|error| Error::Service(Box::new(error)))?;
    }
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name
            .clone()
            .try_into()
            .map_err(|error| Error::RustlsTls(RustlsTlsError::InvalidServerName(error)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let builder = builder.enable_http1();
    Ok(match offers {
        Offers::Http1 => builder.wrap_connector(connector),
        Offers::Http2 => builder.enable_http2().wrap_connector(connector),
    })
}

/// Installs this crate's crypto provider if the process has none. rustls chooses one by itself only if a single provider is
/// compiled in; with two, kube's configuration would panic. Feature unification makes that common: the application or
/// another dependency may enable the other provider.
fn choose_crypto_provider() {
    #[cfg(feature = "aws-lc-rs")]
    use rustls::crypto::aws_lc_rs as provider;
    #[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
    use rustls::crypto::ring as provider;

    #[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only if another thread has installed one since.
        let _ = provider::default_provider().install_default();
    }
}
