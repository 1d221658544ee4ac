//! kubectl against the embedded server: reads, writes, custom resources, watches and deletions.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use embedded_apiserver::Server;
use kube_informer_conformance::Programs;

struct Kubectl {
    program: PathBuf,
    directory: PathBuf,
}

impl Kubectl {
    fn find(directory: PathBuf) -> Self {
        std::fs::create_dir_all(&directory).unwrap();
        Self { program: Programs::required().path("kubectl"), directory }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(self.directory.join("kubeconfig"));
        // kubectl caches discovery by host and port, which an earlier test may have used.
        command.arg("--cache-dir").arg(self.directory.join("cache")).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut child = self.command(arguments).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if output.status.success() { Ok(text) } else { Err(text + &String::from_utf8_lossy(&output.stderr)) }
    }

    /// Runs kubectl and checks that its output contains `expected`.
    fn expect(&self, arguments: &[&str], input: &str, expected: &str) {
        let output = self.run(arguments, input).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        assert!(output.contains(expected), "{arguments:?}: {output}");
    }
}

const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {replicas: {type: integer, default: 1}}}, status: {type: object, properties: {replicas: {type: integer}}}}}}
";
const THING: &str = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: {}\n";

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kubectl-{}", std::process::id()));
    let kubectl = Kubectl::find(directory.clone());
    let server = Server::builder().tls().token("secret").start().await.unwrap();
    std::fs::write(directory.join("kubeconfig"), server.kubeconfig().unwrap()).unwrap();
    tokio::task::spawn_blocking(move || {
        reads_and_writes(&kubectl);
        custom_resources(&kubectl);
        watches(&kubectl);
        deletions(&kubectl);
    })
    .await
    .unwrap();
    server.shutdown().await;
    std::fs::remove_dir_all(directory).unwrap();
}

fn reads_and_writes(kubectl: &Kubectl) {
    kubectl.expect(&["version"], "", "Server Version: v1.37.1");
    kubectl.expect(&["get", "namespaces"], "", "kube-system");
    kubectl.expect(&["api-resources"], "", "deployments                         deploy       apps/v1");
    kubectl.expect(&["create", "configmap", "c", "--from-literal=a=b"], "", "configmap/c created");
    kubectl.expect(&["get", "cm", "c", "-o", "jsonpath={.data.a}"], "", "b");
    // `--raw` sends no content type.
    kubectl.expect(
        &["create", "--raw", "/api/v1/namespaces/default/secrets", "-f", "-"],
        r#"{"metadata": {"name": "raw"}}"#,
        "resourceVersion",
    );
    kubectl.expect(
        &["create", "--validate=false", "-f", "-"],
        "{apiVersion: v1, kind: Secret, metadata: {name: s}}",
        "created",
    );
    kubectl.expect(
        &["create", "deployment", "web", "--image=i", "--replicas=2"],
        "",
        "deployment.apps/web created",
    );
    kubectl.expect(&["scale", "deploy", "web", "--replicas=5"], "", "scaled");
    kubectl.expect(&["get", "deploy", "web", "-o", "jsonpath={.spec.replicas}"], "", "5");
    kubectl.expect(&["label", "deploy", "web", "tier=x"], "", "labeled");
    kubectl.expect(&["get", "deploy", "-l", "tier in (x,y)", "-o", "name"], "", "deployment.apps/web");
    kubectl.expect(&["annotate", "deploy", "web", "a=b"], "", "annotated");
    kubectl.expect(&["patch", "deploy", "web", "-p", r#"{"spec":{"paused":true}}"#], "", "patched");
    kubectl.expect(
        &["patch", "cm", "c", "--type=json", "-p", r#"[{"op":"add","path":"/data/x","value":"y"}]"#],
        "",
        "patched",
    );
    kubectl.expect(&["set", "image", "deploy/web", "i=j"], "", "image updated");
    kubectl.expect(&["describe", "deploy", "web"], "", "5 desired");
    kubectl.expect(&["auth", "can-i", "get", "pods"], "", "yes");
    let missing = kubectl.run(&["get", "pod", "none"], "").unwrap_err();
    assert!(missing.contains("Error from server (NotFound): pods \"none\" not found"), "{missing}");
}

fn custom_resources(kubectl: &Kubectl) {
    kubectl.expect(&["apply", "-f", "-"], DEFINITION, "created");
    kubectl.expect(
        &["wait", "--for=condition=Established", "crd/things.example.com", "--timeout=10s"],
        "",
        "condition met",
    );
    kubectl.expect(&["apply", "-f", "-"], THING, "thing.example.com/t created");
    kubectl.expect(&["apply", "-f", "-"], THING, "thing.example.com/t unchanged");
    kubectl.expect(&["apply", "--server-side", "-f", "-"], THING, "serverside-applied");
    kubectl.expect(&["scale", "th", "t", "--replicas=3"], "", "scaled");
    kubectl.expect(&["get", "th", "t", "-o", "jsonpath={.spec.replicas}"], "", "3");
    let strict =
        kubectl.run(&["apply", "-f", "-"], &THING.replace("spec: {}", "spec: {nope: 1}")).unwrap_err();
    assert!(strict.contains("unknown field \"spec.nope\""), "{strict}");
}

fn watches(kubectl: &Kubectl) {
    let mut child = kubectl.command(&["get", "cm", "-w", "-o", "name"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "configmap/c");
    kubectl.expect(&["create", "cm", "w"], "", "created");
    assert_eq!(next(), "configmap/w");
    kubectl.expect(&["delete", "cm", "w"], "", "deleted");
    assert_eq!(next(), "configmap/w");
    child.kill().unwrap();
    child.wait().unwrap();
}

fn deletions(kubectl: &Kubectl) {
    kubectl.expect(&["run", "p", "--image=i"], "", "pod/p created");
    kubectl.expect(&["delete", "pod", "p"], "", "deleted");
    kubectl.expect(&["delete", "deploy", "web", "--cascade=foreground"], "", "deleted");
    kubectl.expect(&["wait", "--for=delete", "deploy/web", "--timeout=10s"], "", "");
    kubectl.expect(&["delete", "crd", "things.example.com"], "", "deleted");
    kubectl.expect(&["create", "ns", "n"], "", "created");
    kubectl.expect(&["-n", "n", "create", "cm", "inside"], "", "created");
    kubectl.expect(&["delete", "ns", "n"], "", "deleted");
    kubectl.expect(&["delete", "cm", "--all"], "", "deleted");
}
