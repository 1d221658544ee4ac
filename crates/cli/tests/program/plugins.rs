//! Credentials: exec plugins, tokens and token files of a kubeconfig, good and bad.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use embedded_apiserver::Server;
use rustix::process::Signal;

use crate::support::{World, run, signal};

const TOKEN: &str = "planted-plugin-token";

/// A server that wants the token, and a kubeconfig whose plugin is this script. Its `more` is added to the exec section.
async fn world(script: &str, more: &str) -> World {
    let world = World::with(Server::builder().token(TOKEN)).await;
    let plugin = write_plugin(&world, script);
    let url = world.server.url().unwrap();
    let exec = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{}', interactiveMode: Never{more}}}}}",
        plugin.display()
    );
    world.write_kubeconfig(&url, &exec);
    world
}

fn write_plugin(world: &World, script: &str) -> PathBuf {
    let plugin = world.directory.path().join("plugin.sh");
    std::fs::write(&plugin, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
    plugin
}

fn credential(status: &str) -> String {
    format!(
        "/bin/echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{{status}}}}}'"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_runs_once_with_its_configuration_and_its_token_is_used() {
    let record = "/bin/echo \"$KUBERNETES_EXEC_INFO $1 $GREETING\" >> \"$RECORD\"";
    let script = format!("{record}\n{}", credential(&format!("\"token\":\"{TOKEN}\\n\"")));
    let world =
        world(&script, ", args: [one], env: [{name: GREETING, value: hello}], provideClusterInfo: true")
            .await;
    let record = world.directory.path().join("record");
    for arguments in [&["get", "ns", "-o", "name"][..], &["get", "ns,pods", "-A"]] {
        let mut command = world.command(arguments);
        let ended = run({
            command.env("RECORD", &record);
            command
        })
        .await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.stdout.contains("default"), "{ended:?}");
        let recorded = std::fs::read_to_string(&record).unwrap();
        std::fs::remove_file(&record).unwrap();
        assert_eq!(recorded.lines().count(), 1, "{recorded}");
        assert!(
            recorded.ends_with("one hello\n") && recorded.contains("\"interactive\":false"),
            "{recorded}"
        );
        assert!(recorded.contains(&world.server.url().unwrap()), "{recorded}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_a_failing_plugin_shows_its_standard_error_and_never_its_standard_output() {
    let token = credential(&format!("\"token\":\"{TOKEN}\""));
    for (script, words) in [
        (format!("{token}; /bin/echo 'please log in' >&2; exit 7"), "exit status: 7: please log in"),
        (format!("/bin/echo '{TOKEN}'"), "invalid JSON at line 1"),
        (format!("/bin/echo '{{\"status\":{{\"token\":[\"{TOKEN}\"]}}}}'"), "invalid JSON"),
        (format!("/bin/echo '{{\"kind\":\"{TOKEN}\"}}'"), "another kind"),
        (credential(""), "neither a token nor a certificate"),
        (credential(&format!("\"token\":\"{TOKEN}\\u0001x\"")), "control characters"),
        ("line=$(printf '%065000d' 0); while :; do echo \"$line\"; done".to_owned(), "printed more than"),
    ] {
        let world = world(&script, "").await;
        for arguments in [&["get", "pods"][..], &["watch", "pods"], &["serve", "pods", "--port", "0"]] {
            let ended = run(world.command_with_memory(1 << 30, arguments)).await;
            assert_eq!(ended.code, 4, "{script}: {ended:?}");
            assert!(ended.stderr.contains(words), "{script}: {ended:?}");
            assert!(!ended.stderr.contains(TOKEN) && !ended.stdout.contains(TOKEN), "{script}: {ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_plugin_is_named_with_how_to_install_it() {
    let world = World::with(Server::builder().token(TOKEN)).await;
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin, interactiveMode: Never, \
        installHint: 'install it with: apt install no-such-plugin'}}";
    world.write_kubeconfig(&world.server.url().unwrap(), exec);
    let ended = world.run(&["get", "pods"]).await;
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.stderr.contains("cannot run exec plugin \"no-such-plugin\""), "{ended:?}");
    assert!(ended.stderr.contains("; install it with: apt install no-such-plugin"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_a_hanging_plugin_does_not_block_signals_and_is_killed_with_its_children() {
    // Neither it nor the process that it starts ever ends by itself.
    let script = "/bin/sleep infinity & /bin/echo \"$! $$\" > \"$RECORD.new\"; /bin/mv \"$RECORD.new\" \"$RECORD\"; wait";
    let world = world(script, "").await;
    let record = world.directory.path().join("record");
    for (arguments, code) in
        [(&["get", "pods"][..], 143), (&["watch", "pods"], 0), (&["serve", "pods", "--port", "0"], 0)]
    {
        let mut command = world.command(arguments);
        let mut child = command.env("RECORD", &record).spawn().unwrap();
        while !record.exists() {
            tokio::task::yield_now().await;
        }
        signal(&child, Signal::TERM);
        assert_eq!(child.wait().await.unwrap().code(), Some(code), "{arguments:?}");
        let processes = std::fs::read_to_string(&record).unwrap();
        std::fs::remove_file(&record).unwrap();
        for process in processes.split_whitespace() {
            while is_running(process) {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Whether a process is there and has not ended.
fn is_running(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_with_line_breaks_are_used_without_them() {
    let world = World::with(Server::builder().token(TOKEN)).await;
    let url = world.server.url().unwrap();
    let file = world.directory.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    for user in [format!("{{token: \"{TOKEN}\\n\"}}"), format!("{{tokenFile: '{}'}}", file.display())] {
        world.write_kubeconfig(&url, &user);
        assert_eq!(
            world.output(&["get", "ns", "default", "-o", "name"]).await,
            "namespace/default\n",
            "{user}"
        );
    }
    world.write_kubeconfig(&url, &format!("{{token: \"{TOKEN}\\u0001\"}}"));
    let ended = world.run(&["get", "ns"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("control characters") && !ended.stderr.contains(TOKEN), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_address_needs_no_scheme_but_a_host() {
    let world = World::new().await;
    let url = world.server.url().unwrap();
    world.write_kubeconfig(url.strip_prefix("http://").unwrap(), "{}");
    assert_eq!(world.output(&["get", "ns", "default", "-o", "name"]).await, "namespace/default\n");
    world.write_kubeconfig("/api", "{}");
    let ended = world.run(&["get", "ns"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("invalid server address"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_passwords_in_addresses_are_not_shown() {
    let world = World::new().await;
    let url = world.server.url().unwrap();
    let proxied = std::fs::read_to_string(world.kubeconfig()).unwrap();
    for proxy in [
        "ftp://user:hunter2@127.0.0.1:1",
        "http://user:hunter2@127.0.0.1:1",
        "socks5://user:hunter2@127.0.0.1:1",
    ] {
        world.write_kubeconfig(&url, "{}");
        let text = std::fs::read_to_string(world.kubeconfig()).unwrap();
        std::fs::write(
            world.kubeconfig(),
            text.replace("{server: ", &format!("{{proxy-url: '{proxy}', server: ")),
        )
        .unwrap();
        let ended = world.run(&["get", "ns"]).await;
        assert_eq!(ended.code, 3, "{ended:?}");
        assert!(!ended.stderr.contains("hunter2"), "{ended:?}");
    }
    world.write_kubeconfig("http://user:hunter2@127.0.0.1:1", "{}");
    let ended = world.run(&["get", "ns"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("http://127.0.0.1:1/") && !ended.stderr.contains("hunter2"), "{ended:?}");
    drop(proxied);
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_a_kubeconfig_is_replaced_as_a_whole_and_only_its_owner_can_read_it() {
    let world = World::new().await;
    let file = world.directory.path().join("written");
    let victim = world.directory.path().join("victim");
    std::fs::write(&victim, "untouched").unwrap();
    std::os::unix::fs::symlink(&victim, &file).unwrap();
    for _ in 0..2 {
        let mut server =
            world.start(&["apiserver", "--token", TOKEN, "--write-kubeconfig", file.to_str().unwrap()]);
        server.line_with(&["serving"]).await;
        let metadata = std::fs::symlink_metadata(&file).unwrap();
        assert!(metadata.is_file(), "a link is replaced");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert!(std::fs::read_to_string(&file).unwrap().contains(TOKEN));
        server.end().await;
        // The second time, the file exists and everyone can read it.
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
}
