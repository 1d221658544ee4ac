//! Certificates that kubectl accepts, and some that it does not.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube_client::Config;
use kube_informer::Cluster;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A self-signed CA certificate, like openssl's default.
fn self_signed_ca(name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

/// Serves `{}` over TLS with this certificate. Returns the configuration of a client that trusts `authority`.
async fn server(
    (certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>),
    authority: &CertificateDer<'static>,
) -> Config {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::new(format!("https://{}", listener.local_addr().unwrap()).parse().unwrap());
    config.root_cert = Some(vec![authority.to_vec()]);
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let answer = service_fn(|_: Request<Incoming>| async {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("{}"))))
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
            );
        }
    });
    config
}

async fn request(config: Config) -> Result<String, kube_client::Error> {
    let request = Request::get("/").body(Vec::new()).unwrap();
    Cluster::from_config(config)?.client().request_text(request).await
}

#[tokio::test]
async fn a_self_signed_certificate_is_accepted_when_it_is_its_own_authority() {
    let (certificate, key) = self_signed_ca("127.0.0.1");
    let config = server((certificate.clone(), key), &certificate).await;
    assert_eq!(request(config).await.unwrap(), "{}");
}

#[tokio::test]
async fn a_self_signed_certificate_is_refused_for_another_name_or_another_authority() {
    let (certificate, key) = self_signed_ca("127.0.0.2");
    request(server((certificate.clone(), key), &certificate).await).await.unwrap_err();
    let (certificate, key) = self_signed_ca("127.0.0.1");
    let (other, _) = self_signed_ca("127.0.0.1");
    request(server((certificate, key), &other).await).await.unwrap_err();
}
