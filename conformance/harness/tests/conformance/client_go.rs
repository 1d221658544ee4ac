//! client-go against the embedded server: see `tests/client-go/main.go`.

use std::path::{Path, PathBuf};
use std::process::Command;

use embedded_apiserver::Server;

/// Builds the program.
fn build(directory: &Path) -> PathBuf {
    let program = directory.join("client-go");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client-go");
    let mut go = Command::new("go");
    go.args(["build", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .env("GOWORK", "off");
    let built = go.output().unwrap_or_else(|error| panic!("cannot run go: {error}"));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

#[tokio::test(flavor = "multi_thread")]
async fn client_go_works_in_both_encodings_with_and_without_watch_lists() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-go");
    std::fs::create_dir_all(&directory).unwrap();
    let program = build(&directory);
    for content_type in ["application/json", "application/vnd.kubernetes.protobuf"] {
        for watch_list in ["true", "false"] {
            let server = Server::builder().tls().token("go").start().await.unwrap();
            let kubeconfig = directory.join("kubeconfig");
            std::fs::write(&kubeconfig, server.kubeconfig().unwrap()).unwrap();
            let mut command = Command::new(&program);
            command.arg("--kubeconfig").arg(&kubeconfig).arg("--content-type").arg(content_type);
            command.env("KUBE_FEATURE_WatchListClient", watch_list);
            let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{content_type}, watch list {watch_list}:\n{text}");
            server.shutdown().await;
        }
    }
}
