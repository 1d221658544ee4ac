//! Why an apply failed, in the wording of a kube-apiserver.

use serde_json::{Value, json};

use super::{
    go,
    managed::{Manager, ManagerOperation},
    path::PathElement,
};

/// Why an apply was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The configuration sets fields that other managers own to different values. Adopt their values, omit the fields,
    /// or force. Reported as 409 with the causes of [`Conflict::cause`].
    #[error("{}", conflict_message(.0))]
    Conflict(Vec<Conflict>),
    /// The request is malformed (400).
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not match the object's type; a kube-apiserver returns 500.
    #[error("{0}")]
    Typed(String),
}

/// A field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    manager: Manager,
    path: Vec<PathElement>,
}

impl ApplyError {
    /// The HTTP status code that a kube-apiserver returns.
    pub fn code(&self) -> u16 {
        match self {
            Self::Conflict(_) => 409,
            Self::BadRequest(_) => 400,
            Self::Typed(_) => 500,
        }
    }
}

impl Conflict {
    pub(crate) fn new(manager: Manager, path: Vec<PathElement>) -> Self {
        Self { manager, path }
    }

    /// The owner, as shown in messages.
    pub fn manager(&self) -> String {
        let Manager { name, operation, api_version, subresource } = &self.manager;
        let mut shown = go::quote(name);
        if !subresource.is_empty() {
            shown.push_str(&format!(" with subresource {}", go::quote(subresource)));
        }
        if *operation == ManagerOperation::Update {
            shown.push_str(&format!(" using {api_version}"));
        }
        shown
    }

    /// The field, as shown in messages: `.spec.containers[name="c"].image`.
    pub fn field(&self) -> String {
        self.path.iter().map(PathElement::to_string).collect()
    }

    /// The cause in the Status's details.
    pub fn cause(&self) -> Value {
        json!({
            "reason": "FieldManagerConflict",
            "message": format!("conflict with {}", self.manager()),
            "field": self.field(),
        })
    }

    pub(crate) fn path(&self) -> &[PathElement] {
        &self.path
    }
}

/// The message for conflicts, which must be sorted by manager.
fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager(), only.field());
    }
    let mut message = format!("Apply failed with {} conflicts:", conflicts.len());
    for (at, conflict) in conflicts.iter().enumerate() {
        if at == 0 || conflicts[at - 1].manager != conflict.manager {
            message.push_str(if at == 0 { " " } else { "\n" });
            message.push_str(&format!("conflicts with {}:", conflict.manager()));
        }
        message.push_str(&format!("\n- {}", conflict.field()));
    }
    message
}
