//! Subresources that are done rather than stored, and reviews, which are answered and forgotten.

use serde_json::{Value, json};

use super::meta;
use super::update::Recording;
use super::{DeleteOptions, Outcome, Shown, Target, WriteOptions};
use crate::api::Api;
use crate::crd::FieldError;
use crate::http::Status;
use crate::resources::Resource;

impl Api {
    /// POST to a subresource.
    pub(crate) fn act(
        &self,
        target: &Target,
        body: &Value,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        match (target.resource.plural.as_str(), target.subresource.as_str()) {
            ("pods", "binding") => self.bind(target, body, options),
            ("pods", "eviction") => self.evict(target, body),
            ("serviceaccounts", "token") => self.token(target, body),
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// Assigns a pod to a node, as a scheduler asks for.
    fn bind(&self, target: &Target, binding: &Value, options: &WriteOptions) -> Result<Outcome, Status> {
        let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
        let pod = target.named(&target.name);
        let now = self.clock.timestamp();
        self.change(&pod, options, Recording::Due, &|current| {
            let current = current.ok_or_else(|| Status::not_found(&pod.resource, &pod.name))?;
            if let Some(assigned) = current["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()) {
                let why = format!("pod {} is already assigned to node {assigned:?}", pod.name);
                return Err(Status::conflict(&pod.resource, &pod.name, &why));
            }
            let mut object = current.clone();
            object["spec"]["nodeName"] = node.clone().into();
            Ok(object)
        })?;
        let status = pod_status(&pod);
        self.change(&status, options, Recording::Due, &|current| {
            let mut object = current.cloned().ok_or_else(|| Status::not_found(&pod.resource, &pod.name))?;
            let scheduled = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now});
            object["status"]["conditions"] = json!([scheduled]);
            Ok(object)
        })?;
        Ok(Outcome::created(Shown::Status(Status::success(201))))
    }

    /// Deletes a pod with the options that the eviction names.
    fn evict(&self, target: &Target, eviction: &Value) -> Result<Outcome, Status> {
        let options = serde_json::from_value::<Option<DeleteOptions>>(eviction["deleteOptions"].clone());
        let options =
            options.map_err(|error| Status::bad_request(format!("invalid deleteOptions: {error}")))?;
        self.delete(&target.named(&target.name), &options.unwrap_or_default())?;
        Ok(Outcome::created(Shown::Status(Status::success(201))))
    }

    /// A token that says nothing: the server knows no identities but its own bearer token.
    fn token(&self, target: &Target, request: &Value) -> Result<Outcome, Status> {
        self.get(target)?;
        let mut request = request.clone();
        let seconds = expiration_seconds(&request)?;
        let expires = self.clock.timestamp_in(std::time::Duration::from_secs(seconds));
        let token = self.options.token.clone().unwrap_or_else(|| self.chance.uid());
        request["apiVersion"] = "authentication.k8s.io/v1".into();
        request["kind"] = "TokenRequest".into();
        request["status"] = json!({"token": token, "expirationTimestamp": expires});
        Ok(Outcome::created(Shown::Other(request)))
    }
}

/// How long a requested token is to be valid.
fn expiration_seconds(request: &Value) -> Result<u64, Status> {
    const DEFAULT: i64 = 3600;
    const MIN: i64 = 10 * 60;
    const MAX: i64 = 1 << 32;
    let asked = &request["spec"]["expirationSeconds"];
    let seconds = if asked.is_null() { Some(DEFAULT) } else { asked.as_i64() };
    let detail = match seconds {
        Some(seconds) if (MIN..=MAX).contains(&seconds) => return Ok(seconds.unsigned_abs()),
        Some(seconds) if seconds < MIN => "may not specify a duration less than 10 minutes",
        Some(_) => "may not specify a duration larger than 2^32 seconds",
        None => "must be a whole number of seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", asked.clone(), detail);
    Err(Status::invalid_kind("authentication.k8s.io", "TokenRequest", "", &[error]))
}

/// Whether objects of the resource are answered and never stored.
pub(super) fn is_review(resource: &Resource) -> bool {
    matches!(resource.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
}

/// Answers a review: everybody may do everything.
pub(super) fn review(resource: &Resource, mut object: Value) -> Outcome {
    object["apiVersion"] = resource.api_version.clone().into();
    object["kind"] = resource.kind.clone().into();
    object["status"] = match resource.plural.as_str() {
        "selfsubjectreviews" => json!({"userInfo": {"username": "admin", "groups": ["system:masters"]}}),
        "tokenreviews" => json!({"authenticated": true, "user": {"username": "admin"}}),
        "selfsubjectrulesreviews" => json!({
            "incomplete": false,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }),
        _ => json!({"allowed": true}),
    };
    meta::meta_mut(&mut object);
    Outcome::created(Shown::Other(object))
}

fn pod_status(pod: &Target) -> Target {
    Target { subresource: "status".to_owned(), ..pod.clone() }
}
