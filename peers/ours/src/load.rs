//! The objects that servers are filled with, and their API paths.

use serde_json::Value;

use crate::arguments::Arguments;
use crate::{Outcome, pods, secrets, varied, widgets};

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Ten replicas of each template.
    Pods,
    /// Each from its own template.
    VariedPods,
    Secrets,
    /// Custom resources.
    Widgets,
}

impl Load {
    /// The load that the option `--objects` names.
    pub(crate) fn of(arguments: &Arguments) -> Outcome<Self> {
        match arguments.text("--objects") {
            None | Some("pods") => Ok(Self::Pods),
            Some("varied-pods") => Ok(Self::VariedPods),
            Some("secrets") => Ok(Self::Secrets),
            Some("widgets") => Ok(Self::Widgets),
            Some(other) => Err(format!("unknown load {other:?}").into()),
        }
    }

    /// The object with a number. It is the same in every run.
    pub(crate) fn object(self, number: u64, namespaces: u64) -> Value {
        match self {
            Self::Pods => pods::pod(number, namespaces),
            Self::VariedPods => varied::pod(number, namespaces),
            Self::Secrets => secrets::secret(number, namespaces),
            Self::Widgets => widgets::widget(number, namespaces),
        }
    }

    /// Group, version and plural name.
    pub(crate) fn resource(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Pods | Self::VariedPods => ("", "v1", "pods"),
            Self::Secrets => ("", "v1", "secrets"),
            Self::Widgets => (widgets::GROUP, widgets::VERSION, widgets::PLURAL),
        }
    }

    /// The API path up to the namespaces.
    pub(crate) fn root(self) -> String {
        match self.resource() {
            ("", version, _) => format!("/api/{version}"),
            (group, version, _) => format!("/apis/{group}/{version}"),
        }
    }

    /// Whether a second writer, such as a kubelet, writes a status.
    pub(crate) fn has_status(self) -> bool {
        self != Self::Secrets
    }
}
