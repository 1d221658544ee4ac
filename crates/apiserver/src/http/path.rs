//! Request paths: resource, object and subresource.

use percent_encoding::percent_decode_str;

/// A parsed request path of the resource API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ApiPath {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    /// Empty for the collection.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// The deprecated form `/api/v1/watch/…`.
    pub(crate) watch: bool,
}

impl ApiPath {
    /// Parses `/api/v1/…` and `/apis/group/version/…`; `None` for everything else.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.trim_end_matches('/').split('/').collect();
        if parts.contains(&"") {
            return None;
        }
        let mut parts = parts.into_iter();
        let mut next = || parts.next().map(decode);
        let mut parsed = Self::default();
        match next()?.as_str() {
            "api" => {}
            "apis" => parsed.group = next()?,
            _ => return None,
        }
        parsed.version = next()?;
        let mut first = next()?;
        if first == "watch" {
            parsed.watch = true;
            first = next()?;
        }
        let rest: Vec<String> = std::iter::from_fn(&mut next).collect();
        let mut rest = rest.into_iter();
        // `namespaces/x/pods` refers to pods; `namespaces/x` and its two subresources refer to the namespace.
        let within = first == "namespaces" && rest.len() >= 2 && {
            let second = rest.as_slice()[1].as_str();
            !(parsed.group.is_empty() && rest.len() == 2 && matches!(second, "status" | "finalize"))
        };
        if within {
            parsed.namespace = rest.next()?;
            parsed.resource = rest.next()?;
        } else {
            parsed.resource = first;
        }
        parsed.name = rest.next().unwrap_or_default();
        // `proxy` accepts any path after it.
        parsed.subresource = rest.next().unwrap_or_default();
        if rest.next().is_some() && parsed.subresource != "proxy" {
            return None;
        }
        Some(parsed)
    }
}

fn decode(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed() {
        let cases = [
            ("/api/v1/pods", ["", "v1", "", "pods", "", ""]),
            ("/api/v1/namespaces", ["", "v1", "", "namespaces", "", ""]),
            ("/api/v1/namespaces/a", ["", "v1", "", "namespaces", "a", ""]),
            ("/api/v1/namespaces/a/status", ["", "v1", "", "namespaces", "a", "status"]),
            ("/api/v1/namespaces/a/finalize", ["", "v1", "", "namespaces", "a", "finalize"]),
            ("/api/v1/namespaces/a/pods", ["", "v1", "a", "pods", "", ""]),
            ("/api/v1/namespaces/a/pods/b", ["", "v1", "a", "pods", "b", ""]),
            ("/api/v1/namespaces/a/pods/b/log", ["", "v1", "a", "pods", "b", "log"]),
            ("/apis/apps/v1/deployments", ["apps", "v1", "", "deployments", "", ""]),
            (
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                ["apps", "v1", "a", "deployments", "b", "scale"],
            ),
            ("/apis/example.com/v1/things/x%2Fy", ["example.com", "v1", "", "things", "x/y", ""]),
        ];
        for (path, expected) in cases {
            let parsed = ApiPath::parse(path).unwrap();
            let found = [
                &parsed.group,
                &parsed.version,
                &parsed.namespace,
                &parsed.resource,
                &parsed.name,
                &parsed.subresource,
            ];
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn other_paths_are_not_the_resource_api() {
        for path in [
            "/",
            "/nope",
            "/api",
            "/api/v1",
            "/apis/apps/v1",
            "/api/v1/namespaces/a/pods/b/c/d",
            "/api/v1//pods",
            "api/v1/x",
        ] {
            assert_eq!(ApiPath::parse(path), None, "{path}");
        }
    }
}
