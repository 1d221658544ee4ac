//! Secrets: no value of one leaves the program unless it is asked for.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;

use embedded_apiserver::{Action, Fault, Match, Restart, Server, Verb};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{World, signal};

/// In the data of a Secret, and in the copy that kubectl keeps of it.
const VALUE: &str = "aHVudGVyMi1wbGFudGVk";

async fn world() -> World {
    let world = World::new().await;
    let applied = json!({"data": {"pw": VALUE}}).to_string();
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": applied, "team": "red"});
    let secret = json!({"metadata": {"name": "login", "annotations": annotations}, "data": {"pw": VALUE}});
    world.create("/api/v1/namespaces/default/secrets", secret).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_masked_fields_of_secrets_are_refused_by_index_and_field() {
    let world = world().await;
    let guess = format!("data.pw={VALUE}");
    let copy = "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']";
    for arguments in [
        &["get", "secret", "--index", "data.pw"][..],
        &["get", "secret", "--index", "{.data['pw']}"],
        &["get", "secret", "--index", copy],
        &["get", "secret", "-o", "name", "--field", &guess],
        &["get", "secret", "login", "-o", "name", "--field", &guess],
        &["get", "configmaps,secrets", "--field", &guess],
        &["get", "all,secrets", "--index", "stringData.pw", "-o", "json"],
    ] {
        let ended = world.run(arguments).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains("--show-secrets"), "{arguments:?}: {ended:?}");
        assert!(!ended.stderr.contains("***"), "{arguments:?}: {ended:?}");
    }
    // Other fields of Secrets, and the same fields of other kinds, can be read.
    let index = world.output(&["get", "secret", "--index", "metadata.annotations.team"]).await;
    assert!(index.lines().nth(1).unwrap().starts_with("red"), "{index}");
    assert_eq!(
        world.output(&["get", "secret", "-o", "name", "--field", "type=Opaque"]).await,
        "secret/login\n"
    );
    assert_eq!(world.output(&["get", "cm", "-o", "name", "--field", "data.pw=x"]).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_secrets_can_be_read_with_show_secrets() {
    let world = world().await;
    let index = world.output(&["get", "secret", "--index", "data.pw", "--show-secrets"]).await;
    assert!(index.contains(VALUE), "{index}");
    let guess = format!("data.pw={VALUE}");
    let found = world.output(&["get", "secret", "-o", "name", "--field", &guess, "--show-secrets"]).await;
    assert_eq!(found, "secret/login\n");
}

/// Of a length that makes its base64 the beginning of the base64 of everything that begins with it.
const PLANTED: &str = "planted-secret-x";
const PLANTED_BASE64: &str = "cGxhbnRlZC1zZWNyZXQt";
const ROUNDS: usize = 12;

/// What could be written somewhere: values of Secrets, plain and encoded, and the tokens of all parties.
fn assert_nothing_leaked(whose: &str, text: &str) {
    for secret in [PLANTED, PLANTED_BASE64, "plugin-token-y", "serve-token-z"] {
        let at = text.find(secret).map(|at| &text[at.saturating_sub(200)..(at + 100).min(text.len())]);
        assert_eq!(at, None, "{whose} shows {secret}");
    }
}

/// A server with a token, a kubeconfig that gets it from a plugin, and a Secret.
async fn planted_world() -> World {
    let world = World::with(Server::builder().token("plugin-token-y")).await;
    let plugin = world.directory.path().join("plugin.sh");
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "plugin-token-y"}});
    std::fs::write(&plugin, format!("#!/bin/sh\n/bin/echo '{credential}'\n")).unwrap();
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let exec = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{}', interactiveMode: Never}}}}",
        plugin.display()
    );
    world.write_kubeconfig(&world.server.url().unwrap(), &exec);
    world
}

fn planted_secret(round: usize) -> serde_json::Value {
    let value = format!("{PLANTED_BASE64}{round:04}");
    let applied = json!({"stringData": {"pw": PLANTED}, "data": {"pw": value}}).to_string();
    json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}}, "data": {"pw": value}})
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_no_planted_secret_shows_in_any_output_log_metric_or_error_of_a_long_run() {
    let world = planted_world().await;
    let path = "/api/v1/namespaces/default/secrets";
    let mut secret = planted_secret(0);
    secret["metadata"]["name"] = "planted".into();
    world.create_as("plugin-token-y", path, secret).await;
    let token_file = world.directory.path().join("serve-token");
    std::fs::write(&token_file, "serve-token-z\n").unwrap();

    let mut running = Vec::new();
    let serve = ["serve", "secrets,configmaps", "--port", "0", "--token-file", token_file.to_str().unwrap()];
    for (number, arguments) in [
        &serve[..],
        &["watch", "secrets"],
        &["watch", "secrets", "-o", "json"],
        &["watch", "secrets", "-o", "yaml"],
        &["watch", "secrets,configmaps", "-o", "wide"],
        &["watch", "secrets", "-o", "jsonpath={.data.pw}{.metadata.annotations}"],
        &["watch", "secrets", "-o", "custom-columns=D:.data,A:.metadata.annotations"],
    ]
    .into_iter()
    .enumerate()
    {
        let output = world.directory.path().join(format!("output-{number}"));
        let log = File::create(&output).unwrap();
        let mut command = world.command(arguments);
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        running.push((arguments, child, output));
    }
    let read = |output: &std::path::Path| std::fs::read_to_string(output).unwrap();
    let serve_output = running[0].2.clone();
    while !read(&serve_output).contains("/debug/informers") {
        tokio::task::yield_now().await;
    }
    let line = read(&serve_output);
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();

    for round in 1..=ROUNDS {
        world.patch_as("plugin-token-y", &format!("{path}/planted"), planted_secret(round)).await;
        match round % 4 {
            0 => world.server.restart(&Restart::HistoryLost),
            1 => {
                let message = "etcd is on fire".to_owned();
                let refusal =
                    Action::Status { code: 500, reason: "X".into(), message, retry_after_seconds: 0 };
                world
                    .server
                    .faults()
                    .arm(Fault::new(refusal).on(Match::verb(Verb::List).resource("secrets")).times(3));
            }
            2 => {
                world.server.refuse_connections().await;
                world.server.accept_connections().await.unwrap();
            }
            _ => {}
        }
        for path in ["/metrics", "/debug/informers", "/readyz"] {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            let request = format!(
                "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer serve-token-z\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert_nothing_leaked(path, &answer);
        }
    }
    world.server.faults().clear();
    let guess = format!("data.pw={PLANTED_BASE64}{ROUNDS:04}");
    for arguments in [
        &["get", "secrets"][..],
        &["get", "secrets", "-o", "json"],
        &["get", "secrets", "-o", "yaml", "--show-managed-fields"],
        &["get", "secret", "planted", "-o", "jsonpath={.data}{.metadata}"],
        &["get", "secrets", "-o", "custom-columns=D:.data"],
        &["get", "secrets", "--server-print=false", "-o", "wide"],
        &["get", "secrets", "--index", "metadata.annotations"],
        &["get", "secrets", "--index", "data"],
        &["get", "secrets", "--field", "type=Opaque", "-o", "json"],
        &["get", "secret", "missing"],
    ] {
        let ended = world.run(arguments).await;
        assert_nothing_leaked(&format!("{arguments:?}"), &(ended.stdout + &ended.stderr));
    }
    let guessed = world.run(&["get", "secrets", "-o", "name", "--field", &guess]).await;
    assert_eq!((guessed.code, guessed.stdout.as_str()), (2, ""));

    for (arguments, mut child, output) in running {
        // Every watch has shown the last change, so everything before it was printed as well.
        if arguments[0] == "watch"
            && !arguments.concat().contains("columns")
            && !arguments.concat().contains("jsonpath")
        {
            while !read(&output).contains("planted") {
                tokio::task::yield_now().await;
            }
        }
        signal(&child, Signal::TERM);
        assert_eq!(child.wait().await.unwrap().code(), Some(0), "{arguments:?}");
        let text = read(&output);
        assert!(!text.is_empty(), "{arguments:?}");
        assert_nothing_leaked(&format!("{arguments:?}"), &text);
    }
}
