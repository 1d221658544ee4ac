//! `--for`: the condition that `wait` and `watch` wait for.

mod tracker;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::discovery::Selected;
use crate::failure::Failure;
use crate::masks;
use crate::output::jsonpath::Path;

pub(crate) use tracker::Tracker;

/// A condition of one object, in kubectl's syntax.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    /// `create`: the object exists.
    Created,
    /// `delete`: the object does not exist.
    Deleted,
    /// `condition=Ready`, `condition=Ready=False`: an entry of `status.conditions` has this status.
    Status { name: String, status: String },
    /// `jsonpath={.status.phase}=Running`, or without a value: the field is present.
    Field { path: Path, text: String, value: Option<String> },
}

const HELP: &str = "use condition=NAME[=STATUS], jsonpath={.PATH}[=VALUE], create or delete";

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "create" => Ok(Self::Created),
            None if text == "delete" => Ok(Self::Deleted),
            Some(("condition", condition)) => {
                let (name, status) = condition.split_once('=').unwrap_or((condition, "true"));
                if name.is_empty() {
                    return Err(HELP.to_owned());
                }
                Ok(Self::Status { name: name.to_owned(), status: status.to_owned() })
            }
            Some(("jsonpath", test)) => {
                // The value follows the brace that closes the path.
                let end = test.rfind('}').map_or_else(|| test.find('=').unwrap_or(test.len()), |at| at + 1);
                let (path, value) = test.split_at(end);
                let value = match value.strip_prefix('=') {
                    Some(value) => Some(value.trim_matches(['\'', '"']).to_owned()),
                    None if value.is_empty() => None,
                    None => return Err(HELP.to_owned()),
                };
                let parsed = Path::parse(path).map_err(|error| format!("invalid path {path}: {error}"))?;
                Ok(Self::Field { path: parsed, text: path.to_owned(), value })
            }
            _ => Err(HELP.to_owned()),
        }
    }
}

impl Condition {
    /// Whether an existing object meets the condition.
    pub(crate) fn holds(&self, object: &Value) -> bool {
        match self {
            Self::Created => true,
            Self::Deleted => false,
            Self::Status { name, status } => {
                let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
                let named = |condition: &&Value| same(&condition["type"], name);
                conditions.clone().find(named).is_some_and(|condition| {
                    same(&condition["status"], status) && is_current(object, condition)
                })
            }
            Self::Field { path, value, .. } => match value {
                Some(value) => path.texts(object).iter().any(|text| text == value),
                None => !path.texts(object).is_empty(),
            },
        }
    }

    /// A masked field is not read to confirm a guess.
    pub(crate) fn check_masked(&self, selected: &[Selected], show_secrets: bool) -> Result<(), Failure> {
        let Self::Field { path, text, .. } = self else { return Ok(()) };
        let has_secrets = selected.iter().any(|one| masks::are_secrets(&one.kind.resource));
        let is_masked = path.field_path().is_none_or(|path| masks::hides_field(&path.to_string()));
        if has_secrets && is_masked && !show_secrets {
            return Err(Failure::Usage(format!("--for jsonpath={text}: the values of Secrets are masked")));
        }
        Ok(())
    }
}

/// `pods/web to be deleted`
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => f.write_str("to be created"),
            Self::Deleted => f.write_str("to be deleted"),
            Self::Status { name, status } => write!(f, "to have condition {name}={status}"),
            Self::Field { text, value: Some(value), .. } => write!(f, "to have {text}={value}"),
            Self::Field { text, value: None, .. } => write!(f, "to have {text}"),
        }
    }
}

/// kubectl ignores the case of conditions.
fn same(found: &Value, expected: &str) -> bool {
    found.as_str().is_some_and(|found| found.eq_ignore_ascii_case(expected))
}

/// Whether a condition was computed for the current spec, as far as it says so.
fn is_current(object: &Value, condition: &Value) -> bool {
    let observed =
        condition["observedGeneration"].as_i64().or(object["status"]["observedGeneration"].as_i64());
    match (observed, object["metadata"]["generation"].as_i64()) {
        (Some(observed), Some(generation)) => observed >= generation,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_match_kubectl() {
        let object = json!({"metadata": {"generation": 2}, "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True"}, {"type": "Old", "status": "True", "observedGeneration": 1},
            {"type": "Disk", "status": "False", "observedGeneration": 2}]}});
        for (condition, holds) in [
            ("condition=Ready", true),
            ("condition=ready=true", true),
            ("condition=Ready=False", false),
            ("condition=Disk=False", true),
            ("condition=Old", false),
            ("condition=Missing", false),
            ("jsonpath={.status.phase}=Running", true),
            ("jsonpath={.status.phase}='Running'", true),
            ("jsonpath=.status.phase=Pending", false),
            ("jsonpath={.status.conditions[?(@.type==\"Disk\")].status}=False", true),
            ("jsonpath={.status.phase}", true),
            ("jsonpath={.status.reason}", false),
            ("create", true),
            ("delete", false),
        ] {
            assert_eq!(condition.parse::<Condition>().unwrap().holds(&object), holds, "{condition}");
        }
    }

    #[test]
    fn invalid_conditions_are_rejected_with_the_syntax() {
        for text in ["", "ready", "condition=", "jsonpath={.a}x", "jsonpath={.a[}", "delete=now"] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains("condition=NAME") || error.contains("invalid path"), "{text}: {error}");
        }
    }
}
