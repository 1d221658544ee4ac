//! Error messages and exit codes.

use embedded_apiserver::{Action, Fault, Match, Server};

use crate::support::{World, run};

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_what_to_do_and_have_an_exit_code() {
    let world = World::populated().await;
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["get", "pdos"],
            2,
            "kube-informer: unknown kind \"pdos\": the server does not serve it; did you mean pods?\n",
        ),
        (
            &["watch", "deploymnts.apps"],
            2,
            "kube-informer: unknown kind \"deploymnts.apps\": the server does not serve it; did you mean deployments?\n",
        ),
        (
            &["get", "pods", "nope"],
            5,
            "kube-informer: cannot read pods in namespace default: pods \"nope\" not found\n",
        ),
        (
            &["get", "pods", "nope", "-o", "yaml"],
            5,
            "kube-informer: cannot read pods in namespace default: pods \"nope\" not found\n",
        ),
        (
            &["get", "pods", "--context", "embeded"],
            3,
            "kube-informer: the kubeconfig has no context \"embeded\"; did you mean embedded?\n",
        ),
        (
            &["get", "pods", "--context", "production"],
            3,
            "kube-informer: the kubeconfig has no context \"production\"; defined: embedded\n",
        ),
        (
            &["get", "pods", "--cluster", "x"],
            3,
            "kube-informer: the kubeconfig has no cluster \"x\"; defined: embedded\n",
        ),
        (
            &["get", "pods", "--user", "x"],
            3,
            "kube-informer: the kubeconfig has no user \"x\"; defined: embedded\n",
        ),
        (
            &["get", "pods", "--field", "spec.nodeName~node-7"],
            2,
            "kube-informer: --field \"spec.nodeName~node-7\": write PATH=VALUE, PATH!=VALUE, PATH>VALUE, 'PATH in (A,B)', 'PATH notin (A,B)', PATH or !PATH\n",
        ),
        (
            &["get", "pods", "-A", "api-1"],
            2,
            "kube-informer: cannot read api-1 in all namespaces: a name belongs to one namespace; use -n NAMESPACE\n",
        ),
        (
            &["get", "pods", "--index", "spec.nodeName", "-o", "name"],
            2,
            "kube-informer: cannot print --index with this format; use columns, -o json or -o yaml\n",
        ),
    ];
    for (arguments, code, words) in cases {
        let ended = world.run(arguments).await;
        assert_eq!(
            (ended.code, ended.stderr.as_str(), ended.stdout.as_str()),
            (*code, *words, ""),
            "{arguments:?}"
        );
    }
    for (arguments, words) in [
        (&["get", "pods", "-o", "xml"][..], "use json, yaml, name, wide, jsonpath=TEMPLATE"),
        (&["get", "pods", "-o", "jsonpath={.a"], "a brace is not closed"),
        (&["watch", "pods", "-l", "a=b=c"], "-l: "),
        (&["watch", "pods", "--field-selector", "a"], "--field-selector: "),
        (&["get", "pods", "--index", "spec..x"], "spec..x"),
        (
            &["serve", "pods", "--address", "0.0.0.0", "--port", "0"],
            "0.0.0.0 can be reached by others: give a --token-file",
        ),
        (&["demo", "--rate", "0"], "a number above 0"),
    ] {
        let ended = world.run(arguments).await;
        assert!(ended.code == 2 && ended.stderr.contains(words), "{arguments:?}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_kubeconfig_is_reported_with_the_flags_that_set_one() {
    let world = World::new().await;
    let mut command = world.command(&["get", "pods"]);
    command.env_remove("KUBECONFIG");
    let ended = run(command).await;
    assert_eq!(ended.code, 3);
    assert_eq!(
        ended.stderr,
        "kube-informer: no kubeconfig: give --kubeconfig FILE, set $KUBECONFIG or write ~/.kube/config\n\
         for a cluster to try it on, run `kube-informer demo`\n"
    );
    let missing = world.run(&["get", "pods", "--kubeconfig", "/nowhere/config"]).await;
    assert_eq!(missing.code, 3);
    assert!(
        missing.stderr.starts_with("kube-informer: cannot read the kubeconfig /nowhere/config: "),
        "{missing:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_reported_with_its_address() {
    let world = World::new().await;
    let url = world.server.url().unwrap();
    world.server.refuse_connections().await;
    let ended = world.run(&["watch", "pods"]).await;
    assert_eq!(ended.code, 3);
    assert!(ended.stderr.starts_with(&format!("kube-informer: cannot connect to {url}/: ")), "{ended:?}");
    assert!(ended.stderr.contains("is the server running, and is it the right --context?"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_is_reported_as_such() {
    let world = World::with(Server::builder().token("right")).await;
    let kubeconfig = std::fs::read_to_string(world.kubeconfig()).unwrap().replace("right", "wrong");
    std::fs::write(world.kubeconfig(), kubeconfig).unwrap();
    for arguments in [["get", "pods"], ["watch", "pods"], ["serve", "pods"]] {
        let ended = world
            .run(&[&arguments[..], if arguments[0] == "serve" { &["--port", "0"] } else { &[] }].concat())
            .await;
        assert_eq!(ended.code, 4, "{ended:?}");
        assert!(ended.stderr.contains("not authenticated (401 Unauthorized)"), "{ended:?}");
        assert!(ended.stderr.contains("log in again, or choose another --user or --context"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_request_is_reported_with_verb_and_resource() {
    let world = World::populated().await;
    let message = "pods is forbidden: User \"ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"";
    let forbidden = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: message.into(),
        retry_after_seconds: 0,
    };
    world.server.faults().arm(Fault::new(forbidden).on(Match::default().resource("pods")));
    for arguments in [
        &["get", "pods"][..],
        &["get", "pods", "-o", "yaml"],
        &["watch", "pods"],
        &["serve", "pods", "--port", "0"],
    ] {
        let ended = world.run(arguments).await;
        assert_eq!(ended.code, 4, "{arguments:?}: {ended:?}");
        let words = format!("cannot read pods in namespace default: {message}; ask for a role");
        assert!(ended.stderr.contains(&words), "{arguments:?}: {ended:?}");
    }
}
