//! What an event says.

use k8s_openapi::api::core::v1::ObjectReference;

/// What an Event says about an object: its type, reason, action and note.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "a note becomes an Event by `EventRecorder::record`"]
pub struct EventNote {
    pub(super) kind: EventType,
    pub(super) reason: String,
    pub(super) action: String,
    pub(super) text: String,
}

/// The type of an Event: whether people should worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventType {
    /// All is as it should be.
    Normal,
    /// Something may be wrong.
    Warning,
}

/// A note and the object it is about.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) note: EventNote,
    pub(super) object: ObjectReference,
    /// Makes the name of its event unique. Sent twice, it is the same event.
    pub(super) suffix: u64,
}

/// How long the server lets a text, a reason or an action be.
const TEXT_MAX: usize = 1024;
const WORD_MAX: usize = 128;

impl EventNote {
    /// All is well. The reason is one word such as `Created`, the action what was done or tried, such as `Reconcile`. What is
    /// longer than the server takes is cut off.
    pub fn normal(reason: &str, action: &str, text: impl Into<String>) -> Self {
        Self::new(EventType::Normal, reason, action, text.into())
    }

    /// Something may be wrong.
    pub fn warning(reason: &str, action: &str, text: impl Into<String>) -> Self {
        Self::new(EventType::Warning, reason, action, text.into())
    }

    fn new(kind: EventType, reason: &str, action: &str, mut text: String) -> Self {
        text.truncate(char_boundary(&text, TEXT_MAX));
        let word = |word: &str| word[..char_boundary(word, WORD_MAX)].to_owned();
        Self { kind, reason: word(reason), action: word(action), text }
    }
}

/// The last boundary between characters that is not beyond `bytes_max`.
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
    /// Which series it belongs to. The object's state plays no part.
    pub(super) fn series(&self) -> Series {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let object = &self.object;
        let place = [text(&object.kind), text(&object.namespace), text(&object.name), text(&object.uid)];
        Series { place, field: text(&object.field_path), note: self.note.clone() }
    }
}

/// What notes of one series have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Series {
    place: [String; 4],
    field: String,
    note: EventNote,
}
