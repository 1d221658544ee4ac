//! Quantities (`500m`, `1Gi`, `1e3`) in the one spelling that Go writes.
//!
//! A quantity is a string in both encodings, but a Kubernetes server never stores the spelling it was given: `0.5`
//! becomes `500m`, `1000` becomes `1k`. What comes from a server is canonical already; what a user wrote is made so on
//! the way out, or the bytes would differ from Go's for an equal value.

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

/// The finest power of ten; what lies below is rounded away from zero.
const NANO: i32 = -9;

/// Largest number of significant digits that is worked with; longer ones are left as they are.
const DIGITS_MAX: usize = 27;

/// The canonical spelling, or `None` if the text is no quantity. Numbers too large to work with stay as they are.
pub(crate) fn canonical(text: &str) -> Option<Cow<'_, str>> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (format, exponent, binary) = read_suffix(suffix)?;
    let fraction = fraction.trim_end_matches('0');
    let significant = whole.trim_start_matches('0').len() + fraction.len();
    if significant > DIGITS_MAX || exponent.abs() > 18 {
        return Some(Cow::Borrowed(text));
    }
    let digits = whole.bytes().chain(fraction.bytes());
    let mantissa = digits.fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0'));
    // 27 digits times 1024^6 still fits 127 bits only for smaller numbers: larger ones stay as they are.
    let Some(mantissa) = mantissa.checked_mul(1i128 << (10 * binary)) else {
        return Some(Cow::Borrowed(text));
    };
    let (mantissa, exponent) = normalised(mantissa, exponent - fraction.len() as i32);
    let spelled = spell(mantissa, exponent, format, if negative { "-" } else { "" });
    Some(match spelled {
        Some(spelled) if spelled != text => Cow::Owned(spelled),
        _ => Cow::Borrowed(text),
    })
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

/// No finer than nano, and without trailing zeros in the mantissa.
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
    // A binary quantity that is small or not whole is shown in decimal, so that nothing is lost.
    if format == Format::BinarySi && exponent >= 0 {
        let mut whole = mantissa.checked_mul(10i128.checked_pow(exponent as u32)?)?;
        if whole >= 1024 {
            let mut power = 0;
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
    fn quantities_are_spelled_as_go_spells_them() {
        for (text, expected) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("-0m", "0"),
            ("0.5", "500m"),
            ("0.50", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("100000", "100k"),
            ("+2", "2"),
            ("-1.5", "-1500m"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("10e2", "1e3"),
            ("5e0", "5"),
            ("1Gi", "1Gi"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.5Mi", "512Ki"),
            ("1000Ki", "1000Ki"),
            ("1.0001Ki", "1024102400u"),
            ("0.0000000001", "1n"),
            ("1.0000000001", "1000000001n"),
            ("12E", "12E"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
        for bad in ["", "-", ".", "1.2.3", "1x", "1 ", "Gi", "1e", "e3", "1kk", "0x10"] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }
}
