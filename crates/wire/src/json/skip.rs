//! The inner loops of scanning: byte classes, and the ends of strings, white space and values.

use super::WHAT;
use super::finder::Finder;
use crate::error::{Error, Result};

/// The meaning of a byte outside strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Part of a number or literal, or an invalid byte.
    Scalar,
    /// `,` or `:`.
    Separator,
    Quote,
    Open,
    Close,
    Space,
}

/// Why a string does not end in these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unended {
    /// The bytes end within the string.
    String,
    /// The bytes end after a backslash.
    Escape,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Scalar; 256];
    classes[b',' as usize] = Class::Separator;
    classes[b':' as usize] = Class::Separator;
    classes[b'"' as usize] = Class::Quote;
    classes[b'{' as usize] = Class::Open;
    classes[b'[' as usize] = Class::Open;
    classes[b'}' as usize] = Class::Close;
    classes[b']' as usize] = Class::Close;
    classes[b' ' as usize] = Class::Space;
    classes[b'\t' as usize] = Class::Space;
    classes[b'\r' as usize] = Class::Space;
    classes[b'\n' as usize] = Class::Space;
    classes
};

#[inline]
pub(super) fn class(byte: u8) -> Class {
    CLASSES[usize::from(byte)]
}

/// The error for text that ends before the value does.
#[cold]
pub(super) fn truncated(bytes: &[u8]) -> Error {
    Error::Truncated { what: WHAT, at: bytes.len() }
}

/// The end of the white space at `at`.
#[inline]
pub(super) fn space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&byte| class(byte) == Class::Space) {
        at += 1;
    }
    at
}

/// The end of a string whose content begins at `at`: just past the closing quote.
#[inline]
pub(super) fn string(bytes: &[u8], mut at: usize) -> Result<usize, Unended> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    const QUOTES: u64 = ONES * b'"' as u64;
    const SLASHES: u64 = ONES * b'\\' as u64;
    // Eight bytes at a time: a zero byte of `word ^ QUOTES` is a quote. The lowest hit is always a true one.
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let (quotes, slashes) = (word ^ QUOTES, word ^ SLASHES);
        let hits = ((quotes.wrapping_sub(ONES) & !quotes) | (slashes.wrapping_sub(ONES) & !slashes)) & HIGHS;
        if hits == 0 {
            at += 8;
            continue;
        }
        let hit = hits.trailing_zeros();
        at += hit as usize / 8 + 1;
        if word >> (hit & !7) & 0xff == u64::from(b'"') {
            return Ok(at);
        }
        if at == bytes.len() {
            return Err(Unended::Escape);
        }
        at += 1;
    }
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') if at + 1 == bytes.len() => return Err(Unended::Escape),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return Err(Unended::String),
        }
    }
}

/// The end of the scalar (number, literal, or invalid text) at `at`.
#[inline]
pub(super) fn scalar(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&byte| class(byte) == Class::Scalar) {
        at += 1;
    }
    at
}

/// The end of the value at `at`, which is not white space.
pub(super) fn value(bytes: &[u8], at: usize) -> Result<usize> {
    match bytes.get(at).map(|&byte| class(byte)) {
        Some(Class::Quote) => string(bytes, at + 1).map_err(|_| truncated(bytes)),
        Some(Class::Scalar) => Ok(scalar(bytes, at)),
        Some(Class::Open) => match Finder::new().push(&bytes[at..]) {
            Ok(Some(len)) => Ok(at + len),
            Ok(None) => Err(truncated(bytes)),
            Err(error) => Err(offset(error, at)),
        },
        Some(_) => Err(Error::malformed(WHAT, at, "expected a value")),
        None => Err(truncated(bytes)),
    }
}

/// Shifts the position in an error by `by` bytes.
pub(super) fn offset(error: Error, by: usize) -> Error {
    match error {
        Error::Malformed { what, at, why } => Error::Malformed { what, at: at + by, why },
        Error::Truncated { what, at } => Error::Truncated { what, at: at + by },
        other => other,
    }
}
