//! String formats of schemas. Formats not listed here accept any string, as unknown formats do in a kube-apiserver.

use std::net::{Ipv4Addr, Ipv6Addr};

use kube_wire::Timestamp;
use uuid::Uuid;

/// Whether a string has the format.
pub(crate) fn is(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => date_time(text),
        "date" => date(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "uuid" => uuid(text, None),
        "uuid3" => uuid(text, Some(3)),
        "uuid4" => uuid(text, Some(4)),
        "uuid5" => uuid(text, Some(5)),
        "byte" => base64(text),
        "duration" => duration(text),
        "mac" => mac(text),
        "hostname" => text.len() <= 253 && text.split('.').all(label),
        "email" => {
            text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && host.split('.').all(label))
        }
        "uri" => text.split_once(':').is_some_and(|(scheme, rest)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && !rest.is_empty()
        }),
        _ => true,
    }
}

fn date(text: &str) -> bool {
    Timestamp::parse(&format!("{text}T00:00:00Z")).is_some()
}

/// RFC 3339, without a space between date and time and without a comma before the fraction.
fn date_time(text: &str) -> bool {
    !text.contains([' ', ',']) && Timestamp::parse(text).is_some()
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32)
        || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

/// With all of its dashes, or without any.
fn uuid(text: &str, version: Option<usize>) -> bool {
    matches!(text.len(), 32 | 36)
        && Uuid::try_parse(text).is_ok_and(|id| version.is_none_or(|version| id.get_version_num() == version))
}

fn base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

/// Go durations: `1h30m`, `-1.5s`.
fn duration(text: &str) -> bool {
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    let mut any = false;
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let units = ["ns", "us", "µs", "ms", "s", "m", "h", "d", "w"];
        let Some(unit) = units.iter().find(|unit| rest[number..].starts_with(**unit)) else { return false };
        if number == 0 || rest[..number].matches('.').count() > 1 {
            return false;
        }
        rest = &rest[number + unit.len()..];
        any = true;
    }
    any
}

fn mac(text: &str) -> bool {
    let parts: Vec<_> = text.split([':', '-']).collect();
    matches!(parts.len(), 6 | 8 | 20)
        && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn label(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::is;

    #[test]
    fn formats_accept_valid_and_reject_invalid_strings() {
        let cases = [
            ("date-time", "2020-02-29T23:59:59Z", true),
            ("date-time", "2020-02-29T23:59:59.123+02:00", true),
            ("date-time", "2021-02-29T00:00:00Z", false),
            ("date-time", "2020-01-01 00:00:00Z", false),
            ("date-time", "2020-01-01T24:00:00Z", false),
            ("date-time", "2020-01-01T00:00:00", false),
            ("date", "2020-12-31", true),
            ("date", "2020-13-01", false),
            ("ipv4", "10.0.0.256", false),
            ("ipv6", "::1", true),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", true),
            ("uuid4", "123e4567-e89b-12d3-a456-426614174000", false),
            ("uuid", "123e4567", false),
            ("byte", "aGk=", true),
            ("byte", "aGk", false),
            ("duration", "1h30m", true),
            ("duration", "-1.5s", true),
            ("duration", "1", false),
            ("mac", "00:11:22:aa:bb:cc", true),
            ("hostname", "a.example.com", true),
            ("hostname", "-a", false),
            ("email", "a@b.example", true),
            ("uri", "https://example.com", true),
            ("uri", "example", false),
            ("made-up", "anything", true),
        ];
        for (format, text, expected) in cases {
            assert_eq!(is(format, text), expected, "{format}: {text}");
        }
    }
}
