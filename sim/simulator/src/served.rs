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
    /// The resourceVersion at which a watch resumes; `None` for a list and for a watch-list.
    resumed_at: Option<u64>,
}

impl Served {
    /// Returns `None` for every other request. A read of one object that verifies the cached state is not a list.
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
        let resumed_at = resumed_at.filter(|_| is_watch && !is_list);
        let is_served = request.method() == Method::GET && (is_list || resumed_at.is_some());
        is_served.then(|| Self { resource: resource.to_owned(), scope: scope.to_owned(), resumed_at })
    }

    /// Passes it to the oracle. Returns the keys that the oracle excuses from now on.
    pub(crate) fn record(
        &self,
        trust: &mut Trust,
        selection: &Selection,
        history: &History,
    ) -> BTreeSet<String> {
        match self.resumed_at {
            Some(version) => trust.resumed(&self.scope, version, selection, history),
            None => {
                trust.listed(&self.scope, history);
                BTreeSet::new()
            }
        }
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
            Served::of(&request).map(|served| (served.resource, served.scope, served.resumed_at))
        };
        let list = |resource: &str, scope: &str| Some((resource.to_owned(), scope.to_owned(), None));
        for (uri, expected) in [
            ("/api/v1/configmaps?resourceVersion=0&limit=3", list("configmaps", "")),
            ("/api/v1/namespaces/blue/secrets", list("secrets", "blue")),
            ("/api/v1/configmaps?watch=1&sendInitialEvents=true", list("configmaps", "")),
            ("/api/v1/configmaps?watch=1&resourceVersion=7", Some(("configmaps".into(), "".into(), Some(7)))),
            ("/api/v1/configmaps?limit=3&continue=x", None),
            ("/api/v1/configmaps?resourceVersion=7&resourceVersionMatch=Exact&limit=1", None),
            ("/api/v1/namespaces/blue/secrets/a", None),
        ] {
            assert_eq!(served(uri), expected, "{uri}");
        }
    }
}
