//! The compressible part of an object. Two things that no dictionary can predict are cut out: its names, which are stored
//! next to the packed bytes anyway, and long runs of hexadecimal digits (container ids, digests, checksums), which are
//! stored as binary.
//!
//! Compression spends most of its time on such text without success. Without it, packing a pod takes a third less time and
//! a sixth less memory.

use std::ops::Range;

/// Namespace, name, uid and resourceVersion of an object.
pub(super) type Names<'a> = [&'a [u8]; 4];

/// A part that was cut out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cuts {
    /// The number of cuts.
    count: u8,
    /// One bit per name that was cut out.
    names: u8,
    /// The size of the digits in binary.
    pub(super) digit_bytes: u16,
}

/// The shortest run of digits to cut out. Probing at this interval finds every run.
const RUN_MIN: usize = 32;
/// A cut takes three bytes to describe, so shorter names are not cut out.
const NAME_LEN_MIN: usize = 4;
/// Limits on cuts, to keep their description small.
const CUTS_MAX: u8 = 64;
const DIGIT_BYTES_MAX: usize = 32 << 10;
/// The kind of a cut: the number of a name, or this plus the size of the digits in binary.
const DIGITS: u8 = 4;
const RUN_BYTES_MAX: usize = (u8::MAX - DIGITS) as usize;
/// A cut: the bytes in the skeleton since the last one, and what was cut out.
const PLACE_LEN: usize = 3;
const PLACES_LEN: usize = CUTS_MAX as usize * PLACE_LEN;

/// Cuts names and digits out of an object; `names` are slices of `uncompressed`. The skeleton ends with the list of cuts.
pub(super) fn take_apart(
    uncompressed: &[u8],
    names: Names<'_>,
    skeleton: &mut Vec<u8>,
    digits: &mut Vec<u8>,
) -> Cuts {
    skeleton.reserve(uncompressed.len() + 1);
    let mut knife =
        Knife { uncompressed, skeleton, digits, places: [0; PLACES_LEN], cuts: Cuts::default(), at: 0 };
    let mut stand =
        [0, 1, 2, 3].map(|number: u8| (place_of(names[usize::from(number)], uncompressed), number));
    stand.sort_unstable_by_key(|(place, _)| place.as_ref().map_or(usize::MAX, |place| place.start));
    for (place, number) in stand {
        let Some(place) = place.filter(|place| place.len() >= NAME_LEN_MIN && place.start >= knife.at) else {
            continue;
        };
        knife.cut_digits(place.start);
        if knife.cut(place, number) {
            knife.cuts.names |= 1 << number;
        }
    }
    knife.cut_digits(uncompressed.len());
    let Knife { uncompressed, skeleton, places, mut cuts, at, .. } = knife;
    skeleton.extend_from_slice(&uncompressed[at..]);
    skeleton.extend_from_slice(&places[..usize::from(cuts.count) * PLACE_LEN]);
    skeleton.push(cuts.count);
    // At most `DIGIT_BYTES_MAX`.
    cuts.digit_bytes = digits.len() as u16;
    cuts
}

/// The inverse; `None` if the parts do not belong together.
pub(super) fn put_together(
    skeleton: &[u8],
    names: Names<'_>,
    mut digits: &[u8],
    uncompressed: &mut Vec<u8>,
) -> Option<()> {
    let (count, rest) = skeleton.split_last()?;
    let (mut rest, places) =
        rest.split_at_checked(rest.len().checked_sub(usize::from(*count) * PLACE_LEN)?)?;
    for place in places.chunks_exact(PLACE_LEN) {
        let (before, after) = rest.split_at_checked(usize::from(u16::from_le_bytes([place[0], place[1]])))?;
        uncompressed.extend_from_slice(before);
        rest = after;
        match place[2].checked_sub(DIGITS) {
            None => uncompressed.extend_from_slice(names[usize::from(place[2])]),
            Some(bytes) => {
                let (run, after) = digits.split_at_checked(usize::from(bytes))?;
                digits = after;
                let start = uncompressed.len();
                uncompressed.resize(start + 2 * run.len(), 0);
                for (pair, byte) in uncompressed[start..].as_chunks_mut().0.iter_mut().zip(run) {
                    *pair = HEXADECIMAL[usize::from(*byte)];
                }
            }
        }
    }
    uncompressed.extend_from_slice(rest);
    digits.is_empty().then_some(())
}

impl Cuts {
    /// The unpacked size of an object whose skeleton has this size.
    pub(super) fn uncompressed_len(self, skeleton_len: usize, names: Names<'_>) -> usize {
        let is_cut = |(number, _): &(usize, &&[u8])| self.names & 1 << number != 0;
        let names = names.iter().enumerate().filter(is_cut).map(|(_, name)| name.len()).sum::<usize>();
        skeleton_len - 1 - usize::from(self.count) * PLACE_LEN + names + 2 * usize::from(self.digit_bytes)
    }
}

struct Knife<'a> {
    uncompressed: &'a [u8],
    skeleton: &'a mut Vec<u8>,
    digits: &'a mut Vec<u8>,
    places: [u8; PLACES_LEN],
    cuts: Cuts,
    /// The position in `uncompressed` up to which everything is processed.
    at: usize,
}

impl Knife<'_> {
    /// Cuts out the runs of digits before `end`.
    fn cut_digits(&mut self, end: usize) {
        let mut from = self.at;
        while let Some(run) = find_digits(&self.uncompressed[..end], from) {
            from = run.end;
            for part in (run.start..run.end).step_by(2 * RUN_BYTES_MAX) {
                let part = part..run.end.min(part + 2 * RUN_BYTES_MAX);
                let bytes = part.len() / 2;
                if self.digits.len() + bytes > DIGIT_BYTES_MAX
                    || !self.cut(part.clone(), DIGITS + bytes as u8)
                {
                    return;
                }
                let pairs = self.uncompressed[part].as_chunks().0.iter();
                self.digits.extend(pairs.map(|[high, low]| value(*high) << 4 | value(*low)));
            }
        }
    }

    /// Cuts out a part, unless a limit is reached.
    fn cut(&mut self, part: Range<usize>, what: u8) -> bool {
        let Ok(before) = u16::try_from(part.start - self.at) else { return false };
        if self.cuts.count == CUTS_MAX {
            return false;
        }
        self.skeleton.extend_from_slice(&self.uncompressed[self.at..part.start]);
        let [low, high] = before.to_le_bytes();
        self.places.as_chunks_mut().0[usize::from(self.cuts.count)] = [low, high, what];
        self.cuts.count += 1;
        self.at = part.end;
        true
    }
}

/// The next run of at least [`RUN_MIN`] digits, of even length.
fn find_digits(uncompressed: &[u8], from: usize) -> Option<Range<usize>> {
    let mut probe = from + RUN_MIN - 1;
    while let Some(byte) = uncompressed.get(probe) {
        // Most words contain a letter that is also a hexadecimal digit, so one digit proves nothing: check half of a
        // run, before or after the probe.
        let is_run = |half: Option<&[u8; RUN_MIN / 2]>| half.is_some_and(are_digits);
        let (before, after) = (&uncompressed[from..probe], &uncompressed[probe..]);
        if !is_digit(*byte) || !(is_run(before.last_chunk()) || is_run(after.first_chunk())) {
            probe += RUN_MIN;
            continue;
        }
        let (start, end) = (probe - ends_with_digits(before), probe + begins_with_digits(after));
        let len = (end - start) & !1;
        if len >= RUN_MIN {
            return Some(start..start + len);
        }
        probe = end + RUN_MIN;
    }
    None
}

fn begins_with_digits(text: &[u8]) -> usize {
    let whole = text.as_chunks::<16>().0.iter().take_while(|chunk| are_digits(chunk)).count() * 16;
    whole + text[whole..].iter().take_while(|byte| is_digit(**byte)).count()
}

fn ends_with_digits(text: &[u8]) -> usize {
    let whole = text.as_rchunks::<16>().1.iter().rev().take_while(|chunk| are_digits(chunk)).count() * 16;
    whole + text[..text.len() - whole].iter().rev().take_while(|byte| is_digit(**byte)).count()
}

/// The range of `part` within `whole`.
fn place_of(part: &[u8], whole: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (whole.get(start..end)? == part).then_some(start..end)
}

// Branch-free, so that the compiler vectorizes it: sixteen bytes at a time.

fn are_digits(text: &[u8; 16]) -> bool {
    text.iter().fold(true, |all, byte| all & is_digit(*byte))
}

fn is_digit(byte: u8) -> bool {
    (byte.wrapping_sub(b'0') < 10) | (byte.wrapping_sub(b'a') < 6)
}

/// The value of a digit.
fn value(digit: u8) -> u8 {
    (digit & 15) + 9 * (digit >> 6)
}

/// The two digits of each byte.
const HEXADECIMAL: [[u8; 2]; 256] = {
    let (mut pairs, mut byte) = ([[0; 2]; 256], 0);
    while byte < 256 {
        pairs[byte] = [b"0123456789abcdef"[byte >> 4], b"0123456789abcdef"[byte & 15]];
        byte += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes bytes apart and puts them together again. Returns the skeleton and the bytes of the digits.
    fn round_trip(uncompressed: &[u8], names: Names<'_>) -> (Vec<u8>, Vec<u8>) {
        let (mut skeleton, mut digits, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let cuts = take_apart(uncompressed, names, &mut skeleton, &mut digits);
        assert_eq!(usize::from(cuts.digit_bytes), digits.len());
        assert_eq!(cuts.uncompressed_len(skeleton.len(), names), uncompressed.len());
        put_together(&skeleton, names, &digits, &mut again).expect("the parts belong together");
        assert_eq!(again, uncompressed);
        (skeleton, digits)
    }

    #[test]
    fn names_and_digits_are_cut_out_of_the_skeleton() {
        let text = format!("name=web-7 uid=4711 id=sha256:{} end", "0123456789abcdef".repeat(4));
        let (uncompressed, none) = (text.as_bytes(), &b""[..]);
        let (skeleton, digits) =
            round_trip(uncompressed, [none, &uncompressed[5..10], &uncompressed[15..19], none]);
        assert_eq!(&skeleton[..23], b"name= uid= id=sha256: e");
        assert_eq!(skeleton.len(), "name= uid= id=sha256: end".len() + 3 * PLACE_LEN + 1);
        assert_eq!(digits, [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef].repeat(4));
    }

    #[test]
    fn short_or_unsupported_text_is_not_cut_out() {
        let none = [&b""[..]; 4];
        for (what, text) in [
            ("31 digits", "-".to_owned() + &"a".repeat(31) + "-"),
            ("capital digits", "ABCDEF0123456789".repeat(4)),
            ("digits that are too far apart", "-".repeat(70_000) + &"a".repeat(64)),
        ] {
            let (skeleton, digits) = round_trip(text.as_bytes(), none);
            assert_eq!((skeleton.len(), digits.len()), (text.len() + 1, 0), "{what}");
        }
        // Cuts up to the limit.
        let many = ("-".to_owned() + &"a".repeat(32)).repeat(100);
        assert_eq!(round_trip(many.as_bytes(), none).1.len(), usize::from(CUTS_MAX) * 16);
        assert!(round_trip("f".repeat(200_000).as_bytes(), none).1.len() > 15_000);
    }

    #[test]
    fn names_outside_the_object_or_overlapping_are_ignored() {
        let uncompressed = b"metadata: name-of-it";
        round_trip(
            uncompressed,
            [b"name-of-it", &uncompressed[10..], &uncompressed[12..], &uncompressed[10..14]],
        );
    }

    #[test]
    fn mismatched_parts_are_rejected() {
        let uncompressed = "id=".to_owned() + &"0f".repeat(32);
        let (skeleton, digits) = round_trip(uncompressed.as_bytes(), [b""; 4]);
        for (skeleton, digits) in
            [(&skeleton[..], &digits[1..]), (&skeleton[1..], &digits), (&[7], &[]), (&[], &[])]
        {
            assert_eq!(put_together(skeleton, [b""; 4], digits, &mut Vec::new()), None);
        }
    }

    #[test]
    fn a_run_of_digits_is_found_at_any_offset_and_length() {
        for (start, len) in (0..70).flat_map(|start| (30..70).map(move |len| (start, len))) {
            let text = "-".repeat(start) + &"7".repeat(len) + "xyz";
            let expected = (len >= RUN_MIN).then_some(start..start + (len & !1));
            assert_eq!(find_digits(text.as_bytes(), 0), expected, "{len} digits at {start}");
            // The text before the start is not searched.
            let whole = "5".repeat(9) + &text;
            let expected = expected.map(|run| run.start + 9..run.end + 9);
            assert_eq!(find_digits(whole.as_bytes(), 9), expected, "{len} digits at {start} after digits");
        }
        for byte in 0..=255 {
            assert_eq!(is_digit(byte), matches!(byte, b'0'..=b'9' | b'a'..=b'f'), "{byte}");
            if let Some(digit) = char::from(byte).to_digit(16).filter(|_| is_digit(byte)) {
                assert_eq!(u32::from(value(byte)), digit);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_round_trip(
            parts in prop::collection::vec(prop_oneof!["[0-9a-f]{0,600}", "[ -~]{0,40}", ".{0,20}"], 0..30),
            names in prop::array::uniform4((any::<prop::sample::Index>(), 0..40_usize)),
        ) {
            let uncompressed = parts.concat().into_bytes();
            let names = names.map(|(start, len)| {
                let start = start.index(uncompressed.len() + 1);
                &uncompressed[start..uncompressed.len().min(start + len)]
            });
            round_trip(&uncompressed, names);
        }
    }
}
