//! Flags for the server and the credentials, and `$RUST_LOG`.

use embedded_apiserver::Server;

use crate::support::{World, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_and_a_token_are_enough_without_a_kubeconfig() {
    let world = World::with(Server::builder().token("right")).await;
    let url = world.server.url().unwrap();
    let file = world.directory.path().join("token");
    std::fs::write(&file, "right\n").unwrap();
    let file = file.to_str().unwrap();
    for (flags, code) in [
        (&["--token", "right"][..], 0),
        (&["--token-file", file], 0),
        (&["--token", "wrong"], 4),
        (&[], 4),
        (&["--token-file", "/nowhere/token"], 2),
    ] {
        let mut command = world.command(&[&["get", "ns", "-o", "name", "--server", &url], flags].concat());
        command.env_remove("KUBECONFIG");
        let ended = run(command).await;
        assert_eq!(ended.code, code, "{flags:?}: {ended:?}");
        assert_eq!(ended.stdout.contains("namespace/default"), code == 0, "{flags:?}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_replace_the_server_and_the_token_of_the_kubeconfig() {
    let world = World::with(Server::builder().token("right")).await;
    world.write_kubeconfig("http://127.0.0.1:1", "{token: wrong}");
    let url = world.server.url().unwrap();
    let names = world.output(&["get", "ns", "-o", "name", "-s", &url, "--token", "right"]).await;
    assert!(names.contains("namespace/default"), "{names}");
    let unreachable = world.run(&["get", "ns", "--token", "right"]).await;
    assert_eq!(unreachable.code, 3, "{unreachable:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_verified_unless_that_is_disabled() {
    let world = World::with(Server::builder().tls().token("right")).await;
    let url = world.server.url().unwrap();
    let flags = ["get", "ns", "-o", "name", "--server", &url, "--token", "right"];
    let mut command = world.command(&flags);
    command.env_remove("KUBECONFIG");
    let refused = run(command).await;
    assert_eq!(refused.code, 3, "{refused:?}");
    let mut command = world.command(&[&flags[..], &["--insecure-skip-tls-verify"]].concat());
    command.env_remove("KUBECONFIG");
    let ended = run(command).await;
    assert!(ended.code == 0 && ended.stdout.contains("namespace/default"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_names_the_program() {
    let world = World::populated().await;
    let before = world.server.requests().len();
    world.output(&["get", "pods,deploy", "-A"]).await;
    world.output(&["get", "pods", "-A", "-o", "name"]).await;
    let requests = world.server.requests();
    let name = format!("kube-informer/{}", env!("CARGO_PKG_VERSION"));
    let clients: Vec<_> = requests.iter().filter(|count| count.user_agent == name).collect();
    assert!(clients.len() > 1 && requests.len() == before + clients.len(), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_written_to_the_standard_error_on_request() {
    let world = World::populated().await;
    let silent = world.run(&["get", "pods", "-o", "name"]).await;
    assert_eq!(silent.stderr, "");
    let mut command = world.command(&["get", "pods", "-o", "name"]);
    command.env("RUST_LOG", "debug");
    let logged = run(command).await;
    assert_eq!((logged.code, logged.stdout), (0, silent.stdout));
    assert!(logged.stderr.contains("DEBUG"), "{}", logged.stderr);
}
