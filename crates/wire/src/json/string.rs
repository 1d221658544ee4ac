//! The content of a JSON string: borrowed, or unescaped if necessary.

use std::borrow::Cow;

use super::WHAT;
use crate::error::{Error, Result};

/// The text of a string, from the bytes between its quotes. `at` is their position, for errors.
pub(crate) fn text(content: &[u8], at: usize) -> Result<Cow<'_, str>> {
    // Without an early exit, so that the compiler can vectorize.
    let special = content.iter().fold(false, |special, &byte| special | is_special(byte));
    if special {
        return unescape(content, at).map(Cow::Owned);
    }
    utf8(content, at).map(Cow::Borrowed)
}

/// Whether a byte needs special treatment in a string.
#[inline]
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'\\' || byte == b'"'
}

fn utf8(content: &[u8], at: usize) -> Result<&str> {
    std::str::from_utf8(content)
        .map_err(|error| Error::malformed(WHAT, at + error.valid_up_to(), "string is not UTF-8"))
}

#[cold]
fn unescape(content: &[u8], at: usize) -> Result<String> {
    let malformed = |offset: usize, why| Error::malformed(WHAT, at + offset, why);
    let mut out = String::with_capacity(content.len());
    let mut done = 0;
    while let Some(len) = content[done..].iter().position(|&byte| is_special(byte)) {
        let escape = done + len;
        out.push_str(utf8(&content[done..escape], at + done)?);
        match content[escape] {
            b'\\' => {}
            b'"' => return Err(malformed(escape, "unexpected data after the string")),
            _ => return Err(malformed(escape, "control character in a string")),
        }
        let Some(&letter) = content.get(escape + 1) else {
            return Err(malformed(escape, "incomplete escape"));
        };
        done = escape + 2;
        out.push(match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (char, len) =
                    code_point(&content[done..]).ok_or_else(|| malformed(escape, "invalid \\u escape"))?;
                done += len;
                char
            }
            _ => return Err(malformed(escape, "unknown escape")),
        });
    }
    out.push_str(utf8(&content[done..], at + done)?);
    Ok(out)
}

/// The character whose `\u` escape continues with `digits`, and its length in bytes: a surrogate needs its partner.
fn code_point(digits: &[u8]) -> Option<(char, usize)> {
    let first = hex(digits)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, 4));
    }
    let second = hex(digits.get(4..)?.strip_prefix(b"\\u")?)?;
    if !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    Some((char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))?, 10))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.get(..4)?.iter().try_fold(0, |number, &digit| Some(number << 4 | char::from(digit).to_digit(16)?))
}
