//! Why a configuration could not be applied, in the words of a kube-apiserver.

use serde_json::{Value, json};

use super::{
    go,
    managed::{Manager, ManagerOperation},
    path::PathElement,
};

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Others own fields to which the configuration gives other values: take the values over, leave the fields out, or
    /// force. Answered with 409 and the causes of [`Conflict::cause`].
    #[error("{}", conflict_message(.0))]
    Conflict(Vec<Conflict>),
    /// The request cannot be applied as it is (400).
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not fit the object's type; a kube-apiserver answers 500.
    #[error("{0}")]
    Typed(String),
}

/// One field that somebody else owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    manager: Manager,
    path: Vec<PathElement>,
}

impl ApplyError {
    /// The HTTP status with which a kube-apiserver answers.
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

    /// The owner, as messages show it.
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

    /// The field, as messages show it: `.spec.containers[name="c"].image`.
    pub fn field(&self) -> String {
        self.path.iter().map(PathElement::to_string).collect()
    }

    /// The cause in the Status' details.
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

/// The message for conflicts, which come sorted by manager.
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
