//! A CustomResourceDefinition, parsed once when it is written: the names it is served under and, per version, the
//! compiled schema and other settings needed by requests.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    FieldError, Structural, check,
    invalid::aggregate,
    raw::{Raw, RawVersion},
    validate,
};
use crate::apply::TypeView;

/// A valid definition.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The API group.
    pub group: String,
    /// The requested names; the accepted ones are in the status.
    pub names: Names,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// The versions, in the definition's order.
    pub versions: Vec<Version>,
    /// The definition is being deleted: objects can no longer be created.
    pub terminating: bool,
    /// A webhook converts between versions.
    pub converted_by_webhook: bool,
}

/// The names of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Names {
    /// The name in paths: `things`.
    pub plural: String,
    /// The name of a single object: `thing`.
    pub singular: String,
    /// `Thing`.
    pub kind: String,
    /// `ThingList`.
    pub list_kind: String,
    /// Short names for the command line.
    pub short_names: Vec<String>,
    /// Groups of resources for the command line, like `all`.
    pub categories: Vec<String>,
}

/// One version of a custom resource.
#[derive(Debug, Clone)]
pub struct Version {
    /// The version: `v1`.
    pub name: String,
    /// The version is served.
    pub served: bool,
    /// Objects are stored in this version.
    pub storage: bool,
    /// The version is deprecated: requests for it get a warning.
    pub deprecated: bool,
    /// The warning, if it is not the default one.
    pub deprecation_warning: Option<String>,
    /// The schema.
    pub schema: Structural,
    /// The schema has CEL rules, which are not evaluated.
    pub has_rules: bool,
    /// There is a `status` subresource.
    pub status: bool,
    /// There is a `scale` subresource.
    pub scale: Option<Scale>,
    /// Fields that selectors may use, without the leading dot: `spec.color`.
    pub selectable_fields: Vec<String>,
    /// Printer columns, as in the definition.
    pub printer_columns: Vec<Value>,
}

/// The paths behind a `scale` subresource, with a leading dot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scale {
    /// The desired replicas: `.spec.replicas`.
    pub spec_replicas_path: String,
    /// The observed replicas: `.status.replicas`.
    pub status_replicas_path: String,
    /// The pod selector, as text: `.status.selector`.
    pub label_selector_path: Option<String>,
}

/// Why a definition was rejected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// It does not have the form of a CustomResourceDefinition (400).
    #[error("malformed CustomResourceDefinition: {0}")]
    Malformed(String),
    /// It has invalid values (422).
    #[error("{}", aggregate(.0))]
    Invalid(Vec<FieldError>),
}

// === impl Definition ===

impl Definition {
    /// Prepares a definition for [`Definition::parse`]: sets its defaults and its status, which is that of a new
    /// definition, or the old one's with any new storage version added.
    pub fn prepare(crd: &mut Value, old: Option<&Value>) {
        let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
        let empty = |value: Option<&Value>| value.is_none_or(|value| value.is_null() || *value == json!(""));
        if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
            let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            if empty(names.get("singular")) && !kind.is_empty() {
                names.insert("singular".to_owned(), json!(kind.to_lowercase()));
            }
            if empty(names.get("listKind")) && !kind.is_empty() {
                names.insert("listKind".to_owned(), json!(format!("{kind}List")));
            }
        }
        if empty(spec.get("conversion")) {
            spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
        }
        let versions = spec.get("versions").and_then(Value::as_array);
        let storage = versions.into_iter().flatten().find(|version| version["storage"] == true);
        let storage = storage.and_then(|version| version.get("name")).cloned();

        let fresh =
            || json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []});
        let before = old.and_then(|old| old.get("status")).filter(|status| status.is_object());
        let mut status = before.cloned().unwrap_or_else(fresh);
        if let (Some(stored), Some(storage)) = (status["storedVersions"].as_array_mut(), storage)
            && !stored.contains(&storage)
        {
            stored.push(storage);
        }
        crd["status"] = status;
    }

    /// Parses a prepared definition. `old` is the definition that it replaces.
    ///
    /// # Errors
    ///
    /// If it is invalid.
    pub fn parse(crd: &Value, old: Option<&Value>) -> Result<Self, DefinitionError> {
        let raw = Raw::read(crd)?;
        let old = old.map(Raw::read).transpose()?;
        let errors = check::definition(&raw, old.as_ref());
        if !errors.is_empty() {
            return Err(DefinitionError::Invalid(errors));
        }
        let versions = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Self {
            group: raw.spec.group,
            names: raw.spec.names,
            namespaced: raw.spec.scope == "Namespaced",
            versions: raw
                .spec
                .versions
                .into_iter()
                .zip(versions)
                .map(|(raw, version)| Version::new(raw, version))
                .collect(),
            terminating: crd["metadata"]["deletionTimestamp"].is_string(),
            converted_by_webhook: crd["spec"]["conversion"]["strategy"] == "Webhook",
        })
    }

    /// The version of this name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version in which objects are stored. Every definition has one.
    pub fn storage_version(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }
}

// === impl Version ===

impl Version {
    fn new(raw: RawVersion, version: &Value) -> Self {
        let subresources = raw.subresources.unwrap_or_default();
        let schema = raw.schema.and_then(|schema| schema.schema).unwrap_or_default();
        let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
        Self {
            name: raw.name,
            served: raw.served,
            storage: raw.storage,
            deprecated: raw.deprecated,
            deprecation_warning: raw.deprecation_warning,
            schema: schema.compile(),
            has_rules: has_validation_rules(&version["schema"]),
            status: subresources.status.is_some(),
            scale: subresources.scale,
            selectable_fields: raw
                .selectable_fields
                .into_iter()
                .map(|field| field.json_path.trim_start_matches('.').to_owned())
                .collect(),
            printer_columns: columns.cloned().unwrap_or_default(),
        }
    }

    /// How objects of this version merge.
    pub fn types(&self) -> TypeView<'_> {
        TypeView::custom(&self.schema)
    }

    /// Validates a pruned and defaulted object. `old` is the object before an update.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate(object, old, &self.schema, "");
        errors.extend(self.scale.iter().flat_map(|scale| scale.check(object, &scale.spec_replicas_path)));
        errors
    }

    /// Validates the status of an object on a write to its `status` subresource.
    pub fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let status = object.get("status").zip(self.schema.at(["status"]));
        let old = old.and_then(|old| old.get("status"));
        let mut errors =
            status.map_or_else(Vec::new, |(status, schema)| validate(status, old, schema, "status"));
        errors.extend(self.scale.iter().flat_map(|scale| scale.check(object, &scale.status_replicas_path)));
        errors
    }

    /// The value of a selectable field in the form that selectors compare; empty if absent.
    pub fn selectable_value(&self, object: &Value, field: &str) -> Option<String> {
        let field = self.selectable_fields.iter().find(|known| *known == field)?;
        Some(match at(object, field) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        })
    }
}

// === impl Scale ===

impl Scale {
    /// The desired replicas.
    pub fn spec_replicas(&self, object: &Value) -> Option<i64> {
        at(object, &self.spec_replicas_path)?.as_i64()
    }

    /// The observed replicas.
    pub fn status_replicas(&self, object: &Value) -> Option<i64> {
        at(object, &self.status_replicas_path)?.as_i64()
    }

    /// The pod selector.
    pub fn selector<'a>(&self, object: &'a Value) -> Option<&'a str> {
        at(object, self.label_selector_path.as_deref()?)?.as_str()
    }

    /// Sets the desired replicas.
    pub fn set_spec_replicas(&self, object: &mut Value, replicas: i64) {
        let mut place = object;
        for name in self.spec_replicas_path.trim_start_matches('.').split('.') {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place = &mut place[name];
        }
        *place = json!(replicas);
    }

    fn check(&self, object: &Value, path: &str) -> Option<FieldError> {
        let replicas = match number_at(object, path) {
            Ok(replicas) => replicas?,
            Err(what) => return Some(FieldError::invalid(path, 0, what)),
        };
        if replicas < 0 {
            Some(FieldError::invalid(path, replicas, "should be a non-negative integer"))
        } else if replicas > i64::from(i32::MAX) {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            Some(FieldError::invalid(path, replicas, detail))
        } else {
            None
        }
    }
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.trim_start_matches('.').split('.').try_fold(object, |value, name| value.get(name))
}

/// The integer at a path, `None` if absent, or an error if it is not an integer.
fn number_at(object: &Value, path: &str) -> Result<Option<i64>, String> {
    let mut value = object;
    for name in path.trim_start_matches('.').split('.') {
        let Value::Object(members) = value else {
            return Err(not_of_type(path, value, "map[string]interface{}"));
        };
        match members.get(name) {
            Some(member) => value = member,
            None => return Ok(None),
        }
    }
    match value.as_i64() {
        Some(number) => Ok(Some(number)),
        None => Err(not_of_type(path, value, "int64")),
    }
}

fn not_of_type(path: &str, value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = match value.as_f64() {
        Some(number) => number.to_string(),
        None => crate::apply::go::plain(value),
    };
    format!("{path} accessor error: {shown} is of the type {found}, expected {wanted}")
}

/// Whether a schema contains CEL rules at any depth.
pub(crate) fn has_validation_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| {
            let rules =
                name == "x-kubernetes-validations" && value.as_array().is_some_and(|rules| !rules.is_empty());
            rules || has_validation_rules(value)
        }),
        Value::Array(elements) => elements.iter().any(has_validation_rules),
        _ => false,
    }
}
