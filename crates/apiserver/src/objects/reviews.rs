//! Reviews: requests that are answered and never stored.

use serde_json::{Value, json};

use super::tokens::{self, User};
use super::unsupported::{Subject, WriteOperation};
use super::{Outcome, Shown, Target, Writer, meta};
use crate::http::Status;
use crate::resources::Resource;

/// Whether objects of the resource are never stored.
pub(super) fn is_review(resource: &Resource) -> bool {
    matches!(resource.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
}

impl Writer<'_> {
    /// Answers a review. Tokens are authenticated; permissions are not evaluated, so every access is allowed.
    pub(super) fn review(&self, target: &Target, mut object: Value) -> Result<Outcome, Status> {
        let resource = &target.resource;
        let warnings =
            self.check_supported(&Subject { operation: WriteOperation::Create, target, object: &object })?;
        object["apiVersion"] = resource.api_version.clone().into();
        object["kind"] = resource.kind.clone().into();
        object["status"] = match resource.plural.as_str() {
            "selfsubjectreviews" => json!({"userInfo": self.user().to_value()}),
            "tokenreviews" => self.review_token(&object["spec"])?,
            "selfsubjectrulesreviews" => json!({
                "incomplete": false,
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }),
            _ => json!({"allowed": true}),
        };
        meta::meta_mut(&mut object);
        Ok(Outcome { warnings, ..Outcome::created(Shown::Other(object)) })
    }

    /// The user who makes the request: the administrator, unless it carries a service account token.
    pub(super) fn user(&self) -> User {
        self.bearer().and_then(|bearer| self.service_account(bearer)).unwrap_or_else(User::administrator)
    }

    fn review_token(&self, spec: &Value) -> Result<Value, Status> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        if self.options.token.as_deref() == Some(token) {
            return Ok(json!({"authenticated": true, "user": User::administrator().to_value()}));
        }
        let wanted = tokens::audiences(spec);
        Ok(match self.authenticate(token, &wanted) {
            Ok((user, audiences)) => {
                json!({"authenticated": true, "user": user.to_value(), "audiences": audiences})
            }
            Err(error) => json!({"user": {}, "error": error}),
        })
    }
}
