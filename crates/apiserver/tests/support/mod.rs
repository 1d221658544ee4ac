//! In-process requests to a server, shared by the test files.
#![allow(dead_code, reason = "each test program uses a part")]

use bytes::Bytes;
use embedded_apiserver::Server;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower::ServiceExt as _;

/// A server under test.
pub struct Session {
    pub server: Server,
}

/// A complete response.
pub struct Answer {
    pub code: u16,
    pub headers: http::HeaderMap,
    pub body: Bytes,
}

impl Session {
    pub fn new(server: Server) -> Self {
        Self { server }
    }

    /// Sends a request through the service and reads the whole response.
    pub async fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("user-agent", "capture/1");
        for (key, value) in headers {
            request = request.header(*key, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let response = self.server.service().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { code: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// The object, if it exists.
    pub async fn find(&self, path: &str) -> Option<Value> {
        let answer = self.request("GET", path, &[], Vec::new()).await;
        (answer.code == 200).then(|| serde_json::from_slice(&answer.body).unwrap())
    }

    /// Sends a JSON body and returns the JSON response; panics unless the request succeeds.
    pub async fn json(&self, method: &str, path: &str, body: Value) -> Value {
        let content_type =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let answer =
            self.request(method, path, &[("content-type", content_type)], body.to_string().into()).await;
        assert!(answer.code < 300, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
        assert_eq!(answer.headers["content-type"], "application/json", "{method} {path}");
        serde_json::from_slice(&answer.body).unwrap()
    }
}
