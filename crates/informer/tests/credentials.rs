//! Credentials of requests: exec plugins that hang, expire or are refused.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use embedded_apiserver::Server;
use http::StatusCode;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube_client::client::Body;
use kube_client::config::{AuthProviderConfig, ExecConfig, ExecInteractiveMode};
use kube_client::{Client, Config};
use kube_informer::Cluster;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A plugin: a script in its own directory.
struct Plugin {
    directory: tempfile::TempDir,
}

impl Plugin {
    fn new(script: &str) -> Self {
        let plugin = Self { directory: tempfile::tempdir().unwrap() };
        std::fs::write(plugin.path("plugin"), format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(plugin.path("plugin"), std::fs::Permissions::from_mode(0o755)).unwrap();
        plugin
    }

    /// Prints the content of the file `status`, and counts its runs.
    fn printing_a_file() -> Self {
        Self::new("cd \"${0%/*}\" && echo run >> runs && cat status")
    }

    fn prints(&self, status: &str) {
        let credential = format!(
            "{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{{status}}}}}"
        );
        std::fs::write(self.path("status"), credential).unwrap();
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.path("runs")).unwrap_or_default().lines().count()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn client(&self, url: &str) -> Client {
        self.client_of(Config::new(url.parse().unwrap()))
    }

    fn client_of(&self, mut config: Config) -> Client {
        let exec = ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some(self.path("plugin").to_str().unwrap().to_owned()),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        };
        config.auth_info.exec = Some(exec);
        Cluster::from_config(config).unwrap().client()
    }

    /// A client whose kubeconfig has the plugin as the command of its auth provider.
    fn client_of_provider(&self, url: &str, more: &[(&str, &str)]) -> Client {
        let command = self.path("plugin").to_str().unwrap().to_owned();
        let entries = [("cmd-path", command.as_str())];
        let entries =
            entries.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut config = Config::new(url.parse().unwrap());
        config.auth_info.auth_provider = Some(AuthProviderConfig {
            name: "gcp".to_owned(),
            config: entries.collect(),
            other: BTreeMap::new(),
        });
        Cluster::from_config(config).unwrap().client()
    }
}

async fn status_of_a_request(client: &Client) -> StatusCode {
    let request = http::Request::get("/api/v1/namespaces").body(Body::empty()).unwrap();
    client.send(request).await.unwrap().status()
}

#[tokio::test]
async fn a_plugin_runs_once_until_its_credentials_are_refused() {
    let server = Server::builder().token("second").start().await.unwrap();
    let plugin = Plugin::printing_a_file();
    let client = plugin.client(&server.url().unwrap());
    assert_eq!(plugin.runs(), 0, "no request needs it yet");
    plugin.prints(r#""token":"first""#);
    assert_eq!(status_of_a_request(&client).await, StatusCode::UNAUTHORIZED);
    plugin.prints(r#""token":"second""#);
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn a_plugin_runs_again_when_its_credentials_have_expired() {
    let server = Server::builder().token("t").start().await.unwrap();
    let plugin = Plugin::printing_a_file();
    let client = plugin.client(&server.url().unwrap());
    plugin.prints(r#""token":"t","expirationTimestamp":"2020-01-01T00:00:00Z""#);
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    plugin.prints(r#""token":"t","expirationTimestamp":"2120-01-01T00:00:00Z""#);
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn waiting_requests_share_one_plugin_run() {
    let server = Server::builder().token("t").start().await.unwrap();
    let plugin = Plugin::printing_a_file();
    plugin.prints(r#""token":"t""#);
    let client = plugin.client(&server.url().unwrap());
    let requests = (0..10).map(|_| status_of_a_request(&client));
    let answers = futures::future::join_all(requests).await;
    assert!(answers.iter().all(|status| *status == StatusCode::OK), "{answers:?}");
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn g3_a_plugin_that_hangs_is_killed_at_the_time_limit() {
    // Nothing is ever written to the pipe it reads.
    let plugin = Plugin::new("cd \"${0%/*}\" && mkfifo pipe && exec 3<> pipe && read -r line <&3");
    let client = plugin.client("http://127.0.0.1:1");
    let request = http::Request::get("/api").body(Body::empty()).unwrap();
    let error = client.send(request).await.unwrap_err().to_string();
    assert!(error.contains("timed out after 60s"), "{error}");
}

const PROVIDER_KEYS: &[(&str, &str)] =
    &[("token-key", "{.credential.access_token}"), ("expiry-key", "{.credential.token_expiry}")];

#[tokio::test]
async fn an_auth_provider_command_runs_when_its_token_is_missing_or_expired() {
    let server = Server::builder().token("t").start().await.unwrap();
    let url = server.url().unwrap();
    let plugin = Plugin::new("cd \"${0%/*}\" && echo run $# $* >> runs && cat status");
    let prints = |expiry: &str| {
        let json = format!(r#"{{"credential":{{"access_token":"t","token_expiry":"{expiry}"}}}}"#);
        std::fs::write(plugin.path("status"), json).unwrap();
    };
    let client = plugin.client_of_provider(&url, &[PROVIDER_KEYS, &[("cmd-args", "config  get")]].concat());
    assert_eq!(plugin.runs(), 0, "no request needs it yet");
    prints("2020-01-01T00:00:00Z");
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    prints("2120-01-01T00:00:00Z");
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    let runs = std::fs::read_to_string(plugin.path("runs")).unwrap();
    assert_eq!(runs, "run 2 config get\nrun 2 config get\n");

    let given = [("access-token", "t"), ("expiry", "2120-01-01T00:00:00Z")];
    let client = plugin.client_of_provider(&url, &[PROVIDER_KEYS, &given].concat());
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    assert_eq!(plugin.runs(), 2, "the kubeconfig holds a token that is valid");
    let given = [("access-token", "old"), ("expiry", "2020-01-01T00:00:00Z")];
    let client = plugin.client_of_provider(&url, &[PROVIDER_KEYS, &given].concat());
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    assert_eq!(plugin.runs(), 3);

    std::fs::write(plugin.path("status"), "t\n").unwrap();
    let client = plugin.client_of_provider(&url, &[]);
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK, "without a key, the output is the token");
}

#[tokio::test(start_paused = true)]
async fn an_auth_provider_command_that_hangs_is_killed_at_the_time_limit() {
    let plugin = Plugin::new("cd \"${0%/*}\" && mkfifo pipe && exec 3<> pipe && read -r line <&3");
    let error = error_of_a_request(&plugin.client_of_provider("http://127.0.0.1:1", &[])).await;
    assert!(error.contains("auth-provider command") && error.contains("timed out after 60s"), "{error}");
}

#[tokio::test]
async fn the_output_of_an_auth_provider_command_is_limited_and_not_in_errors() {
    for (script, words) in [
        ("line=$(printf '%065000d' 0); while :; do echo \"planted-token$line\"; done", "printed more than"),
        ("echo planted-token; echo reason >&2; exit 3", "exit status: 3: reason"),
        ("echo planted-token", "invalid JSON at line 1"),
        ("echo '{\"credential\":\"planted-token\"}'", "no text at {.credential.access_token}"),
    ] {
        let plugin = Plugin::new(script);
        let client = plugin.client_of_provider("http://127.0.0.1:1", &PROVIDER_KEYS[..1]);
        let error = error_of_a_request(&client).await;
        assert!(error.contains(words) && !error.contains("planted-token"), "{script}: {error}");
    }
}

async fn error_of_a_request(client: &Client) -> String {
    let request = http::Request::get("/api").body(Body::empty()).unwrap();
    let error = client.send(request).await.unwrap_err();
    format!("{error} {error:?}")
}

#[tokio::test]
async fn a_plugin_certificate_identifies_the_client_and_is_replaced_when_it_expires() {
    let authority = Authority::new();
    let (config, seen) = server_with_client_certificates(&authority).await;
    let plugin = Plugin::printing_a_file();
    let prints = |name: &str, expires: &str| {
        let (certificate, key) = authority.issue(name, ExtendedKeyUsagePurpose::ClientAuth);
        let status = serde_json::json!({"clientCertificateData": certificate.pem(), "clientKeyData": key.serialize_pem(),
            "expirationTimestamp": expires});
        let status = status.to_string();
        plugin.prints(&status[1..status.len() - 1]);
    };
    let client = plugin.client_of(config.clone());
    prints("first", "2020-01-01T00:00:00Z");
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    // It has expired: the next request uses a new one, over a new connection.
    prints("second", "2120-01-01T00:00:00Z");
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    assert_eq!(plugin.runs(), 2);
    let names = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(names, ["first", "second", "second"]);

    // A certificate of another authority, and no certificate.
    let (stranger, key) = Authority::new().issue("stranger", ExtendedKeyUsagePurpose::ClientAuth);
    let status =
        serde_json::json!({"clientCertificateData": stranger.pem(), "clientKeyData": key.serialize_pem()});
    let status = status.to_string();
    plugin.prints(&status[1..status.len() - 1]);
    error_of_a_request(&plugin.client_of(config.clone())).await;
    plugin.prints(r#""token":"t""#);
    error_of_a_request(&plugin.client_of(config)).await;
    assert!(seen.lock().unwrap().is_empty());
}

/// A certificate authority.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    fn issue(&self, name: &str, purpose: ExtendedKeyUsagePurpose) -> (Certificate, KeyPair) {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

/// A TLS server that accepts only clients with a certificate of the authority. It records their names, in order.
async fn server_with_client_certificates(authority: &Authority) -> (Config, Arc<Mutex<Vec<String>>>) {
    let (certificate, key) = authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.issuer.der().clone()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::new(format!("https://{}", listener.local_addr().unwrap()).parse().unwrap());
    config.root_cert = Some(vec![authority.issuer.der().to_vec()]);
    let seen = Arc::<Mutex<Vec<String>>>::default();
    tokio::spawn({
        let seen = seen.clone();
        async move {
            let acceptor = TlsAcceptor::from(Arc::new(tls));
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
                // The certificate contains the name verbatim.
                let holds = |name: &&str| certificate.windows(name.len()).any(|part| part == name.as_bytes());
                let name = ["first", "second", "stranger"].into_iter().find(holds).unwrap();
                let seen = seen.clone();
                let answer = service_fn(move |_: http::Request<Incoming>| {
                    seen.lock().unwrap().push(name.to_owned());
                    async { Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from("{}")))) }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
                );
            }
        }
    });
    (config, seen)
}

#[tokio::test]
async fn g1_the_output_of_a_plugin_is_not_in_its_error() {
    let plugin = Plugin::new("echo planted-token; echo reason >&2; exit 3");
    let request = http::Request::get("/api").body(Body::empty()).unwrap();
    let error = plugin.client("http://127.0.0.1:1").send(request).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("exit status: 3: reason") && !text.contains("planted-token"), "{text}");
}
