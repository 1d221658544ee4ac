//! The objects that servers are filled with, by the names that all programs use.

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Ten replicas of each template.
    Pods,
    /// Each from its own template: labels, containers and variables differ.
    VariedPods,
    /// Random data, which does not compress.
    Secrets,
    /// Custom resources, which every client reads in JSON.
    Widgets,
}

impl Load {
    /// Its name in titles.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::VariedPods => "distinct pods",
            Self::Secrets => "Secrets",
            Self::Widgets => "custom resources",
        }
    }

    /// Its name on command lines and in the names of scenarios.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::VariedPods => "varied-pods",
            Self::Secrets => "secrets",
            Self::Widgets => "widgets",
        }
    }

    /// The options that select it.
    pub(super) fn options(self) -> Vec<&'static str> {
        if self == Self::Pods { Vec::new() } else { vec!["--objects", self.name()] }
    }
}
