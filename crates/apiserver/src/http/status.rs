//! `Status`: the API's error object, also returned on success if there is no object to return.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::resources::Resource;

/// A `v1` `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) success: bool,
    pub(crate) code: u16,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) details: Option<Box<Details>>,
    /// `metadata.continue`, set only for an expired continue token.
    pub(crate) continue_token: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<Cause>,
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "is_zero")]
    pub(crate) retry_after_seconds: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Cause {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) field: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

// === impl Status ===

impl Status {
    pub(super) fn failure(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            success: false,
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: None,
            continue_token: String::new(),
        }
    }

    /// Adds the object's name and resource to the details.
    pub(super) fn about(mut self, resource: &Resource, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.plural.clone(),
            ..Details::default()
        }));
        self
    }

    /// The HTTP status code.
    pub(crate) fn http_code(&self) -> u16 {
        if self.code == 0 { 200 } else { self.code }
    }

    /// The `Retry-After` header in seconds; 0 omits it.
    pub(crate) fn retry_after_seconds(&self) -> u32 {
        self.details.as_ref().map_or(0, |details| details.retry_after_seconds)
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Serializing strings and numbers cannot fail.
        serde_json::to_vec(&StatusJson::from(self)).unwrap_or_default()
    }

    pub(crate) fn to_value(&self) -> serde_json::Value {
        serde_json::to_value(StatusJson::from(self)).unwrap_or_default()
    }

    pub(crate) fn to_indented_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(&StatusJson::from(self)).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct StatusJson<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: WireMeta<'a>,
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Details>,
    #[serde(skip_serializing_if = "is_zero_code")]
    code: u16,
}

#[derive(Serialize)]
struct WireMeta<'a> {
    #[serde(rename = "continue", skip_serializing_if = "str::is_empty")]
    continue_token: &'a str,
}

fn is_zero_code(code: &u16) -> bool {
    *code == 0
}

impl<'a> From<&'a Status> for StatusJson<'a> {
    fn from(status: &'a Status) -> Self {
        Self {
            kind: "Status",
            api_version: "v1",
            metadata: WireMeta { continue_token: &status.continue_token },
            status: if status.success { "Success" } else { "Failure" },
            message: &status.message,
            reason: &status.reason,
            details: status.details.as_deref(),
            code: status.code,
        }
    }
}
