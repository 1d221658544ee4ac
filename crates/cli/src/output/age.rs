//! Ages in the format of kubectl: the longer ago, the coarser.

use jiff::Timestamp;

/// The age of a timestamp; `<unknown>` without one.
pub(crate) fn since(time: Option<Timestamp>, now: Timestamp) -> String {
    time.map_or_else(|| "<unknown>".to_owned(), |time| duration(now.as_second() - time.as_second()))
}

/// A number of seconds, shortened.
pub(crate) fn duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, 'd', hours % 24, 'h'),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_as_by_kubectl() {
        let (minute, hour, day) = (60, 3600, 86_400);
        for (seconds, shown) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (5 * minute + 30, "5m30s"),
            (10 * minute + 30, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (7 * hour + 5 * minute, "7h5m"),
            (47 * hour, "47h"),
            (2 * day + hour, "2d1h"),
            (8 * day + hour, "8d"),
            (700 * day, "700d"),
            (3 * 365 * day + 20 * day, "3y20d"),
            (9 * 365 * day, "9y"),
        ] {
            assert_eq!(duration(seconds), shown);
        }
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(since("2026-01-01T00:00:00Z".parse().ok(), now), "60s");
        assert_eq!(since(None, now), "<unknown>");
    }
}
