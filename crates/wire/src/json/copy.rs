//! Copies a JSON object through a projection: removes dropped members, apiVersion and kind, and white space between
//! tokens. The same object has the same bytes whether it came from a list or from a watch.
//!
//! Text is copied in maximal runs: a run ends only where something is removed. Compact text, which API servers send,
//! is copied in a few runs.

use std::borrow::Cow;

use super::finder::Finder;
use super::skip::{self, Class, class, truncated};
use super::{WHAT, string};
use crate::error::{Error, Result};
use crate::limits::{Limit, Limits};
use crate::projection::{Fate, Node};

/// The result of a copy.
#[derive(Debug, Default)]
pub(crate) struct Copied<'a> {
    /// Bytes of input consumed.
    pub(crate) consumed: usize,
    /// The object's apiVersion, if present.
    pub(crate) api_version: Option<Cow<'a, str>>,
    /// The object's kind, if present.
    pub(crate) kind: Option<Cow<'a, str>>,
}

/// Appends the kept part of the JSON object at the start of `input` to `out`.
///
/// Checks the grammar of the levels at which the projection decides. Values that are kept or dropped as a whole are
/// only checked for structure (see [the module](super)), and kept byte for byte. White space between two scalars is
/// never removed, because that would merge them (`1 2` is an error, not `12`).
///
/// # Errors
/// [`Truncated`](crate::Error::Truncated) if the object does not end within `input`;
/// [`Malformed`](crate::Error::Malformed) or [`Limit`](crate::Error::Limit) if it is invalid. `out` is then unchanged.
pub(crate) fn copy<'a>(
    input: &'a [u8],
    root: &Node,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<Copied<'a>> {
    let start = skip::space(input, 0);
    let text = &input[..input.len().min(start.saturating_add(limits.object_bytes_max))];
    let before = out.len();
    let mut copier = Copier { text, out, run: start, head: Copied::default() };
    match copier.object_at(start, root) {
        Ok(()) => Ok(copier.head),
        Err(error) => {
            out.truncate(before);
            match error {
                Error::Truncated { .. } if text.len() < input.len() => Err(Error::Limit {
                    limit: Limit::ObjectBytes,
                    found: limits.object_bytes_max.saturating_add(1),
                    allowed: limits.object_bytes_max,
                }),
                error => Err(error),
            }
        }
    }
}

struct Copier<'a, 'o> {
    text: &'a [u8],
    out: &'o mut Vec<u8>,
    /// The start of the text that is kept and not copied yet.
    run: usize,
    head: Copied<'a>,
}

impl<'a> Copier<'a, '_> {
    fn object_at(&mut self, start: usize, root: &Node) -> Result<()> {
        match self.text.get(start) {
            Some(b'{') => {}
            Some(_) => return Err(Error::malformed(WHAT, start, "expected an object")),
            None => return Err(truncated(self.text)),
        }
        let mut metadata_seen = false;
        let end = self.members(start, |copier, name, value| {
            let slot = match name {
                "apiVersion" => &mut copier.head.api_version,
                "kind" => &mut copier.head.kind,
                // The head is read from the first one, but a decoder would use the last.
                "metadata" if std::mem::replace(&mut metadata_seen, true) => {
                    return Err(Error::malformed(WHAT, value, "duplicate metadata"));
                }
                _ => return Ok(root.member(name)),
            };
            *slot = type_name(copier.text, value)?;
            Ok(Fate::Drop)
        })?;
        self.flush(end);
        self.head.consumed = end;
        Ok(())
    }

    /// Copies the object at `open`; `decide(name, start of value)` decides about its members. Returns its end.
    fn members<'n>(
        &mut self,
        open: usize,
        mut decide: impl FnMut(&mut Self, &str, usize) -> Result<Fate<'n>>,
    ) -> Result<usize> {
        let mut at = self.squeeze(open + 1);
        if self.text.get(at) == Some(&b'}') {
            return Ok(at + 1);
        }
        // The comma before the member at `at`, and whether an earlier member was kept.
        let mut comma = None;
        let mut any_kept = false;
        loop {
            let (name, name_end) = self.name(at)?;
            let colon = skip::space(self.text, name_end);
            self.expect(colon, b':', "expected a colon")?;
            let value = skip::space(self.text, colon + 1);
            let end = match decide(self, &name, value)? {
                Fate::Drop => {
                    self.flush(comma.unwrap_or(at));
                    let end = self.skip(value)?;
                    let next = skip::space(self.text, end);
                    self.run = next;
                    next
                }
                fate => {
                    match comma {
                        Some(comma) if any_kept => self.cut(comma + 1, at),
                        Some(_) => self.run = at,
                        None => {}
                    }
                    any_kept = true;
                    self.cut(name_end, colon);
                    self.cut(colon + 1, value);
                    let end = match fate {
                        Fate::Descend(node) => self.descend(value, node)?,
                        _ => self.keep(value)?,
                    };
                    self.squeeze(end)
                }
            };
            match self.text.get(end) {
                Some(b',') => {
                    comma = Some(end);
                    at = skip::space(self.text, end + 1);
                }
                Some(b'}') => return Ok(end + 1),
                Some(_) => return Err(Error::malformed(WHAT, end, "expected a comma or the end")),
                None => return Err(truncated(self.text)),
            }
        }
    }

    /// Copies the array at `open`; the node decides about its elements. Returns its end.
    fn elements(&mut self, open: usize, node: &Node) -> Result<usize> {
        let node = match node.element() {
            Fate::Keep => return self.keep(open),
            Fate::Descend(node) => node,
            Fate::Drop => {
                let end = self.skip(open)?;
                self.cut(open + 1, end - 1);
                return Ok(end);
            }
        };
        let mut at = self.squeeze(open + 1);
        if self.text.get(at) == Some(&b']') {
            return Ok(at + 1);
        }
        loop {
            let end = self.descend(at, node)?;
            at = self.squeeze(end);
            match self.text.get(at) {
                Some(b',') => at = self.squeeze(at + 1),
                Some(b']') => return Ok(at + 1),
                Some(_) => return Err(Error::malformed(WHAT, at, "expected a comma or the end")),
                None => return Err(truncated(self.text)),
            }
        }
    }

    /// Copies the value at `at` as the node decides. Returns its end. (The recursion is as deep as the projection, not
    /// as the text.)
    fn descend(&mut self, at: usize, node: &Node) -> Result<usize> {
        match self.text.get(at) {
            Some(b'{') => self.members(at, |_, name, _| Ok(node.member(name))),
            Some(b'[') => self.elements(at, node),
            _ => self.keep(at),
        }
    }

    /// Keeps the value at `at`, without white space. Returns its end.
    fn keep(&mut self, at: usize) -> Result<usize> {
        if !matches!(self.text.get(at), Some(b'{' | b'[')) {
            return skip::value(self.text, at);
        }
        let text = self.text;
        let len = Finder::new().scan(&text[at..], |start, end| {
            let (start, end) = (at + start, at + end);
            let scalar = |place: usize| text.get(place).is_some_and(|&byte| class(byte) == Class::Scalar);
            // White space in a value always follows at least its opening bracket.
            if scalar(start - 1) && scalar(end) {
                return Err(Error::malformed(WHAT, start - at, "white space within a scalar"));
            }
            self.cut(start, end);
            Ok(())
        });
        match len {
            Ok(Some(len)) => Ok(at + len),
            Ok(None) => Err(truncated(text)),
            Err(error) => Err(skip::offset(error, at)),
        }
    }

    /// Skips the value at `at`. Returns its end.
    fn skip(&self, at: usize) -> Result<usize> {
        skip::value(self.text, at)
    }

    /// The name at `at` and its end.
    fn name(&self, at: usize) -> Result<(Cow<'a, str>, usize)> {
        self.expect(at, b'"', "expected a quoted name")?;
        let end = skip::string(self.text, at + 1).map_err(|_| truncated(self.text))?;
        Ok((string::text(&self.text[at + 1..end - 1], at + 1)?, end))
    }

    fn expect(&self, at: usize, byte: u8, why: &'static str) -> Result<()> {
        match self.text.get(at) {
            Some(&found) if found == byte => Ok(()),
            Some(_) => Err(Error::malformed(WHAT, at, why)),
            None => Err(truncated(self.text)),
        }
    }

    /// Removes the white space at `at`. Returns its end.
    #[inline]
    fn squeeze(&mut self, at: usize) -> usize {
        let end = skip::space(self.text, at);
        self.cut(at, end);
        end
    }

    /// Removes the text between `start` and `end`.
    #[inline]
    fn cut(&mut self, start: usize, end: usize) {
        if start < end {
            self.flush(start);
            self.run = end;
        }
    }

    /// Copies the run up to `end`.
    fn flush(&mut self, end: usize) {
        self.out.extend_from_slice(&self.text[self.run..end]);
        self.run = end;
    }
}

/// The text of `apiVersion` or `kind`; `None` if it is empty or null, as Go reads it.
fn type_name(text: &[u8], at: usize) -> Result<Option<Cow<'_, str>>> {
    let end = skip::value(text, at)?;
    match &text[at..end] {
        b"null" | b"\"\"" => Ok(None),
        [b'"', content @ .., b'"'] => string::text(content, at + 1).map(Some),
        _ => Err(Error::malformed(WHAT, at, "apiVersion and kind must be strings")),
    }
}
