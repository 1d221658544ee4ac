//! A short-lived server certificate, signed by a certificate authority created for it.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// The server's certificate and its authority.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) ca_pem: String,
    #[cfg(feature = "client")]
    pub(super) ca_der: Vec<u8>,
    pub(super) config: Arc<ServerConfig>,
}

impl Identity {
    /// A certificate for a server at this address and `localhost`.
    pub(super) fn new(address: IpAddr) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        authority.distinguished_name.push(rcgen::DnType::CommonName, "embedded-apiserver");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let names =
            vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned(), address.to_string()];
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone(), authority.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            ca_pem: authority.pem(),
            #[cfg(feature = "client")]
            ca_der: authority.der().to_vec(),
            config: Arc::new(config),
        })
    }
}
