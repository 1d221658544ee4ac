//! The scopes of one informer as one status. With several namespaces, each is watched separately: the page shows the worst state
//! and the sum of the errors, so a back-off in one of them is visible.

use kube_informer::ScopeStatus;
use kube_informer::building_blocks::{ReflectorState, ReflectorStatus, Snapshot, compare_resource_versions};

use crate::mirror::Mirror;

/// One scope: all namespaces, or one of several.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchedScope<'a> {
    /// `None` if it is the only scope.
    pub(super) namespace: Option<&'a str>,
    pub(super) status: &'a ReflectorStatus,
}

/// The scopes of an informer. If there are several, each has the name of its namespace.
pub(super) fn watched(scopes: &[ScopeStatus]) -> Vec<WatchedScope<'_>> {
    let are_several = scopes.len() > 1;
    scopes
        .iter()
        .map(|scope| WatchedScope {
            namespace: scope.namespace.as_deref().filter(|_| are_several),
            status: scope.reflector(),
        })
        .collect()
}

/// The scope with the worst state; the first of several.
pub(super) fn worst<'a>(scopes: &[WatchedScope<'a>]) -> Option<WatchedScope<'a>> {
    scopes.iter().copied().rev().max_by_key(|scope| severity(&scope.status.state))
}

/// Whether a state is better than another one.
pub(super) fn is_better(state: &ReflectorState, other: &ReflectorState) -> bool {
    severity(state) < severity(other)
}

/// Broken watches and failed requests.
pub(super) fn errors(status: &ReflectorStatus) -> u64 {
    status.broken_watches + status.failed_watches + status.failed_lists
}

/// The resourceVersion up to which all objects of a mirror are complete: the oldest of its scopes.
pub(super) fn stored_version(mirror: &Mirror, snapshot: &Snapshot) -> String {
    let status = mirror.informer.status();
    oldest(status.iter().map(|scope| snapshot.resource_version(scope.scope))).to_owned()
}

/// The oldest of these resourceVersions; empty if one of them is empty, because its scope is not listed yet.
pub(super) fn oldest<'a>(versions: impl Iterator<Item = &'a str>) -> &'a str {
    let older = |a: &'a str, b: &'a str| match compare_resource_versions(a, b) {
        Some(order) if order.is_gt() => b,
        None if b.is_empty() => b,
        _ => a,
    };
    versions.reduce(older).unwrap_or_default()
}

fn severity(state: &ReflectorState) -> u8 {
    match state {
        ReflectorState::Watching => 0,
        ReflectorState::Opening => 1,
        ReflectorState::Streaming => 2,
        ReflectorState::Listing => 3,
        ReflectorState::Pending => 4,
        ReflectorState::Degraded { .. } => 6,
        ReflectorState::BackingOff { .. } => 7,
        ReflectorState::Stopped => 8,
        // A state that this program does not know.
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_scope_and_the_oldest_version_represent_an_informer() {
        let status = |state| {
            let mut status = ReflectorStatus::default();
            status.state = state;
            status
        };
        let all = [ReflectorState::Watching, ReflectorState::Listing, ReflectorState::Opening].map(status);
        let names = ["a", "b", "c"];
        let scopes: Vec<_> = names
            .iter()
            .zip(&all)
            .map(|(name, status)| WatchedScope { namespace: Some(name), status })
            .collect();
        assert_eq!(worst(&scopes).unwrap().namespace, Some("b"));
        assert_eq!(worst(&[scopes[0], scopes[0]]).unwrap().namespace, Some("a"));
        assert!(worst(&[]).is_none());
        assert_eq!(oldest(["100", "99", "101"].into_iter()), "99");
        assert_eq!(oldest(["100", "", "101"].into_iter()), "");
        assert_eq!(oldest([].into_iter()), "");
    }
}
