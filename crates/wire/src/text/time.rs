//! Times: conversion between seconds since 1970 and RFC 3339.
//!
//! Kubernetes' `Time` has whole seconds (its protobuf form intentionally drops the nanoseconds, because JSON never had
//! them) and `MicroTime` six fractional digits. In both, Go's zero time, January 1 of year 1, means "not set".

use std::fmt;

use super::Text;

/// A point in time, parsed from and printed as RFC 3339.
///
/// ```
/// use kube_wire::Timestamp;
///
/// let start = Timestamp::parse("1970-01-01T01:00:05.5+01:00").unwrap();
/// assert_eq!(start.unix_seconds(), 5);
/// assert_eq!(Timestamp::from_unix_seconds(951_782_400).to_string(), "2000-02-29T00:00:00Z");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
}

/// The number of fractional digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    Seconds,
    Micros,
}

/// Longest: `9999-12-31T23:59:59.999999Z`.
pub(crate) type TimeText = Text<27>;

const DAY: i64 = 86_400;
const YEAR_0: i64 = -62_167_219_200;
const YEAR_10000: i64 = 253_402_300_800;

impl Timestamp {
    /// Go's zero time: 0001-01-01T00:00:00Z.
    pub(crate) const ZERO: Self = Self { seconds: -62_135_596_800, nanos: 0 };

    /// From the two fields of the protobuf message, truncated to `precision` as in Go.
    pub(crate) fn from_proto(seconds: i64, nanos: i32, precision: Precision) -> Self {
        match precision {
            Precision::Seconds => Self { seconds, nanos: 0 },
            Precision::Micros => {
                let nanos = i64::from(nanos) / 1_000 * 1_000;
                Self {
                    seconds: seconds.saturating_add(nanos.div_euclid(1_000_000_000)),
                    nanos: nanos.rem_euclid(1_000_000_000) as u32,
                }
            }
        }
    }

    /// RFC 3339 in UTC, or `None` outside the years 0 to 9999, which RFC 3339 cannot express.
    pub(crate) fn format(self, precision: Precision) -> Option<TimeText> {
        if !(YEAR_0..YEAR_10000).contains(&self.seconds) {
            return None;
        }
        let (year, month, day) = civil(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY) as u64;
        let mut text = Text::new();
        text.push_two(year / 100);
        text.push_two(year % 100);
        for (mark, value) in
            [(b'-', month), (b'-', day), (b'T', second / 3600), (b':', second / 60 % 60), (b':', second % 60)]
        {
            text.push(mark);
            text.push_two(value);
        }
        if precision == Precision::Micros {
            text.push(b'.');
            text.push_padded(u64::from(self.nanos / 1_000), 6);
        }
        text.push(b'Z');
        Some(text)
    }

    /// A time in whole seconds since 1970.
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    /// The whole seconds since 1970.
    pub fn unix_seconds(self) -> i64 {
        self.seconds
    }

    /// Parses RFC 3339 with any fraction and offset.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.as_bytes();
        let year = digits(&mut rest, 4)?;
        literal(&mut rest, b"-")?;
        let month = digits(&mut rest, 2)?;
        literal(&mut rest, b"-")?;
        let day = digits(&mut rest, 2)?;
        literal(&mut rest, b"Tt ")?;
        let hour = digits(&mut rest, 2)?;
        literal(&mut rest, b":")?;
        let minute = digits(&mut rest, 2)?;
        literal(&mut rest, b":")?;
        let second = digits(&mut rest, 2)?;
        let month_ok = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
        if !month_ok || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let nanos = fraction(&mut rest)?;
        let offset = offset(&mut rest)?;
        if !rest.is_empty() {
            return None;
        }
        let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
        Some(Self { seconds, nanos })
    }
}

/// RFC 3339 in UTC with whole seconds. Times outside the years 0 to 9999 are clamped to that range.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printable = Self { seconds: self.seconds.clamp(YEAR_0, YEAR_10000 - 1), nanos: 0 };
        f.write_str(printable.format(Precision::Seconds).as_ref().map_or("", TimeText::as_str))
    }
}

/// Days since 1970 as year, month, day (Howard Hinnant's algorithm: years start in March, so leap days come last).
fn civil(days: i64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as u64, month as u64, day as u64)
}

/// The inverse of [`civil`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    head.iter()
        .try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

fn literal(rest: &mut &[u8], any_of: &[u8]) -> Option<u8> {
    let (&first, tail) = rest.split_first()?;
    *rest = tail;
    any_of.contains(&first).then_some(first)
}

fn fraction(rest: &mut &[u8]) -> Option<u32> {
    let Some(tail) = rest.strip_prefix(b".").or_else(|| rest.strip_prefix(b",")) else { return Some(0) };
    let count = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (head, tail) = tail.split_at(count);
    *rest = tail;
    let digit = |at: usize| head.get(at).map_or(0, |digit| u32::from(digit - b'0'));
    (count > 0).then(|| (0..9).fold(0, |nanos, at| nanos * 10 + digit(at)))
}

fn offset(rest: &mut &[u8]) -> Option<i64> {
    let sign = match literal(rest, b"Zz+-")? {
        b'+' => 1,
        b'-' => -1,
        _ => return Some(0),
    };
    let hours = digits(rest, 2)?;
    literal(rest, b":")?;
    let minutes = digits(rest, 2)?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_instants_match_go_formatting() {
        for (seconds, nanos, precision, expected) in [
            (0, 0, Precision::Seconds, "1970-01-01T00:00:00Z"),
            (951_782_400, 0, Precision::Seconds, "2000-02-29T00:00:00Z"),
            (1_709_251_199, 0, Precision::Seconds, "2024-02-29T23:59:59Z"),
            (-62_135_596_799, 0, Precision::Seconds, "0001-01-01T00:00:01Z"),
            (YEAR_10000 - 1, 999_999_999, Precision::Micros, "9999-12-31T23:59:59.999999Z"),
            (1, 5_000, Precision::Micros, "1970-01-01T00:00:01.000005Z"),
            (1, -1_000, Precision::Micros, "1970-01-01T00:00:00.999999Z"),
        ] {
            let instant = Timestamp::from_proto(seconds, nanos, precision);
            assert_eq!(instant.format(precision).unwrap().as_str(), expected);
        }
        assert!(Timestamp { seconds: YEAR_10000, nanos: 0 }.format(Precision::Seconds).is_none());
        assert!(Timestamp { seconds: i64::MIN, nanos: 0 }.format(Precision::Seconds).is_none());
        assert_eq!(Timestamp::from_unix_seconds(i64::MAX).to_string(), "9999-12-31T23:59:59Z");
        assert_eq!(Timestamp::from_unix_seconds(i64::MIN).to_string(), "0000-01-01T00:00:00Z");
    }

    #[test]
    fn offsets_and_fractions_parse_and_invalid_times_fail() {
        let parse = |text| Timestamp::parse(text).map(|instant| (instant.seconds, instant.nanos));
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Some((0, 0)));
        assert_eq!(parse("1970-01-01T00:00:00.5-00:30"), Some((1800, 500_000_000)));
        assert_eq!(parse("0001-01-01T00:00:00Z"), Some((Timestamp::ZERO.seconds, 0)));
        for bad in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-02-30T00:00:00Z",
            "1970-13-01T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00Zz",
            "1970-01-01T00:00:00+1:00",
            "197x-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn formatted_values_parse_back(seconds in YEAR_0..YEAR_10000, micros in 0u32..1_000_000) {
            let instant = Timestamp { seconds, nanos: micros * 1_000 };
            let text = instant.format(Precision::Micros).unwrap();
            prop_assert_eq!(Timestamp::parse(text.as_str()), Some(instant));
        }
    }
}
