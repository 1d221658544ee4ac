//! Faults within a stream: decides what to do with each frame.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;

use super::Action;
use crate::http::Status;

/// The faults of one stream, with counters of what was sent so far.
#[derive(Debug, Default)]
pub(crate) struct Script {
    cut_after_bytes: Option<u64>,
    cut_after_events: Option<u64>,
    end_after_events: Option<u64>,
    stall_after_events: Option<u64>,
    error_after_events: Option<(u64, Status)>,
    duplicate_event: Option<u64>,
    truncate_event: Option<u64>,
    events: u64,
    bytes: u64,
    /// Steps to take before reading further.
    pending: VecDeque<Step>,
}

/// The next step of a stream.
#[derive(Debug)]
pub(crate) enum Step {
    Send(Bytes),
    /// Send an `ERROR` event, then end.
    Error(Status),
    /// End cleanly.
    End,
    /// Break the connection.
    Break(io::Error),
    /// Stop sending.
    Stall,
    /// Read the next frame.
    Read,
}

impl Script {
    /// Adds a stream fault; ignores other actions.
    pub(super) fn add(&mut self, action: &Action) {
        match action {
            Action::CutAfterBytes(bytes) => self.cut_after_bytes = Some(*bytes),
            Action::CutAfterEvents(events) => self.cut_after_events = Some(*events),
            Action::EndAfterEvents(events) => self.end_after_events = Some(*events),
            Action::StallAfterEvents(events) => self.stall_after_events = Some(*events),
            Action::DuplicateEvent(event) => self.duplicate_event = Some(*event),
            Action::TruncateEvent(event) => self.truncate_event = Some(*event),
            Action::ErrorAfterEvents { events, code, reason, message } => {
                self.error_after_events = Some((*events, Status::named(*code, reason, message, 0)));
            }
            _ => {}
        }
    }

    /// The step before a frame is read.
    pub(crate) fn before(&mut self) -> Step {
        if let Some(step) = self.pending.pop_front() {
            return step;
        }
        let reached = |limit: Option<u64>| limit.is_some_and(|limit| self.events >= limit);
        if reached(self.cut_after_events) || self.cut_after_bytes.is_some_and(|limit| self.bytes >= limit) {
            return Step::Break(broken());
        }
        if reached(self.end_after_events) {
            return Step::End;
        }
        if reached(self.stall_after_events) {
            return Step::Stall;
        }
        match &self.error_after_events {
            Some((events, status)) if self.events >= *events => Step::Error(status.clone()),
            _ => Step::Read,
        }
    }

    /// The part of a frame to send.
    pub(crate) fn after(&mut self, frame: &Bytes) -> Step {
        let event = self.events;
        self.events += 1;
        if self.truncate_event == Some(event) {
            self.pending.push_back(Step::Break(broken()));
            return Step::Send(frame.slice(..frame.len() / 2));
        }
        if self.duplicate_event == Some(event) {
            self.pending.push_back(Step::Send(frame.clone()));
        }
        let left = self.cut_after_bytes.map_or(u64::MAX, |limit| limit - self.bytes);
        let sent = usize::try_from(left).unwrap_or(usize::MAX).min(frame.len());
        self.bytes += sent as u64;
        Step::Send(frame.slice(..sent))
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection cut by a fault")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays `frames` through the script until it ends. Returns the bytes sent and how it ended.
    fn play(mut script: Script, frames: &[&'static str]) -> (String, &'static str) {
        let mut sent = String::new();
        let mut frames = frames.iter();
        loop {
            let step = match script.before() {
                Step::Read => match frames.next() {
                    Some(frame) => script.after(&Bytes::from_static(frame.as_bytes())),
                    None => return (sent, "all"),
                },
                step => step,
            };
            match step {
                Step::Send(bytes) => sent.push_str(std::str::from_utf8(&bytes).unwrap()),
                Step::Error(_) => return (sent, "error"),
                Step::End => return (sent, "end"),
                Step::Break(_) => return (sent, "break"),
                Step::Stall => return (sent, "stall"),
                Step::Read => unreachable!(),
            }
        }
    }

    #[test]
    fn frames_are_cut_stalled_duplicated_and_truncated() {
        let frames = ["aa", "bb", "cc"];
        let error = Status::of(500, "InternalError", "x", 0);
        let cases = [
            (Script { cut_after_events: Some(2), ..Script::default() }, "aabb", "break"),
            (Script { cut_after_events: Some(0), ..Script::default() }, "", "break"),
            (Script { cut_after_bytes: Some(3), ..Script::default() }, "aab", "break"),
            (Script { end_after_events: Some(1), ..Script::default() }, "aa", "end"),
            (Script { stall_after_events: Some(1), ..Script::default() }, "aa", "stall"),
            (Script { error_after_events: Some((1, error)), ..Script::default() }, "aa", "error"),
            (Script { duplicate_event: Some(1), ..Script::default() }, "aabbbbcc", "all"),
            (Script { truncate_event: Some(1), ..Script::default() }, "aab", "break"),
            (Script::default(), "aabbcc", "all"),
        ];
        for (script, sent, end) in cases {
            let name = format!("{script:?}");
            assert_eq!(play(script, &frames), (sent.to_owned(), end), "{name}");
        }
    }
}
