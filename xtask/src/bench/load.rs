//! What servers are filled with, by the names that all programs know.

/// A sort of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Ten replicas of each template.
    Pods,
    /// No two from the same template: labels, containers and variables of their own.
    VariedPods,
    /// Random data, which does not compress.
    Secrets,
    /// Custom resources, in JSON for everybody.
    Widgets,
}

impl Load {
    /// As it is named in titles.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::VariedPods => "distinct pods",
            Self::Secrets => "Secrets",
            Self::Widgets => "custom resources",
        }
    }

    /// As it is named on command lines, and in the names of scenarios.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::VariedPods => "varied-pods",
            Self::Secrets => "secrets",
            Self::Widgets => "widgets",
        }
    }

    /// The options of a program that is about it.
    pub(super) fn options(self) -> Vec<&'static str> {
        if self == Self::Pods { Vec::new() } else { vec!["--objects", self.name()] }
    }
}
