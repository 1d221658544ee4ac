//! Errors of requests without a response, with advice that depends on the cause.

use std::error::Error;
use std::io::ErrorKind;

use rustls::CertificateError;

use crate::failure::{Failure, root_cause};

/// The failure for a request that could not be sent.
pub(crate) fn failure(url: &str, error: &kube_client::Error) -> Failure {
    if let kube_client::Error::Auth(error) = error {
        return Failure::Refused(format!(
            "cannot authenticate to {url}: {}; log in again, or choose another --user or --context",
            root_cause(error)
        ));
    }
    Failure::NoCluster(format!("cannot connect to {url}: {}; {}", root_cause(error), advice(error)))
}

fn advice(error: &(dyn Error + 'static)) -> &'static str {
    if let Some(tls) = find::<rustls::Error>(error) {
        return tls_advice(tls);
    }
    match find::<std::io::Error>(error).map(std::io::Error::kind) {
        Some(ErrorKind::ConnectionRefused) | None => "is the server running, and is it the right --context?",
        Some(ErrorKind::TimedOut) => "the server does not answer: check the address, VPN and firewall",
        Some(ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) => {
            "the server or a proxy closed the connection: is this the API server's port?"
        }
        Some(_) => "check the cluster's `server` in the kubeconfig, and the network",
    }
}

fn tls_advice(error: &rustls::Error) -> &'static str {
    match error {
        // A CA of the same name with another key is a wrong CA, too.
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => {
            "the kubeconfig's certificate-authority did not sign the server's certificate: \
             use the cluster's own CA, and check that nothing intercepts TLS"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            "the certificate is for other names: use one of them as `server`, or set tls-server-name in the kubeconfig"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => "renew the server's certificate, or correct this machine's clock",
        rustls::Error::InvalidCertificate(_) => "the server's certificate is not acceptable",
        rustls::Error::InvalidMessage(_) => {
            "the server does not speak TLS: should its address begin with http://?"
        }
        rustls::Error::AlertReceived(_) => {
            "the server refused the TLS handshake: check client-certificate and client-key in the kubeconfig"
        }
        _ => "the TLS handshake failed",
    }
}

/// The first error of this type in the chain. An `io::Error` hides the error that it wraps from `source`.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}
