//! The table of reactions to errors.
//!
//! A broken connection does not invalidate the last resourceVersion, so the watch is resumed from it. A relist follows if the
//! version has expired, if the server refuses or fails the watch, or if watches break twice without progress.

use crate::source::SourceError;

/// What a reflector was doing when an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum During {
    /// Listing.
    List,
    /// Opening a watch-list, or reading its initial events.
    WatchList,
    /// Opening a watch.
    Open,
    /// Reading a watch's events.
    Stream,
}

/// The reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Resume at the same resourceVersion, immediately.
    Resume,
    /// Resume at the same resourceVersion, after backing off.
    BackOffAndResume,
    /// The resourceVersion is still valid, but the stream was broken: resume (after backing off if the watch could not even
    /// be opened). The second time without progress, relist.
    ResumeOnce,
    /// The same, immediately, while the retry deadline of internal errors lasts; then relist.
    ResumeWithinDeadline,
    /// The resourceVersion is not available: request the most recent state instead, immediately.
    AskForMostRecent,
    /// Use an ordinary LIST in this cycle.
    ListInstead,
    /// End the cycle: back off, then relist.
    Relist,
}

/// The table.
///
/// | error | list | watch-list | opening a watch | in the stream |
/// |---|---|---|---|---|
/// | 410 expired | most recent | most recent | relist | relist |
/// | resourceVersion too large | most recent | most recent | relist | relist |
/// | connection refused, 429 | relist | back off, resume | back off, resume | back off, resume |
/// | 500 InternalError | relist | LIST instead | relist | resume within deadline |
/// | 5xx, no connection, connection broken, idle or slow | relist | LIST instead | resume once | resume (5xx: relist); immediately and without progress: resume once |
/// | 400, 422, 500 about the resourceVersion, request cannot be created; and the request has a resourceVersion | most recent | LIST instead | relist at the most recent | relist |
/// | watch overdue | – | LIST instead | – | resume; within an event: resume once |
/// | 500 `invalid shard selector` | relist | LIST instead | relist | relist |
/// | unreadable (of an event: and no type or key), cut in an event, stream reset, ping lost | relist | LIST instead | resume once | resume once |
/// | anything else | relist | LIST instead | relist | relist |
pub(super) fn decide(during: During, error: &SourceError) -> Decision {
    use Decision::{
        AskForMostRecent, BackOffAndResume, ListInstead, Relist, Resume, ResumeOnce, ResumeWithinDeadline,
    };
    use During::{List, Open, Stream, WatchList};

    if let Some(status) = error.status()
        && (status.is_expired() || status.is_too_large_resource_version())
    {
        if deliberate_bug!("expired-as-throttled") {
            return BackOffAndResume;
        }
        return match during {
            List | WatchList => AskForMostRecent,
            Open | Stream => Relist,
        };
    }
    let overloaded = error.status().is_some_and(kube_wire::Status::is_too_many_requests);
    if overloaded || matches!(error, SourceError::ConnectionRefused(_)) {
        return match during {
            List => Relist,
            WatchList | Open | Stream => BackOffAndResume,
        };
    }
    match during {
        List => return Relist,
        WatchList => return ListInstead,
        Open | Stream => {}
    }
    match error {
        SourceError::Status(status) if status.is_invalid_shard_selector() => Relist,
        SourceError::Status(status) if status.is_internal_error() && during == Stream => ResumeWithinDeadline,
        SourceError::Status(status)
            if status.code >= 500 && during == Open && !status.is_internal_error() =>
        {
            ResumeOnce
        }
        SourceError::Connect(_)
        | SourceError::Interrupted(_)
        | SourceError::Idle(_)
        | SourceError::Slow { .. } => match during {
            Stream => Resume,
            _ => ResumeOnce,
        },
        SourceError::Overdue { within_event: false, .. } => Resume,
        SourceError::Overdue { .. } | SourceError::Wire(_) | SourceError::StreamBroken(_) => ResumeOnce,
        _ => Relist,
    }
}

/// Whether a request may have failed because of its resourceVersion: the server rejects it, or it makes the request too
/// long. With the same resourceVersion, the request would fail forever.
pub(super) fn is_version_in_doubt(version: &str, error: &SourceError) -> bool {
    let may_be_version = match error {
        SourceError::Unsendable(_) => true,
        SourceError::Status(status) => match status.code {
            400 | 422 => true,
            // Other internal errors pass, and a list of the most recent state costs the server more.
            500 => {
                let message = status.message.to_ascii_lowercase();
                message.contains("resourceversion") || message.contains("resource version")
            }
            _ => false,
        },
        _ => false,
    };
    may_be_version && !matches!(version, "" | "0")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_wire::Status;

    use super::*;

    fn status(code: u16, reason: &str, cause: &str) -> SourceError {
        let body = format!(
            r#"{{"kind":"Status","code":{code},"reason":"{reason}","details":{{"causes":[{{"reason":"{cause}"}}]}}}}"#
        );
        SourceError::Status(Status::from_response(code, "application/json", None, body.as_bytes()))
    }

    fn io(kind: std::io::ErrorKind) -> Arc<dyn std::error::Error + Send + Sync> {
        Arc::new(std::io::Error::from(kind))
    }

    #[test]
    fn every_error_has_its_decision_in_every_phase() {
        use std::io::ErrorKind;

        use Decision::*;
        let refused = SourceError::ConnectionRefused(io(ErrorKind::ConnectionRefused));
        let broken = SourceError::Interrupted(io(ErrorKind::ConnectionReset));
        let invalid_shard = br#"{"kind":"Status","code":500,"message":"invalid shard selector: for a test"}"#;
        let invalid_shard = Status::from_response(500, "application/json", None, invalid_shard);
        let invalid_shard = SourceError::Status(invalid_shard);
        let unreadable = SourceError::Wire(kube_wire::Error::Truncated { what: "frame", at: 0 });
        for (error, list, watch_list, open, stream) in [
            (status(410, "Expired", ""), AskForMostRecent, AskForMostRecent, Relist, Relist),
            (status(410, "Gone", ""), AskForMostRecent, AskForMostRecent, Relist, Relist),
            (
                status(504, "Timeout", "ResourceVersionTooLarge"),
                AskForMostRecent,
                AskForMostRecent,
                Relist,
                Relist,
            ),
            (refused, Relist, BackOffAndResume, BackOffAndResume, BackOffAndResume),
            (
                status(429, "TooManyRequests", ""),
                Relist,
                BackOffAndResume,
                BackOffAndResume,
                BackOffAndResume,
            ),
            (status(500, "InternalError", ""), Relist, ListInstead, Relist, ResumeWithinDeadline),
            (status(503, "ServiceUnavailable", ""), Relist, ListInstead, ResumeOnce, Relist),
            (broken, Relist, ListInstead, ResumeOnce, Resume),
            (SourceError::Idle(std::time::Duration::ZERO), Relist, ListInstead, ResumeOnce, Resume),
            (
                SourceError::Slow { bytes: 1, waited: std::time::Duration::ZERO },
                Relist,
                ListInstead,
                ResumeOnce,
                Resume,
            ),
            (
                SourceError::Overdue { asked: std::time::Duration::ZERO, within_event: false },
                Relist,
                ListInstead,
                Resume,
                Resume,
            ),
            (
                SourceError::Overdue { asked: std::time::Duration::ZERO, within_event: true },
                Relist,
                ListInstead,
                ResumeOnce,
                ResumeOnce,
            ),
            (SourceError::StreamBroken(io(ErrorKind::Other)), Relist, ListInstead, ResumeOnce, ResumeOnce),
            (unreadable, Relist, ListInstead, ResumeOnce, ResumeOnce),
            (status(403, "Forbidden", ""), Relist, ListInstead, Relist, Relist),
            (status(422, "Invalid", ""), Relist, ListInstead, Relist, Relist),
            (invalid_shard, Relist, ListInstead, Relist, Relist),
        ] {
            let decisions =
                [During::List, During::WatchList, During::Open, During::Stream].map(|d| decide(d, &error));
            assert_eq!(decisions, [list, watch_list, open, stream], "{error}");
        }
    }
}
