//! The lists and watches that the server answers. The oracle derives from them which rollbacks a client cannot notice.

use std::collections::BTreeSet;

use http::{Method, Request, Uri};
use kube_informer_oracle::{History, Selection, Trust};

/// A list, or a watch that resumes, that the server has answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// The plural of the kind.
    pub(crate) resource: String,
    /// The namespace; empty for all.
    scope: String,
    /// The resourceVersion at which a watch resumes, or a cached state is verified; `None` for a list and for a watch-list.
    resumed_at: Option<u64>,
    /// Not the first page of a list.
    is_later_page: bool,
}

impl Served {
    /// Returns `None` for every other request. A read of one object at an exact version verifies the cached state.
    pub(crate) fn of<B>(request: &Request<B>) -> Option<Self> {
        let uri = request.uri();
        let segments = uri.path().trim_start_matches('/').split('/').collect::<Vec<_>>();
        let (scope, resource) = match segments[..] {
            ["api", "v1", resource] => ("", resource),
            ["api", "v1", "namespaces", namespace, resource] => (namespace, resource),
            _ => return None,
        };
        let is_watch = parameter(uri, "watch").is_some();
        let is_list = match is_watch {
            true => parameter(uri, "sendInitialEvents").is_some(),
            false => parameter(uri, "resourceVersionMatch").or(parameter(uri, "continue")).is_none(),
        };
        let resumed_at = parameter(uri, "resourceVersion").and_then(|version| version.parse().ok());
        let is_verification = parameter(uri, "resourceVersionMatch") == Some("Exact");
        let resumed_at = resumed_at.filter(|_| is_watch && !is_list || is_verification);
        let is_later_page = parameter(uri, "continue").is_some();
        let is_served = request.method() == Method::GET && (is_list || is_later_page || resumed_at.is_some());
        let (resource, scope) = (resource.to_owned(), scope.to_owned());
        is_served.then_some(Self { resource, scope, resumed_at, is_later_page })
    }

    /// Passes it to the oracle. Returns the keys that the oracle excuses from now on.
    pub(crate) fn record(
        &self,
        trust: &mut Trust,
        selection: &Selection,
        history: &History,
    ) -> BTreeSet<String> {
        if self.resumed_at.is_some() || self.is_later_page {
            return trust.resumed(&self.scope, self.resumed_at, selection, history);
        }
        trust.listed(&self.scope, history);
        BTreeSet::new()
    }
}

fn parameter<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let mut pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_resumed_watches_are_recognised() {
        let served = |uri: &str| {
            let request = Request::get(uri).body(()).unwrap();
            let read =
                |served: Served| (served.resource, served.scope, served.resumed_at, served.is_later_page);
            Served::of(&request).map(read)
        };
        let list = |resource: &str, scope: &str| Some((resource.to_owned(), scope.to_owned(), None, false));
        let resumed = Some(("configmaps".to_owned(), String::new(), Some(7), false));
        for (uri, expected) in [
            ("/api/v1/configmaps?resourceVersion=0&limit=3", list("configmaps", "")),
            ("/api/v1/namespaces/blue/secrets", list("secrets", "blue")),
            ("/api/v1/configmaps?watch=1&sendInitialEvents=true", list("configmaps", "")),
            ("/api/v1/configmaps?watch=1&resourceVersion=7", resumed.clone()),
            ("/api/v1/configmaps?limit=3&continue=x", Some(("configmaps".into(), "".into(), None, true))),
            ("/api/v1/configmaps?resourceVersion=7&resourceVersionMatch=Exact&limit=1", resumed),
            ("/api/v1/configmaps?resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=1", None),
            ("/api/v1/namespaces/blue/secrets/a", None),
        ] {
            assert_eq!(served(uri), expected, "{uri}");
        }
    }
}
