//! Debug output of servers contains neither tokens nor objects.

use embedded_apiserver::{Restart, Server};
use http_body_util::Full;
use tower::Service;

#[tokio::test]
async fn g1_debug_output_holds_neither_tokens_nor_secrets() {
    let builder = Server::builder().token("planted-token").tls();
    let mut printed = format!("{builder:?}");
    let server = builder.start().await.unwrap();
    let secret = serde_json::json!({"metadata": {"name": "s"}, "data": {"pw": "cGxhbnRlZA=="}}).to_string();
    let request = http::Request::post("/api/v1/namespaces/default/secrets")
        .header("content-type", "application/json")
        .header("authorization", "Bearer planted-token")
        .body(Full::new(bytes::Bytes::from(secret)))
        .unwrap();
    assert_eq!(server.service().call(request).await.unwrap().status(), 201);
    let backup = server.backup();
    printed +=
        &format!("{server:?} {:#?} {backup:?} {:?}", server.service(), Restart::FromBackup(backup.clone()));
    assert!(!printed.contains("planted-token"), "{printed}");
    assert!(!printed.contains("cGxhbnRlZA"), "{printed}");
    assert!(!printed.contains("PRIVATE KEY"), "{printed}");
}
