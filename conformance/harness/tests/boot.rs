//! The harness itself: the server comes up as itself, survives what befalls it, and leaves nothing behind.

use kube_informer_conformance::{Programs, RealServer, raw};

#[tokio::test]
async fn the_server_boots_and_says_which_version_it_is() {
    let Some(programs) = Programs::or_skip() else { return };
    let t = std::time::Instant::now();
    let server = RealServer::builder(programs).start().await.unwrap();
    eprintln!("boot {:?}", t.elapsed());
    let client = server.client().await.unwrap();
    let version = raw::get(&client, "/version", raw::JSON).await.unwrap().json();
    eprintln!("{version}");
    eprintln!("{}", server.kubectl(&["version"]).await.unwrap());
    eprintln!("{}", server.kubectl(&["get", "all", "-A"]).await.unwrap());
}
