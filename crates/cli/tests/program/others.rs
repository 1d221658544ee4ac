//! `apiserver`, `completions`, `--version`, `--help`.

use crate::support::{World, run, start};

#[tokio::test(flavor = "multi_thread")]
async fn the_apiserver_reports_when_it_is_ready_and_can_be_used() {
    let world = World::new().await;
    let file = world.directory.path().join("other");
    for flags in [&[][..], &["--tls", "--token", "secret"], &["--no-watch-list", "--sharded-list-and-watch"]]
    {
        let all = [&["apiserver", "--write-kubeconfig", file.to_str().unwrap()], flags].concat();
        let mut server = start(world.command(&all));
        let line = server.line_with(&["serving on http"]).await;
        assert_eq!(line.contains("https://"), flags.contains(&"--tls"));
        let mut get = world.command(&["get", "namespaces", "-o", "name"]);
        get.env("KUBECONFIG", &file);
        let ended = run(get).await;
        assert!(ended.stdout.contains("namespace/default\n"), "{ended:?}");
        assert_eq!(server.end().await, 0);
    }
    let address = world.server.address().unwrap().port().to_string();
    let taken = world.run(&["apiserver", "--port", &address]).await;
    assert!(taken.code == 2 && taken.stderr.contains("choose another address, or port 0"), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_a_public_address_needs_a_token() {
    let world = World::new().await;
    let refused = world.run(&["apiserver", "--address", "0.0.0.0"]).await;
    assert!(refused.code == 2 && refused.stderr.contains("without a token"), "{refused:?}");
    let secret = world.directory.path().join("token");
    let none = world.run(&["apiserver", "--token-file", secret.to_str().unwrap()]).await;
    assert!(none.code == 2 && none.stderr.contains("cannot read the token from"), "{none:?}");
    std::fs::write(&secret, "\n").unwrap();
    let empty = world.run(&["apiserver", "--token-file", secret.to_str().unwrap()]).await;
    assert!(empty.code == 2 && empty.stderr.contains("empty"), "{empty:?}");
    std::fs::write(&secret, "from-a-file\n").unwrap();
    let file = world.directory.path().join("other");
    let mut server = start(world.command(&[
        "apiserver",
        "--address",
        "0.0.0.0",
        "--token-file",
        secret.to_str().unwrap(),
        "--write-kubeconfig",
        file.to_str().unwrap(),
    ]));
    let line = server.line_with(&["serving on http"]).await;
    assert!(!line.contains("from-a-file"), "{line}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"from-a-file\""));
    assert_eq!(server.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_version_and_help_are_printed() {
    let world = World::new().await;
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = world.output(&["completions", shell]).await;
        assert!(script.contains("kube-informer") && script.contains("field-selector"), "{shell}");
    }
    assert_eq!(world.output(&["--version"]).await, format!("kube-informer {}\n", env!("CARGO_PKG_VERSION")));
    let help = world.output(&["--help"]).await;
    for part in [
        "demo",
        "watch",
        "get",
        "serve",
        "apiserver",
        "completions",
        "Exit codes:",
        "  4  the server refused",
        "  130, 143  Ctrl-C",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn manual_pages_of_every_command_are_written() {
    let world = World::new().await;
    let page = world.output(&["man"]).await;
    assert!(page.starts_with(".ie") && page.contains(".SH SUBCOMMANDS"), "{page}");
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man");
    world.output(&["man", "--directory", pages.to_str().unwrap()]).await;
    for command in ["", "-demo", "-watch", "-get", "-wait", "-top", "-serve", "-apiserver"] {
        let page = std::fs::read_to_string(pages.join(format!("kube-informer{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    let get = std::fs::read_to_string(pages.join("kube-informer-get.1")).unwrap();
    assert!(get.contains("field\\-selector"), "{get}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_server_rejects_unsupported_features() {
    let world = World::new().await;
    for (flags, code) in [(&["apiserver"][..], 201), (&["apiserver", "--strict"], 501)] {
        let mut server = start(world.command(flags));
        let line = server.line_with(&["serving on http"]).await;
        let url = line.split_whitespace().find(|word| word.starts_with("http")).unwrap();
        let config = kube_client::Config::new(url.trim_end_matches(';').parse().unwrap());
        let client = kube_client::Client::try_from(config).unwrap();
        let role = br#"{"metadata": {"name": "r"}}"#.to_vec();
        let request =
            http::Request::post("/apis/rbac.authorization.k8s.io/v1/clusterroles").body(role.into());
        assert_eq!(client.send(request.unwrap()).await.unwrap().status(), code, "{flags:?}");
        assert_eq!(server.end().await, 0);
    }
}
