//! The forms of a label selector that callers can pass: text, kube's `Selector`, or the `LabelSelector` of an object.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::Selector;
use serde_json::json;

/// A label selector, in one of its forms. It is validated where it is used.
#[doc(hidden)]
pub trait LabelQuery {
    /// The selector in the syntax of kubectl's `-l`. Invalid selectors have an invalid text.
    fn into_text(self) -> String;
}

impl LabelQuery for &str {
    fn into_text(self) -> String {
        self.to_owned()
    }
}

impl LabelQuery for &String {
    fn into_text(self) -> String {
        self.clone()
    }
}

impl LabelQuery for String {
    fn into_text(self) -> String {
        self
    }
}

impl LabelQuery for Cow<'_, str> {
    fn into_text(self) -> String {
        self.into_owned()
    }
}

impl LabelQuery for &Selector {
    fn into_text(self) -> String {
        self.to_string()
    }
}

impl LabelQuery for Selector {
    fn into_text(self) -> String {
        self.to_string()
    }
}

impl LabelQuery for LabelSelector {
    fn into_text(self) -> String {
        (&self).into_text()
    }
}

/// The selector of a Deployment, Service policy and the like. Without requirements it selects everything.
impl LabelQuery for &LabelSelector {
    fn into_text(self) -> String {
        kube_wire::LabelSelector::text_of(&json!(self))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn selector(selector: Value) -> LabelSelector {
        serde_json::from_value(selector).expect("a LabelSelector")
    }

    #[test]
    fn a_label_selector_of_an_object_becomes_text() {
        let full = selector(json!({
            "matchLabels": {"app": "web", "tier": "backend"},
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["a", "b"]},
                {"key": "env", "operator": "NotIn", "values": ["test"]},
                {"key": "owner", "operator": "Exists"},
                {"key": "legacy", "operator": "DoesNotExist"},
            ],
        }));
        let text = full.into_text();
        assert_eq!(text, "app=web,tier=backend,zone in (a,b),env notin (test),owner,!legacy");
        assert!(text.parse::<kube_wire::LabelSelector>().is_ok());
        assert_eq!(LabelSelector::default().into_text(), "");
    }

    #[test]
    fn an_invalid_label_selector_of_an_object_is_rejected_where_it_is_used() {
        for expression in [
            json!({"key": "zone", "operator": "Near", "values": ["a"]}),
            json!({"key": "zone", "operator": "In"}),
            json!({"key": "zone", "operator": "NotIn", "values": []}),
            json!({"key": "zone", "operator": "Exists", "values": ["a"]}),
        ] {
            let text = selector(json!({"matchExpressions": [expression]})).into_text();
            assert!(text.parse::<kube_wire::LabelSelector>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_selector_of_kube_becomes_text() {
        let kube = Selector::from_iter([("app", "web")]);
        assert_eq!(((&kube).into_text(), kube.into_text()), ("app=web".to_owned(), "app=web".to_owned()));
    }
}
