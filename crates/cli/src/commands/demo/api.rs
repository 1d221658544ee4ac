//! Writes of the simulated cluster. They call the server's service directly, so injected connection faults affect only the
//! informers.

use bytes::Bytes;
use embedded_apiserver::{ApiService, Server};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::Service;

use crate::failure::{Failure, root_cause};

/// Writes objects.
#[derive(Clone)]
pub(super) struct Api(ApiService);

/// A write that was accepted.
pub(super) struct Written {
    pub(super) resource_version: u64,
    pub(super) uid: String,
}

impl Api {
    pub(super) fn new(server: &Server) -> Self {
        Self(server.service())
    }

    pub(super) async fn create(&mut self, path: &str, object: &Value) -> Result<Option<Written>, Failure> {
        self.send(Method::POST, path, "application/json", object).await
    }

    /// `None` if the object no longer exists: a user may have deleted it with kubectl.
    pub(super) async fn patch(&mut self, path: &str, patch: &Value) -> Result<Option<Written>, Failure> {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch).await
    }

    pub(super) async fn delete(
        &mut self,
        path: &str,
        grace_seconds: u32,
    ) -> Result<Option<Written>, Failure> {
        let options = json!({"gracePeriodSeconds": grace_seconds, "propagationPolicy": "Background"});
        self.send(Method::DELETE, path, "application/json", &options).await
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Option<Written>, Failure> {
        // The server answers without waiting. Without this, no other task would run, not even the one for Ctrl-C.
        tokio::task::coop::consume_budget().await;
        let failed =
            |why: String| Failure::Other(format!("cannot write to the simulated cluster: {path}: {why}"));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type)
            .header(http::header::USER_AGENT, "cluster")
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|error| failed(error.to_string()))?;
        let answer = self.0.call(request).await.map_err(|error| failed(root_cause(&error)))?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|error| failed(root_cause(&error)))?.to_bytes();
        if matches!(status, StatusCode::NOT_FOUND | StatusCode::CONFLICT) {
            return Ok(None);
        }
        if !status.is_success() {
            return Err(failed(String::from_utf8_lossy(&body).into_owned()));
        }
        Ok(Some(Written::read(&body)))
    }
}

impl Written {
    /// Only the metadata is read.
    fn read(body: &[u8]) -> Self {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Answer {
            metadata: Metadata,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Metadata {
            resource_version: String,
            uid: String,
        }
        let metadata = serde_json::from_slice::<Answer>(body).unwrap_or_default().metadata;
        Self { resource_version: metadata.resource_version.parse().unwrap_or(0), uid: metadata.uid }
    }
}
