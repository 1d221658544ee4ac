//! The supported releases of Kubernetes, from the same list as the schema table and the test vectors.

/// One release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Release {
    /// With its patch: `v1.37.1`.
    pub(crate) full: &'static str,
}

impl Release {
    /// Without its patch: `1.37`.
    pub(crate) fn minor(self) -> &'static str {
        let plain = self.full.trim_start_matches('v');
        plain.rsplit_once('.').map_or(plain, |(minor, _)| minor)
    }
}

/// All supported releases, oldest first.
pub(crate) fn releases() -> impl Iterator<Item = Release> {
    include_str!("../schema/releases.txt").split_whitespace().map(|full| Release { full })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_consecutive_minor_versions() {
        let minors: Vec<&str> = releases().map(Release::minor).collect();
        let expected: Vec<String> = (33..).take(minors.len()).map(|minor| format!("1.{minor}")).collect();
        assert_eq!(minors, expected);
    }

    #[test]
    fn the_newest_release_is_the_one_that_the_conformance_tests_run() {
        let go_mod = include_str!("../../conformance/go.mod");
        let newest = releases().last().expect("the list is not empty");
        assert!(go_mod.contains(&format!("\tk8s.io/kubernetes {}\n", newest.full)), "{newest:?}");
    }
}
