//! Credentials of requests: exec plugins that hang, expire or are refused.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // Tests, and functions that only tests call.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use embedded_apiserver::Server;
use http::StatusCode;
use kube_client::client::Body;
use kube_client::config::{ExecConfig, ExecInteractiveMode};
use kube_client::{Client, Config};
use kube_informer::source::Clients;

/// A plugin that is a script in a directory of its own.
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

    /// Prints what the file `status` holds, and counts its runs.
    fn that_prints_a_file() -> Self {
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
        let mut config = Config::new(url.parse().unwrap());
        let exec = ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some(self.path("plugin").to_str().unwrap().to_owned()),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        };
        config.auth_info.exec = Some(exec);
        Clients::from_config(config).unwrap().client()
    }
}

async fn status_of_a_request(client: &Client) -> StatusCode {
    let request = http::Request::get("/api/v1/namespaces").body(Body::empty()).unwrap();
    client.send(request).await.unwrap().status()
}

#[tokio::test]
async fn a_plugin_runs_once_until_its_credentials_are_refused() {
    let server = Server::builder().token("second").start().await.unwrap();
    let plugin = Plugin::that_prints_a_file();
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
    let plugin = Plugin::that_prints_a_file();
    let client = plugin.client(&server.url().unwrap());
    plugin.prints(r#""token":"t","expirationTimestamp":"2020-01-01T00:00:00Z""#);
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    plugin.prints(r#""token":"t","expirationTimestamp":"2120-01-01T00:00:00Z""#);
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    assert_eq!(status_of_a_request(&client).await, StatusCode::OK);
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn requests_that_wait_for_a_plugin_share_its_run() {
    let server = Server::builder().token("t").start().await.unwrap();
    let plugin = Plugin::that_prints_a_file();
    plugin.prints(r#""token":"t""#);
    let client = plugin.client(&server.url().unwrap());
    let requests = (0..10).map(|_| status_of_a_request(&client));
    let answers = futures::future::join_all(requests).await;
    assert!(answers.iter().all(|status| *status == StatusCode::OK), "{answers:?}");
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn g3_a_plugin_that_hangs_is_ended_at_the_time_limit() {
    // Nothing is ever written to the pipe that it reads.
    let plugin = Plugin::new("cd \"${0%/*}\" && mkfifo pipe && exec 3<> pipe && read -r line <&3");
    let client = plugin.client("http://127.0.0.1:1");
    let request = http::Request::get("/api").body(Body::empty()).unwrap();
    let error = client.send(request).await.unwrap_err().to_string();
    assert!(error.contains("timed out after 60s"), "{error}");
}

#[tokio::test]
async fn g1_the_output_of_a_plugin_is_not_part_of_its_error() {
    let plugin = Plugin::new("echo planted-token; echo reason >&2; exit 3");
    let request = http::Request::get("/api").body(Body::empty()).unwrap();
    let error = plugin.client("http://127.0.0.1:1").send(request).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("exit status: 3: reason") && !text.contains("planted-token"), "{text}");
}
