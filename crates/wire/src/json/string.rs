//! The content of a JSON string: borrowed as it stands, or unescaped where it must be.

use std::borrow::Cow;

use super::WHAT;
use crate::error::{Error, Result};

/// The text of a string, from what stands between its quotes. `at` is where that stands, for errors.
pub(super) fn text(content: &[u8], at: usize) -> Result<Cow<'_, str>> {
    // Without an early end, so that the compiler can look at many bytes at once.
    let special = content.iter().fold(false, |special, &byte| special | is_special(byte));
    if special {
        return unescape(content, at).map(Cow::Owned);
    }
    utf8(content, at).map(Cow::Borrowed)
}

/// The text of a string that must stand in the bytes as it is: an escape is an error.
pub(crate) fn verbatim(content: &[u8], at: usize) -> Result<&str> {
    match text(content, at)? {
        Cow::Borrowed(text) => Ok(text),
        Cow::Owned(_) => Err(Error::malformed(WHAT, at, "a string with an escape where none may be")),
    }
}

/// Whether a byte can't be part of a string as it stands.
#[inline]
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'\\' || byte == b'"'
}

fn utf8(content: &[u8], at: usize) -> Result<&str> {
    std::str::from_utf8(content)
        .map_err(|error| Error::malformed(WHAT, at + error.valid_up_to(), "a string is not UTF-8"))
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
            b'"' => return Err(malformed(escape, "something follows the string")),
            _ => return Err(malformed(escape, "a control character in a string")),
        }
        let Some(&letter) = content.get(escape + 1) else {
            return Err(malformed(escape, "an escape without its letter"));
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
                let (char, len) = code_point(&content[done..])
                    .ok_or_else(|| malformed(escape, "a \\u escape that is no character"))?;
                done += len;
                char
            }
            _ => return Err(malformed(escape, "an unknown escape")),
        });
    }
    out.push_str(utf8(&content[done..], at + done)?);
    Ok(out)
}

/// The character whose `\u` escape goes on with `digits`, and how many bytes it takes: a surrogate needs its partner.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn strings_are_borrowed_unless_an_escape_demands_otherwise() {
        assert!(matches!(text("plain – ü".as_bytes(), 0), Ok(Cow::Borrowed("plain – ü"))));
        assert!(matches!(text(b"", 0), Ok(Cow::Borrowed(""))));
        assert!(matches!(text(b"a\\nb", 0), Ok(Cow::Owned(text)) if text == "a\nb"));
    }

    #[test]
    fn every_escape_is_read() {
        let cases = [
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"\u0041\u00e4\u20AC", "Aä€"),
            (r"x\uD83D\ude00y", "x😀y"),
            (r"\u0000", "\0"),
            (r"\uffff", "\u{ffff}"),
        ];
        for (content, expected) in cases {
            assert_eq!(text(content.as_bytes(), 0).unwrap(), expected, "{content}");
        }
    }

    #[test]
    fn wrong_strings_are_errors_that_say_where() {
        let cases: [(&[u8], usize, &str); 12] = [
            (b"a\\x", 1, "unknown escape"),
            (b"a\\", 1, "without its letter"),
            (br"\u12", 0, "no character"),
            (br"\u12g4", 0, "no character"),
            (br"\u+123", 0, "no character"),
            (br"\ud800", 0, "no character"),
            (br"\udc00", 0, "no character"),
            (br"\ud800\u0041", 0, "no character"),
            (br"\ud800x\udc00", 0, "no character"),
            (b"ab\n", 2, "control character"),
            (b"a\xff", 1, "not UTF-8"),
            (b"a\"b", 1, "follows the string"),
        ];
        for (content, place, reason) in cases {
            match text(content, 10) {
                Err(Error::Malformed { at, why, .. }) => {
                    assert_eq!(at, 10 + place, "{content:?}");
                    assert!(why.contains(reason), "{content:?}: {why}");
                }
                other => panic!("{content:?}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_content_gives_what_serde_json_gives(content in proptest::collection::vec(
            prop_oneof![
                Just(b'\\'), Just(b'u'), Just(b'"'), Just(b'd'), Just(b'8'), Just(b'c'), Just(b'0'), Just(b'n'),
                0x20u8..0x7f, any::<u8>(),
            ], 0..40)
        ) {
            let quoted = [b"\"", &content[..], b"\""].concat();
            let expected = serde_json::from_slice::<String>(&quoted).ok();
            prop_assert_eq!(text(&content, 0).ok().map(Cow::into_owned), expected);
        }

        #[test]
        fn any_text_survives_escaping(text_in in any::<String>()) {
            let quoted = serde_json::to_vec(&text_in).unwrap();
            prop_assert_eq!(text(&quoted[1..quoted.len() - 1], 0).unwrap(), text_in);
        }
    }
}
