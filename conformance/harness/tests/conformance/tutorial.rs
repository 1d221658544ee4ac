//! The commands of docs/tutorial.md that need a cluster, on a real kube-apiserver with RBAC and the garbage collector.
//!
//! `cargo xtask conformance` follows the other steps of the page first, and passes the folder of the package. The commands under
//! `<!-- cluster -->` are run from the page, with its manifests. Without a kubelet, no pod runs: the test starts the operator as the
//! Deployment of the manifests would, with a token of its service account, and writes the status of the page's Deployment. For
//! `cargo run`, it starts the program that those steps have built. The last commands also run on the embedded server.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use embedded_apiserver::Server;
use kube_informer_conformance::{Programs, RealServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::sleep;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The user that the API server sees.
const ACCOUNT: &str = "system:serviceaccount:page-operator:page-operator";

/// A reader's machine.
struct Machine {
    /// The package that the reader has written.
    package: PathBuf,
    home: PathBuf,
    kubeconfig: PathBuf,
}

impl Machine {
    fn new(home: &Path, kubeconfig: PathBuf) -> Self {
        let package = env::var_os("KUBE_INFORMER_TUTORIAL").map(PathBuf::from).expect(
            "KUBE_INFORMER_TUTORIAL is not set; `cargo xtask conformance` sets it without arguments of `cargo test`, or if \
             one of them contains `tutorial`",
        );
        Self { package, home: home.to_owned(), kubeconfig }
    }

    /// Runs commands of the page in the folder of the package, and returns their output.
    async fn run(&self, commands: &str) -> String {
        let programs = Programs::required().directory().display().to_string();
        let output = Command::new("bash")
            .args(["-euc", commands])
            .current_dir(&self.package)
            .env("PATH", format!("{programs}:{}", env::var("PATH").unwrap_or_default()))
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        let (errors, log) = (String::from_utf8_lossy(&output.stderr), self.log());
        assert!(output.status.success(), "{commands}{shown}{errors}\nthe operator's log:\n{log}");
        shown
    }

    fn start_operator(&self, kubeconfig: &Path) -> Child {
        let log = fs::File::create(self.log_file()).unwrap();
        let mut operator = Command::new(self.package.join("operator"));
        operator
            .env_clear()
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stderr(log)
            .kill_on_drop(true);
        operator.spawn().unwrap()
    }

    /// Follows the end of the page: the operator runs on this machine.
    async fn follow_end(&self, [create, run]: [&str; 2]) {
        self.run(create).await;
        assert_eq!(run, "cargo run\n", "the test starts the program that was built instead");
        let mut operator = self.start_operator(&self.kubeconfig);
        for child in ["configmap/hello", "deployment/hello"] {
            self.run(&format!("kubectl wait --for=create {child} --timeout=2m\n")).await;
        }
        let status = stop_operator(&mut operator, Signal::INT).await;
        assert!(status.success(), "{status}\n{}", self.log());
    }

    fn log_file(&self) -> PathBuf {
        self.home.join("operator.log")
    }

    /// The log of the operator's last run.
    fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }
}

/// A cluster, and a machine that can reach it.
struct Tutorial {
    server: RealServer,
    machine: Machine,
}

impl Tutorial {
    /// Starts a cluster. The admission plugin checks who may set `blockOwnerDeletion`, as on OpenShift.
    async fn start() -> Self {
        let server = RealServer::builder(Programs::required())
            .controllers(["garbage-collector-controller", "namespace-controller"])
            .flag("--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
            .start();
        let server = server.await.unwrap();
        let machine = Machine::new(server.directory(), server.kubeconfig());
        Self { server, machine }
    }

    async fn run(&self, commands: &str) -> String {
        self.machine.run(commands).await
    }

    async fn kubectl(&self, args: &[&str]) -> String {
        self.server.kubectl(args).await.unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Starts the operator with a kubeconfig for the service account of its Deployment.
    async fn start_operator(&self) -> Child {
        let account = "jsonpath={.spec.template.spec.serviceAccountName}";
        let get = ["get", "deployment", "page-operator", "-n", "page-operator", "-o", account];
        let account = self.kubectl(&get).await;
        let token = self.kubectl(&["create", "token", &account, "-n", "page-operator"]).await;
        let admin = fs::read(self.server.kubeconfig()).unwrap();
        let mut config: Value = serde_json::from_slice(&admin).unwrap();
        config["users"] = json!([{"name": "admin", "user": {"token": token.trim()}}]);
        let path = self.server.directory().join("operator-kubeconfig");
        fs::write(&path, config.to_string()).unwrap();
        self.machine.start_operator(&path)
    }

    fn log(&self) -> String {
        self.machine.log()
    }
}

/// The commands that need a cluster, block by block.
fn commands() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("<!-- cluster -->\n```sh\n").skip(1);
    blocks.map(|rest| rest.split_once("```").unwrap().0.to_owned()).collect()
}

/// Runs the operator from the moment when its Deployment exists, and starts it again when it exits. Stops it as a kubelet does.
async fn deployment(tutorial: Arc<Tutorial>, mut stop: oneshot::Receiver<()>) -> ExitStatus {
    let exists = ["get", "deployment", "page-operator", "-n", "page-operator", "-o", "name"];
    while tutorial.server.kubectl(&exists).await.is_err() {
        sleep(POLL_INTERVAL).await;
    }
    loop {
        let mut operator = tutorial.start_operator().await;
        tokio::select! {
            _ = operator.wait() => sleep(POLL_INTERVAL).await,
            _ = &mut stop => {
                return stop_operator(&mut operator, Signal::TERM).await;
            }
        }
    }
}

/// Sends a signal to the operator, and waits until it has ended.
async fn stop_operator(operator: &mut Child, signal: Signal) -> ExitStatus {
    let id = i32::try_from(operator.id().expect("the operator has exited")).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    operator.wait().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_tutorial_work_on_a_cluster() {
    let tutorial = Arc::new(Tutorial::start().await);
    let blocks = commands();
    let [install, ready, delete, remove, create, run] = blocks.as_slice() else { panic!("{blocks:#?}") };
    let may = ["auth", "can-i", "list", "pages.example.com", "--as", ACCOUNT];
    assert!(tutorial.server.kubectl(&may).await.is_err(), "the service account has permissions already");

    let (stop, stopped) = oneshot::channel();
    let operator = tokio::spawn(deployment(tutorial.clone(), stopped));
    let shown = tutorial.run(install).await;
    assert!(shown.contains("deployment.apps/hello") && shown.contains("configmap/hello"), "{shown}");
    let html = tutorial.kubectl(&["get", "configmap", "hello", "-o", r"jsonpath={.data.index\.html}"]).await;
    let page = fs::read_to_string(tutorial.machine.package.join("page.yaml")).unwrap();
    assert!(page.contains(&format!("html: {html}\n")), "{html}");

    // The controller of Deployments writes this when two pods are ready.
    let status =
        r#"{"status": {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 2}}"#;
    tutorial
        .kubectl(&["patch", "deployment", "hello", "--subresource=status", "--type=merge", "-p", status])
        .await;
    let shown = tutorial.run(ready).await;
    assert!(shown.contains("page.example.com/hello condition met"), "{shown}");

    tutorial.run(delete).await;
    let left = tutorial.kubectl(&["get", "deployments,configmaps", "-o", "name"]).await;
    assert!(!left.contains("/hello"), "{left}");

    stop.send(()).unwrap();
    let status = operator.await.unwrap();
    assert!(status.success(), "{status}\n{}", tutorial.log());

    tutorial.run(remove).await;
    assert!(tutorial.server.kubectl(&may).await.is_err(), "the service account still has permissions");
    tutorial.machine.follow_end([create, run]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_of_the_tutorial_runs_on_the_embedded_server() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    fs::write(&kubeconfig, server.kubeconfig().unwrap()).unwrap();
    let blocks = commands();
    let [.., create, run] = blocks.as_slice() else { panic!("{blocks:#?}") };
    Machine::new(home.path(), kubeconfig).follow_end([create, run]).await;
}

/// Takes each rule from the role in turn. The page grants nothing that the operator does not need, and a refusal is logged.
#[tokio::test(flavor = "multi_thread")]
async fn the_operator_of_the_tutorial_needs_every_rule_of_its_role() {
    let tutorial = Tutorial::start().await;
    let files = "kubectl apply -f crd.json -f deploy.yaml\nkubectl wait --for=condition=Established crd/pages.example.com\n";
    tutorial.run(files).await;
    let role = tutorial.kubectl(&["get", "clusterrole", "page-operator", "-o", "json"]).await;
    let mut role: Value = serde_json::from_str(&role).unwrap();
    role["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let rules = role["rules"].as_array().unwrap().clone();
    assert_eq!(rules.len(), 5);
    for (at, rule) in rules.iter().enumerate() {
        let mut fewer = role.clone();
        fewer["rules"].as_array_mut().unwrap().remove(at);
        tutorial.server.kubectl_with(&["replace", "-f", "-"], &fewer.to_string()).await.unwrap();
        // The authorizer has a cache of roles, which lags by milliseconds.
        let (resource, subresource) = resource(rule);
        let verb = rule["verbs"][0].as_str().unwrap();
        let may = ["auth", "can-i", verb, &resource, &subresource, "--as", ACCOUNT];
        while tutorial.server.kubectl(&may).await.is_ok() {
            sleep(POLL_INTERVAL).await;
        }

        tutorial.run("kubectl apply -f page.yaml\n").await;
        let mut operator = tutorial.start_operator().await;
        while !tutorial.log().contains("forbidden") {
            let exited = operator.try_wait().unwrap().is_some();
            assert!(!exited || tutorial.log().contains("forbidden"), "{rule}: {}", tutorial.log());
            sleep(POLL_INTERVAL).await;
        }
        if rule["verbs"].as_array().unwrap().iter().any(|verb| verb == "list") {
            assert!(!operator.wait().await.unwrap().success(), "without a list, it exits");
        } else {
            assert!(operator.try_wait().unwrap().is_none(), "after a failed write, it tries again");
            operator.kill().await.unwrap();
        }
        let expected = match rule["resources"][0].as_str().unwrap() {
            "pages/finalizers" => "cannot set blockOwnerDeletion",
            refused => refused,
        };
        assert!(tutorial.log().contains(expected), "{expected}: {}", tutorial.log());
        tutorial.run("kubectl delete -f page.yaml --cascade=foreground\n").await;
    }
}

/// The resource of a rule as `kubectl auth can-i` takes it, and the flag for its subresource.
fn resource(rule: &Value) -> (String, String) {
    let named = rule["resources"][0].as_str().unwrap();
    let (resource, subresource) = named.split_once('/').unwrap_or((named, ""));
    let group = rule["apiGroups"][0].as_str().unwrap();
    let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    (resource, format!("--subresource={subresource}"))
}
