//! A watch that sends an older state of an object again. It does not repeat a state of a deleted object: that is an exception to
//! promise 2.

use std::collections::BTreeMap;

use serde_json::Value;

/// The last event of each object that exists, by uid.
#[derive(Debug, Default)]
pub(crate) struct EventReplay(BTreeMap<String, Vec<u8>>);

impl EventReplay {
    /// Takes one or several events in JSON. Returns an earlier event of one of their objects, which is to follow them.
    pub(crate) fn after(&mut self, events: &[u8]) -> Option<Vec<u8>> {
        let mut older: Option<(String, Vec<u8>)> = None;
        for line in events.split_inclusive(|byte| *byte == b'\n') {
            let event: Value = serde_json::from_slice(line).unwrap_or_default();
            let Some(uid) = event["object"]["metadata"]["uid"].as_str() else { continue };
            if matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED")) {
                let before = self.0.insert(uid.to_owned(), line.to_owned()).filter(|before| before != line);
                older = before.map(|before| (uid.to_owned(), before)).or(older);
            } else {
                self.0.remove(uid);
                older = older.filter(|(of, _)| of != uid);
            }
        }
        older.map(|(_, event)| event)
    }
}
