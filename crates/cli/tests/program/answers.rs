//! Answers that a working API server does not give: the program reports them, tries again where that helps, and never takes
//! them for an empty list.

use embedded_apiserver::{Server, WatchListMode};

use crate::gateway::{self, Canned};
use crate::support::{World, rows};

/// Whether a request lists pods.
fn lists_pods(target: &str) -> bool {
    target.split('?').next().is_some_and(|path| path.ends_with("/pods")) && !target.contains("watch=")
}

#[tokio::test(flavor = "multi_thread")]
async fn get_repeats_a_request_when_the_server_asks_for_it() {
    for arguments in [&["get", "pods"][..], &["get", "pods", "-o", "name"]] {
        for (code, reason) in [(429, "TooManyRequests"), (503, "ServiceUnavailable")] {
            let world = World::populated().await;
            gateway::before(&world, move |target, answered| {
                (lists_pods(target) && answered < 2)
                    .then(|| Canned::status(code, reason, ("retry-after", "1")))
            })
            .await;
            let output = world.output(arguments).await;
            assert!(output.contains("api-1"), "{arguments:?} {code}: {output}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn get_gives_up_when_the_server_never_recovers() {
    let world = World::populated().await;
    gateway::before(&world, |target, _| {
        lists_pods(target).then(|| Canned::status(503, "ServiceUnavailable", ("x-none", "")))
    })
    .await;
    let ended = world.run(&["get", "pods"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
    assert!(ended.stderr.contains("503 ServiceUnavailable: canned ServiceUnavailable"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_a_list_is_an_error_and_prints_no_row() {
    for body in [
        "{}",
        "null",
        r#"{"items":null}"#,
        r#"{"status":"ok"}"#,
        r#"{"apiVersion":"v1","kind":"Status","status":"Success","code":200}"#,
        r#"{"apiVersion":"v1","kind":"ServiceList","metadata":{"resourceVersion":"1"},"items":[]}"#,
    ] {
        let world = World::populated().await;
        gateway::before(&world, move |target, _| lists_pods(target).then(|| Canned::json(body))).await;
        for format in [&[][..], &["-o", "name"], &["--server-print=false"]] {
            let ended = world.run(&[&["get", "pods"], format].concat()).await;
            assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{body} {format:?}: {ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_without_items_is_empty() {
    for items in [r#","items":null"#, r#","items":[]"#, ""] {
        let world = World::populated().await;
        let body =
            format!(r#"{{"apiVersion":"v1","kind":"PodList","metadata":{{"resourceVersion":"7"}}{items}}}"#);
        gateway::before(&world, move |target, _| lists_pods(target).then(|| Canned::json(&body))).await;
        let ended = world.run(&["get", "pods"]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (0, ""), "{items}: {ended:?}");
        assert!(ended.stderr.contains("no pods in namespace default found"), "{items}: {ended:?}");
    }
}

const TABLE: &str = r#"{"apiVersion":"meta.k8s.io/v1","kind":"Table","metadata":{"resourceVersion":"7","continue":"TOKEN"},
    "columnDefinitions":[{"name":"Name","type":"string"}],"rows":[{"cells":["NAME"],"object":{"metadata":{"namespace":"default"}}}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_continue_token_that_repeats_is_an_error() {
    let world = World::populated().await;
    gateway::before(&world, |target, _| lists_pods(target).then(|| Canned::json(TABLE))).await;
    let ended = world.run(&["get", "pods"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
    assert!(ended.stderr.contains("the list would never end"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_expire_are_read_again_in_one_piece() {
    let world = World::populated().await;
    gateway::before(&world, |target, answered| match (lists_pods(target), answered) {
        (true, 0) => Some(Canned::json(&TABLE.replace("NAME", "stale"))),
        (true, 1) => Some(Canned::status(410, "Expired", ("x-none", ""))),
        _ => None,
    })
    .await;
    assert_eq!(
        rows(&world.output(&["get", "pods"]).await)[1..],
        ["api-1 0/1 Pending 0 AGE", "api-2 0/1 Pending 0 AGE"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_waited_for_no_longer_than_the_limit() {
    let world = World::populated().await;
    gateway::before(&world, |target, _| lists_pods(target).then_some(Canned::Silence)).await;
    for format in [&[][..], &["-o", "name"]] {
        let ended = world.run(&[&["get", "pods", "--request-timeout", "1s"], format].concat()).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (3, ""), "{ended:?}");
        assert!(ended.stderr.contains("timed out after 1s"), "{ended:?}");
    }
    let ended = world.run(&["get", "pods", "--request-timeout", "soon"]).await;
    assert!(ended.code == 2 && ended.stderr.contains("give a duration such as 30s"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_and_html_pages_are_reported_as_such() {
    let world = World::populated().await;
    gateway::before(&world, |target, _| {
        lists_pods(target)
            .then(|| Canned::Answer(302, vec![("location", "https://login.example/sso")], String::new()))
    })
    .await;
    for format in [&[][..], &["-o", "name"]] {
        let ended = world.run(&[&["get", "pods"], format].concat()).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
        assert!(ended.stderr.contains("redirects to https://login.example/sso"), "{ended:?}");
    }
    let world = World::populated().await;
    gateway::before(&world, |target, _| {
        let page = "<!DOCTYPE html><html><head><title>x</title></head><body><h1>Backend fetch failed</h1></body></html>";
        lists_pods(target).then(|| Canned::Answer(503, vec![("content-type", "text/html")], page.to_owned()))
    })
    .await;
    let ended = world.run(&["get", "pods"]).await;
    assert!(ended.code == 1 && ended.stderr.contains("Backend fetch failed"), "{ended:?}");
    assert!(ended.stderr.contains("an HTML page, not from a Kubernetes API server"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_names_missing_things_is_refused_with_file_and_field() {
    let world = World::populated().await;
    let good = std::fs::read_to_string(world.kubeconfig()).unwrap();
    let file = world.kubeconfig().display().to_string();
    let server_line = good.lines().find(|line| line.contains("server: ")).unwrap();
    let indent = &server_line[..server_line.find('s').unwrap()];
    for (kubeconfig, words) in [
        (good.replace("user: embedded", "user: missing-user"), "names user \"missing-user\""),
        (
            good.replace(
                server_line,
                &format!("{server_line}\n{indent}certificate-authority: /nowhere/ca.crt"),
            ),
            "certificate-authority: cannot read /nowhere/ca.crt: No such file or directory",
        ),
        (good.replace("current-context: ", "current-context: missing-"), "current-context names \"missing-"),
    ] {
        assert_ne!(kubeconfig, good, "{words}");
        std::fs::write(world.kubeconfig(), kubeconfig).unwrap();
        let ended = world.run(&["get", "pods"]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (3, ""), "{ended:?}");
        assert!(ended.stderr.contains(words), "{words}: {ended:?}");
        assert!(ended.stderr.contains(&format!("invalid kubeconfig {file}")), "{words}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_cannot_be_parsed_is_refused_without_quoting_its_secrets() {
    let world = World::populated().await;
    std::fs::write(world.kubeconfig(), "users:\n- name: x\n  user: a{token: \"hunter2\"}\n").unwrap();
    let ended = world.run(&["get", "pods"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("line 3") && !ended.stderr.contains("hunter2"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_not_trusted_is_not_blamed_on_a_server_that_is_down() {
    let world = World::with(Server::builder().tls()).await;
    let other = World::with(Server::builder().tls()).await;
    let line = |world: &World| {
        let kubeconfig = std::fs::read_to_string(world.kubeconfig()).unwrap();
        kubeconfig.lines().find(|line| line.contains("certificate-authority-data")).unwrap().to_owned()
    };
    let kubeconfig = std::fs::read_to_string(world.kubeconfig()).unwrap();
    std::fs::write(world.kubeconfig(), kubeconfig.replace(&line(&world), &line(&other))).unwrap();
    let ended = world.run(&["get", "pods"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("certificate-authority did not sign"), "{ended:?}");
    assert!(!ended.stderr.contains("is the server running"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_forbidden_ends_the_command_though_lists_are_allowed() {
    for mode in [WatchListMode::On, WatchListMode::Off] {
        let world = World::with(Server::builder().watch_list(mode)).await;
        world.create_pod("default", "api-1", "node-7").await;
        gateway::before(&world, move |target, _| {
            let watches = target.contains("/pods?") && target.contains("watch=");
            // Without watch-lists the list comes first.
            let refused = watches && (mode == WatchListMode::On || !target.contains("sendInitialEvents"));
            refused.then(|| Canned::status(403, "Forbidden", ("x-none", "")))
        })
        .await;
        let ended = world.run(&["watch", "pods"]).await;
        assert_eq!(ended.code, 4, "{mode:?}: {ended:?}");
        assert!(ended.stderr.contains("canned Forbidden"), "{mode:?}: {ended:?}");
        // With watch-lists, the refusal may end the command before the list that is tried instead is printed.
        assert!(ended.stdout.contains("api-1") || mode == WatchListMode::On, "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn falling_back_from_watch_lists_prints_nothing() {
    let world = World::with(Server::builder().watch_list(WatchListMode::Off)).await;
    world.create_pod("default", "api-1", "node-7").await;
    let mut running = world.start(&["watch", "pods"]);
    running.line_with(&["ADDED", "api-1"]).await;
    running.interrupt();
    let output = running.child.wait_with_output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
