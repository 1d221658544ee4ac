//! Versions: their names, the storage version, and each version's schema, subresources, columns and selectable fields.
//!
//! A kube-apiserver moves settings that are equal in all versions to the top level before it validates. Errors in them
//! therefore name `spec.validation` instead of `spec.versions[0].schema`.

use serde_json::{Value, json};

use super::{FieldError, dns_1035_label, label, schema};
use crate::crd::{
    JsonType, Scale,
    invalid::Reason,
    raw::{RawColumn, RawSelectableField, RawSpec, RawSubresources, RawVersion},
    structural::Props,
};

const SELECTABLE_FIELDS_MAX: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 9] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password", ""];

pub(super) fn versions(spec: &RawSpec, errors: &mut Vec<FieldError>) {
    let versions = &spec.versions;
    let at = |index: usize| format!("spec.versions[{index}]");
    for (index, version) in versions.iter().enumerate() {
        if props(version).is_none() {
            errors.push(FieldError::required(format!("{}.schema.openAPIV3Schema", at(index)), ""));
        }
        label(format!("{}.name", at(index)), &version.name, errors);
        if version.deprecation_warning.is_some() && !version.deprecated {
            let warning = version.deprecation_warning.as_deref().unwrap_or_default();
            let what = "can only be set for deprecated versions";
            errors.push(FieldError::invalid(format!("{}.deprecationWarning", at(index)), warning, what));
        }
    }
    let shown = || json!(versions.iter().map(|version| &version.name).collect::<Vec<_>>());
    let repeated =
        |(index, version): (usize, &RawVersion)| versions[..index].iter().any(|v| v.name == version.name);
    if versions.iter().enumerate().any(repeated) {
        errors.push(FieldError::invalid("spec.versions", shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version.storage).count() != 1 {
        let what = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", shown(), what));
    }
    if let Some(what) = versions.first().and_then(|first| dns_1035_label(&first.name)) {
        errors.push(FieldError::invalid("spec.version", versions[0].name.as_str(), what));
    }

    let any_status = versions.iter().any(has_status);
    each(versions, |v| v.schema.as_ref(), "schema", "spec.validation", &mut |path, version| {
        let Some(props) = props(version) else { return };
        let status = if path == "spec.validation" { any_status } else { has_status(version) };
        root(&format!("{path}.openAPIV3Schema"), props, status, errors);
    });
    each(versions, |v| v.subresources.as_ref(), "subresources", "spec.subresources", &mut |path, version| {
        let subresources = version.subresources.clone().unwrap_or_default();
        scale(&path, &subresources, errors);
    });
    let columns = |v: &'_ RawVersion| Some(v.additional_printer_columns.clone());
    each(
        versions,
        columns,
        "additionalPrinterColumns",
        "spec.additionalPrinterColumns",
        &mut |path, version| {
            for (index, column) in version.additional_printer_columns.iter().enumerate() {
                printer_column(&format!("{path}[{index}]"), column, errors);
            }
        },
    );
    let fields = |v: &'_ RawVersion| Some(v.selectable_fields.clone());
    each(versions, fields, "selectableFields", "spec.selectableFields", &mut |path, version| {
        selectable_fields(&path, &version.selectable_fields, props(version), errors);
    });
}

/// Checks each version's setting, or the common one once if all versions have the same.
fn each<'a, T: PartialEq>(
    versions: &'a [RawVersion],
    part: impl Fn(&'a RawVersion) -> T,
    name: &str,
    top: &str,
    look: &mut dyn FnMut(String, &'a RawVersion),
) {
    let Some(first) = versions.first() else { return };
    if versions.iter().all(|version| part(version) == part(first)) {
        look(top.to_owned(), first);
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        look(format!("spec.versions[{index}].{name}"), version);
    }
}

fn props(version: &RawVersion) -> Option<&Props> {
    version.schema.as_ref()?.schema.as_ref()
}

fn has_status(version: &RawVersion) -> bool {
    version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
}

fn root(path: &str, props: &Props, status: bool, errors: &mut Vec<FieldError>) {
    // With a status subresource, the status is validated separately: constraints on both would be lost.
    let Props { any_of, one_of, all_of, not, one_of_values, max_properties, min_properties, .. } = props;
    let lost = [any_of, one_of, all_of].iter().any(|list| !list.is_empty())
        || not.is_some()
        || one_of_values.is_some()
        || max_properties.is_some()
        || min_properties.is_some()
        || props.additional_properties.is_some();
    if status && lost {
        let allowed = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                       MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                       ExternalDocs Example XPreserveUnknownFields XValidations]";
        let what = format!(
            "only {allowed} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.push(FieldError::invalid(path, Value::Null, what));
    }
    if props.nullable {
        errors.push(FieldError::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    schema(path, props, errors);
}

fn scale(path: &str, subresources: &RawSubresources, errors: &mut Vec<FieldError>) {
    let Some(Scale { spec_replicas_path, status_replicas_path, label_selector_path }) = &subresources.scale
    else {
        return;
    };
    for (field, value, root) in [
        ("specReplicasPath", spec_replicas_path, ".spec"),
        ("statusReplicasPath", status_replicas_path, ".status"),
    ] {
        let path = format!("{path}.scale.{field}");
        if value.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !value.starts_with('.') {
            let what = "must be a simple json path starting with .";
            errors.push(FieldError::invalid(path, value.as_str(), what));
        } else if !value.starts_with(&format!("{root}.")) {
            let what = format!("should be a json path under {root}");
            errors.push(FieldError::invalid(path, value.as_str(), what));
        }
    }
    if let Some(value) = label_selector_path.as_deref().filter(|value| !value.is_empty()) {
        let path = format!("{path}.scale.labelSelectorPath");
        if !value.starts_with('.') {
            errors.push(FieldError::invalid(path, value, "must be a simple json path starting with ."));
        } else if !value.starts_with(".spec.") && !value.starts_with(".status.") {
            let what = "should be a json path under either .spec or .status";
            errors.push(FieldError::invalid(path, value, what));
        }
    }
}

fn printer_column(path: &str, column: &RawColumn, errors: &mut Vec<FieldError>) {
    if column.name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    if column.ty.is_empty() {
        errors.push(FieldError::required(format!("{path}.type"), types));
    } else if !COLUMN_TYPES.contains(&column.ty.as_str()) {
        errors.push(FieldError::invalid(format!("{path}.type"), column.ty.as_str(), types));
    }
    if !COLUMN_FORMATS.contains(&column.format.as_str()) {
        let formats = format!("must be one of {}", COLUMN_FORMATS[..COLUMN_FORMATS.len() - 1].join(","));
        errors.push(FieldError::invalid(format!("{path}.format"), column.format.as_str(), formats));
    }
    if column.json_path.is_empty() {
        errors.push(FieldError::required(format!("{path}.JSONPath"), ""));
    } else if !column.json_path.starts_with('.') {
        let what = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(format!("{path}.JSONPath"), column.json_path.as_str(), what));
    }
}

fn selectable_fields(
    path: &str,
    fields: &[RawSelectableField],
    props: Option<&Props>,
    errors: &mut Vec<FieldError>,
) {
    if fields.is_empty() {
        return;
    }
    let Some(props) = props else {
        let what = "may only be set when `version.schema.openAPIV3Schema` is not included";
        errors.push(FieldError::invalid(path, "", what));
        return;
    };
    let compiled = props.clone().compile();
    let mut seen: Vec<&str> = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let (path, value) = (format!("{path}[{index}].jsonPath"), field.json_path.as_str());
        if value.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let steps = value.strip_prefix('.').map(|rest| rest.split('.'));
        let Some(found) = steps.and_then(|steps| compiled.at(steps)) else {
            let what = "is an invalid path: does not refer to a valid field";
            errors.push(FieldError::invalid(path, value, what));
            continue;
        };
        if value.starts_with(".metadata") {
            let what = "must not point to fields in metadata";
            errors.push(FieldError::invalid(path.clone(), value, what));
        }
        if !matches!(found.ty, JsonType::String | JsonType::Boolean | JsonType::Integer) {
            let what = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                        with formats are allowed.";
            errors.push(FieldError::invalid(path.clone(), value, what));
        }
        if seen.contains(&value) {
            errors.push(FieldError::new(Reason::Duplicate, path, value.into(), ""));
        } else {
            seen.push(value);
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX {
        errors.push(FieldError::too_many(path, seen.len() as u64, SELECTABLE_FIELDS_MAX as u64));
    }
}
