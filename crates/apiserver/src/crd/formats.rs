//! String formats that a schema can ask for. Those not listed here are taken as they come, as those are that a
//! kube-apiserver does not know.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether a string is of the format.
pub(crate) fn is(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => date_time(text),
        "date" => date(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "uuid" => uuid(text, None),
        "uuid3" => uuid(text, Some(b'3')),
        "uuid4" => uuid(text, Some(b'4')),
        "uuid5" => uuid(text, Some(b'5')),
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

fn digits(text: &str, count: usize) -> Option<u32> {
    let fits = text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

fn date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut next = |count| parts.next().and_then(|part| digits(part, count));
    let (Some(year), Some(month), Some(day)) = (next(4), next(2), next(2)) else { return false };
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn date_time(text: &str) -> bool {
    let Some((day, rest)) = text.split_once(['T', 't']) else { return false };
    let Some(zone_at) = rest.find(['Z', 'z', '+', '-']) else { return false };
    let (clock, zone) = rest.split_at(zone_at);
    let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(clock, f)| (clock, Some(f)));
    let fraction_fits = fraction.is_none_or(|f| !f.is_empty() && f.bytes().all(|b| b.is_ascii_digit()));
    let hour_minute = |text: &str| {
        let (hour, minute) = text.split_once(':')?;
        Some(digits(hour, 2)? < 24 && digits(minute, 2)? < 60)
    };
    let clock_fits = clock.rsplit_once(':').is_some_and(|(before, second)| {
        hour_minute(before) == Some(true) && digits(second, 2).is_some_and(|second| second < 60)
    });
    let zone_fits = matches!(zone, "Z" | "z") || hour_minute(&zone[1..]) == Some(true);
    date(day) && fraction_fits && clock_fits && zone_fits
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32)
        || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

fn uuid(text: &str, version: Option<u8>) -> bool {
    let hex: Vec<u8> = text.bytes().filter(|&b| b != b'-').collect();
    let dashes = text.len() - hex.len();
    hex.len() == 32
        && (dashes == 0 || [8, 13, 18, 23].iter().all(|&at| text.as_bytes().get(at) == Some(&b'-')))
        && dashes <= 4
        && hex.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|version| hex[12] == version)
}

fn base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

/// As Go writes them: `1h30m`, `-1.5s`.
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
    fn formats_know_their_own() {
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
