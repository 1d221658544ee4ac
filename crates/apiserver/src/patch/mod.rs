//! The three patches of the Kubernetes API, as pure functions over JSON values.
//!
//! Each takes the object as it is and the body of the request and gives the object as it shall be; admission, defaults,
//! validation and storage come after and are not known here. They differ in what an absent member, a `null` and a list
//! mean, and in how a patch that does not fit is answered: [`PatchError::code`] says which status a kube-apiserver uses.

mod json;
mod merge;
mod order;
mod strategic;
#[cfg(test)]
mod strategic_tests;

pub use json::{PatchOperation, json_patch};
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

/// Nesting allowed in a patched object: what the JSON parser takes, so that a patched object can be read again and a
/// chain of operations cannot grow one that overflows the stack.
pub(crate) const DEPTH_MAX: usize = 128;

/// Why a patch could not be applied. The text is what the answer's `message` carries, where it carries one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The body is no patch of its kind; send one that is.
    #[error("{0}")]
    Malformed(String),
    /// A `test` operation of a JSON patch found another value; read the object again and decide anew.
    #[error("testing value {path} failed")]
    TestFailed {
        /// The JSON pointer that was tested.
        path: String,
    },
    /// The patch does not fit the object; look at the object and correct the patch.
    #[error("{0}")]
    DoesNotApply(String),
    /// The patch holds, or would make, more than the server takes; send a smaller one.
    #[error("{0}")]
    TooLarge(String),
    /// A strategic merge patch contradicts the object's type; correct the patch.
    #[error("{0}")]
    Contradicts(String),
}

impl PatchError {
    /// The HTTP status with which a kube-apiserver answers.
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

    /// The `message` of the Status with which a kube-apiserver answers.
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

    /// Any JSON value of modest size without null members (a merge patch cannot write those).
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
