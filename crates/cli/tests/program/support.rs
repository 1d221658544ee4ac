//! An API server, a kubeconfig for it, and the program run on it.

use std::path::PathBuf;
use std::process::Stdio;

use embedded_apiserver::{Builder, Server};
use http_body_util::{BodyExt, Full};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tower::Service;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-informer");

/// A server and a place for files.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) directory: TempDir,
}

/// The exit code and the output of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A run that goes on.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdout: Lines<BufReader<ChildStdout>>,
    pub(crate) stderr: Lines<BufReader<ChildStderr>>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Server::builder()).await
    }

    pub(crate) async fn with(builder: Builder) -> Self {
        let world = Self { server: builder.start().await.unwrap(), directory: tempfile::tempdir().unwrap() };
        std::fs::write(world.kubeconfig(), world.server.kubeconfig().unwrap()).unwrap();
        world
    }

    /// A kubeconfig for another server.
    pub(crate) async fn at(url: &str) -> Self {
        let world = Self::new().await;
        world.write_kubeconfig(url, "{}");
        world
    }

    /// Writes a kubeconfig for a server with this user (in YAML).
    pub(crate) fn write_kubeconfig(&self, url: &str, user: &str) {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n\
             clusters: [{{name: test, cluster: {{server: '{url}'}}}}]\n\
             users: [{{name: test, user: {user}}}]\n"
        );
        std::fs::write(self.kubeconfig(), text).unwrap();
    }

    /// A server with a few objects on it.
    pub(crate) async fn populated() -> Self {
        let world = Self::new().await;
        world.create_node("node-7").await;
        for (name, node) in [("api-1", "node-7"), ("api-2", "node-8")] {
            world.create_pod("default", name, node).await;
        }
        world.create_namespace("shop").await;
        world.create_pod("shop", "web-1", "node-7").await;
        world.create("/apis/apps/v1/namespaces/shop/deployments", deployment("web")).await;
        world
            .create(
                "/api/v1/namespaces/default/secrets",
                json!({"metadata": {"name": "login"}, "data": {"password": "aHVudGVyMg=="}}),
            )
            .await;
        world
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.send("POST", path, "application/json", &object).await
    }

    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        self.send("PATCH", path, "application/merge-patch+json", &patch).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Value {
        self.send("DELETE", path, "application/json", &json!({"gracePeriodSeconds": 0})).await
    }

    pub(crate) async fn create_namespace(&self, name: &str) {
        self.create("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
    }

    pub(crate) async fn create_node(&self, name: &str) {
        self.create("/api/v1/nodes", json!({"metadata": {"name": name}})).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {
            "kubeletVersion": "v1.37.1", "osImage": "", "kernelVersion": "", "containerRuntimeVersion": "", "architecture": "",
            "operatingSystem": "", "bootID": "", "kubeProxyVersion": "", "machineID": "", "systemUUID": ""}}});
        self.patch(&format!("/api/v1/nodes/{name}/status"), ready).await;
    }

    pub(crate) async fn create_pod(&self, namespace: &str, name: &str, node: &str) {
        let pod = json!({"metadata": {"name": name, "labels": {"app": name.split('-').next()}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example/main:1"}]}});
        self.create(&format!("/api/v1/namespaces/{namespace}/pods"), pod).await;
    }

    pub(crate) async fn set_phase(&self, namespace: &str, name: &str, phase: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
        self.patch(&path, json!({"status": {"phase": phase}})).await;
    }

    /// As [`create`](Self::create), with a token.
    pub(crate) async fn create_as(&self, token: &str, path: &str, object: Value) -> Value {
        self.send_as(token, "POST", path, "application/json", &object).await
    }

    /// As [`patch`](Self::patch), with a token.
    pub(crate) async fn patch_as(&self, token: &str, path: &str, patch: Value) -> Value {
        self.send_as(token, "PATCH", path, "application/merge-patch+json", &patch).await
    }

    async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Value {
        self.send_as("none", method, path, content_type, body).await
    }

    async fn send_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Value {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("authorization", format!("Bearer {token}"))
            .body(Full::new(bytes::Bytes::from(body.to_string())))
            .unwrap();
        let answer = self.server.service().call(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(status.is_success(), "{method} {path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    /// The program, isolated from this machine's environment except for the kubeconfig.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .env_clear()
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.directory.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// The program with a limit on its address space.
    pub(crate) fn command_with_memory(&self, bytes_max: usize, arguments: &[&str]) -> Command {
        let limit = format!("ulimit -v {}; exec \"$@\"", bytes_max / 1024);
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &limit, "sh", PROGRAM])
            .args(arguments)
            .env_clear()
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.directory.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs it to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ended {
        run(self.command(arguments)).await
    }

    /// Runs the program, asserts that it succeeds, and returns its standard output.
    pub(crate) async fn output(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments).await;
        assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
        ended.stdout
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        start(self.command(arguments))
    }
}

pub(crate) async fn run(mut command: Command) -> Ended {
    let output = command.output().await.unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(crate) fn start(mut command: Command) -> Running {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    Running { child, stdout, stderr }
}

impl Running {
    /// Reads lines until one holds all of these texts.
    pub(crate) async fn line_with(&mut self, texts: &[&str]) -> String {
        let mut read = Vec::new();
        while let Some(line) = self.stdout.next_line().await.unwrap() {
            if texts.iter().all(|text| line.contains(text)) {
                return line;
            }
            read.push(line);
        }
        let mut errors = String::new();
        self.stderr.get_mut().read_to_string(&mut errors).await.unwrap();
        panic!("no line with {texts:?} in {read:#?}; {errors}");
    }

    pub(crate) async fn error_with(&mut self, text: &str) -> String {
        while let Some(line) = self.stderr.next_line().await.unwrap() {
            if line.contains(text) {
                return line;
            }
        }
        panic!("no line with {text:?} on the standard error");
    }

    pub(crate) fn interrupt(&self) {
        signal(&self.child, Signal::INT);
    }

    /// Ctrl-C; gives the exit code.
    pub(crate) async fn end(mut self) -> i32 {
        self.interrupt();
        self.child.wait().await.unwrap().code().unwrap_or(-1)
    }
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

/// The most memory that a process has had, in bytes.
pub(crate) fn peak_memory(child: &Child) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "example/main:1"}]}}}})
}

/// The rows of a table, blanks made one, ages made `AGE`.
pub(crate) fn rows(table: &str) -> Vec<String> {
    let is_age =
        |word: &&str| word.len() > 1 && word.ends_with('s') && word[..word.len() - 1].parse::<u32>().is_ok();
    let row = |line: &str| {
        let words = line.split_whitespace().map(|word| if is_age(&word) { "AGE" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    table.lines().map(row).collect()
}
