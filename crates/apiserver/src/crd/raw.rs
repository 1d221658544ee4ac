//! A CustomResourceDefinition as submitted, before validation.

use serde::Deserialize;
use serde_json::Value;

use super::{DefinitionError, Names, Scale, structural::Props};

/// A definition as submitted.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Raw {
    pub(crate) metadata: RawMeta,
    pub(crate) spec: RawSpec,
    pub(crate) status: RawStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawMeta {
    pub(crate) name: String,
    pub(crate) annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawSpec {
    pub(crate) group: String,
    pub(crate) names: Names,
    pub(crate) scope: String,
    pub(crate) versions: Vec<RawVersion>,
    pub(crate) conversion: Option<RawConversion>,
    pub(crate) preserve_unknown_fields: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawStatus {
    pub(crate) stored_versions: Vec<String>,
    pub(crate) conditions: Vec<RawCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawCondition {
    #[serde(rename = "type")]
    pub(crate) ty: String,
    pub(crate) status: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawConversion {
    pub(crate) strategy: String,
    pub(crate) webhook: Option<RawWebhook>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawWebhook {
    pub(crate) client_config: Option<Value>,
    pub(crate) conversion_review_versions: Vec<String>,
}

#[derive(Debug, Default, Clone, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawVersion {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    pub(crate) deprecated: bool,
    pub(crate) deprecation_warning: Option<String>,
    pub(crate) schema: Option<RawSchema>,
    pub(crate) subresources: Option<RawSubresources>,
    pub(crate) additional_printer_columns: Vec<RawColumn>,
    pub(crate) selectable_fields: Vec<RawSelectableField>,
}

#[derive(Debug, Default, Clone, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct RawSchema {
    #[serde(rename = "openAPIV3Schema")]
    pub(crate) schema: Option<Props>,
}

#[derive(Debug, Default, Clone, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct RawSubresources {
    pub(crate) status: Option<Value>,
    pub(crate) scale: Option<Scale>,
}

#[derive(Debug, Default, Clone, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawColumn {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) ty: String,
    pub(crate) format: String,
    pub(crate) json_path: String,
}

#[derive(Debug, Default, Clone, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawSelectableField {
    pub(crate) json_path: String,
}

impl Raw {
    /// Parses a definition.
    ///
    /// # Errors
    ///
    /// If it does not have the form of a CustomResourceDefinition.
    pub(crate) fn read(crd: &Value) -> Result<Self, DefinitionError> {
        // A null member counts as absent, at any depth.
        let mut crd = crd.clone();
        drop_null_members(&mut crd);
        Self::deserialize(crd).map_err(|error| DefinitionError::Malformed(error.to_string()))
    }
}

fn drop_null_members(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_null_members);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_null_members),
        _ => {}
    }
}
