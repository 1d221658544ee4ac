//! Selectors in the syntax of kubectl and the API: `-l` and `--field-selector`.
//!
//! One parser serves both sides. A client detects errors before it sends a request, and filters its cache; a server
//! reports errors in the wording of Kubernetes.

mod fields;
mod labels;

use std::fmt;

pub use fields::FieldSelector;
pub use labels::LabelSelector;

/// The text is not a valid selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSelector {
    form: Form,
    text: String,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Labels,
    /// A term without a path or an operator.
    FieldTerm,
    FieldValue,
}

/// The error, in the wording of Kubernetes, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    reason: String,
    at: Option<usize>,
}

impl InvalidSelector {
    /// The message of a kube-apiserver.
    #[doc(hidden)]
    pub fn kubernetes_message(&self) -> String {
        let reason = &self.problem.reason;
        match self.form {
            Form::Labels => reason.clone(),
            Form::FieldTerm => format!("invalid selector: '{}'; {reason}", self.text),
            Form::FieldValue => format!("invalid field selector: {reason}"),
        }
    }
}

impl fmt::Display for InvalidSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.form == Form::Labels { "label" } else { "field" };
        write!(f, "invalid {what} selector {:?}", self.text)?;
        if let Some(at) = self.problem.at {
            write!(f, " at byte {at}")?;
        }
        write!(f, ": {}", self.problem.reason)
    }
}

impl std::error::Error for InvalidSelector {}

impl From<String> for Problem {
    fn from(reason: String) -> Self {
        Self { reason, at: None }
    }
}
