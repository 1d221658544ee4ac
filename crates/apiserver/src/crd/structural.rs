//! The structural schema of a custom resource, compiled from the `openAPIV3Schema` of its definition: a tree that
//! holds each path's type, default, merge behavior and constraints.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Number, Value};

/// Maximum size of a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The type of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JsonType {
    /// Unspecified.
    #[default]
    Any,
    /// An object, or a map.
    Object,
    /// A list.
    Array,
    /// A string.
    String,
    /// An integer.
    Integer,
    /// Any number.
    Number,
    /// A boolean.
    Boolean,
}

/// How list elements are identified (`x-kubernetes-list-type`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListKind {
    /// They are not; the list is atomic.
    #[default]
    Atomic,
    /// By their values.
    Set,
    /// By these keys.
    Map(Vec<String>),
}

/// One node of a structural schema.
#[derive(Debug, Clone, Default)]
pub struct Structural {
    /// The type; [`JsonType::Any`] only with `int_or_string` or `preserve_unknown`.
    pub ty: JsonType,
    /// Members by name.
    pub properties: BTreeMap<String, Structural>,
    /// All other members.
    pub additional: Option<Box<Structural>>,
    /// Elements of a list.
    pub items: Option<Box<Structural>>,
    /// `null` is allowed.
    pub nullable: bool,
    /// The default of an absent value.
    pub default: Option<Value>,
    /// Unknown members are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// The value is a Kubernetes object with its own metadata (`x-kubernetes-embedded-resource`).
    pub embedded_resource: bool,
    /// An integer or a string (`x-kubernetes-int-or-string`).
    pub int_or_string: bool,
    /// How list elements are identified.
    pub list: ListKind,
    /// The object is owned as a whole (`x-kubernetes-map-type: atomic`).
    pub atomic_map: bool,
    /// The allowed values.
    pub constraints: Constraints,
}

/// The allowed values of a node.
#[derive(Debug, Clone, Default)]
pub struct Constraints {
    pub(crate) format: Option<String>,
    pub(crate) maximum: Option<Number>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<Number>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<Number>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) pattern: Option<Regex>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) required: Vec<String>,
    pub(crate) one_of_values: Option<Vec<Value>>,
    pub(crate) all_of: Vec<Structural>,
    pub(crate) any_of: Vec<Structural>,
    pub(crate) one_of: Vec<Structural>,
    pub(crate) not: Option<Box<Structural>>,
}

impl Structural {
    /// Compiles an `openAPIV3Schema`. Ignores unsupported keywords: [`Definition::parse`](super::Definition::parse)
    /// checks for those first.
    ///
    /// # Errors
    ///
    /// If the value is not a schema.
    pub fn compile(schema: &Value) -> Result<Self, serde_json::Error> {
        Props::deserialize(schema).map(Props::compile)
    }

    /// The schema at a path of member names.
    pub(crate) fn at<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<&Structural> {
        path.into_iter().try_fold(self, |schema, name| schema.properties.get(name))
    }
}

/// Compiles a pattern, with a size limit.
///
/// # Errors
///
/// If the pattern is not a valid regular expression, or its compiled form exceeds the limit.
pub(crate) fn regex(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX).build()
}

/// The used or validated part of `JSONSchemaProps`.
#[derive(Debug, Clone, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Props {
    #[serde(rename = "$ref")]
    pub(crate) reference: Option<String>,
    #[serde(rename = "type")]
    pub(crate) ty: String,
    pub(crate) format: String,
    pub(crate) default: Option<Value>,
    pub(crate) maximum: Option<Number>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<Number>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) pattern: String,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) multiple_of: Option<Number>,
    #[serde(rename = "enum")]
    pub(crate) one_of_values: Option<Vec<Value>>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) required: Vec<String>,
    pub(crate) items: Option<Box<Props>>,
    pub(crate) all_of: Vec<Props>,
    pub(crate) one_of: Vec<Props>,
    pub(crate) any_of: Vec<Props>,
    pub(crate) not: Option<Box<Props>>,
    pub(crate) properties: BTreeMap<String, Props>,
    pub(crate) additional_properties: Option<PropsOrBool>,
    pub(crate) pattern_properties: BTreeMap<String, Value>,
    pub(crate) dependencies: BTreeMap<String, Value>,
    pub(crate) additional_items: Option<Value>,
    pub(crate) definitions: BTreeMap<String, Value>,
    pub(crate) nullable: bool,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub(crate) preserve_unknown: Option<bool>,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    pub(crate) embedded_resource: bool,
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub(crate) int_or_string: bool,
    #[serde(rename = "x-kubernetes-list-type")]
    pub(crate) list_type: Option<String>,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    pub(crate) list_map_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-map-type")]
    pub(crate) map_type: Option<String>,
}

#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(untagged)]
pub(crate) enum PropsOrBool {
    Bool(bool),
    Props(Box<Props>),
}

impl Props {
    pub(crate) fn compile(self) -> Structural {
        let all = |list: Vec<Props>| list.into_iter().map(Props::compile).collect();
        Structural {
            ty: match self.ty.as_str() {
                "object" => JsonType::Object,
                "array" => JsonType::Array,
                "string" => JsonType::String,
                "integer" => JsonType::Integer,
                "number" => JsonType::Number,
                "boolean" => JsonType::Boolean,
                _ => JsonType::Any,
            },
            properties: self.properties.into_iter().map(|(name, props)| (name, props.compile())).collect(),
            additional: match self.additional_properties {
                Some(PropsOrBool::Props(props)) => Some(Box::new(props.compile())),
                Some(PropsOrBool::Bool(true)) => Some(Box::default()),
                Some(PropsOrBool::Bool(false)) | None => None,
            },
            items: self.items.map(|items| Box::new(items.compile())),
            nullable: self.nullable,
            default: self.default.filter(|default| !default.is_null()),
            preserve_unknown: self.preserve_unknown == Some(true),
            embedded_resource: self.embedded_resource,
            int_or_string: self.int_or_string,
            list: match self.list_type.as_deref() {
                Some("set") => ListKind::Set,
                Some("map") => ListKind::Map(self.list_map_keys),
                _ => ListKind::Atomic,
            },
            atomic_map: self.map_type.as_deref() == Some("atomic"),
            constraints: Constraints {
                format: Some(self.format).filter(|format| !format.is_empty()),
                maximum: self.maximum,
                exclusive_maximum: self.exclusive_maximum,
                minimum: self.minimum,
                exclusive_minimum: self.exclusive_minimum,
                multiple_of: self.multiple_of,
                max_length: self.max_length,
                min_length: self.min_length,
                pattern: Some(self.pattern).filter(|p| !p.is_empty()).and_then(|p| regex(&p).ok()),
                max_items: self.max_items,
                min_items: self.min_items,
                max_properties: self.max_properties,
                min_properties: self.min_properties,
                required: self.required,
                one_of_values: self.one_of_values,
                all_of: all(self.all_of),
                any_of: all(self.any_of),
                one_of: all(self.one_of),
                not: self.not.map(|not| Box::new(not.compile())),
            },
        }
    }
}
