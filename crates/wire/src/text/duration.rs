//! Durations as Go prints and parses them: `1h0m0s`, `1.5ms`, `0s`.

use super::Text;

/// Longest: `-2562047h47m16.854775808s`.
pub(crate) type DurationText = Text<25>;

const SECOND: u64 = 1_000_000_000;

/// Formats nanoseconds: the units h, m, s from one second upward, and a single unit below it.
pub(crate) fn format(nanos: i64) -> DurationText {
    let mut text = Text::new();
    if nanos < 0 {
        text.push(b'-');
    }
    let nanos = nanos.unsigned_abs();
    if nanos == 0 {
        text.push(b'0');
        text.push(b's');
    } else if nanos < SECOND {
        let (unit, name) = match nanos {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        push_fraction(&mut text, nanos, unit);
        text.push_str(name);
    } else {
        let seconds = nanos / SECOND;
        if seconds >= 3600 {
            text.push_padded(seconds / 3600, 1);
            text.push(b'h');
        }
        if seconds >= 60 {
            text.push_padded(seconds / 60 % 60, 1);
            text.push(b'm');
        }
        push_fraction(&mut text, nanos % (60 * SECOND), SECOND);
        text.push(b's');
    }
    text
}

/// Parses what Go's `time.ParseDuration` accepts.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let unit: u64 = match &after[..end] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            _ => return None,
        };
        rest = &after[end..];
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?.checked_add(part(fraction, unit))?;
    }
    match negative {
        true if total <= 1 << 63 => Some((total as i64).wrapping_neg()),
        false => i64::try_from(total).ok(),
        true => None,
    }
}

fn push_fraction(text: &mut DurationText, nanos: u64, unit: u64) {
    text.push_padded(nanos / unit, 1);
    let (mut fraction, mut width) = (nanos % unit, unit.ilog10() as usize);
    if fraction == 0 {
        return;
    }
    while fraction % 10 == 0 {
        fraction /= 10;
        width -= 1;
    }
    text.push(b'.');
    text.push_padded(fraction, width);
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `0.fraction` of a unit, in nanoseconds, rounded down.
fn part(fraction: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0u128, 1u128);
    for digit in fraction.bytes().take(18) {
        value = value * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    (value * u128::from(unit) / scale) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_match_go_formatting() {
        for (nanos, expected) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (3_600_000_000_000, "1h0m0s"),
            (480_000_000_001, "8m0.000000001s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(format(nanos).as_str(), expected);
            assert_eq!(parse(expected), Some(nanos), "{expected}");
        }
    }

    #[test]
    fn other_notations_parse_and_invalid_ones_fail() {
        for (text, nanos) in [
            ("0", 0),
            ("+5s", 5 * SECOND as i64),
            (".5s", 500_000_000),
            ("1.s", SECOND as i64),
            ("1us1µs", 2_000),
        ] {
            assert_eq!(parse(text), Some(nanos), "{text}");
        }
        for bad in ["", "-", "3", "s", ".s", "1x", "1s ", "9999999999h", "9223372036854775808ns", "1é"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn formatted_values_parse_back(nanos: i64) {
            prop_assert_eq!(parse(format(nanos).as_str()), Some(nanos));
        }
    }
}
