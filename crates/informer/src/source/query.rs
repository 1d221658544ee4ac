//! The query string of a request. Hand-written, because kube omits `resourceVersion=0` when there is a limit.

use form_urlencoded::Serializer;

use super::{ListOptions, WatchOptions};

impl ListOptions {
    /// The query string, without `?`.
    pub(super) fn query(&self) -> String {
        let mut query = Serializer::new(String::new());
        pair(&mut query, "labelSelector", &self.label_selector);
        pair(&mut query, "fieldSelector", &self.field_selector);
        pair(&mut query, "shardSelector", &self.shard_selector);
        pair(&mut query, "resourceVersion", &self.resource_version);
        if let Some(version_match) = self.version_match {
            pair(&mut query, "resourceVersionMatch", version_match.as_str());
        }
        if let Some(limit) = self.limit {
            pair(&mut query, "limit", &limit.to_string());
        }
        pair(&mut query, "continue", &self.continue_token);
        query.finish()
    }
}

impl WatchOptions {
    /// The query string, without `?`.
    pub(super) fn query(&self) -> String {
        let mut query = Serializer::new(String::new());
        pair(&mut query, "watch", "1");
        pair(&mut query, "labelSelector", &self.label_selector);
        pair(&mut query, "fieldSelector", &self.field_selector);
        pair(&mut query, "shardSelector", &self.shard_selector);
        pair(&mut query, "resourceVersion", &self.resource_version);
        if let Some(version_match) = self.version_match {
            pair(&mut query, "resourceVersionMatch", version_match.as_str());
        }
        if self.send_initial_events {
            pair(&mut query, "sendInitialEvents", "true");
        }
        if self.allow_bookmarks {
            pair(&mut query, "allowWatchBookmarks", "true");
        }
        if let Some(timeout) = self.timeout {
            pair(&mut query, "timeoutSeconds", &timeout.as_secs().min(TIMEOUT_SECONDS_MAX).to_string());
        }
        query.finish()
    }
}

/// The longest requested duration of a watch: servers count it in 64-bit nanoseconds.
const TIMEOUT_SECONDS_MAX: u64 = i32::MAX as u64;

/// Empty values are not sent: the API treats them as absent.
fn pair(query: &mut Serializer<'_, String>, name: &str, value: &str) {
    if !value.is_empty() {
        query.append_pair(name, value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::VersionMatch;
    use super::*;

    #[test]
    fn every_option_is_sent() {
        let options = ListOptions {
            label_selector: "tier in (a, b)".into(),
            field_selector: "spec.nodeName=node-7".into(),
            shard_selector: "shardRange(x, '0x0', '0x1')".into(),
            resource_version: "0".into(),
            version_match: Some(VersionMatch::Exact),
            limit: Some(500),
            continue_token: "abc=".into(),
            namespace: Some("web".into()), // goes into the path
        };
        assert_eq!(
            options.query(),
            "labelSelector=tier+in+%28a%2C+b%29&fieldSelector=spec.nodeName%3Dnode-7\
             &shardSelector=shardRange%28x%2C+%270x0%27%2C+%270x1%27%29&resourceVersion=0&resourceVersionMatch=Exact&limit=500&continue=abc%3D"
        );
        assert_eq!(ListOptions::default().query(), "");
        let options = WatchOptions {
            shard_selector: "x".into(),
            resource_version: "7".into(),
            version_match: Some(VersionMatch::NotOlderThan),
            send_initial_events: true,
            allow_bookmarks: true,
            timeout: Some(Duration::from_millis(301_500)),
            ..WatchOptions::default()
        };
        assert_eq!(
            options.query(),
            "watch=1&shardSelector=x&resourceVersion=7&resourceVersionMatch=NotOlderThan&sendInitialEvents=true\
             &allowWatchBookmarks=true&timeoutSeconds=301"
        );
    }
}
