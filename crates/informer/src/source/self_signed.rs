//! Accepts a self-signed server certificate that the kubeconfig names as its certificate authority.
//!
//! Such a certificate is a CA that is used as a server certificate. webpki rejects it, but kubectl accepts it. Here it is accepted
//! if all its bytes equal those of a configured authority. Its validity period and names are checked as usual.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Verifies like rustls, and also accepts an exact copy of one of the authorities as the server's certificate.
#[derive(Debug)]
pub(super) struct SelfSignedVerifier {
    inner: Arc<WebPkiServerVerifier>,
    authorities: Vec<CertificateDer<'static>>,
}

impl SelfSignedVerifier {
    /// Makes a client verify with these authorities (DER).
    pub(super) fn install(
        config: &mut ClientConfig,
        authorities: &[Vec<u8>],
    ) -> Result<(), VerifierBuilderError> {
        let authorities: Vec<_> = authorities.iter().cloned().map(CertificateDer::from).collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.iter().cloned());
        let provider = config.crypto_provider().clone();
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        config.dangerous().set_certificate_verifier(Arc::new(Self { inner, authorities }));
        Ok(())
    }
}

/// Whether webpki's only objection is that a CA is used as a server certificate. It checks the validity period first.
fn is_ca_as_end_entity(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

impl ServerCertVerifier for SelfSignedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(error) if is_ca_as_end_entity(&error) && self.authorities.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
