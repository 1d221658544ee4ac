//! Subresources that perform an action and are not stored.

use serde_json::{Value, json};

use super::unsupported::{Subject, WriteOperation};
use super::update::Recording;
use super::{DeleteOptions, Outcome, Shown, Target, WriteOptions, Writer};
use crate::http::Status;

impl Writer<'_> {
    /// POST to a subresource.
    pub(crate) fn act(
        &self,
        target: &Target,
        body: &Value,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        let subject = Subject { operation: WriteOperation::Create, target, object: body };
        let warnings = self.check_supported(&subject)?;
        let outcome =
            self.on_own_account(|| match (target.resource.plural.as_str(), target.subresource.as_str()) {
                ("pods", "binding") => self.bind(target, body, options),
                ("pods", "eviction") => self.evict(target, body),
                ("serviceaccounts", "token") => self.request_token(target, body),
                _ => Err(Status::method_not_allowed()),
            })?;
        Ok(Outcome { warnings, ..outcome })
    }

    /// Assigns a pod to a node, as a scheduler requests.
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

    /// Deletes a pod with the options in the eviction.
    fn evict(&self, target: &Target, eviction: &Value) -> Result<Outcome, Status> {
        let options = serde_json::from_value::<Option<DeleteOptions>>(eviction["deleteOptions"].clone());
        let options =
            options.map_err(|error| Status::bad_request(format!("invalid deleteOptions: {error}")))?;
        self.delete(&target.named(&target.name), &options.unwrap_or_default())?;
        Ok(Outcome::created(Shown::Status(Status::success(201))))
    }
}

fn pod_status(pod: &Target) -> Target {
    Target { subresource: "status".to_owned(), ..pod.clone() }
}
