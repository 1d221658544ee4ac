//! Query parameters, and the rules for combining them.

use super::status::Status;
use crate::crd::FieldError;

/// A request's query parameters: the first value of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// `ListOptions`, validated.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) watch: bool,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) shard_selector: String,
    pub(crate) resource_version: String,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
}

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// How the server treats `sendInitialEvents`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchListMode {
    /// Supported.
    #[default]
    On,
    /// Rejected with 422, as with the feature gate off.
    Off,
    /// Ignored, as by servers that predate it.
    Ignored,
}

// === impl Query ===

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    /// Absent, `false` and `0` are false; everything else is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value, "false" | "False" | "FALSE" | "0"))
    }

    /// The parameter as a number, if present and not empty.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
            }),
        }
    }

    /// Whether the write is a dry run.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool, Status> {
        match self.get("dryRun") {
            None | Some("") => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                let error = FieldError::not_supported("dryRun", serde_json::json!([other]), &["All"]);
                Err(Status::invalid_options(options, &[error]))
            }
        }
    }
}

// === impl ListOptions ===

impl ListOptions {
    pub(crate) fn parse(query: &Query, watch_list: WatchListMode) -> Result<Self, Status> {
        let matched = query.text("resourceVersionMatch");
        let mut options = Self {
            watch: query.flag("watch"),
            label_selector: query.text("labelSelector"),
            field_selector: query.text("fieldSelector"),
            shard_selector: query.text("shardSelector"),
            resource_version: query.text("resourceVersion"),
            version_match: match matched.as_str() {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            limit: query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0),
            continue_token: query.text("continue"),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
            timeout_seconds: query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok()),
        };
        let mut matched = matched;
        if options.watch && watch_list == WatchListMode::Ignored {
            options.send_initial_events = None;
            options.version_match = None;
            matched.clear();
        }
        let errors = if options.watch {
            options.watch_errors(&matched, watch_list)
        } else {
            options.list_errors(&matched)
        };
        if errors.is_empty() { Ok(options) } else { Err(Status::invalid_options("ListOptions", &errors)) }
    }

    fn list_errors(&self, matched: &str) -> Vec<FieldError> {
        let field = "resourceVersionMatch";
        let mut errors = Vec::new();
        if !matched.is_empty() {
            if self.resource_version.is_empty() {
                let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(field, detail));
            }
            if !self.continue_token.is_empty() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(field, detail));
            }
            if self.version_match.is_none() {
                errors.push(FieldError::not_supported(field, matched, &["Exact", "NotOlderThan", ""]));
            }
            if self.version_match == Some(VersionMatch::Exact) && self.resource_version == "0" {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(field, detail));
            }
        }
        if self.send_initial_events.is_some() {
            errors
                .push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn watch_errors(&self, matched: &str, watch_list: WatchListMode) -> Vec<FieldError> {
        let field = "resourceVersionMatch";
        let mut errors = Vec::new();
        if self.send_initial_events.is_some() {
            if self.version_match != Some(VersionMatch::NotOlderThan) {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.push(FieldError::forbidden(field, detail));
            }
            if watch_list == WatchListMode::Off {
                let detail =
                    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                errors.push(FieldError::forbidden("sendInitialEvents", detail));
            }
        }
        if !matched.is_empty() {
            if self.send_initial_events.is_none() {
                let detail =
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(field, detail));
            }
            if self.version_match != Some(VersionMatch::NotOlderThan) {
                errors.push(FieldError::not_supported(field, matched, &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(field, detail));
            }
        }
        errors
    }
}

/// Parses a resourceVersion: `None` if empty. The error has the wording of Go's parser.
pub(crate) fn parse_revision(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(query: &str, mode: WatchListMode) -> String {
        let parsed = ListOptions::parse(&Query::parse(Some(query)), mode);
        parsed.map_or_else(|status| status.message, |_| String::new())
    }

    #[test]
    fn conflicting_options_are_rejected() {
        let on = WatchListMode::On;
        let cases = [
            ("resourceVersionMatch=Exact", on, "unless resourceVersion is provided"),
            ("resourceVersionMatch=Exact&resourceVersion=0", on, "forbidden for resourceVersion \"0\""),
            ("resourceVersionMatch=No&resourceVersion=1", on, "Unsupported value: \"No\""),
            ("resourceVersionMatch=Exact&resourceVersion=1&continue=x", on, "when continue is provided"),
            ("sendInitialEvents=true", on, "sendInitialEvents is forbidden for list"),
            ("watch=1&sendInitialEvents=true", on, "requires setting resourceVersionMatch to NotOlderThan"),
            ("watch=1&resourceVersionMatch=NotOlderThan", on, "unless sendInitialEvents is provided"),
            (
                "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                WatchListMode::Off,
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            ),
        ];
        for (query, mode, expected) in cases {
            assert!(message(query, mode).contains(expected), "{query}: {}", message(query, mode));
        }
    }

    #[test]
    fn watch_lists_are_ignored_if_so_configured() {
        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let options = ListOptions::parse(&Query::parse(Some(query)), WatchListMode::Ignored).unwrap();
        assert_eq!(options.send_initial_events, None);
    }

    #[test]
    fn flags_are_true_unless_false_or_zero() {
        for (query, expected) in
            [("", false), ("a", true), ("a=true", true), ("a=1", true), ("a=0", false), ("a=false", false)]
        {
            assert_eq!(Query::parse(Some(query)).flag("a"), expected, "{query}");
        }
    }
}
