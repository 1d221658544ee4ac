//! The end of a value, in one piece and in many.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{any_bytes, any_json, mutated, split, write_spaced};
use crate::error::{Error, Result};
use crate::json::Finder;

/// The end of the value in the text, split at these places.
fn find(text: &[u8], places: &[usize]) -> Result<Option<usize>> {
    let mut finder = Finder::new();
    let mut seen = 0;
    for piece in split(text, places) {
        if let Some(end) = finder.push(&piece)? {
            return Ok(Some(seen + end));
        }
        seen += piece.len();
    }
    Ok(None)
}

#[test]
fn the_end_of_any_value_is_found() {
    let cases = [
        (r#"{}"#, Some(2)),
        (r#" [1, {"a": "]"}] x"#, Some(16)),
        (r#""a\"b" "#, Some(6)),
        (r#""a\\" "#, Some(5)),
        ("12,", Some(2)),
        ("null]", Some(4)),
        ("12", None),
        (r#"{"a":"}"#, None),
        (r#""\"#, None),
        ("  ", None),
        ("[[]", None),
    ];
    for (text, end) in cases {
        assert_eq!(find(text.as_bytes(), &[]).unwrap(), end, "{text}");
        let everywhere: Vec<_> = (0..text.len()).collect();
        assert_eq!(find(text.as_bytes(), &everywhere).unwrap(), end, "{text} cut everywhere");
    }
}

#[test]
fn mismatched_brackets_are_errors_with_a_position() {
    for (text, place) in [("]", 0), ("[}", 1), ("{\"a\":[1}", 7), ("[{]", 2), (",", 0), (" :1", 1)] {
        let everywhere: Vec<_> = (0..text.len()).collect();
        for places in [&[][..], &everywhere] {
            let error = find(text.as_bytes(), places).unwrap_err();
            assert!(matches!(error, Error::Malformed { at, .. } if at == place), "{text}: {error:?}");
        }
    }
}

#[test]
fn the_end_is_found_at_any_depth() {
    for levels in [1, 64, 65, 512, 700, 100_000] {
        let text = ["[{\"a\":".repeat(levels), "}]".repeat(levels)].concat();
        assert_eq!(find(text.as_bytes(), &[]).unwrap(), Some(text.len()));
        assert_eq!(find(&text.as_bytes()[..text.len() - 1], &[]).unwrap(), None);
    }
}

proptest! {
    #[test]
    fn the_end_of_any_split_value_is_found(value in any_json(), spaces: u64, places: Vec<usize>) {
        let mut text = write_spaced(&value, spaces);
        let end = text.trim_ascii_end().len();
        text.extend_from_slice(b" ,");
        prop_assert_eq!(find(&text, &places).unwrap(), Some(end));
    }

    #[test]
    fn any_text_may_be_split_anywhere(
        text in prop_oneof![any_bytes(), mutated()],
        places in vec(any::<usize>(), 0..6),
    ) {
        prop_assert_eq!(find(&text, &places), find(&text, &[]));
    }
}
