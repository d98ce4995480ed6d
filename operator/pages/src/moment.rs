//! Moments as people read them. Pure.

use jiff::Timestamp;

/// Renders a time as HTML with its exact value: relative to `now`, or as a date.
pub(crate) fn show_time(millis: u64, now: u64) -> String {
    let exact = format_moment(millis, "%Y-%m-%dT%H:%M:%SZ");
    if exact.is_empty() {
        return exact;
    }
    let hover = format_moment(millis, "%Y-%m-%d %H:%M:%S UTC");
    let ago = format_ago(now.saturating_sub(millis));
    let ago = ago.unwrap_or_else(|| format_moment(millis, "%Y-%m-%d"));
    format!("<time datetime=\"{exact}\" title=\"{hover}\" data-ago>{ago}</time>")
}

/// Renders a time as HTML with its exact value: date and time, in the reader's own zone where a script runs.
pub(crate) fn show_exactly(millis: u64) -> String {
    let exact = format_moment(millis, "%Y-%m-%dT%H:%M:%SZ");
    if exact.is_empty() {
        return exact;
    }
    let shown = format_moment(millis, "%Y-%m-%d %H:%M:%S UTC");
    format!("<time datetime=\"{exact}\" data-exact>{shown}</time>")
}

/// Formats a time in UTC; empty if it is unset or out of range.
pub(crate) fn format_moment(millis: u64, format: &str) -> String {
    let at = i64::try_from(millis).ok().filter(|at| *at > 0);
    let at = at.and_then(|at| Timestamp::from_millisecond(at).ok());
    at.map(|at| at.strftime(format).to_string()).unwrap_or_default()
}

/// Age of a moment; none beyond a month, where the date says more.
fn format_ago(millis: u64) -> Option<String> {
    Some(match millis {
        0..60_000 => "just now".to_owned(),
        60_000..3_600_000 => format!("{} min ago", millis / 60_000),
        3_600_000..86_400_000 => format!("{} h ago", millis / 3_600_000),
        86_400_000..2_592_000_000 => format!("{} d ago", millis / 86_400_000),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_said_as_people_say_it_and_known_exactly() {
        let ago = [30_000, 240_000, 7_300_000, 200_000_000, 9_000_000_000].map(format_ago);
        let ago = ago.each_ref().map(|ago| ago.as_deref().unwrap_or("a date"));
        assert_eq!(ago, ["just now", "4 min ago", "2 h ago", "2 d ago", "a date"]);
        let shown = show_time(60_000, 300_000);
        let exact = "datetime=\"1970-01-01T00:01:00Z\" title=\"1970-01-01 00:01:00 UTC\"";
        assert_eq!(shown, format!("<time {exact} data-ago>4 min ago</time>"));
        assert!(show_time(60_000, u64::MAX).ends_with(">1970-01-01</time>"));
        assert_eq!(show_time(0, 5), "");
        let exactly =
            "<time datetime=\"1970-01-01T00:01:00Z\" data-exact>1970-01-01 00:01:00 UTC</time>";
        assert_eq!((show_exactly(60_000), show_exactly(0)), (exactly.to_owned(), String::new()));
    }
}
