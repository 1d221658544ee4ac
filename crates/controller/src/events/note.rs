//! The content of an Event.

use k8s_openapi::api::core::v1::ObjectReference;

/// The content of an Event about an object: type, reason, action and note.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "a note becomes an Event by `EventRecorder::record`"]
pub struct EventNote {
    pub(super) kind: EventType,
    pub(super) reason: String,
    pub(super) action: String,
    pub(super) text: String,
}

/// The type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventType {
    /// Informational.
    Normal,
    /// Something may need attention.
    Warning,
}

/// A note and the object it is about.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) note: EventNote,
    pub(super) object: ObjectReference,
    /// Makes the Event's name unique. A retry sends the same Event.
    pub(super) suffix: u64,
}

/// The server's limits for the note, and for reasons and actions, in bytes.
const TEXT_MAX: usize = 1024;
const WORD_MAX: usize = 128;

impl EventNote {
    /// An informational note. The reason is one word such as `Created`; the action is what was done or attempted, such as
    /// `Reconcile`. Texts over the server's limits are truncated.
    pub fn normal(reason: &str, action: &str, text: impl Into<String>) -> Self {
        Self::new(EventType::Normal, reason, action, text.into())
    }

    /// A note about something that may need attention.
    pub fn warning(reason: &str, action: &str, text: impl Into<String>) -> Self {
        Self::new(EventType::Warning, reason, action, text.into())
    }

    /// The type.
    pub fn event_type(&self) -> EventType {
        self.kind
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The action.
    pub fn action(&self) -> &str {
        &self.action
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn new(kind: EventType, reason: &str, action: &str, mut text: String) -> Self {
        text.truncate(char_boundary(&text, TEXT_MAX));
        let word = |word: &str| word[..char_boundary(word, WORD_MAX)].to_owned();
        Self { kind, reason: word(reason), action: word(action), text }
    }
}

/// The last character boundary at or before `bytes_max`.
fn char_boundary(text: &str, bytes_max: usize) -> usize {
    let mut at = text.len().min(bytes_max);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl EventType {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl About {
    /// The series it belongs to, independent of the object's state.
    pub(super) fn series(&self) -> Series {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let object = &self.object;
        let place = [text(&object.kind), text(&object.namespace), text(&object.name), text(&object.uid)];
        Series { place, field: text(&object.field_path), note: self.note.clone() }
    }
}

/// What the notes of one series have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Series {
    place: [String; 4],
    field: String,
    note: EventNote,
}
