//! The three patch types of the Kubernetes API, as pure functions over JSON values.
//!
//! Each takes the current object and the request body and returns the new object; admission, defaults, validation and
//! storage follow elsewhere. They differ in the meaning of an absent member, a `null` and a list, and in the response
//! to a patch that does not apply: [`PatchError::code`] is the status that a kube-apiserver uses.

mod json;
mod merge;
mod order;
mod strategic;
#[cfg(test)]
mod strategic_tests;

pub use json::{PatchOperation, json_patch};
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

/// Maximum nesting of a patched object. Equals the JSON parser's limit, so a patched object can be parsed again and a
/// chain of operations cannot overflow the stack.
pub(crate) const DEPTH_MAX: usize = 128;

/// Why a patch failed. Its text is the `message` of the response, if the response has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The body is not a patch of its type; send a valid one.
    #[error("{0}")]
    Malformed(String),
    /// A `test` operation of a JSON patch failed; read the object again before retrying.
    #[error("testing value {path} failed")]
    TestFailed {
        /// The JSON pointer that was tested.
        path: String,
    },
    /// The patch does not apply to the object; check the object and correct the patch.
    #[error("{0}")]
    DoesNotApply(String),
    /// The patch, or the patched object, exceeds a limit; send a smaller patch.
    #[error("{0}")]
    TooLarge(String),
    /// A strategic merge patch contradicts the object's type; correct the patch.
    #[error("{0}")]
    Contradicts(String),
}

impl PatchError {
    /// The HTTP status code that a kube-apiserver returns.
    ///
    /// For 422 it hides the reason: the message is always the same, see [`PatchError::message`].
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TestFailed { .. } | Self::DoesNotApply(_) => 422,
            Self::TooLarge(_) => 413,
            Self::Contradicts(_) => 500,
        }
    }

    /// The `message` of the Status that a kube-apiserver returns.
    pub fn message(&self) -> String {
        match self {
            Self::TestFailed { .. } | Self::DoesNotApply(_) => {
                "the server rejected our request due to an error in our request".to_owned()
            }
            _ => self.to_string(),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Values for property tests.

    use proptest::prelude::*;
    use serde_json::Value;

    /// Any JSON value of modest size without null members (which a merge patch cannot express).
    pub(crate) fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (-3i64..3).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }
}
