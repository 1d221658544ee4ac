//! Quantities (`500m`, `1Gi`, `1e3`) in Go's canonical form.
//!
//! A quantity is a string in both encodings, but Go canonicalizes it: `0.5` becomes `500m`, `1000` becomes `1k`.
//! Quantities from a server are already canonical. User input is canonicalized when it is written; otherwise the bytes
//! would differ from Go's for an equal value. Go has a shortcut that preserves some forms that are not canonical
//! (`2.529870`); it is implemented too.

use std::borrow::Cow;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    DecimalSi,
    DecimalExponent,
    BinarySi,
}

/// Suffix and power of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// Suffix and power of 1024.
const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];

/// The finest power of ten; smaller parts are rounded away from zero.
const NANO: i32 = -9;

/// Maximum number of digits that is processed; longer numbers stay unchanged.
const DIGITS_MAX: usize = 27;

/// The canonical form, or `None` if the text is not a quantity. Numbers beyond 27 digits or an exponent of 18 stay
/// unchanged.
pub(crate) fn canonical(text: &str) -> Option<Cow<'_, str>> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    if unsigned.is_empty() {
        return None;
    }
    let (whole, rest) = digits(unsigned.trim_start_matches('0'));
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
    let (format, exponent, binary) = read_suffix(suffix)?;
    let kept = Some(Cow::Borrowed(text));
    if whole.len() + fraction.len() > DIGITS_MAX
        || exponent.abs() > 18
        || is_kept(whole, fraction, format, exponent, binary)
    {
        return kept;
    }
    let mantissa = whole.bytes().chain(fraction.bytes());
    let mantissa = mantissa.fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0'));
    let Some(mantissa) = mantissa.checked_mul(1i128 << (10 * binary)) else { return kept };
    let (mantissa, exponent) = normalised(mantissa, exponent - fraction.len() as i32);
    match spell(mantissa, exponent, format, sign) {
        Some(spelled) if spelled != text => Some(Cow::Owned(spelled)),
        _ => kept,
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Go's shortcut: a quantity that looks canonical stays unchanged.
fn is_kept(whole: &str, fraction: &str, format: Format, exponent: i32, binary: u32) -> bool {
    match format {
        Format::BinarySi => {
            let digits_left = 14 - whole.len() as i32 - binary as i32 * 3;
            fraction.is_empty() && digits_left >= 0 && whole.parse::<u64>().is_ok_and(|value| value & 7 != 0)
        }
        Format::DecimalSi | Format::DecimalExponent => {
            let scale = exponent - fraction.len() as i32;
            let ends_in_zeros = if fraction.len() >= 3 {
                fraction.ends_with("000")
            } else {
                whole.bytes().chain(fraction.bytes()).rev().take(3).filter(|digit| *digit == b'0').count()
                    == 3
            };
            let length = whole.len() + fraction.len();
            !whole.is_empty() && length <= 18 && scale >= NANO && scale % 3 == 0 && !ends_in_zeros
        }
    }
}

fn read_suffix(suffix: &str) -> Option<(Format, i32, u32)> {
    if let Some(&(_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::DecimalSi, exponent, 0));
    }
    if let Some(&(_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::BinarySi, 0, power));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((Format::DecimalExponent, exponent.parse().ok()?, 0))
}

/// At most nano precision, and without trailing zeros in the mantissa.
fn normalised(mut mantissa: i128, mut exponent: i32) -> (i128, i32) {
    while exponent < NANO && mantissa != 0 {
        let up = i128::from(mantissa % 10 != 0);
        mantissa = mantissa / 10 + up;
        exponent += 1;
    }
    while mantissa != 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    (mantissa, exponent)
}

fn spell(mantissa: i128, exponent: i32, format: Format, sign: &str) -> Option<String> {
    if mantissa == 0 {
        return Some("0".to_owned());
    }
    if format == Format::BinarySi {
        let power = 10i128.checked_pow(exponent.unsigned_abs())?;
        let floor = if exponent >= 0 { mantissa.checked_mul(power)? } else { mantissa / power };
        // Saturates at the largest value that Go supports.
        if floor > i128::from(i64::MAX) {
            return Some(format!("{sign}{}", i64::MAX));
        }
        // A small or fractional value is written in decimal, so no precision is lost.
        if exponent >= 0 && floor >= 1024 {
            let (mut whole, mut power) = (floor, 0);
            while whole % 1024 == 0 && power < BINARY.len() {
                whole /= 1024;
                power += 1;
            }
            let suffix = if power == 0 { "" } else { BINARY[power - 1].0 };
            return Some(format!("{sign}{whole}{suffix}"));
        }
    }
    let shift = exponent.rem_euclid(3) as u32;
    let (mantissa, exponent) = (mantissa.checked_mul(10i128.pow(shift))?, exponent - shift as i32);
    if format == Format::DecimalExponent {
        let suffix = if exponent == 0 { String::new() } else { format!("e{exponent}") };
        return Some(format!("{sign}{mantissa}{suffix}"));
    }
    let (suffix, _) = DECIMAL.iter().find(|(_, power)| *power == exponent)?;
    Some(format!("{sign}{mantissa}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_match_go_formatting() {
        for (text, expected) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("-0m", "0"),
            ("0.5", "500m"),
            ("0.50", "500m"),
            (".5", "500m"),
            ("1.", "1."),
            ("100m", "100m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("100000", "100k"),
            ("+2", "+2"),
            ("+2000", "2k"),
            ("-1.5", "-1500m"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("10e2", "1e3"),
            ("5e0", "5e0"),
            ("50e-1", "5"),
            ("1Gi", "1Gi"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.5Mi", "512Ki"),
            ("1000Ki", "1000Ki"),
            ("1.0001Ki", "1024102400u"),
            ("16Ei", "9223372036854775807"),
            ("-9039.47Pi", "-9223372036854775807"),
            ("2.529870", "2.529870"),
            ("-022n", "-022n"),
            ("n", "0"),
            ("0.0000000001", "1n"),
            ("1.0000000001", "1000000001n"),
            ("12E", "12E"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
        for bad in ["", "1.2.3", "1x", "1 ", "1e", "1kk", "0x10"] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }
}
