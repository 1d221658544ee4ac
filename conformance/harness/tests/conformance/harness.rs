//! Tests of the harness itself: servers start, recover from faults, and leave no process or file behind.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use http::StatusCode;
use kube_informer_conformance::{Programs, RealServer, raw};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fd::OwnedFd,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, test_kill_process},
};
use serde_json::Value;

use crate::common;
use crate::common::{MAPS, create, get, names, version_of};

#[tokio::test]
async fn the_server_and_kubectl_report_the_version_that_was_built() {
    let (server, client) = common::server().await;
    let built = server.programs().directory().file_name().unwrap().to_str().unwrap().to_owned();
    let version = get(&client, "/version").await.json();
    assert_eq!(version["gitVersion"], built);
    assert_eq!(format!("v{}.{}", version["major"].as_str().unwrap(), version["minor"].as_str().unwrap()), {
        built.rsplit_once('.').unwrap().0
    });
    let reported: Value =
        serde_json::from_str(&server.kubectl(&["version", "-o", "json"]).await.unwrap()).unwrap();
    assert_eq!(reported["clientVersion"]["gitVersion"], built);
    assert_eq!(reported["serverVersion"]["gitVersion"], built);
}

#[tokio::test]
async fn kubectl_creates_patches_reads_and_deletes() {
    let (server, _) = common::server().await;
    let manifest =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"prices"},"data":{"tea":"3"}}"#;
    let kubectl = async |args: &[&str]| server.kubectl(args).await.unwrap();
    let applied = server.kubectl_with(&["apply", "-f", "-"], manifest).await.unwrap();
    assert_eq!(applied, "configmap/prices created\n");
    kubectl(&["create", "configmap", "stock", "--from-literal=tea=12"]).await;
    kubectl(&["patch", "configmap", "prices", "--type=merge", "-p", r#"{"data":{"tea":"4"}}"#]).await;
    let read =
        kubectl(&["get", "configmaps", "-o", "jsonpath={range .items[*]}{.metadata.name}={.data.tea} {end}"]);
    assert_eq!(read.await, "prices=4 stock=12 ");
    kubectl(&["delete", "configmap", "prices", "stock"]).await;
    assert_eq!(kubectl(&["get", "configmaps", "-o", "name"]).await, "");
    let refused = server.kubectl(&["get", "configmap", "prices"]).await.unwrap_err().to_string();
    assert!(refused.contains(r#"configmaps "prices" not found"#), "{refused}");
}

#[tokio::test]
async fn a_killed_server_restarts_at_its_address_with_its_objects() {
    let (mut server, client) = common::server().await;
    create(&client, &["a"]).await;
    server.kill();
    assert!(raw::get(&client, MAPS, raw::JSON).await.is_err());
    assert!(server.freeze().unwrap_err().to_string().contains("not running"));
    server.restart().await.unwrap();
    assert_eq!(names(&get(&client, MAPS).await.json()), ["a"]);
}

#[tokio::test]
async fn a_frozen_server_answers_after_it_is_thawed() {
    let (server, client) = common::server().await;
    server.freeze().unwrap();
    let asked = tokio::spawn(async move { get(&client, "/version").await.status });
    let server_process = pid(server.process_ids()[0].into());
    while !is_stopped(server_process) {}
    server.thaw().unwrap();
    assert_eq!(asked.await.unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn users_may_do_what_rbac_grants_and_nothing_once_their_token_is_revoked() {
    let programs = Programs::required();
    let mut server = RealServer::builder(programs).user("reader", &["readers"]).start().await.unwrap();
    let reader = server.client_of("reader").await.unwrap();
    assert_eq!(get(&reader, MAPS).await.status, StatusCode::FORBIDDEN);

    server.kubectl(&["create", "role", "read", "--verb=list", "--resource=configmaps"]).await.unwrap();
    server.kubectl(&["create", "rolebinding", "read", "--role=read", "--group=readers"]).await.unwrap();
    // The authorizer has a cache of roles, which lags by milliseconds.
    while get(&reader, MAPS).await.status == StatusCode::FORBIDDEN {}
    assert_eq!(get(&reader, MAPS).await.status, StatusCode::OK);
    assert_eq!(get(&reader, "/api/v1/secrets").await.status, StatusCode::FORBIDDEN);

    server.revoke("reader").await.unwrap();
    assert_eq!(get(&reader, MAPS).await.status, StatusCode::UNAUTHORIZED);
    server.admit("reader").await.unwrap();
    assert_eq!(get(&reader, MAPS).await.status, StatusCode::OK);
    assert!(server.client_of("unknown").await.is_err());
}

#[tokio::test]
async fn a_restored_backup_brings_back_old_objects_and_old_versions() {
    let (mut server, client) = common::server().await;
    create(&client, &["before"]).await;
    let then = version_of(&get(&client, MAPS).await.json());
    let backup = server.backup().await.unwrap();
    // kube-apiserver responds with 500 or times out until it has reconnected to etcd.
    while !get(&client, MAPS).await.status.is_success() {}
    let many: Vec<_> = (0..100).map(|i| format!("after-{i}")).collect();
    create(&client, &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let later = version_of(&get(&client, MAPS).await.json());
    assert!(later >= then + 100);

    server.restore(&backup).await.unwrap();
    let restored = get(&client, MAPS).await.json();
    assert_eq!(names(&restored), ["before"]);
    assert!((then..later).contains(&version_of(&restored)), "{restored}");
}

#[tokio::test]
async fn requested_controllers_complete_deletions() {
    let programs = Programs::required();
    let controllers = ["garbage-collector-controller", "namespace-controller"];
    let server = RealServer::builder(programs).controllers(controllers).start().await.unwrap();
    let kubectl = async |args: &[&str]| server.kubectl(args).await.unwrap();
    kubectl(&["create", "namespace", "shop"]).await;
    kubectl(&["create", "configmap", "owner"]).await;
    let uid = kubectl(&["get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}"]).await;
    let owned = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"owned","ownerReferences":[
            {{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"{uid}"}}]}}}}"#
    );
    server.kubectl_with(&["create", "-f", "-"], &owned).await.unwrap();
    // kubectl waits for the namespace controller, then for the garbage collector.
    kubectl(&["delete", "namespace", "shop", "--wait=true"]).await;
    kubectl(&["delete", "configmap", "owner", "--cascade=foreground", "--wait=true"]).await;
    kubectl(&["wait", "--for=delete", "configmap/owned", "--timeout=120s"]).await;
}

#[tokio::test]
async fn a_server_that_cannot_start_reports_why() {
    let programs = Programs::required();
    let refused = RealServer::builder(programs).flag("--no-such-flag").start().await.unwrap_err().to_string();
    assert!(refused.contains("kube-apiserver exited unexpectedly"), "{refused}");
    assert!(refused.contains("unknown flag: --no-such-flag"), "{refused}");
}

#[tokio::test]
async fn a_dropped_server_leaves_no_process_and_no_file() {
    let (server, _) = common::server().await;
    let (processes, directory) = (server.process_ids(), server.directory().to_owned());
    assert_eq!(processes.len(), 2, "kube-apiserver and etcd");
    drop(server);
    for process in processes {
        assert_eq!(test_kill_process(pid(u64::from(process))), Err(rustix::io::Errno::SRCH));
    }
    assert!(!directory.exists());
}

#[test]
fn a_server_ends_with_the_process_that_started_it_even_while_frozen() {
    let programs = Programs::required();
    for frozen in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let mut holder = Command::new(env!("CARGO_BIN_EXE_real-server"))
            .env("TMPDIR", directory.path())
            .env("KUBE_INFORMER_CONFORMANCE_PROGRAMS", programs.directory())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let about: Value = serde_json::from_str(&line).unwrap();
        let pids = about["processes"].as_array().unwrap().iter().map(|id| pid(id.as_u64().unwrap()));
        let watched: Vec<(Pid, OwnedFd)> =
            pids.map(|pid| (pid, pidfd_open(pid, PidfdFlags::empty()).unwrap())).collect();
        if frozen {
            watched.iter().for_each(|(pid, _)| kill_process(*pid, Signal::STOP).unwrap());
            // All threads must have stopped: the kernel wakes an orphaned group only if it is stopped.
            watched.iter().for_each(|(pid, _)| while !is_stopped(*pid) {});
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        for (_, process) in &watched {
            // Readable when the process has ended.
            poll(&mut [PollFd::new(process, PollFlags::IN)], None).unwrap();
        }
    }
}

/// Whether all threads of a process have stopped. On a busy machine the last may stop long after the first.
fn is_stopped(pid: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).unwrap();
    let mut states = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")));
    // A thread that has exited counts as not stopped, so the caller asks again.
    states
        .all(|state| state.is_ok_and(|state| state.rsplit(')').next().unwrap().trim_start().starts_with('T')))
}

fn pid(id: u64) -> Pid {
    Pid::from_raw(id.try_into().unwrap()).unwrap()
}
