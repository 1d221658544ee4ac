//! Unescaping, compared with serde_json.

use std::borrow::Cow;

use proptest::prelude::*;

use crate::error::Error;
use crate::json::string::text;

#[test]
fn strings_without_escapes_are_borrowed() {
    assert!(matches!(text("plain – ü".as_bytes(), 0), Ok(Cow::Borrowed("plain – ü"))));
    assert!(matches!(text(b"", 0), Ok(Cow::Borrowed(""))));
    assert!(matches!(text(b"a\\nb", 0), Ok(Cow::Owned(text)) if text == "a\nb"));
}

#[test]
fn every_escape_is_decoded() {
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
fn invalid_strings_are_errors_with_a_position() {
    let cases: [(&[u8], usize, &str); 12] = [
        (b"a\\x", 1, "unknown escape"),
        (b"a\\", 1, "incomplete escape"),
        (br"\u12", 0, "invalid \\u escape"),
        (br"\u12g4", 0, "invalid \\u escape"),
        (br"\u+123", 0, "invalid \\u escape"),
        (br"\ud800", 0, "invalid \\u escape"),
        (br"\udc00", 0, "invalid \\u escape"),
        (br"\ud800\u0041", 0, "invalid \\u escape"),
        (br"\ud800x\udc00", 0, "invalid \\u escape"),
        (b"ab\n", 2, "control character"),
        (b"a\xff", 1, "not UTF-8"),
        (b"a\"b", 1, "after the string"),
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
    fn any_string_matches_serde_json(content in proptest::collection::vec(
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
    fn any_text_round_trips_through_escaping(text_in in any::<String>()) {
        let quoted = serde_json::to_vec(&text_in).unwrap();
        prop_assert_eq!(text(&quoted[1..quoted.len() - 1], 0).unwrap(), text_in);
    }
}
