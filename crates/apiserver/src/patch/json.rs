//! JSON patch (RFC 6902): a list of operations on paths in the document.
//!
//! As lenient as a kube-apiserver, which accepts more than the RFC: a negative index counts from the end of a list,
//! and replacing or copying an absent member of an object is not an error. A patch has at most 10,000 operations, and
//! the total size added by `copy` is limited, because each copy can double the document.

use serde::Deserialize;
use serde_json::Value;

use super::{DEPTH_MAX, PatchError};

/// Maximum number of operations in a patch.
const OPERATIONS_MAX: usize = 10_000;
/// Maximum size that all `copy` operations of a patch may add, in bytes of JSON.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// One operation of a JSON patch. Paths are JSON pointers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOperation {
    /// Sets a member, or inserts into a list (`-` appends).
    Add {
        /// The target.
        path: String,
        /// The value; `null` if absent.
        #[serde(default)]
        value: Value,
    },
    /// Removes a value.
    Remove {
        /// The target.
        path: String,
    },
    /// Replaces a value.
    Replace {
        /// The target.
        path: String,
        /// The new value; `null` if absent.
        #[serde(default)]
        value: Value,
    },
    /// Moves a value.
    Move {
        /// The source.
        from: String,
        /// The target.
        path: String,
    },
    /// Copies a value.
    Copy {
        /// The source.
        from: String,
        /// The target.
        path: String,
    },
    /// Fails the whole patch unless the target has this value.
    Test {
        /// The target.
        path: String,
        /// The expected value; `null` if absent, which also matches an absent target.
        #[serde(default)]
        value: Value,
    },
}

/// Applies a JSON patch and returns the new document; never modifies `document`.
///
/// # Errors
///
/// [`PatchError::Malformed`] for a body that is not a list, [`PatchError::TestFailed`] for a failed `test`,
/// [`PatchError::TooLarge`] for too many operations, [`PatchError::DoesNotApply`] for everything else.
///
/// ```
/// # use embedded_apiserver::internals::patch::json_patch;
/// # use serde_json::json;
/// let old = json!({"metadata": {"finalizers": ["a", "b"]}});
/// let patch = json!([{"op": "test", "path": "/metadata/finalizers/0", "value": "a"},
///                    {"op": "remove", "path": "/metadata/finalizers/0"}]);
/// assert_eq!(json_patch(&old, &patch)?, json!({"metadata": {"finalizers": ["b"]}}));
/// # Ok::<(), embedded_apiserver::internals::patch::PatchError>(())
/// ```
pub fn json_patch(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Array(operations) = patch else {
        return Err(PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            go_kind(patch)
        )));
    };
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let mut document = document.clone();
    let mut copied = 0;
    for operation in operations {
        let operation = PatchOperation::deserialize(operation)
            .map_err(|error| PatchError::DoesNotApply(format!("invalid operation {operation}: {error}")))?;
        perform(&mut document, operation, &mut copied)?;
    }
    Ok(document)
}

fn perform(document: &mut Value, operation: PatchOperation, copied: &mut usize) -> Result<(), PatchError> {
    match operation {
        PatchOperation::Add { path, value } => add(document, &path, value),
        PatchOperation::Remove { path } => remove(document, &path).map(drop),
        PatchOperation::Replace { path, value } => {
            check_depth(&path, &value)?;
            match split(&path)? {
                Some((parent, last)) if find(document, parent).is_some_and(Value::is_object) => {
                    find_mut(document, parent)?[unescape(last)] = value;
                }
                _ => *find_mut(document, &path)? = value,
            }
            Ok(())
        }
        PatchOperation::Move { from, path } => {
            if path.strip_prefix(&from).is_some_and(|rest| rest.starts_with('/')) {
                return Err(PatchError::DoesNotApply(format!("cannot move {from} into itself at {path}")));
            }
            let value = remove(document, &from)?;
            add(document, &path, value)
        }
        PatchOperation::Copy { from, path } => {
            let value = match (find(document, &from), split(&from)?) {
                (Some(value), _) => value.clone(),
                (None, Some((parent, _))) if find(document, parent).is_some_and(Value::is_object) => {
                    Value::Null
                }
                (None, _) => return Err(missing(&from)),
            };
            *copied += size(&value);
            if *copied > COPIED_BYTES_MAX {
                return Err(PatchError::DoesNotApply(format!(
                    "cannot copy {from}: the copies of the patch exceed {COPIED_BYTES_MAX} bytes"
                )));
            }
            add(document, &path, value)
        }
        PatchOperation::Test { path, value } => {
            if find(document, &path).unwrap_or(&Value::Null) == &value {
                Ok(())
            } else {
                Err(PatchError::TestFailed { path })
            }
        }
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    check_depth(path, &value)?;
    let Some((parent, last)) = split(path)? else {
        *document = value;
        return Ok(());
    };
    match find_mut(document, parent)? {
        Value::Object(object) => {
            object.insert(unescape(last), value);
            Ok(())
        }
        Value::Array(list) if last == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => {
            // A new element may be appended: one more position than there are elements.
            let at = index(last, list.len() + 1).ok_or_else(|| missing(path))?;
            list.insert(at, value);
            Ok(())
        }
        _ => Err(missing(path)),
    }
}

fn remove(document: &mut Value, path: &str) -> Result<Value, PatchError> {
    let Some((parent, last)) = split(path)? else {
        return Ok(document.take());
    };
    match find_mut(document, parent)? {
        Value::Object(object) => object.remove(&unescape(last)).ok_or_else(|| missing(path)),
        Value::Array(list) => {
            let at = index(last, list.len()).ok_or_else(|| missing(path))?;
            Ok(list.remove(at))
        }
        _ => Err(missing(path)),
    }
}

fn find<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    tokens(path).ok()?.try_fold(document, |value, token| match value {
        Value::Object(object) => object.get(&unescape(token)),
        Value::Array(list) => list.get(index(token, list.len())?),
        _ => None,
    })
}

fn find_mut<'a>(document: &'a mut Value, path: &str) -> Result<&'a mut Value, PatchError> {
    tokens(path)?
        .try_fold(document, |value, token| match value {
            Value::Object(object) => object.get_mut(&unescape(token)),
            Value::Array(list) => {
                let at = index(token, list.len())?;
                list.get_mut(at)
            }
            _ => None,
        })
        .ok_or_else(|| missing(path))
}

fn tokens(path: &str) -> Result<impl Iterator<Item = &str>, PatchError> {
    if !path.is_empty() && !path.starts_with('/') {
        return Err(missing(path));
    }
    Ok(path.split('/').skip(1))
}

/// The parent's pointer and the last token; `None` for the whole document.
fn split(path: &str) -> Result<Option<(&str, &str)>, PatchError> {
    match path.rsplit_once('/') {
        Some((parent, last)) => Ok(Some((parent, last))),
        None if path.is_empty() => Ok(None),
        None => Err(missing(path)),
    }
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn index(token: &str, places: usize) -> Option<usize> {
    let at = token.parse::<i64>().ok()?;
    let at = if at < 0 { i64::try_from(places).ok()?.checked_add(at)? } else { at };
    usize::try_from(at).ok().filter(|&at| at < places)
}

fn missing(path: &str) -> PatchError {
    PatchError::DoesNotApply(format!("no value at {path:?}; read the object again and correct the path"))
}

fn check_depth(path: &str, value: &Value) -> Result<(), PatchError> {
    if path.split('/').count() + depth(value) > DEPTH_MAX {
        return Err(PatchError::DoesNotApply(format!(
            "value at {path:?} nests deeper than {DEPTH_MAX} levels"
        )));
    }
    Ok(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The approximate size of the value as JSON, in bytes.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(list) => 2 + list.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(object) => {
            2 + object.iter().map(|(name, item)| name.len() + 4 + size(item)).sum::<usize>()
        }
    }
}

pub(super) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::patch::testing::json_value;

    #[test]
    fn operations_follow_the_rfc() {
        let cases = [
            (
                json!({"foo": "bar"}),
                json!([{"op": "add", "path": "/baz", "value": "qux"}]),
                json!({"foo": "bar", "baz": "qux"}),
            ),
            (
                json!({"foo": ["bar", "baz"]}),
                json!([{"op": "add", "path": "/foo/1", "value": "qux"}]),
                json!({"foo": ["bar", "qux", "baz"]}),
            ),
            (
                json!({"foo": ["bar"]}),
                json!([{"op": "add", "path": "/foo/1", "value": "end"}]),
                json!({"foo": ["bar", "end"]}),
            ),
            (
                json!({"foo": ["bar"]}),
                json!([{"op": "add", "path": "/foo/-", "value": ["abc"]}]),
                json!({"foo": ["bar", ["abc"]]}),
            ),
            (
                json!({"foo": ["bar"]}),
                json!([{"op": "add", "path": "/foo/-1", "value": "end"}]),
                json!({"foo": ["bar", "end"]}),
            ),
            (json!({"foo": null}), json!([{"op": "add", "path": "/foo", "value": 1}]), json!({"foo": 1})),
            (
                json!({"baz": "qux", "foo": "bar"}),
                json!([{"op": "remove", "path": "/baz"}]),
                json!({"foo": "bar"}),
            ),
            (json!({"foo": [1, 2, 3]}), json!([{"op": "remove", "path": "/foo/1"}]), json!({"foo": [1, 3]})),
            (json!({"foo": [1, 2, 3]}), json!([{"op": "remove", "path": "/foo/-1"}]), json!({"foo": [1, 2]})),
            (
                json!({"baz": "qux"}),
                json!([{"op": "replace", "path": "/baz", "value": "boo"}]),
                json!({"baz": "boo"}),
            ),
            (
                json!({"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}}),
                json!([{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}]),
                json!({"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}}),
            ),
            (
                json!({"foo": ["all", "grass", "cows", "eat"]}),
                json!([{"op": "move", "from": "/foo/1", "path": "/foo/3"}]),
                json!({"foo": ["all", "cows", "eat", "grass"]}),
            ),
            (
                json!({"a": {"b": 1}}),
                json!([{"op": "copy", "from": "/a", "path": "/c"}]),
                json!({"a": {"b": 1}, "c": {"b": 1}}),
            ),
            (
                json!({"/": 9, "~1": 10}),
                json!([{"op": "test", "path": "/~01", "value": 10},
                                               {"op": "test", "path": "/~1", "value": 9}]),
                json!({"/": 9, "~1": 10}),
            ),
            (
                json!({"a": 1}),
                json!([{"op": "test", "path": "/b", "value": null}, {"op": "test", "path": "/b"}]),
                json!({"a": 1}),
            ),
            (json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {"b": 2}}]), json!({"b": 2})),
            (
                json!({"a": 1}),
                json!([{"op": "add", "path": "/b", "value": null, "extra": true}]),
                json!({"a": 1, "b": null}),
            ),
            (json!({"a": 1}), json!([{"op": "replace", "path": "/b", "value": 2}]), json!({"a": 1, "b": 2})),
            (
                json!({"a": 1}),
                json!([{"op": "copy", "from": "/c", "path": "/b"}]),
                json!({"a": 1, "b": null}),
            ),
            (json!({"a": 1}), json!([{"op": "add", "path": "/b"}]), json!({"a": 1, "b": null})),
            (json!({"a": 1}), json!([]), json!({"a": 1})),
        ];
        for (document, patch, expected) in cases {
            assert_eq!(json_patch(&document, &patch), Ok(expected), "{patch} on {document}");
        }
    }

    #[test]
    fn invalid_operations_fail_the_patch() {
        let cases = [
            json!([{"op": "add", "path": "/none/x", "value": 1}]),
            json!([{"op": "add", "path": "/list/3", "value": 1}]),
            json!([{"op": "add", "path": "/list/-4", "value": 1}]),
            json!([{"op": "add", "path": "/list/x", "value": 1}]),
            json!([{"op": "add", "path": "a", "value": 1}]),
            json!([{"op": "add", "path": "/a/b", "value": 1}]),
            json!([{"op": "remove", "path": "/none"}]),
            json!([{"op": "remove", "path": "/list/2"}]),
            json!([{"op": "replace", "path": "/none/x", "value": 1}]),
            json!([{"op": "replace", "path": "/list/2", "value": 1}]),
            json!([{"op": "replace", "path": "/list/-", "value": 1}]),
            json!([{"op": "move", "from": "/none", "path": "/b"}]),
            json!([{"op": "move", "from": "/object", "path": "/object/in"}]),
            json!([{"op": "copy", "from": "/none/x", "path": "/b"}]),
            json!([{"op": "copy", "from": "/list/2", "path": "/b"}]),
            json!([{"op": "shake", "path": "/a"}]),
            json!([{"path": "/a"}]),
            json!([7]),
        ];
        for patch in cases {
            let document = json!({"a": 1, "list": [1, 2], "object": {}});
            let error = json_patch(&document, &patch).expect_err(&patch.to_string());
            assert!(matches!(error, PatchError::DoesNotApply(_)), "{patch}: {error:?}");
            assert_eq!(error.code(), 422);
        }
    }

    #[test]
    fn a_failed_test_has_its_own_error() {
        let error = json_patch(
            &json!({"data": {"m": "1"}}),
            &json!([{"op": "test", "path": "/data/m", "value": "2"}]),
        );
        let error = error.expect_err("it has another value");
        assert_eq!(error, PatchError::TestFailed { path: "/data/m".to_owned() });
        assert_eq!(error.message(), "the server rejected our request due to an error in our request");
    }

    #[test]
    fn a_body_that_is_not_a_list_is_malformed() {
        let error = json_patch(&json!({}), &json!({"op": "test"})).expect_err("no list");
        assert_eq!(error.code(), 400);
        let message = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
        assert_eq!(error.message(), message);
    }

    #[test]
    fn copies_cannot_grow_the_document_without_bound() {
        let doubling = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 40];
        let error = json_patch(&json!({"a": ["some text to double"]}), &Value::Array(doubling));
        assert!(matches!(error, Err(PatchError::DoesNotApply(_))), "{error:?}");
    }

    #[test]
    fn operations_cannot_nest_the_document_without_bound() {
        let deeper: Vec<_> =
            (0..500).map(|n| json!({"op": "add", "path": "/a".repeat(n + 1), "value": {}})).collect();
        let error = json_patch(&json!({}), &Value::Array(deeper));
        assert!(matches!(error, Err(PatchError::DoesNotApply(_))), "{error:?}");
    }

    #[test]
    fn too_many_operations_are_too_large() {
        let many = vec![json!({"op": "test", "path": "/a", "value": null}); OPERATIONS_MAX + 1];
        let error = json_patch(&json!({}), &Value::Array(many)).expect_err("too many");
        assert_eq!(error.code(), 413);
        assert_eq!(error.message(), "The allowed maximum operations in a JSON patch is 10000, got 10001");
    }

    proptest! {
        #[test]
        fn removing_an_added_value_restores_the_document(document in json_value(), value in json_value()) {
            let document = json!({"in": document});
            let added = json_patch(&document, &json!([{"op": "add", "path": "/new~1one", "value": value}])).unwrap();
            prop_assert_eq!(find(&added, "/new~1one"), Some(&value));
            let removed = json_patch(&added, &json!([{"op": "test", "path": "/new~1one", "value": value},
                                                 {"op": "remove", "path": "/new~1one"}])).unwrap();
            prop_assert_eq!(removed, document);
        }
    }
}
