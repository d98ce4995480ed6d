//! Moments in the product's own lines: Slack shows each reader their own time. Pure.

use std::fmt::Write as _;

use codebutler_gateway_core::moments;

/// Format in which Slack is to show a moment.
const SHOWN: &str = "{date_short_pretty} at {time}";

/// Replaces marks of moments, in a text that was rendered, by Slack's own.
pub(crate) fn show_dates(rendered: &str) -> String {
    const BEGIN: &str = "&lt;t:";
    const END: &str = "&gt;";
    let mut parts = rendered.split(BEGIN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let found = part
            .split_once(END)
            .and_then(|(digits, rest)| Some((moments::read_mark(digits)?, rest)));
        match found {
            Some((at, rest)) => {
                let (second, plain) = (at.as_second(), moments::format_plain(at));
                let _ = write!(text, "<!date^{second}^{SHOWN}|{plain}>{rest}");
            }
            None => text.extend([BEGIN, part]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::text::markdown::render_inline;

    #[test]
    fn a_moment_is_shown_in_each_readers_own_time() {
        let at: Timestamp = "2026-11-28T23:00:00Z".parse().unwrap();
        let text = format!("It goes on, {}. **Now** <t:1>", moments::mark_moment(at));
        let shown = show_dates(&render_inline(&text));
        let token = "<!date^1795906800^{date_short_pretty} at {time}|2026-11-28 at 23:00 UTC>";
        assert!(shown.starts_with(&format!("It goes on, {token}. *Now* <!date^1^")), "{shown}");
        for odd in ["<t:>", "<t:12", "<t:1x>", "<t:-5>", "<t:999999999999>", "<t:1|x>"] {
            let shown = show_dates(&render_inline(odd));
            assert!(!shown.contains("<!date"), "{odd}: {shown}");
        }
    }
}
