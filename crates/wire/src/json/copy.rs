//! Copies a JSON object as a projection says: dropped members left out, apiVersion and kind cut off, white space between
//! tokens removed, so that the same object gives the same bytes whether it came in a list or in a watch.
//!
//! The text is copied in runs that are as long as can be: a run ends only where something is left out. Compact text, which
//! is what an API server sends, is so copied in a few pieces.

use std::borrow::Cow;

use super::finder::Finder;
use super::skip::{self, Class, class, truncated};
use super::{WHAT, string};
use crate::error::{Error, Result};
use crate::limits::{Limit, Limits};
use crate::projection::{Fate, Node};

/// What the copy met on its way.
#[derive(Debug, Default)]
pub(crate) struct Copied<'a> {
    /// Bytes of the input that the value took.
    pub(crate) consumed: usize,
    /// The object's apiVersion, if it carries one.
    pub(crate) api_version: Option<Cow<'a, str>>,
    /// The object's kind, if it carries one.
    pub(crate) kind: Option<Cow<'a, str>>,
}

/// Appends the kept part of the JSON object at the start of `input` to `out`.
///
/// Levels at which the projection decides are checked for their grammar; what is kept or dropped whole is checked for
/// structure only (see [the module](super)), and kept byte for byte. White space is never removed from between two
/// scalars: that would make one of them (`1 2` is an error, not `12`).
///
/// # Errors
/// [`Truncated`](crate::Error::Truncated) if the object does not end within `input`; [`Malformed`](crate::Error::Malformed)
/// or [`Limit`](crate::Error::Limit) if it is not sound. `out` is left as it was then.
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
    /// Where the text begins that is kept and not yet copied.
    run: usize,
    head: Copied<'a>,
}

impl<'a> Copier<'a, '_> {
    fn object_at(&mut self, start: usize, root: &Node) -> Result<()> {
        match self.text.get(start) {
            Some(b'{') => {}
            Some(_) => return Err(Error::malformed(WHAT, start, "an object was expected")),
            None => return Err(truncated(self.text)),
        }
        let mut metadata_seen = false;
        let end = self.members(start, |copier, name, value| {
            let slot = match name {
                "apiVersion" => &mut copier.head.api_version,
                "kind" => &mut copier.head.kind,
                // The head is read from the first, a decoder would take the last.
                "metadata" if std::mem::replace(&mut metadata_seen, true) => {
                    return Err(Error::malformed(WHAT, value, "metadata stands there twice"));
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

    /// Copies the object at `open`, whose members `decide(name, start of value)` decides about. Gives its end.
    fn members<'n>(
        &mut self,
        open: usize,
        mut decide: impl FnMut(&mut Self, &str, usize) -> Result<Fate<'n>>,
    ) -> Result<usize> {
        let mut at = self.squeeze(open + 1);
        if self.text.get(at) == Some(&b'}') {
            return Ok(at + 1);
        }
        // The comma in front of the member at `at`, and whether a member before it was kept.
        let mut comma = None;
        let mut any_kept = false;
        loop {
            let (name, name_end) = self.name(at)?;
            let colon = skip::space(self.text, name_end);
            self.expect(colon, b':', "a colon was expected")?;
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
                Some(_) => return Err(Error::malformed(WHAT, end, "a comma or the end was expected")),
                None => return Err(truncated(self.text)),
            }
        }
    }

    /// Copies the array at `open`, whose elements the node decides about. Gives its end.
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
                Some(_) => return Err(Error::malformed(WHAT, at, "a comma or the end was expected")),
                None => return Err(truncated(self.text)),
            }
        }
    }

    /// Copies the value at `at`, in which the node decides. Gives its end. (It goes as deep as the projection, not as the
    /// text.)
    fn descend(&mut self, at: usize, node: &Node) -> Result<usize> {
        match self.text.get(at) {
            Some(b'{') => self.members(at, |_, name, _| Ok(node.member(name))),
            Some(b'[') => self.elements(at, node),
            _ => self.keep(at),
        }
    }

    /// Keeps the value at `at`, leaving out white space. Gives its end.
    fn keep(&mut self, at: usize) -> Result<usize> {
        if !matches!(self.text.get(at), Some(b'{' | b'[')) {
            return skip::value(self.text, at);
        }
        let text = self.text;
        let len = Finder::new().scan(&text[at..], |start, end| {
            let (start, end) = (at + start, at + end);
            let scalar = |place: usize| text.get(place).is_some_and(|&byte| class(byte) == Class::Scalar);
            // A value opened by a bracket has a byte in front of any white space in it.
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

    /// Passes over the value at `at`. Gives its end.
    fn skip(&self, at: usize) -> Result<usize> {
        skip::value(self.text, at)
    }

    /// The name at `at` and its end.
    fn name(&self, at: usize) -> Result<(Cow<'a, str>, usize)> {
        self.expect(at, b'"', "a quoted name was expected")?;
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

    /// Leaves out the white space at `at`. Gives its end.
    #[inline]
    fn squeeze(&mut self, at: usize) -> usize {
        let end = skip::space(self.text, at);
        self.cut(at, end);
        end
    }

    /// Leaves out what stands between `start` and `end`.
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

/// The text of `apiVersion` or `kind`; nothing if it is empty or null, which is how Go reads it.
fn type_name(text: &[u8], at: usize) -> Result<Option<Cow<'_, str>>> {
    let end = skip::value(text, at)?;
    match &text[at..end] {
        b"null" | b"\"\"" => Ok(None),
        [b'"', content @ .., b'"'] => string::text(content, at + 1).map(Some),
        _ => Err(Error::malformed(WHAT, at, "apiVersion and kind must be strings")),
    }
}
