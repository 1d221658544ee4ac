//! client-go against the server, where Go is installed: see `client-go/main.go`.
#![allow(clippy::print_stdout, reason = "functions that only tests call")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use embedded_apiserver::Server;

/// Builds the program. Where Go or its modules are missing, that is reported and the test skipped, unless
/// `KUBE_INFORMER_GO=required`: plain `cargo test` needs neither.
fn build(directory: &Path) -> Option<std::path::PathBuf> {
    let program = directory.join("client-go");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client-go");
    let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(source).output();
    let missing = match built {
        Ok(built) if built.status.success() => return Some(program),
        Ok(built) => String::from_utf8_lossy(&built.stderr).into_owned(),
        Err(error) => format!("cannot run go: {error}"),
    };
    let required = std::env::var("KUBE_INFORMER_GO").is_ok_and(|value| value == "required");
    assert!(!required, "KUBE_INFORMER_GO=required: {missing}");
    println!("skipped, client-go cannot be built: {missing}");
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn client_go_works_in_both_encodings_and_both_ways_of_listing() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-go");
    std::fs::create_dir_all(&directory).unwrap();
    let Some(program) = build(&directory) else { return };
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
