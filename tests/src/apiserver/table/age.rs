//! Times as kubectl shows them: how long ago.

/// Age of a timestamp in kubectl's form, such as `5m12s`.
pub(super) fn age_since(moment: &str) -> String {
    match moment.parse::<jiff::Timestamp>() {
        Ok(at) => human_duration(jiff::Timestamp::now().as_second() - at.as_second()),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// A length of time in seconds, as short as upstream writes it.
pub(super) fn human_duration(seconds: i64) -> String {
    let pair = |big: i64, big_unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{big}{big_unit}")
        } else {
            format!("{big}{big_unit}{small}{small_unit}")
        }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if hours < 3 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => pair(days, "d", hours % 24, "h"),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if days < 365 * 8 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::human_duration;

    #[test]
    fn ages_are_short() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (660, "11m"),
            (3 * 3600 + 60, "3h1m"),
            (9 * 3600, "9h"),
            (3 * 86400, "3d"),
            (30 * 86400, "30d"),
        ] {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
