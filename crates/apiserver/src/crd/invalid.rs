//! Field errors, as listed in a Status with reason `Invalid`.

use std::{collections::HashSet, fmt};

use serde_json::{Value, json};

use crate::apply::go;

/// An error in one field. Displays as in the Status's message; [`FieldError::cause`] is its entry in the details.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The field, e.g. `spec.ports[0].port`; `<nil>` if the error concerns no single field.
    pub field: String,
    /// The kind of error.
    pub reason: Reason,
    /// The invalid value, if the message shows it.
    pub value: Value,
    /// Additional text; may be empty.
    pub detail: String,
}

/// The kind of a field error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The value is invalid for the field.
    Invalid,
    /// The value has the wrong type.
    TypeInvalid,
    /// The field is missing.
    Required,
    /// The value exists already.
    Duplicate,
    /// The value is not one of the allowed values.
    NotSupported,
    /// The field is not allowed here.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// There are too many values.
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

    /// The cause in the Status's details.
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
    /// The name used in causes.
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

/// The end of a Status's message for these errors: the only error, or all distinct ones in brackets. It follows
/// `Kind.group "name" is invalid: `.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut seen = HashSet::with_capacity(errors.len());
    let messages: Vec<String> =
        errors.iter().map(FieldError::to_string).filter(|message| seen.insert(message.clone())).collect();
    match messages.as_slice() {
        [only] => only.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
