//! The attributes that selectors and the garbage collector read, extracted once per write.
//!
//! Matching a selector must not decode an object: five thousand watches may check each event, and a list may check a
//! million objects. Therefore labels, selectable fields, uid and owners' uids are stored next to the encoded object,
//! in one allocation: records of a tag, a name and a value, each terminated by a zero byte, which none of them can
//! contain.

use std::fmt;

/// The attributes of one object; see the module documentation.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes(Box<str>);

/// Builds [`Attributes`].
#[derive(Debug, Default)]
pub(crate) struct AttributesBuilder(String);

const END: char = '\0';
const LABEL: char = 'l';
const FIELD: char = 'f';
const UID: char = 'u';
const OWNER: char = 'o';

// === impl Attributes ===

impl Attributes {
    pub(crate) fn builder() -> AttributesBuilder {
        AttributesBuilder::default()
    }

    /// The label's value.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.find(LABEL, name)
    }

    /// The selectable field's value; empty if absent.
    pub(crate) fn field(&self, path: &str) -> &str {
        self.find(FIELD, path).unwrap_or_default()
    }

    /// The object's uid.
    pub(crate) fn uid(&self) -> &str {
        self.find(UID, "").unwrap_or_default()
    }

    /// The uids of the object's owners.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        self.records().filter(|(tag, ..)| *tag == OWNER).map(|(.., value)| value)
    }

    /// Size in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn find(&self, tag: char, name: &str) -> Option<&str> {
        self.records().find(|(t, n, _)| *t == tag && *n == name).map(|(.., value)| value)
    }

    fn records(&self) -> impl Iterator<Item = (char, &str, &str)> {
        let mut parts = self.0.split(END);
        std::iter::from_fn(move || {
            let name = parts.next()?;
            let value = parts.next()?;
            let tag = name.chars().next()?;
            Some((tag, &name[tag.len_utf8()..], value))
        })
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.records()).finish()
    }
}

// === impl AttributesBuilder ===

impl AttributesBuilder {
    pub(crate) fn label(&mut self, name: &str, value: &str) {
        self.record(LABEL, name, value);
    }

    /// Skips empty values: an absent field reads as empty.
    pub(crate) fn field(&mut self, path: &str, value: &str) {
        if !value.is_empty() {
            self.record(FIELD, path, value);
        }
    }

    pub(crate) fn uid(&mut self, uid: &str) {
        self.record(UID, "", uid);
    }

    pub(crate) fn owner(&mut self, uid: &str) {
        self.record(OWNER, "", uid);
    }

    pub(crate) fn finish(self) -> Attributes {
        Attributes(self.0.into_boxed_str())
    }

    fn record(&mut self, tag: char, name: &str, value: &str) {
        self.0.push(tag);
        for part in [name, value] {
            self.0.extend(part.chars().filter(|&c| c != END));
            self.0.push(END);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_by_kind_and_name() {
        let mut builder = Attributes::builder();
        builder.label("app", "demo");
        builder.label("empty", "");
        builder.field("spec.nodeName", "node-1");
        builder.field("status.phase", "");
        builder.uid("u-1");
        builder.owner("o-1");
        builder.owner("o-2");
        let attributes = builder.finish();
        assert_eq!(attributes.label("app"), Some("demo"));
        assert_eq!(attributes.label("empty"), Some(""));
        assert_eq!(attributes.label("spec.nodeName"), None);
        assert_eq!(attributes.field("spec.nodeName"), "node-1");
        assert_eq!(attributes.field("status.phase"), "");
        assert_eq!(attributes.uid(), "u-1");
        assert_eq!(attributes.owners().collect::<Vec<_>>(), ["o-1", "o-2"]);
    }

    #[test]
    fn a_zero_byte_cannot_forge_a_record() {
        let mut builder = Attributes::builder();
        builder.label("a", "x\0lb\0y");
        assert_eq!(builder.finish().label("b"), None);
    }
}
