//! What is wrong with a field, as a Status of reason `Invalid` tells it.

use std::{collections::HashSet, fmt};

use serde_json::{Value, json};

use crate::apply::go;

/// One thing wrong with one field. Prints as in a Status' message; [`FieldError::cause`] is its place in the details.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The field, e.g. `spec.ports[0].port`; `<nil>` where no single one is to blame.
    pub field: String,
    /// What kind of wrong.
    pub reason: Reason,
    /// The value found, where the message shows it.
    pub value: Value,
    /// More about it; may be empty.
    pub detail: String,
}

/// What kind of wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Not a value for this field.
    Invalid,
    /// Not a value of the field's type.
    TypeInvalid,
    /// Missing.
    Required,
    /// There already.
    Duplicate,
    /// Not one of the values allowed.
    NotSupported,
    /// Not allowed here.
    Forbidden,
    /// Too long.
    TooLong,
    /// Too many.
    TooMany,
}

impl FieldError {
    pub(crate) fn new(
        reason: Reason,
        field: impl Into<String>,
        value: Value,
        detail: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), reason, value, detail: detail.into() }
    }

    pub(crate) fn invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(Reason::Invalid, field, value.into(), detail)
    }

    pub(crate) fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Reason::Required, field, Value::Null, detail)
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Reason::Forbidden, field, Value::Null, detail)
    }

    pub(crate) fn not_supported(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> Self {
        let supported: Vec<_> = supported.iter().map(|value| go::quote(value)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Self::new(Reason::NotSupported, field, value.into(), detail)
    }

    pub(crate) fn too_many(field: impl Into<String>, found: u64, max: u64) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        Self::new(Reason::TooMany, field, found.into(), format!("must have at most {max} {items}"))
    }

    /// The message without the field.
    pub fn message(&self) -> String {
        let mut message = self.reason.words().to_owned();
        if !matches!(self.reason, Reason::Required | Reason::Forbidden | Reason::TooLong) {
            message.push_str(": ");
            match &self.value {
                Value::String(text) => message.push_str(&go::quote(text)),
                other => message.push_str(&other.to_string()),
            }
        }
        if !self.detail.is_empty() {
            message.push_str(": ");
            message.push_str(&self.detail);
        }
        message
    }

    /// The cause in the Status' details.
    pub fn cause(&self) -> Value {
        json!({"reason": self.reason.name(), "message": self.message(), "field": self.field})
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

impl Reason {
    /// As causes name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

/// The end of a Status' message for these errors: the only one, or all in brackets, each once. Before it stands
/// `Kind.group "name" is invalid: `.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut told = HashSet::with_capacity(errors.len());
    let messages: Vec<String> =
        errors.iter().map(FieldError::to_string).filter(|message| told.insert(message.clone())).collect();
    match messages.as_slice() {
        [only] => only.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
