//! Secrets: none of their values leaves the program unless the user requests it.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use embedded_apiserver::{Action, Fault, Match, Restart, Server, Verb};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{World, run, signal};

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

/// `PLANTED_BASE64` encodes its first 15 bytes, so it begins the base64 of every text that begins with this one.
const PLANTED: &str = "planted-secret-x";
const PLANTED_BASE64: &str = "cGxhbnRlZC1zZWNyZXQt";
const ROUNDS: usize = 20;

/// Asserts that a text contains no Secret's value, neither as it is nor in base64, and no token.
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
    // The label shows which change a line of output is about.
    json!({"metadata": {"labels": {"round": marker(round)},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}}, "data": {"pw": value}})
}

fn marker(round: usize) -> String {
    format!("round-{round:04}")
}

/// A process whose output goes to a file.
struct Logged {
    arguments: String,
    child: tokio::process::Child,
    output: PathBuf,
}

impl Logged {
    fn start(world: &World, arguments: &[&str], number: usize) -> Self {
        let output = world.directory.path().join(format!("output-{number}"));
        let log = File::create(&output).unwrap();
        let mut command = world.command(arguments);
        command.env("RUST_LOG", "trace").stdout(log.try_clone().unwrap()).stderr(log);
        Self { arguments: arguments.join(" "), child: command.spawn().unwrap(), output }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap()).into_owned()
    }

    /// Waits until it has printed one of these.
    async fn wait_for(&self, texts: &[&str]) {
        while !texts.iter().any(|text| self.text().contains(text)) {
            tokio::task::yield_now().await;
        }
    }

    async fn end(mut self) {
        signal(&self.child, Signal::TERM);
        assert_eq!(self.child.wait().await.unwrap().code(), Some(0), "{}", self.arguments);
        assert_nothing_leaked(&self.arguments, &self.text());
    }
}

/// What may go wrong between two changes.
async fn disturb(world: &World, round: usize) {
    let refuse = |code, resource: &str| {
        let message = "etcd is on fire".to_owned();
        let refusal = Action::Status { code, reason: "X".into(), message, retry_after_seconds: 0 };
        world
            .server
            .faults()
            .arm(Fault::new(refusal).on(Match::verb(Verb::List).resource(resource)).times(3));
    };
    match round % 5 {
        0 => world.server.restart(&Restart::HistoryLost),
        1 => refuse(500, "secrets"),
        2 => {
            world.server.refuse_connections().await;
            world.server.accept_connections().await.unwrap();
        }
        3 => refuse(403, "secrets"),
        _ => world.server.disconnect_all(),
    }
}

/// Requests everything that `serve` serves, with its token and with a wrong one.
async fn look_at(address: &str) {
    let paths = [
        "/metrics",
        "/debug/informers",
        "/readyz",
        "/readyz?max-age=0",
        "/readyz?max-age=x",
        "/nothing",
        "/",
        "/api/v1/informers",
        "/api/v1/objects/secrets",
        "/api/v1/objects/secrets?format=yaml",
        "/api/v1/objects/secrets/default/planted",
        "/api/v1/history/secrets/default/planted",
        "/api/v1/counts/secrets?by=metadata.annotations",
        "/api/v1/counts/secrets?by=data.pw",
        "/api/v1/objects/secrets?column=data",
    ];
    for (path, token) in paths.iter().flat_map(|path| [(path, "serve-token-z"), (path, "wrong")]) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_nothing_leaked(path, &answer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_no_planted_secret_shows_in_any_output_log_metric_or_error_of_a_long_run() {
    let world = planted_world().await;
    let path = "/api/v1/namespaces/default/secrets";
    let mut secret = planted_secret(0);
    secret["metadata"]["name"] = "planted".into();
    world.create_as("plugin-token-y", path, secret).await;
    let token_file = world.directory.path().join("serve-token").to_str().unwrap().to_owned();
    std::fs::write(&token_file, "serve-token-z\n").unwrap();

    let serve = ["serve", "secrets,configmaps", "--port", "0", "--token-file", &token_file];
    let serve = Logged::start(&world, &serve, 0);
    let watches = [
        &["watch", "secrets"][..],
        &["watch", "secrets", "-o", "json"],
        &["watch", "secrets", "-o", "yaml", "--show-managed-fields"],
        &["watch", "secrets,configmaps", "-o", "wide"],
        &["watch", "everything", "--since-start", "--compress"],
        &["watch", "secrets", "-o", "jsonpath={.data.pw}{.metadata.annotations}{.metadata.labels.round}"],
        &[
            "watch",
            "secrets",
            "-o",
            "custom-columns=D:.data,A:.metadata.annotations,R:.metadata.labels.round",
        ],
    ];
    let watches = watches.iter().enumerate().map(|(at, arguments)| Logged::start(&world, arguments, at + 1));
    let watches = watches.collect::<Vec<_>>();
    serve.wait_for(&["http://127.0.0.1:"]).await;
    for watch in &watches {
        watch.wait_for(&["planted", &marker(0)]).await;
    }
    let line = serve.text();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();

    for round in 1..=ROUNDS {
        world.patch_as("plugin-token-y", &format!("{path}/planted"), planted_secret(round)).await;
        if round % 10 == 0 {
            // Every watch has printed this change, and everything before it.
            world.server.faults().clear();
            for watch in &watches {
                watch.wait_for(&[&marker(round)]).await;
            }
        }
        disturb(&world, round).await;
        look_at(address).await;
    }
    world.server.faults().clear();
    one_shot_commands_leak_nothing(&world).await;
    for logged in watches.into_iter().chain([serve]) {
        logged.end().await;
    }
}

async fn one_shot_commands_leak_nothing(world: &World) {
    let guess = format!("data.pw={PLANTED_BASE64}{ROUNDS:04}");
    let copy = "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']";
    for arguments in [
        &["get", "secrets"][..],
        &["get", "secrets", "-A", "--no-headers", "--color", "always"],
        &["get", "secrets", "-o", "wide"],
        &["get", "secrets", "-o", "json"],
        &["get", "secrets", "-o", "json", "--compress"],
        &["get", "secret", "planted", "-o", "json"],
        &["get", "secrets", "-o", "yaml", "--show-managed-fields"],
        &["get", "secret/planted", "-o", "yaml"],
        &["get", "secrets", "-o", "name"],
        &["get", "secret", "planted", "-o", "jsonpath={.data}{.metadata}"],
        &["get", "secrets", "-o", "jsonpath={.items[*].data.pw}"],
        &["get", "secrets", "-o", "custom-columns=D:.data,A:.metadata.annotations"],
        &["get", "secrets", "--server-print=false", "-o", "wide"],
        &["get", "secrets", "--index", "metadata.annotations"],
        &["get", "secrets", "--index", "metadata.labels.round", "-o", "json"],
        &["get", "secrets", "--field", "type=Opaque", "-o", "json"],
        &["get", "secrets", "--field", "metadata.labels.round", "-o", "yaml"],
        &["get", "configmaps,secrets", "-o", "yaml"],
        &["get", "secrets,pods"],
        // Errors.
        &["get", "secret", "missing"],
        &["get", "secret", "planted", "missing", "-o", "json"],
        &["get", "secrets", "-l", "=="],
        &["get", "secrets", "--field-selector", "data.pw=x"],
        &["get", "secrets", "--index", "data"],
        &["get", "secrets", "--index", "data.pw"],
        &["get", "secrets", "--index", copy],
        &["get", "secrets", "--field", "data.pw"],
        &["get", "secrets", "--field", &guess, "-o", "name"],
        &["get", "secrets", "--as", "another-user", "--request-timeout", "1x"],
        &["get", "secretz"],
        &["get", "secrets", "--context", "missing"],
        &["get", "secrets", "--user", "missing"],
        &["get", "secrets", "--max-list-objects", "0", "-o", "json"],
    ] {
        let mut command = world.command(arguments);
        command.env("RUST_LOG", "trace");
        let ended = run(command).await;
        // The refusal may repeat the guess, which the caller knows already.
        let text = (ended.stdout + &ended.stderr).replace(&guess, "");
        assert_nothing_leaked(&format!("{arguments:?}"), &text);
        let is_refused = arguments.iter().any(|argument| argument.starts_with("data") || *argument == copy);
        if is_refused && !arguments.contains(&"--field-selector") {
            assert_eq!(ended.code, 2, "{arguments:?}: {text}");
        }
    }
    // A plugin that fails after it has printed its token, and a kubeconfig that cannot be parsed behind one.
    let failing = "#!/bin/sh\n/bin/echo plugin-token-y; /bin/echo why >&2; exit 1\n";
    std::fs::write(world.directory.path().join("plugin.sh"), failing).unwrap();
    let broken = world.directory.path().join("broken");
    std::fs::write(
        &broken,
        "users: [{name: a, user: {token: plugin-token-y}}]\nclusters: {{{ plugin-token-y\n",
    )
    .unwrap();
    for arguments in [&["get", "secrets"][..], &["get", "secrets", "--kubeconfig", broken.to_str().unwrap()]]
    {
        let ended = world.run(arguments).await;
        assert_ne!(ended.code, 0, "{arguments:?}");
        assert_nothing_leaked(&format!("{arguments:?}"), &(ended.stdout + &ended.stderr));
    }
}
